"""The loss of a pre-training on held-out text: how this text is found, and that training does not depend on it."""

import json
from pathlib import Path

import numpy as np
import pytest

import ptmbench
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint, held_out
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.options import CellOptions, OutputOptions, PretrainOptions, RunOptions, TrainingOptions
from ptmbench.bench.runs import pretrain
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import microworld
from tests.bench.processes import made_text

RECIPE = {"batch": 2, "length": 32}


def write_files(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("A cat sat.\n")


def test_held_out_text_is_found_next_to_the_training_text(tmp_path):
    corpus, held = tmp_path / "corpora" / "corpus.txt", tmp_path / "corpora" / "heldout.txt"
    wiki, valid = (tmp_path / "wikitext-2" / f"wiki.{part}.tokens" for part in ("train", "valid"))
    write_files(corpus, held, wiki, valid, tmp_path / "alone" / "novel.txt")
    assert corpora.held_out_of([corpus]) == corpora.held_out_of([corpus.parent]) == (held,)
    assert corpora.held_out_of([wiki]) == (valid,)
    assert corpora.held_out_of([corpus, wiki, tmp_path / "alone" / "novel.txt"]) == (held, valid)
    assert corpora.held_out_of([tmp_path / "alone" / "novel.txt"]) == corpora.held_out_of([valid]) == ()


def test_training_text_is_not_held_out(tmp_path):
    wiki, valid = (tmp_path / "wikitext-2" / f"wiki.{part}.tokens" for part in ("train", "valid"))
    corpus, held = tmp_path / "corpus" / "corpus.txt", tmp_path / "corpus" / "heldout.txt"
    write_files(wiki, valid, corpus, held)
    assert corpora.held_out_of([wiki, valid]) == corpora.held_out_of([wiki, tmp_path / "wikitext-2"]) == ()
    assert corpora.held_out_of([corpus, held]) == ()
    assert corpora.files_of((), ("corpus/*.txt",), tmp_path) == (corpus,), "a suite's pattern does not take it"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A corpus with held-out text."""
    path = made_text(tmp_path_factory.mktemp("text") / "corpus.txt")
    documents = path.read_text().split("\n\n")
    path.with_name("heldout.txt").write_text("\n\n".join(documents[:20]))
    path.write_text("\n\n".join(documents[20:]))
    return path


def trained(text: Path, out: Path, model="word2vec", **more):
    words = Tokenizer.load(corpora.tokenizer((text,), "wordpiece", 300))
    return pretrain.pretrain(
        model, "tiny", corpus=corpora.load((str(text),), words), held_out=corpora.measured_on((str(text),), words),
        tokenizer=words, budget=Budget(steps=4), out=out, recipe=recipe_of(RECIPE), **more,
    )  # fmt: skip


@pytest.mark.slow
def test_measuring_the_held_out_loss_does_not_change_training(text, tmp_path, monkeypatch):
    """Weights, steps and FLOPs are the same as without held-out text. A training that is stopped during the measurement
    resumes and ends with the same loss."""
    whole = trained(text, tmp_path / "whole")
    found = whole.about["held_out"]
    assert found["loss"] > 0 and found["rows"] > 0 and found["flops"] > 0
    with monkeypatch.context() as patch:
        patch.setattr(corpora, "measured_on", lambda files, tokenizer: None)
        without = trained(text, tmp_path / "without")
    assert "held_out" not in without.about
    assert whole.weights_sha256 == without.weights_sha256
    assert all(whole.about[name] == without.about[name] for name in ("steps", "tokens", "flops", "loss"))

    def stopped(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(held_out, "measured", stopped)
        trained(text, tmp_path / "stopped", save_every=0.0)
    assert list((tmp_path / "stopped.training").iterdir()), "training states are left"
    again = trained(text, tmp_path / "stopped")
    assert again.weights_sha256 == whole.weights_sha256 and again.about["held_out"] == found


@pytest.mark.slow
def test_text_that_an_objective_cannot_read_gives_a_warning_and_no_loss(text, tmp_path, monkeypatch):
    def unfit(*arguments):
        raise CorpusUnfit("This model learns from annotated text.")

    monkeypatch.setattr(held_out, "measured", unfit)
    warnings = []
    assert "held_out" not in trained(text, tmp_path / "out", warn=warnings.append).about
    assert warnings == ["No loss was measured on the held-out text. This model learns from annotated text."]


@pytest.mark.slow
def test_all_models_of_a_run_are_measured_on_the_same_text(text, tmp_path, capsys):
    """Records have the loss and its parts. `pretrain` measures it, too."""
    microworld.make(tmp_path / "data")
    training = TrainingOptions(corpus=(text,), budget=Budget(steps=2), vocabulary=300, recipe=RECIPE)
    ptmbench.run(
        RunOptions(
            suite="demo", models=("word2vec", "electra"), data=tmp_path / "data", baselines=False, training=training,
            cells=CellOptions(tasks=("sst2",), seeds=1, limit=20, settings={"max_steps": 2}),
            output=OutputOptions(out=tmp_path / "run"),
        )
    )  # fmt: skip
    records = [json.loads(path.read_text()) for path in (tmp_path / "run" / "records").glob("*.json")]
    losses = {one["row"]["name"]: one["pretraining"]["held_out"] for one in records}
    assert len({one["corpus_sha256"] for one in losses.values()}) == 1 and losses.keys() == {"word2vec", "electra"}
    assert {"loss", "mlm_loss", "rtd_loss", "rows", "flops"} <= losses["electra"].keys()
    words = Tokenizer.load(corpora.tokenizer((text,), "wordpiece", 300))
    assert losses["electra"]["corpus_sha256"] == corpora.measured_on((str(text),), words).fingerprint
    assert ptmbench.pretrain(PretrainOptions(model="word2vec", size="tiny", out=tmp_path / "one", training=training))
    found = checkpoint.read(tmp_path / "one").about["held_out"]
    assert found["corpus_sha256"] == losses["electra"]["corpus_sha256"]
    assert np.isclose(found["loss"], losses["word2vec"]["loss"], rtol=1e-3)
    assert f"held-out loss {found['loss']:.3f}" in capsys.readouterr().err
