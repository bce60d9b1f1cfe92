"""Tests of products with weights: the numbers are those of NumPy, and shapes that are slow on processors are padded."""

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.layers import products
from ptmbench.models.layers.products import product

NARROW_FIRST, WIDE_FIRST, NEITHER = (48, 512), (1024, 64), (48, 96)


@pytest.fixture(params=[False, True], ids=["processor", "accelerator"])
def accelerator(request, monkeypatch):
    monkeypatch.setattr(products, "accelerated", lambda: request.param)
    return request.param


@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("shape", [NARROW_FIRST, WIDE_FIRST, NEITHER], ids=str)
@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_products_and_gradients_match_numpy(shape, transposed, jit, accelerator):
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=shape).astype(np.float32)
    matrix = kernel.T if transposed else kernel  # [I, O]
    x = rng.normal(size=(7, matrix.shape[0])).astype(np.float32)
    given = rng.normal(size=(7, matrix.shape[1])).astype(np.float32)
    variable = tf.Variable(kernel)

    @tf.function(jit_compile=jit, autograph=False)
    def gradients(x, given):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = product(x, variable, transposed=transposed)
        return y, *tape.gradient(y, (x, variable), output_gradients=given)

    y, of_x, of_kernel = (np.asarray(part) for part in gradients(tf.constant(x), tf.constant(given)))
    assert y == pytest.approx(x @ matrix, abs=1e-3)
    assert of_x == pytest.approx(given @ matrix.T, abs=1e-3)
    assert of_kernel == pytest.approx((x.T @ given).T if transposed else x.T @ given, abs=1e-3)


@pytest.mark.parametrize(
    ("shape", "columns"),
    [(NARROW_FIRST, 512 + 16), (WIDE_FIRST, 1024 + 16), (NEITHER, None), ((512, 2048), None)],
    ids=str,
)
def test_only_shapes_with_cache_conflicts_are_padded(shape, columns, monkeypatch):
    """Checks the shapes of the products in the graph of the gradient."""
    monkeypatch.setattr(products, "accelerated", lambda: False)
    variable = tf.Variable(tf.zeros(shape))

    @tf.function(autograph=False)
    def gradient(x):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(product(x, variable))
        return tape.gradient(y, variable)

    graph = gradient.get_concrete_function(tf.TensorSpec([None, shape[0]])).graph
    shapes = [op.outputs[0].shape for op in graph.get_operations() if op.type == "MatMul"]
    widths = {side for found in shapes for side in found if side}
    assert columns in widths if columns else widths == set(shape)
