"""LSTM over characters in both directions, read where words begin and end: the network of Flair.

Source: Akbik et al. (2018), sections 2.1 and 2.2; the LSTM is that of `models.architectures.left_lstm`. The text is one
string of characters x_0 ... x_{T-1}, and a word from character a to character z has the vector

    [forward_z; backward_a]

forward_z has read everything up to the word's last character and backward_a, coming from the end, everything down to
its first. All tokens of a word get its vector, so that a head finds it at whichever it looks.

Tokens are characters under `--tokenizer character`, where "▁" stands before each word: it belongs to the word's tokens
and is not its first character. With pieces in place of characters the same holds of the first and the last piece.
"""

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.architectures.left_lstm import over
from ptmbench.models.architectures.lstm import remember
from ptmbench.models.architectures.parts import HIDDEN, check_length, dropout, shape
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.tokenizers import Vocabulary


def openings(vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """bool [V] twice: the tokens that a word begins with, and those of them that are a mark and no part of its text.

    Special tokens are words. Where only the number of tokens is known, all are.
    """
    opens, marks = np.ones(vocabulary.size, bool), np.zeros(vocabulary.size, bool)
    text = (vocabulary.pieces or ())[vocabulary.first :]
    longer = [piece for piece in text if len(piece) > 1]
    marker = next((mark for mark in "▁Ġ" if sum(piece.startswith(mark) for piece in longer) > len(longer) / 10), None)
    if text and not longer:  # characters, one "▁" among them
        marker = "▁"
    for number, piece in enumerate(text, vocabulary.first):
        opens[number] = piece.startswith(marker) if marker else not piece.startswith("##")
        marks[number] = piece == marker
    opens[vocabulary.unk] = marker is None  # beside a marker an unknown character is a part of a word
    return opens, marks


class StringLstm(keras.layers.Layer):
    """L layers of D / 2 cells in both directions: batch to `Encoding`.

    Characters are looked up in a table [V, D / 2] that both directions share. ``Encoding.layers`` are [e; e] of the
    tokens themselves, then the words' vectors of each layer; ``pooled`` is the maximum over the last ones. Networks of
    this kind have no longest input; ``length`` bounds memory. ``dropout`` is read when a graph is traced.
    """

    causal = False
    recurrent = True

    def __init__(self, size: Size, vocabulary: Vocabulary, name: str = "encoder"):
        super().__init__(name=name)
        if size.width % 2:
            raise ValueError(
                f"A bidirectional LSTM needs an even width, not {size.width}: each direction has half of it."
            )
        self.width, self.depth, self.length, self.dropout = size.width, size.layers, size.length, 0.1
        self.state = size.width // 2
        self._opens, self._marks = openings(vocabulary)
        start = keras.initializers.RandomNormal(stddev=4 * self.state**-0.5)  # as in `models.architectures.left_lstm`
        self.token_embedding = self.add_weight((vocabulary.size, self.state), start, name="tokens")
        self.forward_layers = [self._direction(f"layer_{index}_forward") for index in range(size.layers)]
        self.backward_layers = [self._direction(f"layer_{index}_backward") for index in range(size.layers)]
        self.built = True

    def _direction(self, name: str) -> SimpleNamespace:
        cells = self.state
        return SimpleNamespace(
            input=self.add_weight((cells, 4 * cells), "glorot_uniform", name=f"{name}_input"),
            bias=self.add_weight((4 * cells,), remember, name=f"{name}_bias"),
            recurrent=self.add_weight((cells, 4 * cells), "glorot_uniform", name=f"{name}_recurrent"),
        )

    def forward(self, tokens: tf.Tensor, seed: Any = None) -> list[tf.Tensor]:
        """The L + 1 tensors [T, B, C] of the forward direction for ``tokens`` [B, T]: embeddings, then each layer."""
        return self._run(tf.transpose(tokens), self.forward_layers, seed, salt=0)

    def backward(self, tokens: tf.Tensor, seed: Any = None) -> list[tf.Tensor]:
        """As `forward`, from right to left: the tensors stand at the tokens' own places again."""
        lengths = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)  # [B]
        reversed_tokens = tf.transpose(tf.reverse_sequence(tokens, lengths, seq_axis=1, batch_axis=0))  # [T, B]
        layers = self._run(reversed_tokens, self.backward_layers, seed, salt=100)
        return [tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1) for x in layers]

    def _run(self, tokens: tf.Tensor, weights: list[SimpleNamespace], seed: Any, salt: int) -> list[tf.Tensor]:
        check_length(shape(tokens)[0], self.length, "encoder")
        layers = [tf.gather(self.token_embedding.value, tokens)]  # [T, B, C]
        for index, layer in enumerate(weights):
            read = dropout(layers[-1], self.dropout, seed, salt + index)
            layers.append(over(read, layer, layer.recurrent.value, None)[0])
        layers[-1] = dropout(layers[-1], self.dropout, seed, salt + len(weights))
        return layers

    def places(self, tokens: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Where the first and the last character of each token's word are, int32 [B, T] twice."""
        opens = tf.cast(tf.gather(self._opens, tokens), tf.int32)  # [B, T]
        word = tf.cumsum(opens, axis=1)  # never falls, so that its ends are found by halving
        first, last = tf.searchsorted(word, word, side="left"), tf.searchsorted(word, word, side="right") - 1
        marked = tf.cast(tf.gather(self._marks, tf.gather(tokens, first, batch_dims=1)), tf.int32)
        return tf.minimum(first + marked, last), last

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        first, last = self.places(tokens)
        forward, backward = (
            [tf.transpose(x, [1, 0, 2]) for x in layers]  # [B, T, C]
            for layers in (self.forward(tokens, seed), self.backward(tokens, seed))
        )
        layers = [tf.concat([forward[0], backward[0]], axis=2)]  # [B, T, D]
        for ahead, back in zip(forward[1:], backward[1:], strict=True):
            ends = tf.gather(ahead, last, batch_dims=1), tf.gather(back, first, batch_dims=1)
            layers.append(tf.concat(ends, axis=2))
        hidden = tf.cast(tf.where(tf.equal(tokens, 0), HIDDEN, 0.0), layers[-1].dtype)[:, :, None]  # [B, T, 1]
        return Encoding(tokens=layers[-1], pooled=tf.reduce_max(layers[-1] + hidden, axis=1), layers=tuple(layers))
