"""What the searches share: how a text is to be chosen, what comes out, and the operations of one place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

NEVER = -1e9
"""The score of what may not be: finite, so that sums of it stay numbers."""
LOWEST = NEVER / 10
"""What is below was forbidden on its way."""


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How a text is chosen. The defaults are greedy decoding."""

    beam: int = 1
    """Hypotheses of a row; with ``sample`` the number of independent samples."""
    length_penalty: float = 1.0
    """alpha: larger favours longer texts, 0 scores by ln p alone."""
    coverage: float = 0.0
    """beta: larger favours texts that look at every token of the source; samples do not care."""
    no_repeat_ngram: int = 0
    """No run of so many tokens occurs twice in a text; 0 lets them."""
    sample: bool = False
    temperature: float = 1.0
    """Samples are drawn from logits / temperature: below 1 likely tokens become likelier."""
    top_k: int = 0
    """Samples are among the k likeliest tokens; 0 is all of them."""
    top_p: float = 1.0
    """Samples are among the fewest likeliest tokens that together have this probability."""


class Written(NamedTuple):
    """What was written for each row."""

    ids: np.ndarray
    """int32 [B, K, S]: tokens up to and with [SEP], then padding; the best text first, samples as they were drawn."""
    scores: np.ndarray
    """float32 [B, K]: score(y), of samples ln p(y | x). -1e9 where fewer than K texts had ended."""


class Rereader:
    """The `Writer` of a model that has none: everything is read again for each token."""

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


def seen(origin: tf.Tensor, beam: int) -> tf.Tensor:
    """Bool [B, K, S * K], from the hypothesis whose column each place [B, K, S] of a hypothesis stands in."""
    rows, length = tf.shape(origin)[0], tf.shape(origin)[2]
    return tf.reshape(tf.one_hot(origin, beam, True, False), [rows, beam, length * beam])


def appended(texts: tf.Tensor, parents: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """``texts`` [B, K, S] of the ``parents`` [B, N], each with one more entry, ``last`` [B, N]: [B, N, S + 1]."""
    return tf.concat([tf.gather(texts, parents, batch_dims=1), last[:, :, None]], axis=2)


def unrepeated(logits: tf.Tensor, written: tf.Tensor, writing: Writing) -> tf.Tensor:
    """``logits`` [B, K, V] with what would repeat an n-gram of ``written`` [B, K, S] at `NEVER`."""
    size = writing.no_repeat_ngram
    if not size:
        return logits
    length = tf.shape(written)[2]
    windows = tf.maximum(length - size + 1, 0)  # runs of n tokens, each of which must not come again
    same = tf.ones([tf.shape(written)[0], written.shape[1], windows], tf.bool)
    for step in range(size - 1):
        end = tf.maximum(length - size + 1 + step, 0)  # where there is no window, any token does
        same &= tf.equal(written[:, :, step : step + windows], written[:, :, end, None])
    where = tf.where(same)  # [M, 3]
    ids = tf.gather_nd(written, where + tf.constant([0, 0, size - 1], tf.int64))
    where = tf.concat([where[:, :2], tf.cast(ids, tf.int64)[:, None]], axis=1)
    return tf.tensor_scatter_nd_update(logits, where, tf.fill([tf.shape(where)[0]], NEVER))


def growing(state: Any, beam: int) -> Any:
    """The shapes of a loop's ``state``: rows and what grows, the third axis, are free."""

    def free(tensor: tf.Tensor) -> tf.TensorShape:
        dims = [None, *tensor.shape[1:]]
        if len(dims) in (2, 3):
            dims[1] = beam
        if len(dims) > 2:
            dims[2] = None
        return tf.TensorShape(dims)

    return tf.nest.map_structure(free, state)
