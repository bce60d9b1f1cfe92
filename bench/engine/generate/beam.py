"""Beam search; greedy decoding is a beam of one.

A search keeps K hypotheses per row. At each position, the model predicts the next tokens of all hypotheses in one
batch, and the best 2 K continuations of a row are taken, so that K can go on even if K of them end. Those that end with
[SEP] and are among the best K are finished. Their score is

    score(y) = ln p(y | x) / |y|^alpha

and the K best of the others go on. |y| counts [SEP], and alpha = 0 means no normalisation. Once K hypotheses have
finished, the one with the best score is the answer. At the longest length, all hypotheses count as finished. Of equal
scores, the earlier hypothesis and the lower id win, so the answer for a row depends only on this row.

With ``coverage`` beta, a text has a lower score if it leaves out parts of the source (Wu et al., 2016, equation 14):

    score(y) = ln p(y | x) / |y|^alpha + beta sum_i ln min(sum_j a_ji, 1)

The sum is over the tokens i of the source without padding. a_ji is the attention to x_i at the prediction of y_j, the
mean over the heads of the last attention. The hypotheses that go on are still chosen by ln p alone.

Sources: beam search with normalised scores, Sutskever et al. (2014), section 3.2, and Wu et al. (2016), section 7,
whose length penalty has another form. fairseq and transformers use a power of the length, as here. Blocked n-grams:
Paulus et al. (2018), section 2.5.
"""

from typing import Any

import tensorflow as tf

from ptmbench.bench.engine.generate.writing import (
    LOWEST,
    NEVER,
    Writing,
    append_tokens,
    loop_shapes,
    mask_repeated_ngrams,
    visible_positions,
)
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.operations import AttentionTensors, collect_attention
from ptmbench.models.text.tokenizers import Vocabulary

_GROUP = 64
"""Largest number of ids in a group of `largest`."""


def search(
    writer: Any, vocabulary: Vocabulary, writing: Writing, inputs: dict[str, tf.Tensor], longest: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """`Written` for ``inputs``, ``tokens`` [B, T] and their channels, by beam search."""
    tokens = inputs["tokens"]
    beam, rows = writing.beam, tf.shape(tokens)[0]
    memory, past = writer.begin(**inputs)

    def body(
        written: tf.Tensor, origin: tf.Tensor, scores: tf.Tensor, ended: Any, full: tf.Tensor, past: Any, looked: Any
    ) -> tuple:
        # written, origin [B, K, S]; ended: ids [B, K, S - 1] and scores [B, K]; full [B]; looked [B, K, T] or ()
        length = tf.shape(written)[2]
        with collect_attention() as looks:
            logits, past = writer.step(memory, past, written, visible_positions(origin, beam))  # [B, K, V]
        totals, parents, ids = _continuations(logits, written, scores, vocabulary, writing)  # [B, 2 K] each
        ends = tf.equal(ids, vocabulary.sep)

        # The pool of finished hypotheses: earlier ones, and those that end now among the best K.
        size = tf.cast(length, tf.float32) ** writing.length_penalty
        counts = (ends | (length >= longest))[:, :beam] & (totals[:, :beam] > LOWEST) & ~full[:, None]
        texts = append_tokens(written, parents[:, :beam], ids[:, :beam])[:, :, 1:]  # [B, K, S]
        pool_ids = tf.concat([tf.pad(ended[0], [[0, 0], [0, 0], [0, 1]]), texts], axis=1)  # [B, 2 K, S]
        values = totals[:, :beam] / size
        if writing.coverage:
            looked += source_attention(looks, beam, tf.shape(tokens)[1])
            values += writing.coverage * tf.gather(_covered(looked, tokens), parents[:, :beam], batch_dims=1)
        pool = tf.concat([ended[1], tf.where(counts, values, NEVER)], axis=1)  # [B, 2 K]
        pool, best = tf.math.top_k(pool, beam)
        ended = (tf.gather(pool_ids, best, batch_dims=1), pool)

        # The best K that did not end go on, in the order of their scores.
        totals, best = tf.math.top_k(tf.where(ends, NEVER, totals), beam)
        parents, ids = tf.gather(parents, best, batch_dims=1), tf.gather(ids, best, batch_dims=1)
        full |= pool[:, -1] > LOWEST
        here = tf.broadcast_to(tf.range(beam), [rows, beam])
        looked = tf.gather(looked, parents, batch_dims=1) if writing.coverage else looked
        written, origin = append_tokens(written, parents, ids), append_tokens(origin, parents, here)
        return written, origin, totals, ended, full, past, looked

    first = tf.where(tf.range(beam) > 0, NEVER, 0.0)  # all K begin alike, so only one counts
    state = (
        tf.fill([rows, beam, 1], vocabulary.cls),
        tf.broadcast_to(tf.range(beam)[:, None], [rows, beam, 1]),
        tf.broadcast_to(first, [rows, beam]),
        (tf.zeros([rows, beam, 0], tf.int32), tf.fill([rows, beam], NEVER)),
        tf.zeros([rows], tf.bool),
        past,
        tf.zeros([rows, beam, tf.shape(tokens)[1]]) if writing.coverage else (),
    )

    def more(written: tf.Tensor, *others: Any) -> tf.Tensor:
        return (tf.shape(written)[2] <= longest) & ~tf.reduce_all(others[3])

    *_, ended, _, _, _ = tf.while_loop(more, body, state, shape_invariants=loop_shapes(state, beam))
    return ended


def _continuations(
    logits: tf.Tensor, written: tf.Tensor, scores: tf.Tensor, vocabulary: Vocabulary, writing: Writing
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The best 2 K continuations of each row: ln p, the hypothesis that is continued, and the token, each [B, 2 K]."""
    beam, logits = writing.beam, tf.cast(logits, tf.float32)
    each = min(2 * beam + 2, logits.shape[-1])  # one hypothesis may have all 2 K, plus [PAD] and [CLS]
    whole = tf.reduce_logsumexp(logits, axis=-1)  # [B, K]
    values, ids = largest(mask_repeated_ngrams(logits, written, writing), each)  # [B, K, C]
    no_word = tf.equal(ids, vocabulary.pad) | tf.equal(ids, vocabulary.cls)
    values = tf.maximum(tf.where(no_word, NEVER, values - whole[..., None]) + scores[..., None], NEVER)
    totals, index = tf.math.top_k(tf.reshape(values, [-1, beam * each]), 2 * beam)
    ids = tf.gather(tf.reshape(ids, [-1, beam * each]), index, batch_dims=1)
    return totals, index // each, ids


def largest(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """As `tf.math.top_k` of ``logits`` [B, K, V], in less than half of its time. Lower ids win ties.

    `tf.math.top_k` reads numbers one by one, and a maximum reads eight at once. So the maxima of groups of ids are
    computed first: the ``count`` largest logits are in the ``count`` groups with the largest maxima.
    """
    beam, ids = logits.shape[1:]
    size = next(size for size in range(_GROUP, 0, -1) if ids % size == 0)
    if ids // size <= count:
        return tf.math.top_k(logits, count)
    groups = tf.reshape(logits, [-1, ids // size, size])  # [B * K, G, V / G]
    _, best = tf.math.top_k(tf.reduce_max(groups, axis=-1), count)
    best = tf.sort(best)  # of equal logits in two groups, the lower id comes first
    values, index = tf.math.top_k(tf.reshape(tf.gather(groups, best, batch_dims=1), [-1, count * size]), count)
    found = tf.gather(best, index // size, batch_dims=1) * size + index % size
    return tf.reshape(values, [-1, beam, count]), tf.reshape(found, [-1, beam, count])


def source_attention(looks: list[AttentionTensors], beam: int, length: tf.Tensor) -> tf.Tensor:
    """The attention of each hypothesis to the ``length`` tokens of the source, float32 [B, K, T]: the mean over the
    heads of the last of ``looks``. Keys of the source come before other keys, and the queries that predict come last.
    Raises `NotApplicable` without attention."""
    if not looks:
        raise NotApplicable("no-coverage", "because this model has no attention to take a coverage penalty from.")
    return tf.cast(tf.reduce_mean(looks[-1].weights[:, :, -beam:, :length], axis=1), tf.float32)


def _covered(looked: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """The coverage term [B, K], at most 0: the sum of ln min(``looked``, 1) over the source ``tokens`` [B, T].
    ``looked`` [B, K, T] is the attention to each token so far."""
    each = tf.math.log(tf.clip_by_value(looked, 1e-9, 1.0))  # a weight can be too small for float32
    return tf.reduce_sum(tf.where(tf.not_equal(tokens, 0)[:, None], each, 0.0), axis=2)
