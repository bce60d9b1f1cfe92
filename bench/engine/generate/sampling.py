"""Sampling: each hypothesis draws its next token from the distribution that the model predicts.

Sources: sampling from the k likeliest tokens, Fan et al. (2018), section 5.4; from the likeliest tokens that together
have the probability p, Holtzman et al. (2020), section 3.1.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.engine.generate.writing import NEVER, Writing, loop_shapes, mask_repeated_ngrams, visible_positions
from ptmbench.models.text.tokenizers import Vocabulary


def draws(tokens: np.ndarray, samples: int, longest: int, seed: int) -> np.ndarray:
    """Uniform numbers float32 [B, ``samples``, ``longest``] that follow from ``seed`` and each row's own tokens."""
    rows = [np.random.default_rng([seed, 3, *row[row > 0].tolist()]) for row in np.asarray(tokens)]
    return np.stack([rng.random((samples, longest), dtype=np.float32) for rng in rows])


def sample(
    writer: Any,
    vocabulary: Vocabulary,
    writing: Writing,
    inputs: dict[str, tf.Tensor],
    longest: tf.Tensor,
    draws: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """`Written` for ``inputs``, ``tokens`` [B, T] and their channels, by sampling with ``draws`` float32 [B, K,
    ``longest``]."""
    beam, rows = writing.beam, tf.shape(inputs["tokens"])[0]
    memory, past = writer.begin(**inputs)
    own = tf.broadcast_to(tf.range(beam)[:, None], [rows, beam, 1])

    def body(written: tf.Tensor, scores: tf.Tensor, open_: tf.Tensor, past: Any) -> tuple:
        length = tf.shape(written)[2]
        logits, past = writer.step(memory, past, written, visible_positions(tf.repeat(own, length, axis=2), beam))
        logits = tf.cast(logits, tf.float32)
        whole = tf.reduce_logsumexp(logits, axis=-1)  # [B, K]
        allowed = _allowed(logits, written, vocabulary, writing)
        most = min(writing.top_k or logits.shape[-1], logits.shape[-1])
        values, ids = tf.math.top_k(allowed, most)  # [B, K, C], the likeliest first
        chances = tf.nn.softmax(values / writing.temperature)
        before = tf.cumsum(chances, axis=-1, exclusive=True)
        chances = tf.where(before < writing.top_p, chances, 0.0)
        reached = tf.cumsum(chances, axis=-1)
        aim = draws[:, :, length - 1, None] * reached[..., -1:]
        last = tf.math.count_nonzero(chances, axis=-1, dtype=tf.int32) - 1
        place = tf.minimum(tf.math.count_nonzero(reached <= aim, axis=-1, dtype=tf.int32), last)  # [B, K]
        chosen = tf.gather(ids, place, batch_dims=2)
        gained = tf.gather(values, place, batch_dims=2) - whole
        scores += tf.where(open_, gained, 0.0)
        written = tf.concat([written, tf.where(open_, chosen, vocabulary.pad)[:, :, None]], axis=2)
        return written, scores, open_ & tf.not_equal(chosen, vocabulary.sep), past

    state = (
        tf.fill([rows, beam, 1], vocabulary.cls),
        tf.zeros([rows, beam]),
        tf.ones([rows, beam], tf.bool),
        past,
    )

    def more(written: tf.Tensor, *others: Any) -> tf.Tensor:
        return (tf.shape(written)[2] <= longest) & tf.reduce_any(others[1])

    written, scores, _, _ = tf.while_loop(more, body, state, shape_invariants=loop_shapes(state, beam))
    return written[:, :, 1:], scores


def _allowed(logits: tf.Tensor, written: tf.Tensor, vocabulary: Vocabulary, writing: Writing) -> tf.Tensor:
    """``logits`` [B, K, V], with `NEVER` for tokens that may not follow ``written`` [B, K, S]."""
    words = np.ones(logits.shape[-1], bool)
    words[[vocabulary.pad, vocabulary.cls]] = False  # padding and the start symbol are no words
    return mask_repeated_ngrams(tf.where(words, logits, NEVER), written, writing)
