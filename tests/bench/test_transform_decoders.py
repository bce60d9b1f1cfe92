"""Transforms of decoders that an adaptation adds to an encoder."""

import dataclasses
import gzip
import json

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench.adapt import predictor
from ptmbench.bench.adapt.built import traced
from ptmbench.bench.engine import packing
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.runs import cell as cells
from tests.bench.cells import make
from tests.bench.test_condition_cells import kept
from tests.bench.test_transform_chains import chained

PRUNING = "prune:frequency=1+epochs=1+sparsity=0.75+embeddings=1"
WAYS = [  # every new decoder
    ("multi30k-en-mw", "bert", "seq2seq"),
    ("multi30k-en-mw", "bert", "unsupervised"),
    ("multi30k-en-mw", "bert", "fused"),
    ("aeslc", "lm_lstm", "lm_seq2seq"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "model", "adaptation"), WAYS)
def test_an_added_decoder_is_pruned_and_quantised(context, task, model, adaptation):
    cell = make(task, model, adaptation)
    given = kept(cell, context)
    adapted = predictor.load(given.predictor).network
    added = {id(variable) for variable in adapted.decoding.own}
    own = {name: variable.path for name, variable in adapted.named_variables() if id(variable) in added}
    kernels = {name for name, path in own.items() if path.endswith("kernel") and not path.startswith("joined/kernel")}
    vectors = {name for name, path in own.items() if path.endswith(("tokens", "tokens/table"))}
    assert kernels and vectors and all(name.startswith("adapted/") for name in (*kernels, *vectors))
    (_, pruned), (one, ready) = chained(f"{PRUNING}+int8", cell, given)
    whole, codes = (packing.unpacked(made.predictor.arrays()) for made in (pruned, ready))
    for made in (pruned, ready):
        changed = made.predictor.about["transform"]["changed"]
        assert {*kernels, *vectors} <= {*changed}
        zeros = sum(packing.size_of(made.predictor.arrays(), name).zeros for name in changed)
        assert made.spent["parameters_nonzero"] == made.spent["parameters"] - zeros
    for name in (*kernels, *vectors):
        assert np.mean(whole[name] == 0) >= 0.74 and np.all(codes[name][whole[name] == 0] == 0)
    assert all(codes[name].dtype == np.int8 and f"{name}_scale" in codes for name in kernels)

    found = cells.run(one, ready)
    assert found.status == "ok", found.reason
    assert 8 < found.cost["bits_per_weight"] < 32 and found.cost["zero_weights"] > 0.5
    traced.cache_clear()  # as in a new process
    report = tasks.load(task).examples(context.data, tasks.load(task).report)[:4]
    lines = gzip.decompress((context.out / found.predictions["file"]).read_bytes()).splitlines()[:4]
    assert predictor.load(ready.predictor).answer(report).predictions == [json.loads(x)["prediction"] for x in lines]


@pytest.mark.slow
def test_pruning_an_added_decoder_resumes_after_an_interruption(context, monkeypatch):
    """It resumes as in a new process, which does not know the earlier learning rates of encoder and decoder."""
    cell = make("multi30k-en-mw", "bert", "seq2seq", batch=8)
    given = kept(cell, context)
    ((one, straight),) = chained(PRUNING, cell, given)
    home, taken, step = context.out / "stopped", [], TrainStep.__call__
    stoppable = dataclasses.replace(given, out=home, unfinished=home / "unfinished", save_every=0.0)

    def killing(self, *arguments):
        if len(taken) == 4:
            raise KeyboardInterrupt
        taken.append("step")
        return step(self, *arguments)

    traced.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "__call__", killing)
        with pytest.raises(KeyboardInterrupt):
            cells.adapt(one, stoppable)
    assert list(stoppable.unfinished.rglob("learnt.safetensors")) and not (home / "adapted").exists()
    traced.cache_clear()
    cost = cells.adapt(one, stoppable)
    (folder,) = (home / "adapted").iterdir()
    assert (cost["steps"], cost["flops"]) == (straight.spent["steps"], straight.spent["flops"])
    content = (folder / "weights.safetensors").read_bytes()
    assert content == straight.predictor.path("weights.safetensors").read_bytes()
