"""The operations that Transformers are laid from, where they are easy to get wrong: by value, and by time."""

import time

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from models.architectures.parts import HIDDEN, attention, gelu


def causal(tokens: int) -> tf.Tensor:
    return tf.constant(np.triu(np.full([tokens, tokens], HIDDEN, np.float32), 1))[None, None]


def draw(*dims: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(dims).normal(size=dims).astype(np.float32))


def test_attention_under_a_causal_mask_is_the_average_of_what_is_seen():
    q, k, v = draw(2, 3, 5, 4), draw(2, 3, 5, 4) * 2, draw(2, 3, 5, 4) + 1
    found = attention(q, k, v, causal(5), 0.0, None, 0).numpy().reshape(2, 5, 3, 4)
    for b, t, h in np.ndindex(2, 5, 3):
        weights = np.exp(q[b, h, t].numpy() @ k[b, h, : t + 1].numpy().T)
        expected = weights / weights.sum() @ v[b, h, : t + 1].numpy()
        np.testing.assert_allclose(found[b, t, h], expected, rtol=1e-5, atol=1e-6)


def test_one_mask_for_all_rows_is_as_fast_as_one_for_each():
    q, k, v = draw(32, 4, 64, 64), draw(32, 4, 64, 64), draw(32, 4, 64, 64)

    @tf.function(autograph=False)
    def read(bias: tf.Tensor) -> tf.Tensor:
        return attention(q * 0.125, k, v, bias, 0.0, None, 0)

    def seconds(bias: tf.Tensor) -> float:
        took = []
        for _ in range(5):
            began = time.perf_counter()
            read(bias).numpy()
            took.append(time.perf_counter() - began)
        return min(took[1:])

    assert seconds(causal(64)) < 10 * seconds(tf.repeat(causal(64), 32, axis=0))


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_gelu_and_its_gradient_are_those_of_the_normal_distribution(jit):
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
