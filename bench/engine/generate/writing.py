"""Settings, results and operations that beam search and sampling share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

NEVER = -1e9
"""The score of forbidden tokens. It is finite, so that sums of it stay numbers."""
LOWEST = NEVER / 10
"""Lower scores are those of texts with a forbidden token."""


@dataclass(frozen=True, kw_only=True)
class Writing:
    """The settings of text generation. The defaults are greedy decoding."""

    beam: int = 1
    """Hypotheses per row; with ``sample``, the number of independent samples."""
    length_penalty: float = 1.0
    """alpha: larger values favour longer texts, and 0 scores by ln p alone."""
    coverage: float = 0.0
    """beta: larger values favour texts that attend to every token of the source. Sampling ignores it."""
    no_repeat_ngram: int = 0
    """Length of n-grams that may not occur twice in a text; 0 allows repeats."""
    sample: bool = False
    temperature: float = 1.0
    """Samples are drawn from logits / temperature: below 1 likely tokens become likelier."""
    top_k: int = 0
    """Samples are drawn from the k likeliest tokens; 0 stands for all tokens."""
    top_p: float = 1.0
    """Samples are drawn from the smallest set of likeliest tokens that together have this probability."""


class Written(NamedTuple):
    """The generated texts of each row."""

    ids: np.ndarray
    """int32 [B, K, S]: tokens up to and including [SEP], then padding. Texts of a beam are sorted, best first."""
    scores: np.ndarray
    """float32 [B, K]: score(y) of beam search, ln p(y | x) of samples. -1e9 if fewer than K texts have ended."""


class Rereader:
    """The `Writer` of a model that has none. It runs the whole model again for each token."""

    def __init__(self, decode: Callable):
        self.decode = decode

    def begin(self, tokens: tf.Tensor, **channels: tf.Tensor) -> tuple[Any, Any]:
        return {"tokens": tokens, **channels}, ()

    def step(
        self, memory: dict[str, tf.Tensor], past: Any, written: tf.Tensor, seen: tf.Tensor
    ) -> tuple[tf.Tensor, Any]:
        rows, beam, length = (tf.shape(written)[axis] for axis in range(3))
        targets = tf.reshape(written, [rows * beam, length])
        source = {name: tf.repeat(array, beam, axis=0) for name, array in memory.items()}
        logits = self.decode({**source, "targets": targets}, None)[:, -1]  # [B * K, V]
        return tf.reshape(logits, [rows, beam, logits.shape[-1]]), past


def visible_positions(origin: tf.Tensor, beam: int) -> tf.Tensor:
    """A mask of the cached positions that belong to each hypothesis, bool [B, K, S * K]. ``origin`` [B, K, S] has the
    column of the cache, 0 to K - 1, of each position."""
    rows, length = tf.shape(origin)[0], tf.shape(origin)[2]
    return tf.reshape(tf.one_hot(origin, beam, True, False), [rows, beam, length * beam])


def append_tokens(texts: tf.Tensor, parents: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """The ``texts`` [B, K, S] of ``parents`` [B, N], each extended by an entry of ``last`` [B, N]: [B, N, S + 1]."""
    return tf.concat([tf.gather(texts, parents, batch_dims=1), last[:, :, None]], axis=2)


def mask_repeated_ngrams(logits: tf.Tensor, written: tf.Tensor, writing: Writing) -> tf.Tensor:
    """``logits`` [B, K, V], with `NEVER` for tokens that would repeat an n-gram of ``written`` [B, K, S]."""
    size = writing.no_repeat_ngram
    if not size:
        return logits
    length = tf.shape(written)[2]
    windows = tf.maximum(length - size + 1, 0)  # number of n-grams, none of which may come again
    same = tf.ones([tf.shape(written)[0], written.shape[1], windows], tf.bool)
    for step in range(size - 1):
        end = tf.maximum(length - size + 1 + step, 0)  # without a window, any token will do
        same &= tf.equal(written[:, :, step : step + windows], written[:, :, end, None])
    where = tf.where(same)  # [M, 3]
    ids = tf.gather_nd(written, where + tf.constant([0, 0, size - 1], tf.int64))
    where = tf.concat([where[:, :2], tf.cast(ids, tf.int64)[:, None]], axis=1)
    return tf.tensor_scatter_nd_update(logits, where, tf.fill([tf.shape(where)[0]], NEVER))


def loop_shapes(state: Any, beam: int) -> Any:
    """The shape invariants of a loop's ``state``. The axis of rows and the third axis, which grows, are free."""

    def free(tensor: tf.Tensor) -> tf.TensorShape:
        dims = [None, *tensor.shape[1:]]
        if len(dims) in (2, 3):
            dims[1] = beam
        if len(dims) > 2:
            dims[2] = None
        return tf.TensorShape(dims)

    return tf.nest.map_structure(free, state)
