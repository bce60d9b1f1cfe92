"""Tests of recurrent networks as Keras layers: saving, seams, int8, LoRA and masks, including kernels that a loop
reads."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.card import Size
from ptmbench.models.layers.core import Linear
from ptmbench.models.layers.recurrent import Kernel
from ptmbench.models.layers.recurrent_config import GatesConfig, KernelConfig, LstmConfig
from ptmbench.models.layers.recurrent_networks import built
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.layer_cases import Mask, Scale, reloaded

SIZE = Size(layers=2, width=16, inner=24, length=40)
WORDS = Vocabulary(
    size=60, pieces=tuple(f"[{n}]" for n in range(37)) + ("▁", *"abcdefghijklmnop", "▁b", "▁c", "▁d", "e▁", "f", "q")
)
TOKENS = np.array([[2, 40, 41, 42, 43, 3], [2, 50, 51, 3, 0, 0]], np.int32)
TARGETS = np.array([[2, 44, 45, 46], [2, 52, 53, 3]], np.int32)
NETWORKS = ("lm_lstm", "ulmfit", "multifit", "skip_thought", "elmo", "elmo_cnn", "flair", "cove")
TABLES = ("word2vec", "glove", "fasttext", "pv_dbow", "pv_dm")


def inputs(name):
    return [TOKENS, TARGETS] if name == "cove" else TOKENS


def network(name):
    """Returns a `keras.Model` from tokens (and targets) to vectors or logits, around a model's network, and the model.
    All weights are random, so that each one matters."""
    keras.utils.set_random_seed(0)
    pretrainable = models.load(name).build(SIZE, WORDS)
    tokens = keras.Input([None], dtype="int32", name="tokens")
    vectors = pretrainable.encoder({"tokens": tokens}).tokens
    if name == "cove":
        targets = keras.Input([None], dtype="int32", name="targets")
        model = keras.Model([tokens, targets], pretrainable.loss.decoder(targets, vectors, tokens))
    else:
        model = keras.Model(tokens, vectors)
    rng = np.random.default_rng(0)
    for variable in model.weights:
        variable.assign(variable + rng.normal(0.0, 0.2, variable.shape))
    return model, pretrainable


def answers(model, name):
    return model(inputs(name), training=False).numpy()


def layers_in(model, kind):
    """Returns the layers of ``kind`` in ``model``."""
    return [one for one in model._flatten_layers() if isinstance(one, kind)]


@pytest.mark.parametrize("name", [*NETWORKS, *TABLES])
def test_a_network_is_saved_and_loaded(name, tmp_path):
    model, pretrainable = network(name)
    pretrainable.encoder.dropout = 0.25
    again = reloaded(model, tmp_path)
    assert np.array_equal(answers(again, name), answers(model, name))
    assert [v.path for v in again.weights] == [v.path for v in model.weights]
    (one,) = (layer for layer in again.layers if layer.name == "encoder")
    assert one.dropout == 0.25 and one.config == pretrainable.encoder.config


@pytest.mark.parametrize("name", NETWORKS)
def test_every_seam_is_called_trained_and_saved(name, tmp_path):
    model, _ = network(name)
    before, count = answers(model, name), 0
    for one in list(model._flatten_layers()):
        for seam in getattr(one, "SEAMS", ()):
            one.attach(seam, Scale(name=f"scale_{seam}"))
            count += 1
    changed = answers(model, name)
    scales = [v for v in model.trainable_variables if v.path.endswith("/by")]
    assert len(scales) == count and not np.allclose(before, changed, atol=1e-3)
    rng = np.random.default_rng(1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs(name)) * rng.normal(size=changed.shape).astype(np.float32))
    gradients = tape.gradient(loss, [v.value for v in scales])
    without_gradient = {v.path for v, g in zip(scales, gradients, strict=True) if g is None or float(tf.abs(g)) == 0}
    assert not without_gradient
    for number, variable in enumerate(scales):
        variable.assign(0.8 + 0.4 * number / len(scales))
    assert np.allclose(answers(reloaded(model, tmp_path), name), answers(model, name), atol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_int8_quantisation_changes_outputs_little(name, tmp_path):
    """All kernels are stored in 8 bits, including those that a loop reads. The loaded network is the same."""
    model, _ = network(name)
    exact = answers(model, name)
    model.quantize("int8")
    kernels = [v for v in model.weights if v.path.endswith("/kernel") and "/filters_" not in v.path]
    assert kernels and {v.dtype for v in kernels} == {"int8"}
    result = answers(model, name)
    error = np.linalg.norm(result - exact) / np.linalg.norm(exact)
    assert 0 < error < 0.03
    assert np.array_equal(answers(reloaded(model, tmp_path), name), result)


@pytest.mark.parametrize(
    ("name", "quantised"), [*((name, False) for name in NETWORKS), ("lm_lstm", True), ("skip_thought", True)]
)
def test_lora_trains_its_own_weights_only(name, quantised, tmp_path):
    model, _ = network(name)
    for variable in model.trainable_variables:
        variable.trainable = False
    if quantised:
        model.quantize("int8")
    exact = answers(model, name)
    for linear in layers_in(model, Linear):
        linear.enable_lora(2, lora_alpha=4)
    assert np.allclose(answers(model, name), exact, atol=1e-6)
    trainable = model.trainable_variables
    assert {v.path.rsplit("/", 1)[1] for v in trainable} == {"lora_kernel_a", "lora_kernel_b"}
    target = np.random.default_rng(3).normal(size=exact.shape).astype(np.float32)
    optimizer, losses = keras.optimizers.Adam(0.02), []
    for _ in range(6):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs(name)) - target) ** 2)
        gradients = tape.gradient(loss, [v.value for v in trainable])
        optimizer.apply_gradients(zip(gradients, trainable, strict=True))
        losses.append(float(loss))
    assert losses[-1] < 0.97 * losses[0]
    assert all(np.abs(v.numpy()).max() > 0 for v in trainable)  # each part of the network was trained
    # Keras saves a kernel with LoRA's update added to it, in 8 bits again if it was quantised.
    result, again = answers(model, name), answers(reloaded(model, tmp_path), name)
    assert np.linalg.norm(again - result) / np.linalg.norm(result) < (0.02 if quantised else 1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_masked_entries_of_a_recurrent_kernel_have_no_effect(name):
    """The outputs are the same as with zeros in the kernel."""
    model, _ = network(name)
    kernels = [one for one in layers_in(model, Kernel) if one.name in ("recurrent", "candidate", "projection", "gates")]
    rng = np.random.default_rng(0)
    for one in kernels:
        one.attach("kernel", Mask(name="mask"))
    exact = answers(model, name)
    for one in kernels:
        (mask,) = one.extensions("kernel")
        mask.mask.assign(rng.integers(0, 2, mask.mask.shape))
    masked = answers(model, name)
    for one in kernels:
        one.kernel.assign(one.kernel * one.extensions("kernel")[0].mask)
        one.extensions("kernel")[0].mask.assign(tf.ones(one.kernel.shape))
    assert np.array_equal(answers(model, name), masked) and not np.allclose(masked, exact, atol=1e-3)
    with pytest.raises(ValueError, match=r"cannot be quantised while extensions change its kernel \(mask\)"):
        kernels[0].quantize("int8")


def test_quantised_recurrent_kernel_is_read_as_float():
    layer = built(KernelConfig(inputs=6, outputs=8), name="recurrent")
    layer.kernel.assign(np.random.default_rng(0).normal(size=(6, 8)))
    exact = layer.kernel.numpy()
    layer.quantize("int8")
    steps = np.abs(exact).max(axis=0) / 127  # of each column
    assert np.allclose(layer.whole(), np.round(exact / steps) * steps, atol=1e-5)


@pytest.mark.parametrize("mode", ["int4", "float8"])
def test_quantisation_that_a_loop_cannot_read_raises_an_error(mode):
    layer = built(LstmConfig(inputs=6, cells=8), name="lstm")
    with pytest.raises(ValueError, match=f"Kernel 'lstm/recurrent' cannot be quantised to {mode}: .* Use quantize"):
        layer.recurrent.quantize(mode)


@pytest.mark.parametrize("name", ["lm_lstm", "ulmfit", "cove"])
def test_quantised_network_generates_the_logits_of_decode(name):
    """Generates token by token, and compares with one pass."""
    model, pretrainable = network(name)
    answers(model, name)
    model.quantize("int8")
    batch = {"tokens": TOKENS, "targets": TARGETS[:, :2]}
    whole = pretrainable.decode(batch).numpy()
    memory, past = pretrainable.writer.begin(tf.constant(TOKENS))
    for step in range(1, 3):
        written, seen = tf.constant(TARGETS[:, None, :step]), tf.ones([2, 1, step], tf.bool)
        logits, past = pretrainable.writer.step(memory, past, written, seen)
        # A step has its own range of activations in 8 bits, as each row of one pass has.
        assert np.allclose(logits[:, 0], whole[:, step - 1], atol=2e-2 * np.abs(whole).max())


@pytest.mark.parametrize("name", NETWORKS)
def test_bfloat16_outputs_are_close(name):
    model, _ = network(name)
    exact, policy = answers(model, name), keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        rounded, _ = network(name)
    finally:
        keras.config.set_dtype_policy(policy)
    result = rounded(inputs(name))
    assert result.dtype == tf.bfloat16
    assert np.linalg.norm(tf.cast(result, tf.float32) - exact) / np.linalg.norm(exact) < 0.06


@pytest.mark.parametrize("name", ["nnlm", "cw", "context2vec", "skip_thought"])
def test_heads_are_quantised(name):
    """Quantises the products of an objective, without its encoder."""
    pretrainable = models.load(name).build(SIZE, WORDS)
    rng, loss = np.random.default_rng(0), pretrainable.loss
    for variable in loss.trainable_variables:
        variable.assign(rng.normal(0.0, 0.3, variable.shape))
    tokens = rng.integers(37, 60, (2, 12)).astype(np.int32)
    batch = {"tokens": tokens, "others": tokens[::-1], "noise": tokens[:, :4], "documents": np.ones_like(tokens)}
    places = np.tile(np.arange(12, dtype=np.int32), (2, 1))
    batch |= {"inputs": tokens, "before": places - 6, "after": places}
    exact = float(loss(batch)["loss"])
    linear = [one for one in loss._flatten_layers() if isinstance(one, Linear) and "encoder" not in one.path]
    assert linear
    for one in linear:
        one.quantize("int8")
    assert float(loss(batch)["loss"]) == pytest.approx(exact, rel=0.05)
    assert float(loss(batch)["loss"]) != exact


def test_initial_biases_follow_the_configuration():
    gates = built(GatesConfig(inputs=2, outputs=6, begins=(-2.0, 0.0, 1.0)), name="gates")
    assert gates.bias.numpy().tolist() == [-2, -2, 0, 0, 1, 1]
    lstm = built(LstmConfig(inputs=2, cells=3), name="lstm")
    assert lstm.gates.bias.numpy().tolist() == [0] * 6 + [1] * 3 + [0] * 3


@pytest.mark.parametrize("name", [*NETWORKS, *TABLES])
def test_flops_match_the_kernels(name):
    """Twice the size of each kernel for each token. Filters count once for each of their positions."""
    described = models.load(name).describe(SIZE, WORDS)
    pretrainable = models.load(name).build(SIZE, WORDS)
    kernels = [v for v in pretrainable.encoder.variables if v.path.endswith("/kernel")]
    places = {v.path: 51 - v.shape[0] if "/filters_" in v.path else 1 for v in kernels}
    expected = 2 * 24 * sum(places[v.path] * math.prod(v.shape) for v in kernels)
    if name in ("pv_dbow", "pv_dm"):  # gradient descent over the tables, which test_flops counts by hand
        assert not kernels
    else:
        assert described.encoder.flops(24) == expected
