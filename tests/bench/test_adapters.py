"""Adapters: layers against the paper's equations in numpy, trained and frozen variables, costs, and a cell."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import erf

from ptmbench.bench.adapt import predictor, settings
from ptmbench.bench.adapt.adapters import Own
from ptmbench.bench.adapt.adapters.network import Adapter
from ptmbench.bench.adapt.built import adapted, random_weights, traced
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell
from ptmbench.bench.runs.plan import Row as Line
from ptmbench.models import load as model
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import microworld
from ptmbench.tasks.forms import Form

TEXT = "one two three four five six seven eight nine ten"
TOKENIZER = Tokenizer.train("word", [TEXT] * 3, 60)
SHAPE = Size(layers=2, width=8, heads=2, inner=12, length=16)
RNG = np.random.default_rng(0)


def make_adapted(name="bert", **changes):
    chosen = settings.baked(Own(bottleneck=3, **changes))
    adapted_network = adapted(name, SHAPE, TOKENIZER, Form.CLASSIFICATION, "adapters", 4, chosen)
    adapted_network.reset(random_weights(name, SHAPE, TOKENIZER, 1), 0)
    return adapted_network


def row(label, *tokens):
    arrays = {"tokens": np.array(tokens, np.int32), "segments": np.zeros(len(tokens), np.int32)}
    return InputRow(arrays | {"label": np.int32(label), "unused": np.zeros(4, np.float32)}, 0)


ROWS = [row(0, 1, 7, 8, 9, 2), row(1, 1, 10, 11, 2), row(2, 1, 12, 7, 13, 9, 2), row(3, 1, 14, 2)]


def gelu(x):
    return x * 0.5 * (1 + erf(x / np.sqrt(2)))


def norm(x, layer):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + layer.config.epsilon) * layer.scale.numpy() + layer.bias.numpy()


def adapter(x, layer):
    """The paper's bottleneck: down-projection, nonlinearity, up-projection, and skip connection."""
    down, down_bias, up, up_bias = (v.numpy().astype(np.float64) for v in layer.trainable_variables)
    return x + gelu(x @ down + down_bias) @ up + up_bias


def linear(x, layer):
    return x @ layer.kernel.numpy().astype(np.float64) + layer.bias.numpy()


def block(x, layer):
    """One layer with its adapters, [T, D]. Each adapter precedes the residual sum and the layer norm (figure 2)."""
    q, k, v = np.split(linear(x, layer.attention.query_key_value), 3, axis=-1)
    heads = []
    for one, key, value in zip(*(np.split(part, SHAPE.heads, axis=-1) for part in (q, k, v)), strict=True):
        scores = one @ key.T / np.sqrt(one.shape[-1])
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(shares / shares.sum(-1, keepdims=True) @ value)
    attended = linear(np.concatenate(heads, -1), layer.attention.projection)
    (first,), (second,) = (layer.extensions(seam) for seam in ("after_attention", "after_feed_forward"))
    h = norm(x + adapter(attended, first), layer.attention_norm)
    fed = linear(gelu(linear(h, layer.feed_forward.inner)), layer.feed_forward.outer)
    return norm(h + adapter(fed, second), layer.norm)


def test_a_layer_with_adapters_matches_the_equations_of_the_paper():
    network = make_adapted().network
    for variable in network.encoder.trainable_variables:  # far from the identity, so that every part counts
        variable.assign(RNG.normal(0.0, 0.5, variable.shape).astype(np.float32))
    encoding = network.encoder({"tokens": tf.constant([[5, 7, 9, 8, 6]]), "segments": tf.zeros([1, 5], tf.int32)})
    for index, layer in enumerate(network.encoder.stack):
        before, after = (encoding.layers[n][0].numpy() for n in (index, index + 1))
        assert np.abs(block(before.astype(np.float64), layer) - after).max() <= 2e-5
    assert sum(isinstance(one, Adapter) for one in network.encoder._flatten_layers()) == 2 * 2


def test_new_adapters_hardly_change_the_pretrained_network():
    adapted_network, plain = make_adapted(), adapted(
        "bert", SHAPE, TOKENIZER, Form.CLASSIFICATION, "finetune", 4, settings.baked(settings.Learning())
    )  # fmt: skip
    plain.reset(random_weights("bert", SHAPE, TOKENIZER, 1), 0)
    batch = {"tokens": tf.constant([[5, 7, 9, 8, 6]]), "segments": tf.zeros([1, 5], tf.int32)}
    ours, theirs = (one.network.encoder(batch).tokens.numpy() for one in (adapted_network, plain))
    assert 0 < np.abs(ours - theirs).max() < 1e-2 * np.abs(theirs).max()
    drawn = np.concatenate([v.numpy().ravel() for v in adapted_network.extension.new if len(v.shape) == 2])
    assert 0.007 < drawn.std() < 0.013 and not any(
        v.numpy().any() for v in adapted_network.extension.new if len(v.shape) == 1
    )


def test_only_adapters_and_layer_norms_of_the_encoder_are_trained():
    adapted_network = make_adapted()
    before = {v.path: v.numpy() for v in adapted_network.network.loss.variables}
    for number in range(3):
        loss = adapted_network.step(stack(ROWS), (0, number), 1e-2)["loss"]
    assert np.isfinite(loss)
    moved = {v.path for v in adapted_network.network.loss.variables if not np.array_equal(before[v.path], v.numpy())}
    assert moved and all("adapter" in path or "norm" in path for path in moved)
    expected = {path for path in before if path.startswith("encoder/stack") and ("adapter" in path or "norm" in path)}
    assert expected <= moved and len([p for p in expected if "adapter" in p]) == 2 * 2 * 4
    # A reset restores the initial values, and adapters are not among the pre-trained variables.
    adapted_network.reset(random_weights("bert", SHAPE, TOKENIZER, 1), 0)
    assert {v.path for v in adapted_network.pretrained}.isdisjoint(v.path for v in adapted_network.extension.new)
    assert all(np.array_equal(before[v.path], v.numpy()) for v in adapted_network.network.loss.variables)


def test_the_cost_of_adapters_is_counted():
    """By hand: a layer has two adapters of 2 x 8 x 3 weights. Gradients of frozen kernels are not computed."""
    adapted_network, module = make_adapted(), model("bert")
    plain = module.describe(SHAPE, TOKENIZER.vocabulary)
    tokens = sum(one.tokens for one in ROWS)
    added = tokens * 2 * 2 * 2 * (2 * 8 * 3)
    read = sum(plain.encoder_flops(one.tokens) for one in ROWS)
    assert (
        adapted_network.forward_flops(ROWS) == read + added
        and adapted_network.training_flops(ROWS) == 2 * read + 3 * added
    )
    assert adapted_network.added == 2 * 2 * (2 * 8 * 3 + 8 + 3)
    own = Own(bottleneck=3, length=16)
    step, answer = own.flops(Network(module, SHAPE, TOKENIZER.vocabulary), Form.CLASSIFICATION)
    each = 16 * 2 * 2 * 2 * (2 * 8 * 3)
    whole = plain.encoder_flops(16)
    assert (step, answer) == (2 * whole + 3 * each, whole + each)


def test_a_model_without_transformer_layers_is_not_applicable():
    with pytest.raises(NotApplicable, match="have no places for adapters"):
        adapted("lm_lstm", SHAPE, TOKENIZER, Form.CLASSIFICATION, "adapters", 4, settings.baked(Own()))


@pytest.mark.slow
def test_a_saved_cell_with_adapters_gives_the_same_predictions(tmp_path):
    microworld.make(tmp_path / "data")
    text = (tmp_path / "data/glue/SST-2/train.tsv").read_text().splitlines()
    tokenizer = Tokenizer.train("wordpiece", text, 300)
    shape = dataclasses.replace(SHAPE, width=16, inner=32, length=48)
    context = Context(data=tmp_path / "data", out=tmp_path, shape=shape, tokenizer=tokenizer, keep=True)
    changes = {"max_steps": 6, "length": 48, "bottleneck": 4}
    chosen = settings.changed(settings.defaults(Form.CLASSIFICATION, "adapters"), changes)
    cell = Cell(
        row=Line(name="random-bert", kind="random", model="bert", size="tiny"),
        task="sst2",
        task_version=1,
        form=Form.CLASSIFICATION,
        data_sha256="x",
        adaptation="adapters",
        settings=settings.recorded(chosen),
        seed=0,
        tokenizer="x",
        limit=60,
    )
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    plain = cells.run(dataclasses.replace(cell, adaptation="finetune", settings=settings.recorded(
        settings.changed(settings.defaults(Form.CLASSIFICATION, "finetune"), {"max_steps": 6, "length": 48})
    )), dataclasses.replace(context, keep=False))  # fmt: skip
    assert result.cost["parameters"] - plain.cost["parameters"] == 2 * 2 * (2 * 16 * 4 + 16 + 4)
    assert result.cost["flops"] < plain.cost["flops"] and result.cost["flops_evaluate"] > plain.cost["flops_evaluate"]
    (folder,) = (tmp_path / "adapted").iterdir()
    traced.cache_clear()  # as in a new process
    examples = microworld_examples(tmp_path / "data")
    again = predictor.load(checkpoint.read(folder)).answer(examples).predictions
    kept = [line["prediction"] for line in records(tmp_path, result)]
    assert again == kept


def microworld_examples(data):
    from ptmbench.tasks import load

    task = load("sst2")
    return task.examples(data, task.report)[:60]


def records(out, result):
    import gzip
    import json

    with gzip.open(out / result.predictions["file"], "rt") as file:
        return [json.loads(line) for line in file]
