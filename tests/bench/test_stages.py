"""Continued pre-training: weights, costs and tokenizers, in a run and with `pretrain`."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import CheckpointError, digest
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.runs import lineage, pretrain, suites
from ptmbench.bench.runs.artefacts import Given
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.suites import Stage, demo
from ptmbench.models.text.tokenizers import Tokenizer
from tests.bench import asking
from tests.bench.cells import SHORT, train
from tests.bench.processes import PATIENCE, check_killed_again_and_again, made_text, start
from tests.bench.test_schedule import BERT, WORDS


@pytest.fixture(scope="module")
def base(text, tmp_path_factory):
    return train("word2vec", text, tmp_path_factory.mktemp("base") / "base")


def test_keys_of_pretrainings_without_a_base_are_unchanged():
    matters = {name: value for name, value in asdict(BERT).items() if name not in ("corpus", "corpus_name")}
    added = ("base", "other_tokenizer", "teacher", "teacher_vocabulary", "held_out", "tuning", "chosen_by")
    for newer in (*added, "plugins", "model_version"):
        del matters[newer]
    assert BERT.key == digest({"pretraining": matters})
    continued = replace(BERT, base=BERT.key)
    assert continued.key != BERT.key and replace(BERT, base="checkpoint:x").key not in (continued.key, BERT.key)
    assert continued.needs == (WORDS.key, BERT.key) and replace(BERT, other_tokenizer="other").needs == ("other",)


def test_later_model_versions_are_recorded_in_the_checkpoint(text, base, tmp_path, monkeypatch):
    module = models.load("word2vec")
    monkeypatch.setattr(module, "CARD", replace(module.CARD, version=2))
    later = train("word2vec", text, tmp_path / "later")
    assert later.about["model_version"] == 2 and "model_version" not in base.about


def test_a_continued_pretraining_starts_from_the_weights_of_its_base(text, base, tmp_path):
    still = train("word2vec", text, tmp_path / "still", base=base, recipe=recipe_of({**SHORT, "learning_rate": 0}))
    fresh = train("word2vec", text, tmp_path / "fresh", recipe=recipe_of({**SHORT, "learning_rate": 0}))
    theirs = base.arrays()
    assert all(np.array_equal(value, theirs[name]) for name, value in still.arrays().items())
    assert any(not np.array_equal(value, theirs[name]) for name, value in fresh.arrays().items())
    assert "base" not in fresh.about and "including" not in fresh.about


def test_the_cost_of_all_stages_is_added_up(text, base, tmp_path):
    second = train("word2vec", text, tmp_path / "second", base=base, budget=Budget(steps=2))
    third = train("word2vec", text, tmp_path / "third", base=second, budget=Budget(steps=4))
    assert second.about["base"]["weights_sha256"] == base.weights_sha256 and second.about["base"]["steps"] == 3
    for name, total in (("steps", 9), ("tokens", 9 * 128), ("flops", 3 * base.about["flops"])):
        assert third.about["including"][name] == pytest.approx(total)
    assert third.about["steps"] == 4
    unknown = replace(base, about={**base.about, "tokens": None})  # a published checkpoint does not report its tokens
    assert lineage.manifest_entries(second.about, {"base": unknown})["including"]["tokens"] is None
    total = third.about["including"]
    older = replace(second, about={name: value for name, value in second.about.items() if name != "earlier"})
    assert lineage.manifest_entries(third.about, {"base": older})["including"] == pytest.approx(total)
    # The cost of the teacher is already part of the base.
    again = lineage.manifest_entries(third.about, {"base": second, "teacher": base})
    assert again["including"] == pytest.approx(total) and again["teacher"]["model"] == "word2vec"


def test_an_unsuitable_base_is_rejected(text, base, tmp_path):
    other = Tokenizer.load(corpora.tokenizer(text.files, "wordpiece", 200))
    with pytest.raises(CheckpointError, match=r"another tokenizer \(wordpiece of .* Continue with its own"):
        train(
            "word2vec",
            text,
            tmp_path / "a",
            tokenizer=other,
            corpus=corpora.load(tuple(map(str, text.files)), other),
            base=base,
        )
    with pytest.raises(CheckpointError, match=r"glove tiny cannot continue from .*base.*same model and size"):
        train("glove", text, tmp_path / "b", base=base)
    with pytest.raises(UsageError, match="holds the training state of another run: base is"):
        resume_with_another_base(text, base, tmp_path / "c")


def resume_with_another_base(text, base, out):
    """Stops a training that started from random weights, then tries to resume it with ``base``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrain, "check_finished", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train("word2vec", text, out, save_every=0.0)
    train("word2vec", text, out, base=base)


def test_pretrain_accepts_a_base_checkpoint(text, base, tmp_path):
    usual = {"model": "word2vec", "corpus": text.files, "budget": Budget(steps=2), "recipe": SHORT}
    usual |= {"out": tmp_path / "out"}
    with pytest.raises(UsageError, match="is word2vec tiny, and glove tiny is to be pre-trained"):
        asking.pretrain(**(usual | {"model": "glove"}), bases=(base.folder,))
    with pytest.raises(UsageError, match="more than --vocabulary 100. Leave --vocabulary out"):
        asking.pretrain(**usual, bases=(base.folder,), vocabulary=100)
    with pytest.raises(UsageError, match="Give --base once"):
        asking.pretrain(**usual, bases=(base.folder, base.folder))
    with pytest.raises(UsageError, match=r"made for inputs of 4096 tokens.*network of 5000.*same length"):
        asking.pretrain(**(usual | {"recipe": {"batch": 4, "length": 5000}}), bases=(base.folder,))
    assert asking.pretrain(**usual, bases=(base.folder,)) == OK
    about = checkpoint.read(tmp_path / "out").about
    assert about["tokenizer"] == base.about["tokenizer"] and about["including"]["steps"] == 5


def test_a_suite_may_have_an_earlier_stage(planned, monkeypatch):
    alone = planned()
    stage = Stage(budget=Budget(steps=7), corpus=("glue/*/*.tsv",), recipe={"learning_rate": 1e-4})
    monkeypatch.setattr(demo, "SUITE", replace(demo.SUITE, base=stage))
    whole = planned(adaptations=("finetune", "features"))
    cut, *trained = [one for one in whole.artefacts if one.kind in ("tokenizer", "pretraining")]
    assert [(one.model, one.budget.steps) for one in trained] == [
        ("word2vec", 7), ("word2vec", 2), ("glove", 7), ("glove", 2)
    ]  # fmt: skip
    first, second = trained[:2]
    assert second.base == first.key and not first.base and second.needs == (cut.key, first.key)
    assert cut.corpus_sha256 == first.corpus_sha256 != second.corpus_sha256 == alone.pretrainings[0].corpus_sha256
    assert first.recipe["learning_rate"] == 1e-4 and "learning_rate" not in second.recipe
    assert {cell.pretraining for cell in whole.cells if cell.row.name == "word2vec"} == {second.key}
    assert {cell.tokenizer for cell in whole.cells if cell.row.model} == {cut.key}
    assert Plan.from_json(whole.to_json()) == whole


def test_a_suite_stage_without_a_budget_is_rejected(monkeypatch):
    assert suites._mistakes(replace(demo.SUITE, base=Stage(budget=Budget(), corpus=("a",)))) == [
        "SUITE.base is a bench.runs.suites.Stage whose budget has a unit, or None."
    ]


def test_a_run_accepts_base_checkpoints(planned, base):
    whole = planned(models=("word2vec", "majority"), vocabulary=None, bases=(base.folder,), corpus=())
    (training,) = whole.pretrainings
    weights, cut = whole.by_key[training.base], whole.by_key[training.tokenizer_key]
    assert isinstance(weights, Given) and weights.path == str(base.folder)
    assert cut.path == str(base.folder / "tokenizer.json") and cut.key == base.about["tokenizer"]["sha256"]
    assert {cell.tokenizer for cell in whole.cells if cell.row.model} == {cut.key}
    with pytest.raises(UsageError, match="No checkpoint of --base is of glove tiny; there is word2vec tiny"):
        planned(vocabulary=None, bases=(base.folder,))
    with pytest.raises(UsageError, match="--tokenizer wordpiece, not bpe"):
        planned(models=("word2vec",), vocabulary=None, tokenizer="bpe", bases=(base.folder,))


@pytest.mark.sweep
def test_repeated_kills_do_not_change_the_weights_of_a_continued_pretraining(tmp_path):
    text = made_text(tmp_path / "corpus.txt")
    assert start(text, tmp_path / "base", "--steps", "5").wait(timeout=PATIENCE) == 0
    more = ("--base", str(tmp_path / "base"), "--steps", "300")

    def begin(out, *further):
        return start(text, out, *more, *further)

    out = check_killed_again_and_again(begin, tmp_path, 3)
    assert checkpoint.read(out).about["including"]["steps"] == 305
