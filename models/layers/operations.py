"""The operations of which all Transformers here consist: plain functions of tensors.

Activations have the shape [B * T, D]. The weight gradient of a 2-D product is one product too; with an input [B, T, D],
TensorFlow would compute B products and add them up. Nothing here owns a variable or keeps state.

Activations may be bfloat16 (Keras casts the inputs of its layers under the policy "mixed_bfloat16"). Sums of many
numbers are computed in float32 for any input: the statistics of norms, softmax, and, in the objectives, losses.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import tensorflow as tf

from ptmbench.models.layers.products import product

HIDDEN = -1e9
"""Added to the score of a masked key. Its weight is then exactly 0 in float32, and a row of masked keys alone stays
finite."""


_rematerialise: ContextVar[bool] = ContextVar("rematerialise", default=False)
_drawn: ContextVar[Callable[[tf.Tensor], tf.Tensor] | None] = ContextVar("drawn", default=None)


class AttentionTensors(NamedTuple):
    """The tensors of one `attention`. The scores are those before the softmax."""

    queries: tf.Tensor
    """[B, H, T, K], scaled if the attention scales."""
    keys: tf.Tensor
    """[B, H, U, K]"""
    values: tf.Tensor
    """[B, H, U, K]"""
    scores: tf.Tensor
    """float32 [B, H, T, U], with masks and relative positions added."""
    weights: tf.Tensor
    """[B, H, T, U]: the softmax of the scores, before dropout."""


_watched: ContextVar[list[AttentionTensors] | None] = ContextVar("watched", default=None)


@contextmanager
def rematerialising(yes: bool) -> Iterator[None]:
    """Sets whether layers rematerialise (`core.recomputed`) in functions that are traced inside. Training decides this,
    so that layers need no setting for it."""
    token = _rematerialise.set(yes)
    try:
        yield
    finally:
        _rematerialise.reset(token)


def rematerialises() -> bool:
    """Whether the current trace is `rematerialising`."""
    return _rematerialise.get()


@contextmanager
def collect_attention() -> Iterator[list[AttentionTensors]]:
    """Collects the `AttentionTensors` of every `attention` that is computed inside, in order. Costs nothing when
    unused."""
    token = _watched.set(found := [])
    try:
        yield found
    finally:
        _watched.reset(token)


@contextmanager
def drawing(drawn: Callable[[tf.Tensor], tf.Tensor]) -> Iterator[None]:
    """Functions that are traced inside call ``drawn`` with the random numbers of dropout, uint16 [N], and use its
    result. Training that splits tensors over devices keeps these numbers whole in this way."""
    token = _drawn.set(drawn)
    try:
        yield
    finally:
        _drawn.reset(token)


def shape(tensor: tf.Tensor) -> list[Any]:
    """The shape, with an int for each axis that is known at trace time and a scalar tensor for the others."""
    dynamic = tf.shape(tensor)
    return [dynamic[axis] if size is None else size for axis, size in enumerate(tensor.shape)]


def check_length(length: Any, longest: int, what: str) -> None:
    """Raises `ValueError` if the ``length`` of an input exceeds ``longest``, the number of positions of the network.

    A length that is only known while the graph runs is checked there (`tf.errors.InvalidArgumentError`).
    """
    advice = f"the {what} takes at most {longest} tokens: cut the text, or build it with Size(length=...)."
    if isinstance(length, int):
        if length > longest:
            raise ValueError(f"An input of {length} tokens is too long: {advice}")
    else:
        tf.debugging.assert_less_equal(length, longest, message=f"An input is too long: {advice}")


def fold(seed: tf.Tensor | None, salt: int) -> tf.Tensor | None:
    """The seed of the place with the number ``salt``, derived from the ``seed`` of the step; None stays None.

    The salt is spread over 64 bits (the finaliser of SplitMix64, Steele et al., 2014) before it is mixed in, so that
    neighbouring places and neighbouring steps get different seeds. This is one operation; TensorFlow's own
    ``stateless_fold_in`` takes three.
    """
    if seed is None:
        return None
    mixed = (salt + 1) * 0x9E3779B97F4A7C15 % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    mixed ^= mixed >> 31
    words = [word - 2**32 if word >= 2**31 else word for word in (mixed >> 32, mixed % 2**32)]
    return tf.bitwise.bitwise_xor(seed, tf.constant(words, tf.int32))


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor | None, salt: int) -> tf.Tensor:
    """Zeroes a share ``rate`` of ``x`` and scales the rest up; ``seed`` None or ``rate`` 0 leaves ``x`` as it is.

    This is a pure function: the Philox generator computes the mask from (seed, salt). A compiled step takes numbers
    from the generator's stream in another order than a graph, so its masks differ, but both are reproducible. The masks
    are drawn as numbers of 16 bits, because drawing them dominates the cost of dropout. The rate is thus the nearest
    multiple of 1 / 65536.
    """
    if seed is None or not rate:
        return x
    dropped = min(round(rate * 2**16), 2**16 - 1)
    count = tf.size(x)
    pairs = tf.random.stateless_uniform([(count + 1) // 2], fold(seed, salt), None, None, tf.uint32, alg="philox")
    numbers = tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:count]
    if (drawn := _drawn.get()) is not None:
        numbers = drawn(numbers)
    numbers = tf.reshape(numbers, tf.shape(x))
    return tf.where(numbers >= tf.constant(dropped, tf.uint16), x * (2**16 / (2**16 - dropped)), tf.zeros([], x.dtype))


def layer_norm(x: tf.Tensor, scale: Any, bias: Any, epsilon: float) -> tf.Tensor:
    """Layer-norm over the last axis (Ba et al., 2016)."""
    exact = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(exact, -1, keepdims=True)
    centred = exact - mean
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    return tf.cast(centred * tf.math.rsqrt(variance + epsilon), x.dtype) * scale + bias


def rms_norm(x: tf.Tensor, scale: Any, epsilon: float) -> tf.Tensor:
    """Root-mean-square norm (Zhang and Sennrich, 2019): `layer_norm` without centring and bias, as in T5."""
    exact = tf.cast(x, tf.float32)
    return (
        tf.cast(exact * tf.math.rsqrt(tf.reduce_mean(tf.square(exact), -1, keepdims=True) + epsilon), x.dtype) * scale
    )


def dense(x: tf.Tensor, kernel: Any, bias: Any) -> tf.Tensor:
    """x [N, I] @ kernel [I, O] + bias [O]."""
    return tf.nn.bias_add(product(x, kernel), bias)  # [N, O]


@tf.custom_gradient
def gelu(x: tf.Tensor) -> Any:
    """The Gaussian error linear unit x Phi(x) (Hendrycks and Gimpel, 2016, section 2).

    Phi is the cumulative distribution function of the normal distribution, and phi its density. Phi is kept for the
    gradient Phi(x) + x phi(x). This takes fewer passes over the widest tensor of a block than TensorFlow's own GELU.
    """
    share = 0.5 * tf.math.erfc(x * -math.sqrt(0.5))

    def gradient(dy: tf.Tensor) -> tf.Tensor:
        density = tf.exp(-0.5 * tf.square(x)) * (1.0 / math.sqrt(2.0 * math.pi))
        return dy * (share + x * density)

    return x * share, gradient


def split_columns(x: tf.Tensor, parts: int, shards: int = 1) -> list[tf.Tensor]:
    """Splits [N, parts * F] into ``parts`` tensors [N, F].

    If a fused product is split over devices, its columns lie in ``shards`` equal groups, each with its columns of every
    part (`models.layers.split`). So no column leaves its device.
    """
    if parts == 1 or shards == 1:
        return tf.split(x, parts, axis=-1) if parts > 1 else [x]
    width = x.shape[-1] // parts
    grouped = tf.reshape(x, [-1, shards, parts, width // shards])
    return [tf.reshape(grouped[:, :, part], [-1, width]) for part in range(parts)]


def split_heads(x: tf.Tensor, batch: Any, tokens: Any, heads: int, parts: int = 1, shards: int = 1) -> list[tf.Tensor]:
    """Splits [B * T, parts * D] into ``parts`` tensors [B, H, T, D / H]. For ``shards`` see `split_columns`."""
    pieces = split_columns(x, parts, shards)
    width = pieces[0].shape[-1]
    return [tf.transpose(tf.reshape(piece, [batch, tokens, heads, width // heads]), [0, 2, 1, 3]) for piece in pieces]


def attention(
    q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, bias: tf.Tensor, rate: float, seed: tf.Tensor | None, salt: int
) -> tf.Tensor:
    """Softmax attention of queries [B, H, T, K] over keys and values [B, H, U, K], as [B * T, H * K].

    ``bias`` float32, broadcast to [B, H, T, U], has the masks and relative positions. Scale ``q`` instead of the
    scores, because it is the smaller tensor.
    """
    if bias.shape[0] == bias.shape[1] == 1:
        # TensorFlow fuses scaling, product and sum into one oneDNN operation. Its fast kernel needs one mask for each
        # row of the batch. With one for all, GPT-mini took 19 times as long to read 64 texts of 64 tokens.
        bias = tf.repeat(bias, shape(q)[0], axis=0)  # [B, 1, T, U]
    scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32) + bias  # [B, H, T, U]
    weights = tf.cast(tf.nn.softmax(scores), v.dtype)
    if (watched := _watched.get()) is not None:
        watched.append(AttentionTensors(q, k, v, scores, weights))
    context = tf.matmul(dropout(weights, rate, seed, salt), v)  # [B, H, T, K]
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, q.shape[1] * q.shape[3]])  # [B * T, D]


def waves(distances: tf.Tensor, width: int) -> tf.Tensor:
    """Sines, then cosines of ``distances`` [P], float32 [P, D]: fixed vectors of relative positions (Dai et al., 2019,
    section 3.3, laid out as in their code)."""
    steps = 10_000.0 ** (-tf.range(0, width, 2, dtype=tf.float32) / width)  # [D / 2]
    angle = tf.cast(distances, tf.float32)[:, None] * steps  # [P, D / 2]
    return tf.concat([tf.sin(angle), tf.cos(angle)], axis=1)


def relative_shift(scores: tf.Tensor, keys: Any) -> tf.Tensor:
    """Converts scores by distance, [B, H, T, P], to scores by key, [B, H, T, U]. The queries are the last T of U
    ``keys``.

    Column c of the input is for the distance (query minus key) U - c. For the last query, this is the key c - 1 places
    after the first one. So P is U + 1 if no query looks ahead, and U + T if all do. When the same numbers are read in
    rows of P - 1, each row is shifted one place further to the left, as each query needs (Dai et al., 2019, appendix
    B). Keys without a column get unrelated numbers: mask them.
    """
    batch, heads, queries, columns = shape(scores)
    shifted = tf.reshape(scores, [batch, heads, columns, queries])[:, :, 1:]
    return tf.reshape(shifted, [batch, heads, queries, columns - 1])[:, :, :, :keys]
