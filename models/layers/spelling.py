"""Words as sequences of characters: vectors computed by filters, the symbols, and the tokens that begin words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers.config import GLOROT, Start
from ptmbench.models.layers.core import Layer, made_from
from ptmbench.models.layers.operations import shape
from ptmbench.models.layers.recurrent_config import FilterConfig, HighwayConfig, SpelledConfig


def marker_of(pieces: Sequence[str]) -> str | None:
    """The marker before those pieces of a vocabulary that begin a word: "▁", "Ġ", or None."""
    return next((mark for mark in "▁Ġ" if sum(piece.startswith(mark) for piece in pieces) > len(pieces) / 10), None)


def symbols(pieces: Sequence[str], words: int, first: int, longest: int = 50) -> np.ndarray:
    """The symbols of each of ``words``, int32 [V, longest]: bytes, then one for each special token, the marks of
    beginning and end, and the padding. Without ``pieces`` words are spelled by their ids. Ids below ``first`` are
    special.

    A piece that continues a word has no mark of a beginning. A word that is not in a vocabulary of words is [UNK],
    whatever its letters.
    """
    begin = 256 + first
    end, padding = begin + 1, begin + 2
    pieces = pieces or [str(number) for number in range(words)]
    marker = marker_of([piece for piece in pieces[first:] if len(piece) > 1])
    table = np.full((words, longest), padding, np.int32)
    for number, piece in enumerate(pieces):
        opens = piece.startswith(marker or "##") == bool(marker)
        inner = list(piece.removeprefix(marker or "##").encode())
        if number < first:
            inner, opens = [256 + number], True
        spelled = [*([begin] if opens else []), *inner[: longest - 2], end]
        table[number, : len(spelled)] = spelled
    return table


def openings(pieces: Sequence[str], words: int, first: int, unknown: int) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays bool [V]: the tokens that begin a word, and those of them that are only a marker, without text of the
    word.

    Special tokens, those below ``first``, count as words. Without ``pieces`` all tokens do.
    """
    opens, marks = np.ones(words, bool), np.zeros(words, bool)
    text = pieces[first:]
    longer = [piece for piece in text if len(piece) > 1]
    marker = marker_of(longer)
    if text and not longer:  # characters, one "▁" among them
        marker = "▁"
    for number, piece in enumerate(text, first):
        opens[number] = piece.startswith(marker) if marker else not piece.startswith("##")
        marks[number] = piece == marker
    opens[unknown] = marker is None  # with a marker, an unknown character is a part of a word
    return opens, marks


@made_from(FilterConfig)
class Filters(Layer):
    """y_f = max_p sum_{k < w} F_f,k . z_{p+k} + b_f over z [N, P, I], [N, F].

    In a step with 1024 words of `elmo_cnn` at D 256 on one thread, the filters take 0.39 s as convolutions, and 0.62 s
    as products with copied windows. Extensions at "kernel" get the kernel [w, I, F].
    """

    SEAMS = ("kernel",)

    def starts(self) -> dict[str, Start]:
        return {"kernel": GLOROT}

    def call(self, z: tf.Tensor) -> tf.Tensor:
        kernel = self.through("kernel", tf.convert_to_tensor(self.kernel))
        return tf.reduce_max(tf.nn.conv1d(z, kernel, 1, "VALID"), axis=1) + self.bias


@made_from(HighwayConfig)
class Highway(Layer):
    """s(G y + a) * relu(H y + b) + (1 - s(G y + a)) * y, over y [N, F]."""

    def call(self, y: tf.Tensor) -> tf.Tensor:
        gate, new = tf.split(self.gates(y), 2, axis=1)
        gate = tf.sigmoid(gate)
        return gate * tf.nn.relu(new) + (1.0 - gate) * y


@made_from(SpelledConfig)
class Spelled(Layer):
    """Vectors [..., P] of words, int32 [...], from their letters: the largest value of each filter, ReLU, two highway
    layers, a projection. Padding counts as a symbol."""

    def __init__(self, config: SpelledConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self._symbols = symbols(config.pieces, config.words, config.first, config.symbols)  # [V, 50]

    def call(self, words: tf.Tensor) -> tf.Tensor:
        z = self.letters(tf.gather(self._symbols, tf.reshape(words, [-1])))  # [N, 50, 16]
        found = [getattr(self, f"filters_{window}")(z) for window, _ in self.config.filters]
        y = tf.nn.relu(tf.concat(found, axis=1))  # [N, F]
        y = self.highway_1(self.highway_0(y))
        return tf.reshape(self.projection(y), [*shape(words), self.config.width])
