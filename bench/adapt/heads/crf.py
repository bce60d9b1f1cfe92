"""A linear-chain conditional random field over the tags of a sentence (Lafferty et al., 2001; for taggers: Lample et
al., 2016, section 2.2).

A sequence y of tags for W words with emission scores e has the score

    s(y) = start[y_1] + sum_w e[w, y_w] + sum_{w > 1} transition[y_{w-1}, y_w] + end[y_W]

and the probability exp s(y) / sum_y' exp s(y'). The sum over K^W sequences takes W K^2 steps, in logarithms, and so
does the search for the best sequence (Viterbi, 1967). Sentences of different lengths share a batch, with padding after
the words. Every step computes the whole batch, and keeps the previous values where a sentence is over, so that shapes
do not depend on the data.
"""

from typing import Any

import tensorflow as tf


def log_likelihood(emissions: Any, tags: Any, inside: Any, weights: tuple[Any, Any, Any]) -> Any:
    """ln p(``tags``) of each sentence, [B].

    ``emissions`` float [B, W, K]; ``tags`` int [B, W]; ``inside`` float [B, W], 1 for words and 0 for padding;
    ``weights``: transition [K, K] (from, to), start [K], end [K]. A sentence has at least one word.
    """
    transition, start, end = weights
    tags = tf.maximum(tags, 0)
    last = tf.reduce_sum(tf.cast(inside, tf.int32), axis=1) - 1  # [B]
    own = tf.reduce_sum(tf.gather(emissions, tags, batch_dims=2) * inside, axis=1)
    moves = tf.gather_nd(transition, tf.stack([tags[:, :-1], tags[:, 1:]], axis=-1))  # [B, W - 1]
    ends = tf.gather(start, tags[:, 0]) + tf.gather(end, tf.gather(tags, last, batch_dims=1))
    score = own + tf.reduce_sum(moves * inside[:, 1:], axis=1) + ends

    def step(before: Any, word: tuple[Any, Any]) -> Any:  # before [B, K]: ln of the sum over all paths to a tag
        emission, real = word
        after = tf.reduce_logsumexp(before[:, :, None] + transition[None], axis=1) + emission
        return tf.where(real[:, None] > 0, after, before)

    alphas = tf.scan(step, _following(emissions, inside), initializer=start[None] + emissions[:, 0])  # [W - 1, B, K]
    final = tf.concat([(start[None] + emissions[:, 0])[None], alphas], axis=0)[-1]  # [B, K]
    return score - tf.reduce_logsumexp(final + end[None], axis=1)


def best(emissions: Any, inside: Any, weights: tuple[Any, Any, Any]) -> Any:
    """The tags with the highest score, int32 [B, W]. Of several best sequences, the one with the lowest last tag is
    taken. Padding repeats the last word's tag."""
    transition, start, end = weights
    first = start[None] + emissions[:, 0]  # [B, K]
    same = tf.range(tf.shape(first)[1])[None] + tf.zeros_like(first, tf.int32)  # [B, K] every tag comes from itself

    def step(before: tuple[Any, Any], word: tuple[Any, Any]) -> tuple[Any, Any]:
        emission, real = word
        ways = before[0][:, :, None] + transition[None]  # [B, K from, K to]
        real = real[:, None] > 0
        score = tf.where(real, tf.reduce_max(ways, axis=1) + emission, before[0])
        return score, tf.where(real, tf.argmax(ways, axis=1, output_type=tf.int32), same)

    scores, origins = tf.scan(step, _following(emissions, inside), initializer=(first, same))
    final = tf.concat([first[None], scores], axis=0)[-1]
    last = tf.argmax(final + end[None], axis=1, output_type=tf.int32)  # [B]
    tags = tf.scan(lambda tag, origin: tf.gather(origin, tag, batch_dims=1), origins, initializer=last, reverse=True)
    return tf.transpose(tf.concat([tags, last[None]], axis=0))  # [B, W]


def _following(emissions: Any, inside: Any) -> tuple[Any, Any]:
    """Inputs of the steps after the first word, with the word as the first axis: [W - 1, B, K], [W - 1, B]."""
    return tf.transpose(emissions[:, 1:], [1, 0, 2]), tf.transpose(inside[:, 1:])
