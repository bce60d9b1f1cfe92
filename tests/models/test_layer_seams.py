"""Tests of the seams of layers: what is attached to a seam is called, trained and saved."""

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.layers.blocks import Attention
from ptmbench.models.layers.transformers import built
from tests.models.layer_cases import (
    NETWORKS,
    TOKENS,
    Adapter,
    Mask,
    Prefix,
    Scale,
    Shift,
    answers,
    every_config,
    inputs,
    layers_of,
    network,
    reloaded,
)  # fmt: skip


def seams(kind):
    """Returns a model, and its layers that have seams, by type and seam."""
    model, layer = network(kind)
    places = {}
    for one in layer._flatten_layers():
        for seam in getattr(one, "SEAMS", ()):
            places.setdefault((type(one).__name__, seam), []).append(one)
    return model, places


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_seam_is_called_trained_and_saved(kind, tmp_path):
    """One scale at each seam of the network, with a weight that has a gradient."""
    model, places = seams(kind)
    before, count = answers(model, kind), 0
    for (_, seam), layers in places.items():
        for one in layers:
            one.attach(seam, Scale(name=f"scale_{seam}"))
            count += 1
    changed = answers(model, kind)
    scales = [v for v in model.trainable_variables if v.path.endswith("/by")]
    assert len(scales) == count and not np.allclose(before, changed, atol=1e-3)
    rng = np.random.default_rng(1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs(kind)) * rng.normal(size=changed.shape).astype(np.float32))
    gradients = tape.gradient(loss, [v.value for v in scales])
    without_gradient = {v.path for v, g in zip(scales, gradients, strict=True) if g is None or float(tf.abs(g)) == 0}
    pooler = {v.path for v in scales if "/pooler/" in v.path}  # the pooled vector is not an output here
    before_norms = {v.path for v in scales if v.path.endswith("embeddings/sum/scale_sum/by")}  # a norm undoes a scale
    assert without_gradient - before_norms == pooler
    for number, variable in enumerate(scales):
        variable.assign(0.8 + 0.4 * number / len(scales))
    assert np.allclose(answers(reloaded(model, tmp_path), kind), answers(model, kind), atol=1e-6)


def test_extensions_of_every_kind_work_together(tmp_path):
    """Adapters, masks, prefixes and vectors, at the seams where the survey's methods put them."""
    model, layer = network("encoder")
    for block in layer.stack:
        block.attach("after_attention", Adapter(name="adapter"))
        block.feed_forward.inner.attach("kernel", Mask(name="mask"))
        block.attention.attach("keys_values", Prefix(name="prefix"))
    layer.embeddings.attach("sum", Shift(name="added"))
    layer.stack.attach("between", Shift(name="between"))
    answers(model, "encoder")
    (added,), (between,) = layer.embeddings.extensions("sum"), layer.stack.extensions("between")
    assert added.asked[-1] == (None, ["tokens"]) and [index for index, _ in between.asked] == [0, 1]
    inner = layer.stack.layer_1.feed_forward.inner
    (mask,) = inner.extensions("kernel")
    mask.mask.assign(np.arange(mask.mask.shape[1]) % 2 * np.ones(mask.mask.shape))
    whole = answers(model, "encoder")
    inner.kernel.assign(inner.kernel * mask.mask)
    assert np.array_equal(answers(model, "encoder"), whole)  # masked entries have no effect
    again = reloaded(model, tmp_path)
    assert np.array_equal(answers(again, "encoder"), whole)
    assert {v.path for v in again.weights} == {v.path for v in model.weights}


def test_prefix_is_seen_by_every_query_and_is_not_part_of_the_past():
    """Generation token by token gives the vectors of one pass."""
    _, layer = network("causal")
    before = layer({"tokens": TOKENS}).tokens
    for attention in layers_of(layer, Attention):
        attention.attach("keys_values", Prefix())
    layer.stack.attach("between", Shift())
    memory, past = layer.begin(tf.constant(TOKENS[:, :3]))
    assert past[0][0].shape[2] == 3
    written = tf.constant(np.array([[[7]], [[8]]], np.int32))
    vectors, _ = layer.step(memory, past, written, tf.ones([2, 1, 1], tf.bool))
    rows = tf.concat([TOKENS[:, :3], written[:, 0]], 1)
    assert np.allclose(vectors, layer({"tokens": rows}).tokens[:, -1], atol=1e-5)
    assert not np.allclose(layer({"tokens": TOKENS}).tokens, before, atol=1e-2)


def test_unknown_seam_raises_an_error():
    block = built(every_config()["block"], name="block")
    with pytest.raises(ValueError, match="Block 'block' has no seam 'kernel'. Its seams: before_attention, "):
        block.attach("kernel", Scale())
    with pytest.raises(ValueError, match="Norm 'norm' has no seam 'x'. Its seams: none."):
        block.norm.attach("x", Scale())
