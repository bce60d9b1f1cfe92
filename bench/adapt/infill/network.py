"""Mask and infill in TensorFlow: the scores of pieces for blanks, and how blanks are filled."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.asking import traced
from ptmbench.bench.adapt.infill import Own
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.channels import CHANNELS, TEXT
from ptmbench.models.costs import Model
from ptmbench.models.text.tokenizers import Vocabulary


class Decoding(parts.NewDecoding):
    """Fills the blanks of a text with ``network``. Raises `NotApplicable` if it cannot fill blanks or does not read
    segments."""

    def __init__(self, network: Any, vocabulary: Vocabulary, settings: Own):
        if network.fill is None:
            raise NotApplicable("fills-no-blanks", "because this model gives no probabilities of the words at a blank.")
        self.network, self.vocabulary = network, vocabulary
        if network.encoder.causal or not self._tells_labels():
            raise NotApplicable(
                "no-label", "because this model does not read segments, which mark the label of a text."
            )
        self._best: Any = None

    def decode(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Scores [B, M, V] of every piece for each of ``places`` [B, M] of ``tokens`` [B, T] under ``label`` [B]. While
        a place is filled, it and all later places are blank. Places of -1 are padding."""
        tokens, places = tf.convert_to_tensor(batch["tokens"]), tf.convert_to_tensor(batch["places"])
        (rows, length), blanks = (tf.shape(tokens)[0], tf.shape(tokens)[1]), tf.shape(places)[1]
        marks = tf.one_hot(places, length, dtype=tf.int32)  # [B, M, T], all 0 for -1
        blank = tf.cumsum(marks, axis=1, reverse=True) > 0
        shown = tf.where(blank, self.vocabulary.mask, tokens[:, None])
        flat = tf.reshape(shown, [-1, length])  # [B * M, T]
        labels = tf.repeat(tf.convert_to_tensor(batch["label"]), blanks)
        channels = {name: tf.repeat(batch[name], blanks, axis=0) for name in _channels(batch)}
        logits = self._scores(flat, labels, tf.reshape(tf.maximum(places, 0), [-1]), channels)
        return tf.reshape(logits, [rows, blanks, logits.shape[-1]])

    def written(self, batch: dict[str, np.ndarray], write: Any = None) -> np.ndarray:
        """Fills ``places`` under the other label, one after the other, and returns the pieces int32 [B, M]."""
        if self._best is None:
            self._best = traced(self._likeliest)
        tokens, places, other = batch["tokens"].copy(), batch["places"], 1 - batch["label"]
        row = np.arange(len(tokens))[:, None]
        there = places >= 0
        tokens[np.broadcast_to(row, places.shape)[there], places[there]] = self.vocabulary.mask
        found = np.zeros(places.shape, np.int32)
        for m in range(places.shape[1]):
            here = np.flatnonzero(there[:, m])
            if len(here):
                asked = {"tokens": tokens[here], "label": other[here], "places": places[here, m]}
                asked |= {name: batch[name][here] for name in _channels(batch)}
                found[here, m] = tokens[here, places[here, m]] = self._best(asked)
        return found

    def decode_flops(self, model: Model, length: int, targets: float) -> float:
        """FLOPs of filling ``targets`` blanks of one row: the text is read, and the vocabulary scored, for each."""
        scored = 2 * self.network.encoder.width * self.vocabulary.size
        return targets * (model.encoder_flops(length) + scored)

    def _scores(self, tokens: tf.Tensor, label: tf.Tensor, places: tf.Tensor, channels: dict[str, Any]) -> tf.Tensor:
        segments = tf.where(tf.equal(tokens, 0), 0, label[:, None])
        return self.network.fill({**channels, "tokens": tokens, "segments": segments, "places": places})

    def _likeliest(self, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The piece that fits best, without special tokens: [B]."""
        first, channels = self.vocabulary.first, {name: batch[name] for name in _channels(batch)}
        scores = self._scores(batch["tokens"], batch["label"], batch["places"], channels)
        return tf.argmax(scores[:, first:], axis=1, output_type=tf.int32) + first

    def _tells_labels(self) -> bool:
        """Whether the network gives the same text other scores under another label."""
        tokens = tf.fill([1, 4], self.vocabulary.mask)
        one, other = (self._scores(tokens, tf.constant([label]), tf.constant([1]), {}).numpy() for label in (0, 1))
        return bool(np.any(one != other))


def _channels(batch: Mapping[str, Any]) -> list[str]:
    """The names of the input channels in ``batch``, without its texts."""
    return [name for name in batch if name in CHANNELS and name not in TEXT]
