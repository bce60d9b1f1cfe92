"""The loss on held-out documents, which no trial trains on."""

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.runs import pretrain
from ptmbench.models.text import holdout
from ptmbench.models.text.tokenizers import Tokenizer


@pytest.mark.slow
def test_the_held_out_loss_equals_that_of_one_large_batch(text, tmp_path):
    """Its rows and masks do not depend on the batch size of the training."""
    from ptmbench.bench.engine import held_out, networks

    cut = Tokenizer.load(corpora.tokenizer((text,), "wordpiece", 300))
    kept, held = corpora.parts((str(text),), cut, 2000)
    about = {}
    for batch in (2, 4):
        about[batch] = pretrain.pretrain(
            "electra", "tiny", corpus=kept, held_out=held, tokenizer=cut, budget=Budget(steps=1),
            out=tmp_path / str(batch), recipe=recipe_of({"batch": batch, "length": 32, "dropout": 0.1}),
        ).about  # fmt: skip
    one, other = (about[batch]["held_out"] for batch in (2, 4))
    assert one["rows"] == other["rows"] == held.tokens // (8 * 32) * 8 and one["loss"] != other["loss"]
    assert one["flops"] == other["flops"] == pytest.approx(one["rows"] * about[2]["flops"] / 2 / 3)
    assert about[2]["corpus_sha256"] == kept.fingerprint and one["corpus_sha256"] == held.fingerprint

    found = checkpoint.read(tmp_path / "2")
    size = networks.sized(models.load("electra"), "tiny", 32)
    network = networks.build("electra", size, cut, seed=5)
    networks.assign(network.loss.variables, found.arrays())
    again = held_out.measured(network, held, 32)
    assert again["loss"] == pytest.approx(one["loss"], rel=1e-5), "without dropout, whatever the recipe says"
    make = network.batches(held, held_out.ROWS, 32)
    rows = [make(step, held_out.SEED) for step in range(one["rows"] // held_out.ROWS)]
    whole = {name: np.concatenate([batch[name] for batch in rows]) for name in rows[0]}
    scalars = network.loss(whole, seed=(0, 0))
    for name in ("loss", "mlm_loss", "rtd_loss", "rtd_accuracy"):
        assert again[name] == pytest.approx(float(scalars[name]), rel=1e-4), name


def documents_of(corpus):
    """The token ids of each document."""
    ids = corpus.ids.take(np.arange(corpus.tokens))
    ends = corpus.sentences.take(corpus.documents.take(np.arange(len(corpus.documents))))
    return [ids[begin:end].tolist() for begin, end in zip(ends, ends[1:], strict=False)]


def test_held_out_documents_are_never_trained_on(text):
    cut = Tokenizer.load(corpora.tokenizer((text,), "wordpiece", 300))
    whole = corpora.load((str(text),), cut)
    kept, held = corpora.parts((str(text),), cut, 2000)
    assert held.tokens > 1000 and kept.tokens == whole.tokens - held.tokens
    assert sorted(documents_of(kept) + documents_of(held)) == sorted(documents_of(whole))
    assert corpora.parts((str(text),), cut, 0)[1] is None
    assert holdout.split(whole, 2000)[1].fingerprint == held.fingerprint
