"""Few-shot classification: a text gets the class whose solved texts are nearest, on average.

Prototypical networks (Snell et al., 2017, section 2.2) over the concatenated vectors of the two opening marks (Baldini
Soares et al., 2019, section 3.3, "entity start"; Han et al., 2018, for FewRel):

    p(n | q) = softmax_n  - s |q - mean_k x_nk|^2 / 2D

The scale s is learnt. It starts at 10, where a prototype at half the distance of the others is nearly certain.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import channels, heads, parts
from ptmbench.bench.adapt.heads import InputRow, classes, layout, stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Marked
from ptmbench.tasks.task import Example, Task

_SCALE = 10.0


class Codec(heads.Codec):
    """Converts an episode to one row of 1 + N K sequences, the question first, and scores to the name of the best
    class."""

    STATE = ("outputs",)

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        self.tokenizer, self.settings = tokenizer, settings
        self.outputs = classes(max((len(_names(example)) for example in train), default=1))

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        texts = list(dict.fromkeys(text for example in examples for text in example.inputs))
        encoded = self.tokenizer.encode_with_offsets([str(text) for text in texts])
        known = {str(text): found for text, found in zip(texts, encoded, strict=True)}
        rows = []
        for i, example in enumerate(examples):
            names = _names(example)
            parts = channels.texts(self.tokenizer, example, [known[str(text)][0] for text in example.inputs])
            offsets = [known[str(text)][1] for text in example.inputs]
            sequences = [self._sequence(*one) for one in zip(example.inputs, parts, offsets, strict=True)]
            arrays = stack(sequences, multiple=1)  # tokens [C, T], marks [C, 2]
            numbers = np.array([names.index(text.name) for text in example.inputs[1:]], np.int32)
            label = np.int32(-1 if example.gold is None else names.index(example.gold))
            rows.append(InputRow(arrays | {"classes": numbers, "label": label}, i, note=names))
        return rows

    def _sequence(self, text: Marked, ids: channels.Text, offsets: list[tuple[int, int]]) -> InputRow:
        arrays, template = layout(self.tokenizer.vocabulary, [ids], self.settings.length), self.tokenizer.vocabulary
        first, size = template.template.begins([len(ids)])[0], len(arrays["tokens"])
        ends = np.array([end for _, end in offsets], np.int64)
        places = first + np.searchsorted(ends, text.marks, side="right")  # the token that holds the mark
        home, stop = template.template.home(size), first + size - template.template.added(1)
        marks = np.where(places < stop, places, home)  # ``home`` stands for a mark that was cut off
        return InputRow(arrays | {"marks": marks.astype(np.int32)}, 0)

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[str]:
        return [row.note[int(np.argmax(scores[: len(row.note)]))] for row, scores in zip(rows, outputs, strict=True)]


class Head(parts.Head):
    """``outputs`` is the largest number of classes. Reads all texts of a batch as separate rows, [B * C, T]."""

    def __init__(self, outputs: int):
        super().__init__()
        self.outputs = outputs
        self.scale = self.add_weight(shape=(), initializer=keras.initializers.Constant(math.log(_SCALE)), name="scale")

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        rows, texts = tf.shape(batch["marks"])[0], tf.shape(batch["marks"])[1]
        marks = tf.reshape(batch["marks"][..., :2], [-1, 2])
        x = tf.gather(tf.convert_to_tensor(reading.tokens), marks, batch_dims=1)  # [B * C, 2, D]
        x = tf.reshape(x, [rows, texts, 2 * x.shape[-1]])
        which = tf.one_hot(batch["classes"][:, : texts - 1], self.outputs)  # [B, C - 1, N]
        count = tf.reduce_sum(which, axis=1)  # [B, N]
        prototypes = tf.einsum("bcn,bcd->bnd", which, x[:, 1:]) / tf.maximum(count, 1.0)[..., None]
        distance = tf.reduce_mean(tf.square(x[:, :1] - prototypes), axis=-1)  # [B, N]
        return -tf.exp(self.scale) * distance - 1e9 * tf.cast(tf.equal(count, 0.0), tf.float32)

    def loss(self, scores: Any, batch: dict[str, Any]) -> Any:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], scores))


def _names(example: Example) -> list[str]:
    """The classes, in the order of their first solved texts."""
    return list(dict.fromkeys(text.name for text in example.inputs[1:]))
