"""What a model that fills blanks says of tokens that are masked one at a time: rows, and ln p of what stood there.

For adaptations that learn nothing: scores of sentences and of running text.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ptmbench.bench.engine.cost import Traced
from ptmbench.models.text.tokenizers import Tokenizer

_ROUND = 4
"""Rows are filled up to a multiple of this, so that few shapes occur."""
_TOKENS = 8192
"""Tokens that are read at once: rows are short, and small batches of them would cost more than the reading."""


class Masked(NamedTuple):
    """A text as a network reads it, with one token masked, or several of a word."""

    tokens: tuple[int, ...]
    segments: tuple[int, ...]
    place: int


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
    """The ids of each text, and for each id the number of its word, words being what spaces divide."""
    found = []
    for text, (ids, offsets) in zip(texts, tokenizer.encode_with_offsets(texts), strict=True):
        before = np.cumsum([0, *(character.isspace() for character in text)])
        found.append((ids, [int(before[max(begin, end - 1)]) for begin, end in offsets]))
    return found


def masked(tokenizer: Tokenizer, ids: Sequence[int], place: int, words: Sequence[int] | None = None) -> Masked:
    """The text of ``ids`` with the token at ``place`` masked, and with ``words`` the later tokens of its word, too."""
    template, end = tokenizer.vocabulary.template, place + 1
    while words is not None and end < len(ids) and words[end] == words[place]:
        end += 1
    own = [*ids[:place], *[tokenizer.vocabulary.mask] * (end - place), *ids[end:]]
    tokens, segments = template.lay([own])
    return Masked(tuple(tokens), tuple(segments), template.begins([len(own)])[0] + place)


def surprises(
    network: Any, rows: Mapping[Masked, Sequence[tuple[int, int]]]
) -> Iterator[tuple[Masked, Sequence[float]]]:
    """Each of ``rows`` with ln p of the tokens that it is asked for, in their order: ``rows`` has for each its askers
    and the tokens that they have in its place. Rows are read in batches of about as many tokens, by length."""

    def score(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        logits = tf.cast(network.fill(batch), tf.float32)  # [B, V]
        asked, of = batch["token"], batch["row"]  # [N]
        return tf.gather_nd(logits, tf.stack([of, asked], 1)) - tf.gather(tf.reduce_logsumexp(logits, 1), of)

    signature = {name: tf.TensorSpec([None] * axes, tf.int32) for name, axes in _AXES.items()}
    traced = Traced(lambda: tf.function(score, autograph=False).get_concrete_function(signature))
    every = list(rows)
    for part in parts([len(row.tokens) for row in every]):
        chosen = [every[i] for i in part]
        tokens = [token for row in chosen for _, token in rows[row]]
        counts = [len(rows[row]) for row in chosen]
        batch = {name: filled([getattr(row, name) for row in chosen]) for name in ("tokens", "segments")}
        batch |= {"places": np.array([row.place for row in chosen], np.int32)}
        batch |= {"token": np.array(tokens, np.int32), "row": np.repeat(np.arange(len(chosen), dtype=np.int32), counts)}
        values = traced({name: tf.constant(array) for name, array in batch.items()}).numpy().astype(np.float64)
        yield from zip(chosen, np.split(values, np.cumsum(counts)[:-1]), strict=True)


_AXES = {"tokens": 2, "segments": 2, "places": 1, "token": 1, "row": 1}


def parts(lengths: Sequence[int]) -> list[list[int]]:
    """Rows to read at once, by length: so many that they have about `_TOKENS` tokens."""
    order, found = sorted(range(len(lengths)), key=lambda i: lengths[i]), []
    while order:
        longest = max(_ROUND, lengths[order[min(len(order), _TOKENS // _ROUND) - 1]])
        size = max(1, _TOKENS // longest)
        found.append(order[:size])
        order = order[size:]
    return found


def filled(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """``rows`` as int32 [B, T], filled up with 0."""
    longest = -(-max(1, *(len(row) for row in rows)) // _ROUND) * _ROUND
    filled = np.zeros((len(rows), longest), np.int32)
    for target, row in zip(filled, rows, strict=True):
        target[: len(row)] = row
    return filled
