"""Tagging: a softmax over the tags at the first token of every word (Devlin et al., 2019, section 5.3)."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from bench.adapt.heads import Row, classes, layout
from bench.adapt.settings import Settings
from models.tokenizers import Tokenizer
from tasks.task import Example, Task


class Codec:
    """Words to token ids, tags to numbers at first tokens and back. A sentence too long for one row goes on in the
    next."""

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        self.labels, self.tokenizer, self.settings = task.labels, tokenizer, settings
        self.outputs = classes(len(self.labels))
        self.number = {label: i for i, label in enumerate(self.labels)}

    def rows(self, examples: Sequence[Example]) -> list[Row]:
        room, rows = self.settings.length - 2, []
        unused = np.where(np.arange(self.outputs) < len(self.labels), 0.0, -1e9).astype(np.float32)
        for i, (ids, words) in enumerate(self.tokenizer.encode_words([e.inputs for e in examples])):
            firsts = np.flatnonzero(np.diff(words, prepend=-1))
            begin = 0
            while begin < len(firsts):
                from_token = firsts[begin]
                end = int(np.searchsorted(firsts, from_token + room, side="left"))
                end = max(end, begin + 1)
                stop = firsts[end] if end < len(firsts) else len(ids)
                if stop - from_token > room and end - begin > 1:  # the last word would be cut: it begins the next row
                    end -= 1
                    stop = firsts[end]
                arrays = layout(self.tokenizer.vocabulary, [ids[from_token:stop]], self.settings.length)
                places = firsts[begin:end] - from_token + 1
                tags = np.full(len(arrays["tokens"]), -1, np.int32)
                if examples[i].gold is not None:
                    tags[places] = [self.number[tag] for tag in examples[i].gold[begin:end]]
                rows.append(Row(arrays | {"tags": tags, "unused": unused}, i, note=(begin, places)))
                begin = end
        return rows

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[np.ndarray]
    ) -> list[list[str]]:
        tags = [["O"] * len(example.inputs) for example in examples]
        for row, logits in zip(rows, outputs, strict=True):
            begin, places = row.note
            best = np.argmax(logits[places][:, : len(self.labels)], axis=-1)
            tags[row.example][begin : begin + len(places)] = [self.labels[k] for k in best]
        return tags


class Head(keras.layers.Layer):
    def __init__(self, outputs: int):
        super().__init__(name="head")
        self.dense = keras.layers.Dense(outputs, name="tags")

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        return self.dense(reading.tokens) + batch["unused"][:, None, : self.dense.units]  # [B, T, tags]

    def loss(self, logits: Any, batch: dict[str, Any]) -> Any:
        known = ops.cast(batch["tags"] >= 0, "float32")
        each = keras.losses.sparse_categorical_crossentropy(ops.maximum(batch["tags"], 0), logits, from_logits=True)
        return ops.sum(each * known) / ops.maximum(ops.sum(known), 1.0)
