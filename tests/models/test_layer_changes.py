"""Tests of changes to layers by Keras and tensorflow-model-optimization: int8, LoRA, recomputation, bfloat16 and
pruning."""

import gc
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.layers.config import LinearConfig
from ptmbench.models.layers.core import Linear
from ptmbench.models.layers.operations import rematerialising
from ptmbench.models.layers.transformers import built
from tests.models.layer_cases import NETWORKS, Adapter, Mask, Scale, answers, inputs, layers_of, network, reloaded


def updates_of(layer):
    """Returns the layers inside ``layer`` that mix tokens, each with the seam after the mixing."""
    seams = ("after_attention", "after_convolution")
    return [(one, seam) for one in layer._flatten_layers() for seam in seams if seam in getattr(one, "SEAMS", ())]


@pytest.mark.parametrize("kind", NETWORKS)
def test_int8_quantisation_changes_outputs_little(kind, tmp_path):
    model, layer = network(kind)
    exact = answers(model, kind)
    model.quantize("int8")
    assert {v.dtype for v in model.weights if v.path.endswith("/kernel")} == {"int8"}
    result = answers(model, kind)
    error = np.linalg.norm(result - exact) / np.linalg.norm(exact)
    assert 0 < error < (0.04 if kind == "star_transformer" else 0.02)  # it has no residual sums, which reduce the error
    assert np.array_equal(answers(reloaded(model, tmp_path), kind), result)


def test_quantisation_freezes_objects_during_garbage_collection():
    """Otherwise each of Keras's collections would take half a second or more."""
    linear, kept = built(LinearConfig(inputs=4, outputs=4), name="x"), []

    def record_freeze_count(phase, info):
        if phase == "start" and info["generation"] == 2:
            kept.append(gc.get_freeze_count())

    gc.callbacks.append(record_freeze_count)
    try:
        linear.quantize("int8")
    finally:
        gc.callbacks.remove(record_freeze_count)
    assert kept and all(kept) and not gc.get_freeze_count()


@pytest.mark.parametrize("kind", NETWORKS)
def test_lora_trains_few_weights(kind, tmp_path):
    model, layer = network(kind)
    exact = answers(model, kind)
    for variable in model.trainable_variables:
        variable.trainable = False
    for linear in layers_of(layer, Linear):
        linear.enable_lora(2, lora_alpha=4)
    assert np.allclose(answers(model, kind), exact, atol=1e-6)
    trainable_count = sum(math.prod(v.shape) for v in model.trainable_variables)
    assert 0 < trainable_count < 0.2 * model.count_params()
    target = np.random.default_rng(3).normal(size=exact.shape).astype(np.float32)
    optimizer, losses = keras.optimizers.Adam(0.02), []
    for _ in range(8):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs(kind)) - target) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, [v.value for v in variables]), variables, strict=True))
        losses.append(float(loss))
    assert losses[-1] < 0.9 * losses[0]
    again = reloaded(model, tmp_path)
    assert np.allclose(answers(again, kind), answers(model, kind), atol=1e-5)
    assert {one.lora_alpha for one in layers_of(again, Linear)} >= {4}


def test_kernel_with_extensions_cannot_be_quantised():
    linear = built(LinearConfig(inputs=4, outputs=4), name="x")
    linear.attach("kernel", Mask(name="mask"))
    with pytest.raises(ValueError, match=r"'x' cannot be quantised while extensions change its kernel \(mask\)"):
        linear.quantize("int8")


@pytest.mark.parametrize("kind", NETWORKS)
def test_recomputed_gradients_are_equal(kind):
    """Includes the variables of extensions inside the blocks."""
    model, layer = network(kind)
    updates = updates_of(layer)
    updates[0][0].attach(updates[0][1], Adapter())
    layers_of(updates[-1][0], Linear)[-1].attach("kernel", Scale())
    answers(model, kind)

    def gradients(again):
        @tf.function
        def computed():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sin(model(inputs(kind))))
            return tape.gradient(loss, [v.value for v in model.trainable_variables])

        with rematerialising(again):
            return computed()

    for one, other in zip(gradients(False), gradients(True), strict=True):
        if one is not None:
            one, other = (tf.convert_to_tensor(gradient).numpy() for gradient in (one, other))
            assert np.allclose(one, other, atol=1e-5 * max(1.0, np.abs(one).max()))


@pytest.mark.parametrize("kind", NETWORKS)
def test_bfloat16_outputs_are_close_and_gradients_are_finite(kind):
    model, layer = network(kind)
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        rounded, inside = network(kind)
    finally:
        keras.config.set_dtype_policy(policy)
    assert {linear.compute_dtype for linear in layers_of(inside, Linear)} == {"bfloat16"}
    exact, result = answers(model, kind), np.asarray(tf.cast(rounded(inputs(kind)), tf.float32))
    assert rounded(inputs(kind)).dtype == tf.bfloat16
    assert np.linalg.norm(result - exact) / np.linalg.norm(exact) < 0.05
    update, seam = updates_of(inside)[0]
    update.attach(seam, Adapter())
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(rounded(inputs(kind)), tf.float32))
    variables = rounded.trainable_variables
    assert all(
        g is None or np.isfinite(tf.cast(tf.convert_to_tensor(g), tf.float32)).all()
        for g in tape.gradient(loss, [v.value for v in variables])
    )


def toolkit():
    """Imports tensorflow-model-optimization. The import sets an environment variable, which is removed again."""
    import os

    pytest.importorskip("tensorflow_model_optimization", reason="needs tensorflow-model-optimization")
    import tensorflow_model_optimization as tfmot

    os.environ.pop("TF_USE_LEGACY_KERAS", None)
    return tfmot


def test_tensorflow_model_optimization_prunes_a_kernel():
    """Its wrapper gets a layer of Keras 2 that owns nothing and hands over our variable."""
    tfmot = toolkit()
    import tf_keras

    sparsity = tfmot.sparsity.keras

    class Carrier(tf_keras.layers.Layer, sparsity.PrunableLayer):
        def __init__(self, variables, **kwargs):
            super().__init__(**kwargs)
            self.carried = list(variables)

        def get_prunable_weights(self):
            return self.carried

        def call(self, x):
            return x

    _, layer = network("encoder")
    linear = layer.stack.layer_0.feed_forward.inner
    before = linear.kernel.numpy()
    schedule = sparsity.ConstantSparsity(0.75, begin_step=0, frequency=1)
    pruned = sparsity.prune_low_magnitude(Carrier([linear._kernel._value]), schedule)
    pruned.build((1, 1))
    pruned.pruning_step.assign(0)
    pruned(tf.zeros((1, 1)), training=True)
    pruned.pruning_obj.weight_mask_op()
    after = linear.kernel.numpy()
    assert np.mean(after == 0) == 0.75
    kept = after != 0
    assert np.array_equal(after[kept], before[kept])
    assert np.abs(before[kept]).min() >= np.abs(before[~kept]).max()


class FakeQuantised(keras.layers.Layer):
    """Applies a quantizer of tensorflow-model-optimization at the seam of a kernel."""

    def __init__(self, quantizer, **kwargs):
        super().__init__(**kwargs)
        self.quantizer = quantizer

    def build(self, shape):
        owner = self

        class Shim:
            """Has the `add_weight` of Keras 2, and returns TensorFlow's variables."""

            @staticmethod
            def add_weight(name, shape=(), initializer=None, trainable=True, **_):
                start = float(getattr(initializer, "value", 0.0))
                start = keras.initializers.Constant(start)
                return owner.add_weight(shape or (), start, name=name, trainable=trainable, autocast=False)._value

        self.ranges = self.quantizer.build(tf.TensorShape(shape), "kernel", Shim)

    def call(self, kernel, training=True):
        return self.quantizer(kernel, training, weights=self.ranges)


def test_tensorflow_model_optimization_quantises_a_kernel():
    tfmot = toolkit()
    quantizers = tfmot.quantization.keras.quantizers
    linear = built(LinearConfig(inputs=8, outputs=6), name="x")
    linear.kernel.assign(np.random.default_rng(0).normal(size=(8, 6)))
    quantizer = quantizers.LastValueQuantizer(num_bits=4, per_axis=False, symmetric=True, narrow_range=True)
    linear.attach("kernel", FakeQuantised(quantizer))
    x = np.eye(8, dtype=np.float32)
    with tf.GradientTape() as tape:
        kernel = linear(x)  # the bias is zero
        loss = tf.reduce_sum(kernel**2)
    step = np.abs(linear.kernel.numpy()).max() / 7
    expected = np.round(linear.kernel.numpy() / step) * step
    assert np.allclose(kernel, expected, atol=1e-5) and len(np.unique(np.round(kernel / step))) <= 15
    gradient = tape.gradient(loss, linear.kernel.value)
    assert np.allclose(gradient, 2 * expected, atol=1e-4)  # straight-through estimator
