"""Tests of the operations of Transformers that are easy to get wrong: their values and their speed."""

import time

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from ptmbench.models.layers.operations import HIDDEN, attention, dropout, gelu


def causal(tokens: int) -> tf.Tensor:
    return tf.constant(np.triu(np.full([tokens, tokens], HIDDEN, np.float32), 1))[None, None]


def draw(*dims: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(dims).normal(size=dims).astype(np.float32))


def test_causal_attention_is_the_weighted_mean_of_visible_values():
    q, k, v = draw(2, 3, 5, 4), draw(2, 3, 5, 4) * 2, draw(2, 3, 5, 4) + 1
    result = attention(q, k, v, causal(5), 0.0, None, 0).numpy().reshape(2, 5, 3, 4)
    for b, t, h in np.ndindex(2, 5, 3):
        weights = np.exp(q[b, h, t].numpy() @ k[b, h, : t + 1].numpy().T)
        expected = weights / weights.sum() @ v[b, h, : t + 1].numpy()
        np.testing.assert_allclose(result[b, t, h], expected, rtol=1e-5, atol=1e-6)


def test_one_mask_for_all_rows_is_not_much_slower_than_one_for_each():
    q, k, v = draw(32, 4, 64, 64), draw(32, 4, 64, 64), draw(32, 4, 64, 64)

    @tf.function(autograph=False)
    def attend(bias: tf.Tensor) -> tf.Tensor:
        return attention(q * 0.125, k, v, bias, 0.0, None, 0)

    def seconds(bias: tf.Tensor) -> float:
        durations = []
        for _ in range(5):
            began = time.perf_counter()
            attend(bias).numpy()
            durations.append(time.perf_counter() - began)
        return min(durations[1:])

    assert seconds(causal(64)) < 10 * seconds(tf.repeat(causal(64), 32, axis=0))


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_gelu_and_its_gradient_match_the_normal_distribution(jit):
    x, given = np.linspace(-9, 9, 181, dtype=np.float32), draw(181)

    @tf.function(jit_compile=jit, autograph=False)
    def both(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = gelu(x)
        return y, tape.gradient(y, x, output_gradients=given)

    y, slope = both(tf.constant(x))
    np.testing.assert_allclose(y, x * stats.norm.cdf(x), atol=1e-6)
    np.testing.assert_allclose(slope, given * (stats.norm.cdf(x) + x * stats.norm.pdf(x)), atol=2e-6)
    assert both(tf.constant(x))[0].dtype == tf.float32 and gelu(tf.constant([1.0], tf.bfloat16)).dtype == tf.bfloat16


SEED = tf.constant([3, 5])


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_and_keeps_the_mean(jit, rate):
    @tf.function(jit_compile=jit, autograph=False)
    def both(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = dropout(x, rate, SEED, 7)
        return y, tape.gradient(y, x)

    x = 1 + draw(301, 333) ** 2
    y, slope = both(x)
    dropped = y.numpy() == 0
    spread = (rate * (1 - rate) / dropped.size) ** 0.5
    assert abs(dropped.mean() - rate) < 4 * spread
    np.testing.assert_allclose(y.numpy()[~dropped], x.numpy()[~dropped] / (1 - rate), rtol=1e-4)
    np.testing.assert_array_equal(slope.numpy() == 0, dropped)
    neighbours = np.corrcoef(dropped[:, 1:].ravel(), dropped[:, :-1].ravel())[0, 1]
    assert abs(neighbours) < 4 / dropped.size**0.5, "The two halves of a random number depend on each other."


def test_dropout_mask_is_determined_by_seed_and_place():
    x = tf.ones([64, 63])
    mask = dropout(x, 0.5, SEED, 7).numpy()
    np.testing.assert_array_equal(mask, dropout(x, 0.5, SEED, 7).numpy())
    for other in (dropout(x, 0.5, SEED, 8), dropout(x, 0.5, SEED + 1, 7)):
        assert abs(np.mean(mask == other.numpy()) - 0.5) < 4 * 0.5 / mask.size**0.5


@pytest.mark.parametrize(
    "x", [tf.ones([0, 4]), tf.ones([1, 1]), tf.ones([3, 5, 7], tf.bfloat16)], ids=["none", "one", "bfloat16"]
)
def test_dropout_keeps_shape_and_type_of_any_tensor(x):
    y = dropout(x, 0.25, SEED, 1)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert set(np.unique(tf.cast(y, tf.float32))) <= {np.float32(0), np.float32(tf.cast(tf.constant(4 / 3), x.dtype))}
    assert dropout(x, 0.0, SEED, 1) is x
    assert dropout(x, 0.25, None, 1) is x
