"""Structured pruning of adapted networks: which heads, neurons and layers are removed, and what remains.

The reference is BERT in NumPy, in float64, with a factor for each head and each neuron.
"""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import erf

from ptmbench import models, tasks
from ptmbench.bench import console
from ptmbench.bench.adapt import built, heads, predictor, shapes, transforms
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import baked, defaults
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Vocabulary
from ptmbench.tasks.forms import Form
from tests.bench.cells import make
from tests.bench.test_condition_cells import kept
from tests.bench.test_transform_cells import transformed

DEEP = Size(layers=3, width=32, heads=4, inner=24, length=96)
CLASSES = Form.CLASSIFICATION


def adapted(tokenizer, shape=None, model="bert", adaptation="finetune"):
    """Returns a classification network, optionally with a stack of another ``shape``."""
    settings = baked(defaults(CLASSES, adaptation))
    return built.traced(model, DEEP, tokenizer, CLASSES, adaptation, 2, settings, (), (), shape)


@pytest.fixture
def whole(tokenizer):
    """The full network with large weights, so that its heads differ and attention is far from uniform."""
    found, rng = adapted(tokenizer), np.random.default_rng(3)
    drawn = {name: rng.normal(name.endswith("scale"), 0.15, v.shape) for name, v in found.named_variables()}
    found.assign({name: array.astype("float32") for name, array in drawn.items()})
    return found


@pytest.fixture(scope="module")
def rows(world, tokenizer):
    task = tasks.load("sst2")
    examples = task.examples(world, "train")[:4]
    return heads.of(CLASSES, "finetune").Codec(task, tokenizer, defaults(CLASSES, "finetune"), examples).rows(examples)


# The reference -------------------------------------------------------------------------------------------------------


def norm(x, weights, name):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-12)
    return scaled * weights[f"{name}/scale"] + weights[f"{name}/bias"]


def product(x, weights, name):
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def logits(weights, row, gates, layers=range(DEEP.layers), seen=None, begin=None):
    """Returns the logits of BERT with ``layers`` and a classifier for one text without padding, float64 [2].

    ``gates`` holds the factors of the "heads" [L, H] and of the "inner" dimensions [L, F]. The input of each layer and
    the output of the last, [T, D], are appended to ``seen``. ``begin`` [T, D], if given, replaces the embeddings.
    """
    seen = [] if seen is None else seen
    tokens = row.arrays["tokens"]
    x = weights["encoder/embeddings/tokens/table"][tokens] + weights["encoder/embeddings/segments/table"][0]
    x = norm(x + weights["encoder/embeddings/positions/table"][: len(tokens)], weights, "encoder/embeddings/norm")
    x = x if begin is None else begin
    for number in layers:
        seen.append(x)
        name = f"encoder/stack/layer_{number}"
        both = product(x, weights, f"{name}/attention/query_key_value")
        q, k, v = (
            one.reshape(len(tokens), DEEP.heads, -1).swapaxes(0, 1) for one in np.split(both, 3, -1)
        )  # [H, T, K]
        scores = np.exp(q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1]))
        mixed = scores / scores.sum(-1, keepdims=True) @ v * gates["heads"][number][:, None, None]
        mixed = mixed.swapaxes(0, 1).reshape(len(tokens), -1)
        x = norm(x + product(mixed, weights, f"{name}/attention/projection"), weights, f"{name}/attention_norm")
        h = product(x, weights, f"{name}/feed_forward/inner")
        h = h * 0.5 * (1 + erf(h / math.sqrt(2))) * gates["inner"][number]
        x = norm(x + product(h, weights, f"{name}/feed_forward/outer"), weights, f"{name}/norm")
    seen.append(x)
    return np.tanh(product(x[0], weights, "encoder/pooler")) @ weights["adapted/000"] + weights["adapted/001"]


def loss(weights, row, gates):
    found = logits(weights, row, gates)
    return np.log(np.exp(found).sum()) - found[row.arrays["label"]]


def open_gates():
    return {"heads": np.ones((DEEP.layers, DEEP.heads)), "inner": np.ones((DEEP.layers, DEEP.inner))}


def exact(found):
    return {name: array.astype(np.float64) for name, array in found.arrays().items()}


# Importance ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["heads", "inner"])
def test_importance_matches_finite_differences_of_the_loss(whole, rows, part):
    from ptmbench.bench.adapt.transforms import units

    weights, gates, step = exact(whole), open_gates(), 1e-5
    expected = np.zeros(gates[part].shape)
    for place in np.ndindex(expected.shape):
        for row in rows:
            values = []
            for sign in (1, -1):
                gates[part][place] = 1 + sign * step
                values.append(loss(weights, row, gates))
            gates[part][place] = 1
            expected[place] += abs(values[0] - values[1]) / (2 * step)
    expected /= np.sqrt(np.sum(expected**2, -1, keepdims=True))
    found = units.importance(whole, rows, part, batch=3)
    assert np.abs(np.array(found) - expected).max() <= 2e-5
    assert (
        np.abs(np.array(units.importance(whole, rows, part, batch=4)) - found).max() <= 2e-5
    )  # the taps of the first call have no effect
    assert not any(block.attention.projection.extensions("input") for block in whole.network.encoder.stack.blocks)


def test_importance_shows_its_progress(whole, rows, monkeypatch, capsys):
    from ptmbench.bench.adapt.transforms import units

    monkeypatch.setattr(console, "INTERVAL", 0.0)
    units.importance(whole, rows, "heads", batch=len(rows) - 1)
    lines = capsys.readouterr().err.splitlines()
    shown = [f"measure importance: {n}/{len(rows)} examples" for n in (len(rows) - 1, len(rows))]
    assert [line.partition(",")[0] for line in lines] == shown


def test_lowest_scores_are_removed_but_each_block_keeps_its_best():
    from ptmbench.bench.adapt.transforms.units import best

    scores = [np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.9, 0.8, 0.7, 0.6])]
    assert [one.tolist() for one in best(scores, 0.5, True)] == [[3], [0, 1, 2]]  # 0.4 stays, 0.6 goes
    assert [one.tolist() for one in best(scores, 0.5, False)] == [[2, 3], [0, 1]]
    assert [one.tolist() for one in best(scores, 0.3, True)] == [[2, 3], [0, 1, 2, 3]]  # 2.4 units are rounded to 2
    assert [one.tolist() for one in best([np.arange(100.0)], 0.29, True)] == [list(range(29, 100))]
    with pytest.raises(NotApplicable, match="because 7 of 8 are to be removed, and one of each of 2 blocks stays"):
        best(scores, 0.9, True)


# The shrunk network --------------------------------------------------------------------------------------------------


def test_the_shrunk_network_equals_the_full_one_with_closed_gates(whole, rows, tokenizer):
    from ptmbench.bench.adapt.transforms import units

    weights, gates = exact(whole), open_gates()
    kept = {"heads": [np.array([1, 3]), np.array([0]), np.array([0, 1, 2, 3])]}
    kept["inner"] = [np.arange(0, 24, 2), np.arange(5), np.arange(24)]
    for part, chosen in kept.items():
        for gate, stays in zip(gates[part], chosen, strict=True):
            gate[:] = np.isin(np.arange(len(gate)), stays)
    found = whole
    for part, chosen in kept.items():  # one after the other, as in a chain
        arrays, shape = units.keep_units(found, part, chosen)
        found = adapted(tokenizer, shape)
        found.assign(arrays)
    assert shape == shapes.StackShape(layers=3, heads=(2, 1, 4), inner=(12, 5, 24))
    assert shapes.read(shape.stored()) == shape
    ours = found.forward(stack(rows))
    expected = np.array([logits(weights, row, gates) for row in rows])
    assert np.abs(ours - expected).max() <= 1e-5
    plain = np.array([logits(weights, row, open_gates()) for row in rows])
    assert np.abs(plain - expected).max() > 0.1
    # Its description counts the weights and the products that remain.
    described = shapes.described(models.load("bert").describe(DEEP, tokenizer.vocabulary), shape)
    assert described.parameters().total == sum(v.numpy().size for v in found.network.loss.variables)
    T, D, K = 10, 32, 8
    by_hand = 2 * D * D  # the pooler
    for H, F in zip(shape.heads, shape.inner, strict=True):
        by_hand += 2 * T * (D * 3 * H * K + H * K * D) + 4 * T * T * H * K + 2 * T * 2 * D * F
    assert described.encoder_flops(T) == by_hand
    assert found.forward_flops([rows[0]]) < whole.forward_flops([rows[0]])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["albert", "gpt", "unilm"])
def test_a_head_with_zero_output_can_be_removed(rows, tokenizer, model):
    """Covers shared blocks (ALBERT), a left-to-right network (GPT) and a network with masks (UniLM)."""
    from ptmbench.bench.adapt.transforms import units

    found, rng = adapted(tokenizer, model=model), np.random.default_rng(4)
    found.assign({name: rng.normal(name.endswith("scale"), 0.1, v.shape) for name, v in found.named_variables()})
    for block in found.network.encoder.stack.blocks:
        kernel = block.attention.projection.kernel
        kernel.assign(np.where(np.arange(32)[:, None] // 8 == 2, 0, kernel.numpy()))
    scores = units.importance(found, rows, "heads")
    assert all(np.flatnonzero(one == 0).tolist() == [2] for one in scores)
    arrays, shape = units.keep_units(found, "heads", units.best(scores, 0.25, together=False))
    expected = found.forward(stack(rows))
    smaller = adapted(tokenizer, shape, model)
    smaller.assign(arrays)
    assert set(shape.heads) == {3} and np.abs(smaller.forward(stack(rows)) - expected).max() <= 1e-5
    assert smaller.forward_flops(rows) < found.forward_flops(rows)


REASONS = {
    "its encoder has further layers behind the stack of blocks.",
    "its encoder is not a stack of Transformer blocks.",
    "all of its layers share one table of distances, with a column for each head.",
    "its blocks have attention of another kind (RelativeAttentionConfig).",
}


@pytest.mark.parametrize("name", models.names())
def test_every_model_can_be_shrunk_or_gives_the_reason(name):
    described = models.load(name).describe(DEEP, Vocabulary(size=300))
    if reason := shapes.obstacle(described.encoder):
        assert reason in REASONS
        return
    shape = shapes.of(described.encoder.stack)
    same = shapes.described(described, shape)
    assert same.parameters() == described.parameters()
    assert same.encoder_flops(20) == described.encoder_flops(20)
    smaller = dataclasses.replace(shape, heads=(1,) * len(shape.heads), inner=(3,) * len(shape.inner))
    found = shapes.described(described, smaller)
    assert found.parameters().total < described.parameters().total
    assert found.encoder_flops(20) < described.encoder_flops(20) and shapes.of(found.encoder.stack) == smaller


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({}, [0, 1, 2, 3]),
        ({"by": "bottom", "share": 0.25}, [2, 3, 4, 5, 6, 7]),
        ({"by": "middle", "share": 0.25}, [0, 1, 2, 5, 6, 7]),
        ({"by": "alternate"}, [0, 2, 4, 6]),
        ({"by": "alternate", "share": 0.25}, [0, 1, 2, 3, 4, 6]),
        ({"share": 0.99}, [0]),
        ({"keep": "1.3.8"}, [0, 2, 7]),
    ],
)
def test_layer_selection_rules_keep_the_expected_layers(asked, left):
    transform = transforms.load("layers")
    assert transform.settings(**asked).kept(8, seed=0) == left


def test_randomly_selected_layers_depend_only_on_the_seed():
    settings = transforms.load("layers").settings(by="random", share=0.75)
    found = [settings.kept(8, seed) for seed in range(20)]
    assert all(len(set(one)) == 2 and one == sorted(one) for one in found)
    assert len(set(map(tuple, found))) > 5 and settings.kept(8, 3) == found[3]


def test_impossible_layer_selections_are_rejected():
    settings = transforms.load("layers").settings
    with pytest.raises(NotApplicable, match="because the model has 2 layers, and keep=1.3 names layer 3"):
        settings(keep="1.3").kept(2, 0)
    with pytest.raises(NotApplicable, match="because 6 of 8 layers are to be removed, but every other one is 4"):
        settings(by="alternate", share=0.75).kept(8, 0)
    with pytest.raises(NotApplicable, match="because share=0.1 of 6 layers is less than one. Set it higher"):
        settings(share=0.1).kept(6, 0)
    assert settings(share=0.0, epochs=1).kept(6, 0) == list(range(6))  # a control


@pytest.mark.parametrize(
    ("model", "adaptation", "told"),
    [
        ("xlnet", "finetune", "because its blocks have attention of another kind (RelativeAttentionConfig)."),
        ("elmo", "features", "because its encoder is not a stack of Transformer blocks."),
        ("bert", "adapters", "because the adaptation adapters adds weights to the blocks."),
        ("bert", "fastbert", "because the adaptation fastbert answers from every layer of the network."),
    ],
)
def test_models_that_cannot_be_shrunk_give_the_reason(tokenizer, model, adaptation, told):
    from ptmbench.bench.adapt.transforms.units import shape_of

    with pytest.raises(NotApplicable) as raised:
        shape_of(adapted(tokenizer, model=model, adaptation=adaptation))
    assert str(raised.value) == told


# Cells ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fine_tuned(world, tokenizer, tmp_path_factory):
    """A cell, its context with the adapted model, and its record."""
    out = tmp_path_factory.mktemp("fine-tuned")
    given = cells.Context(data=world, out=out, shape=DEEP, tokenizer=tokenizer, source={"name": "microworld"})
    cell = make("sst2", "bert", "finetune")
    ready = kept(cell, given)
    return cell, ready, cells.run(dataclasses.replace(cell, predictor="x"), ready)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("asked", "shape", "trained"),
    [
        slow("heads:examples=8", None, False),
        slow("heads:share=0.75+by=random", None, False),
        slow("ffn:examples=8", (3, (4, 4, 4), (12, 12, 12)), False),
        ("layers:keep=1.3", (2, (4, 4), (24, 24)), False),
        slow("layers:epochs=1+by=alternate", (2, (4, 4), (24, 24)), True),
    ],
)
def test_a_cell_has_the_cost_of_the_shrunk_network(fine_tuned, tmp_path, asked, shape, trained):
    cell, given, plain = fine_tuned
    one, ready = transformed(asked, cell, dataclasses.replace(given, out=tmp_path))
    found = record.read(record.write(tmp_path, cells.run(one, ready)))
    assert found.status == "ok", found.reason
    stored, about = predictor.load(ready.predictor), found.adaptation["transform"]
    assert about["name"] == asked and about["compression"] == "pruning"
    if shape:
        assert dataclasses.astuple(stored.shape) == shape
    else:  # of 12 heads
        assert sum(stored.shape.heads) == (6 if "8" in asked else 3) and min(stored.shape.heads) >= 1
    whole = models.load("bert").describe(DEEP, given.tokenizer.vocabulary)
    small = shapes.described(whole, stored.shape)
    assert plain.cost["parameters"] == whole.parameters().total
    assert found.cost["parameters"] == found.cost["parameters_nonzero"] == small.parameters().total
    assert trained or found.cost["flops_evaluate"] < plain.cost["flops_evaluate"]
    assert found.cost["disk_bytes"] < plain.cost["disk_bytes"]
    assert (found.cost["steps"] > plain.cost["steps"]) == trained == (len(found.curve) > len(plain.curve))
    assert (about["cost"]["flops"] > 0) == (trained or "examples" in asked)
    report = tasks.load("sst2").examples(given.data, "dev")[:4]
    assert stored.answer(report).predictions  # the shrunk network predicts, so all of its weights have been set


def test_a_removal_that_would_remove_nothing_is_not_applicable(fine_tuned, tmp_path):
    cell, given, _ = fine_tuned
    with pytest.raises(NotApplicable, match="because share=0.05 of its heads is less than one. Set a higher share."):
        transformed("heads:share=0.05+by=random", cell, dataclasses.replace(given, out=tmp_path))


@pytest.mark.slow
def test_each_transform_of_a_chain_starts_from_the_shrunk_network(fine_tuned, tmp_path):
    cell, given, _ = fine_tuned
    context, chain = given, []
    for asked in ("layers:keep=1.2", "heads:examples=8", "prune:frequency=1+epochs=1", "int8"):
        chain.append(asked)
        context = dataclasses.replace(context, out=tmp_path / str(len(chain)))
        one, context = transformed("+".join(chain), cell, context)
        found = cells.run(one, context)
        assert found.status == "ok", found.reason
        stored = predictor.load(context.predictor)
        assert stored.shape.layers == 2 and stored.shape.inner == (24, 24)
        assert sum(stored.shape.heads) == (8 if len(chain) == 1 else 4)
        small = shapes.described(models.load("bert").describe(DEEP, given.tokenizer.vocabulary), stored.shape)
        assert found.cost["parameters"] == small.parameters().total
    assert found.cost["zero_weights"] > 0.1 and found.cost["bits_per_weight"] < 32


@pytest.mark.slow
def test_layers_cannot_be_dropped_if_the_adaptation_has_weights_for_each(context):
    cell = make("sst2", "bert", "features")
    given = kept(cell, dataclasses.replace(context, shape=DEEP))
    with pytest.raises(NotApplicable, match="because the adaptation features has weights of its own for each layer"):
        transformed("layers", cell, given)


@pytest.mark.slow
def test_training_after_shrinking_resumes_after_a_kill(fine_tuned, tmp_path, monkeypatch):
    cell, given, _ = fine_tuned
    asked = "heads:epochs=2+examples=8"
    _, straight = transformed(asked, cell, dataclasses.replace(given, out=tmp_path / "straight"))
    taken, step = [], TrainStep.__call__

    def killing(self, *arguments):
        taken.append("step")
        if len(taken) == 3:
            raise KeyboardInterrupt
        return step(self, *arguments)

    monkeypatch.setattr(TrainStep, "__call__", killing)
    stoppable = dataclasses.replace(given, out=tmp_path / "killed", unfinished=tmp_path / "unfinished", save_every=0.0)
    with pytest.raises(KeyboardInterrupt):
        transformed(asked, cell, stoppable)
    assert list(stoppable.unfinished.rglob("learnt.safetensors"))
    _, resumed = transformed(asked, cell, stoppable)
    spent = straight.spent["transform"]
    assert spent["steps"] == 4 and len(taken) == 3 + 2  # two steps had been saved
    assert resumed.predictor.weights_sha256 == straight.predictor.weights_sha256
    assert {name: resumed.spent["transform"][name] for name in ("steps", "flops")} == {
        name: spent[name] for name in ("steps", "flops")
    }
