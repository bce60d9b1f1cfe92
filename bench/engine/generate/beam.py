"""Beam search; greedy decoding is a beam of one.

A search keeps K hypotheses a row side by side. At each place their next tokens are asked for in one batch, the best
2 K continuations of a row are taken (so that K go on even if K of them end), those that end with [SEP] among the best
K are put aside under

    score(y) = ln p(y | x) / |y|^alpha

and the K best of the others go on. |y| counts [SEP], and alpha = 0 means no normalisation. The best score is the answer
once K hypotheses have ended. At the longest length whatever stands there counts as ended. Of equals the earlier
hypothesis and the lower id win, so a row's answer depends on nothing but the row.

With ``coverage`` beta a text loses where it leaves out what it should tell (Wu et al., 2016, equation 14):

    score(y) = ln p(y | x) / |y|^alpha + beta sum_i ln min(sum_j a_ji, 1)

over the source's tokens i, padding left out; a_ji is how much the network looks at x_i to say y_j, the mean over the
heads of its last attention. What goes on is chosen by ln p alone, as before.

Sources: beam search with normalised scores, Sutskever et al. (2014), section 3.2, and Wu et al. (2016), section 7,
whose length penalty has another form; a power of it is what fairseq and transformers compute. Blocked n-grams: Paulus
et al. (2018), section 2.5.
"""

from typing import Any

import tensorflow as tf

from ptmbench.bench.engine.generate.writing import LOWEST, NEVER, Writing, appended, growing, seen, unrepeated
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.operations import Look, watching
from ptmbench.models.text.tokenizers import Vocabulary

_GROUP = 64
"""Ids at most of which a maximum is taken at once."""


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
        with watching() as looks:
            logits, past = writer.step(memory, past, written, seen(origin, beam))  # [B, K, V]
        totals, parents, ids = _continuations(logits, written, scores, vocabulary, writing)  # [B, 2 K] each
        ends = tf.equal(ids, vocabulary.sep)

        # The pool: what ended among the best K, and what had ended before.
        size = tf.cast(length, tf.float32) ** writing.length_penalty
        counts = (ends | (length >= longest))[:, :beam] & (totals[:, :beam] > LOWEST) & ~full[:, None]
        texts = appended(written, parents[:, :beam], ids[:, :beam])[:, :, 1:]  # [B, K, S]
        pool_ids = tf.concat([tf.pad(ended[0], [[0, 0], [0, 0], [0, 1]]), texts], axis=1)  # [B, 2 K, S]
        values = totals[:, :beam] / size
        if writing.coverage:
            looked += looked_at(looks, beam, tf.shape(tokens)[1])
            values += writing.coverage * tf.gather(_covered(looked, tokens), parents[:, :beam], batch_dims=1)
        pool = tf.concat([ended[1], tf.where(counts, values, NEVER)], axis=1)  # [B, 2 K]
        pool, best = tf.math.top_k(pool, beam)
        ended = (tf.gather(pool_ids, best, batch_dims=1), pool)

        # What goes on: the best K that did not end, in the order of their scores.
        totals, best = tf.math.top_k(tf.where(ends, NEVER, totals), beam)
        parents, ids = tf.gather(parents, best, batch_dims=1), tf.gather(ids, best, batch_dims=1)
        full |= pool[:, -1] > LOWEST
        here = tf.broadcast_to(tf.range(beam), [rows, beam])
        looked = tf.gather(looked, parents, batch_dims=1) if writing.coverage else looked
        return appended(written, parents, ids), appended(origin, parents, here), totals, ended, full, past, looked

    first = tf.where(tf.range(beam) > 0, NEVER, 0.0)  # K times the same beginning: one of them counts
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

    *_, ended, _, _, _ = tf.while_loop(more, body, state, shape_invariants=growing(state, beam))
    return ended


def _continuations(
    logits: tf.Tensor, written: tf.Tensor, scores: tf.Tensor, vocabulary: Vocabulary, writing: Writing
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The best 2 K continuations of each row: ln p, the hypothesis that each continues, and its token, [B, 2 K]."""
    beam, logits = writing.beam, tf.cast(logits, tf.float32)
    each = min(2 * beam + 2, logits.shape[-1])  # of one hypothesis no more can be among the best, and two are no words
    whole = tf.reduce_logsumexp(logits, axis=-1)  # [B, K]
    values, ids = largest(unrepeated(logits, written, writing), each)  # [B, K, C]
    no_word = tf.equal(ids, vocabulary.pad) | tf.equal(ids, vocabulary.cls)
    values = tf.maximum(tf.where(no_word, NEVER, values - whole[..., None]) + scores[..., None], NEVER)
    totals, index = tf.math.top_k(tf.reshape(values, [-1, beam * each]), 2 * beam)
    ids = tf.gather(tf.reshape(ids, [-1, beam * each]), index, batch_dims=1)
    return totals, index // each, ids


def largest(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """`tf.math.top_k` of ``logits`` [B, K, V], of equals the lower id first, in less than half of its time.

    It looks at the numbers one by one, where a maximum takes eight at once: the ``count`` largest of all are among the
    ``count`` groups of ids that have the largest maxima.
    """
    beam, ids = logits.shape[1:]
    size = next(size for size in range(_GROUP, 0, -1) if ids % size == 0)
    if ids // size <= count:
        return tf.math.top_k(logits, count)
    groups = tf.reshape(logits, [-1, ids // size, size])  # [B * K, G, V / G]
    _, best = tf.math.top_k(tf.reduce_max(groups, axis=-1), count)
    best = tf.sort(best)  # of equals in two groups the lower id comes first
    values, index = tf.math.top_k(tf.reshape(tf.gather(groups, best, batch_dims=1), [-1, count * size]), count)
    found = tf.gather(best, index // size, batch_dims=1) * size + index % size
    return tf.reshape(values, [-1, beam, count]), tf.reshape(found, [-1, beam, count])


def looked_at(looks: list[Look], beam: int, length: tf.Tensor) -> tf.Tensor:
    """float32 [B, K, T]: how much each hypothesis looks at each of the ``length`` tokens of the source, from the
    weights of all attentions of a step. The source's keys come first where there are others, and the queries that
    predict come last."""
    if not looks:
        raise NotApplicable("no-coverage", "because this model has no attention to take a coverage penalty from.")
    return tf.cast(tf.reduce_mean(looks[-1].weights[:, :, -beam:, :length], axis=1), tf.float32)


def _covered(looked: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """[B, K], 0 at most: the sum of the logarithms of what was ``looked`` [B, K, T] at, each at most 1, for the
    ``tokens`` [B, T]."""
    each = tf.math.log(tf.clip_by_value(looked, 1e-9, 1.0))  # a weight can be too small for float32
    return tf.reduce_sum(tf.where(tf.not_equal(tokens, 0)[:, None], each, 0.0), axis=2)
