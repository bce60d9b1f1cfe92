"""The few operations that every Transformer here is laid from: plain functions of tensors.

Activations travel as [B * T, D]: a 2-D product keeps the weight gradient one product too, where a [B, T, D] input
would make TensorFlow form B of them and add them up. Nothing here owns a variable or keeps state.

Activations may be bfloat16 (Keras casts what its layers read, under the policy "mixed_bfloat16"). What adds up many
numbers is computed in float32 whatever comes in: the statistics of norms, softmax, and, in the objectives, losses.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import tensorflow as tf

from ptmbench.models.layers.products import product

HIDDEN = -1e9
"""Added to the score of a key that may not be seen: its weight is exactly 0 in float32, and a row of nothing else
stays finite."""


_rematerialise: ContextVar[bool] = ContextVar("rematerialise", default=False)
_drawn: ContextVar[Callable[[tf.Tensor], tf.Tensor] | None] = ContextVar("drawn", default=None)


class Look(NamedTuple):
    """What one `attention` computes. The scores are those before the softmax."""

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


_watched: ContextVar[list[Look] | None] = ContextVar("watched", default=None)


@contextmanager
def rematerialising(yes: bool) -> Iterator[None]:
    """Whether layers rematerialise (`core.recomputed`) in what is traced inside: a matter of the training, which no
    layer has to know."""
    token = _rematerialise.set(yes)
    try:
        yield
    finally:
        _rematerialise.reset(token)


def rematerialises() -> bool:
    """Whether what is traced now is `rematerialising`."""
    return _rematerialise.get()


@contextmanager
def watching() -> Iterator[list[Look]]:
    """Collects a `Look` for every `attention` that is computed inside, in their order. Costs nothing when unused."""
    token = _watched.set(found := [])
    try:
        yield found
    finally:
        _watched.reset(token)


@contextmanager
def drawing(drawn: Callable[[tf.Tensor], tf.Tensor]) -> Iterator[None]:
    """What is traced inside calls ``drawn`` with the random numbers of dropout, uint16 [N], and uses its result. A
    training that splits tensors over devices keeps these numbers whole in this way."""
    token = _drawn.set(drawn)
    try:
        yield
    finally:
        _drawn.reset(token)


def shape(tensor: tf.Tensor) -> list[Any]:
    """The shape with an int wherever it is known at trace time, a scalar tensor elsewhere."""
    dynamic = tf.shape(tensor)
    return [dynamic[axis] if size is None else size for axis, size in enumerate(tensor.shape)]


def check_length(length: Any, longest: int, what: str) -> None:
    """`ValueError` when the ``length`` of an input exceeds the ``longest`` that the positions of the network reach.

    A length that is only known while the graph runs is checked there (`tf.errors.InvalidArgumentError`).
    """
    advice = f"the {what} takes at most {longest} tokens: cut the text, or build it with Size(length=...)."
    if isinstance(length, int):
        if length > longest:
            raise ValueError(f"An input of {length} tokens is too long: {advice}")
    else:
        tf.debugging.assert_less_equal(length, longest, message=f"An input is too long: {advice}")


def fold(seed: tf.Tensor | None, salt: int) -> tf.Tensor | None:
    """A seed of its own for the place called ``salt``, from the seed of the step; None stays None.

    The salt is spread over 64 bits (the finaliser of SplitMix64, Steele et al., 2014) before it is mixed in, so
    that neighbouring places and neighbouring steps cannot meet. One operation, where TensorFlow's own
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

    A pure function: the mask follows from (seed, salt) by the Philox generator. A compiled step cuts the generator's
    stream into numbers in another order than a graph, and so has other masks; each always has the same ones. Numbers
    of 16 bits decide, since drawing them is what dropout costs: the share is the nearest multiple of 1 / 65536.
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
    """Ba et al. (2016), over the last axis."""
    exact = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(exact, -1, keepdims=True)
    centred = exact - mean
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    return tf.cast(centred * tf.math.rsqrt(variance + epsilon), x.dtype) * scale + bias


def rms_norm(x: tf.Tensor, scale: Any, epsilon: float) -> tf.Tensor:
    """Zhang and Sennrich (2019): `layer_norm` without centring and bias, as in T5."""
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

    Phi, the share of a normal distribution below x, is kept for the gradient Phi(x) + x phi(x), phi being its density:
    fewer passes over what is the widest tensor of a block than TensorFlow's own takes.
    """
    share = 0.5 * tf.math.erfc(x * -math.sqrt(0.5))

    def gradient(dy: tf.Tensor) -> tf.Tensor:
        density = tf.exp(-0.5 * tf.square(x)) * (1.0 / math.sqrt(2.0 * math.pi))
        return dy * (share + x * density)

    return x * share, gradient


def parted(x: tf.Tensor, parts: int, shards: int = 1) -> list[tf.Tensor]:
    """[N, parts * F] to ``parts`` tensors [N, F].

    The columns of fused products that are split over devices lie in ``shards`` equal groups, each of which has its
    columns of every part (`models.layers.split`). So no column leaves its device.
    """
    if parts == 1 or shards == 1:
        return tf.split(x, parts, axis=-1) if parts > 1 else [x]
    width = x.shape[-1] // parts
    grouped = tf.reshape(x, [-1, shards, parts, width // shards])
    return [tf.reshape(grouped[:, :, part], [-1, width]) for part in range(parts)]


def split_heads(x: tf.Tensor, batch: Any, tokens: Any, heads: int, parts: int = 1, shards: int = 1) -> list[tf.Tensor]:
    """[B * T, parts * D] to ``parts`` tensors [B, H, T, D / H]. ``shards`` is that of `parted`."""
    pieces = parted(x, parts, shards)
    width = pieces[0].shape[-1]
    return [tf.transpose(tf.reshape(piece, [batch, tokens, heads, width // heads]), [0, 2, 1, 3]) for piece in pieces]


def attention(
    q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, bias: tf.Tensor, rate: float, seed: tf.Tensor | None, salt: int
) -> tf.Tensor:
    """Softmax attention of queries [B, H, T, K] over keys and values [B, H, U, K], as [B * T, H * K].

    ``bias`` float32, broadcast to [B, H, T, U], carries masks and relative positions. Any scaling of the scores belongs
    into ``q``: it is smaller there than in the scores.
    """
    if bias.shape[0] == bias.shape[1] == 1:
        # TensorFlow fuses scaling, product and sum into one oneDNN operation, whose fast kernel wants a row of the mask
        # for every row of the batch: GPT-mini took 19 times as long to read 64 texts of 64 tokens without.
        bias = tf.repeat(bias, shape(q)[0], axis=0)  # [B, 1, T, U]
    scores = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32) + bias  # [B, H, T, U]
    weights = tf.cast(tf.nn.softmax(scores), v.dtype)
    if (watched := _watched.get()) is not None:
        watched.append(Look(q, k, v, scores, weights))
    context = tf.matmul(dropout(weights, rate, seed, salt), v)  # [B, H, T, K]
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, q.shape[1] * q.shape[3]])  # [B * T, D]


def waves(distances: tf.Tensor, width: int) -> tf.Tensor:
    """Sines, then cosines of ``distances`` [P], float32 [P, D]: fixed vectors of relative positions (Dai et al., 2019,
    section 3.3, laid out as in their code)."""
    steps = 10_000.0 ** (-tf.range(0, width, 2, dtype=tf.float32) / width)  # [D / 2]
    angle = tf.cast(distances, tf.float32)[:, None] * steps  # [P, D / 2]
    return tf.concat([tf.sin(angle), tf.cos(angle)], axis=1)


def relative_shift(scores: tf.Tensor, keys: Any) -> tf.Tensor:
    """Scores by distance, [B, H, T, P], to scores by key, [B, H, T, U], for queries that are the last T of U ``keys``.

    Column c of the input stands for a key c - 1 places after the first one as seen from the last query, that is, for
    the distance (query minus key) U - c; so P is U + 1 where no query looks ahead, and U + T where all do. Read as
    rows of P - 1 the same numbers lie one place further left per row, which is what each query needs (Dai et al.,
    2019, appendix B). Keys for which there was no column get other numbers: mask them.
    """
    batch, heads, queries, columns = shape(scores)
    shifted = tf.reshape(scores, [batch, heads, columns, queries])[:, :, 1:]
    return tf.reshape(shifted, [batch, heads, queries, columns - 1])[:, :, :, :keys]
