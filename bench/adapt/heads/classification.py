"""Classification: a softmax over the classes on the pooled vector."""

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
    """Texts to token ids, labels to class numbers and back."""

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        self.labels, self.tokenizer, self.settings = task.labels, tokenizer, settings
        self.outputs = classes(len(self.labels))
        self.number = {label: i for i, label in enumerate(self.labels)}

    def rows(self, examples: Sequence[Example]) -> list[Row]:
        # Outputs that this task does not use are pushed out of the softmax, so that any task can use the shared head.
        unused = np.where(np.arange(self.outputs) < len(self.labels), 0.0, -1e9).astype(np.float32)
        parts = [self.tokenizer.encode([e.inputs[i] for e in examples]) for i in range(len(examples[0].inputs))]
        rows = []
        for i, (example, *texts) in enumerate(zip(examples, *parts, strict=True)):
            arrays = layout(self.tokenizer.vocabulary, texts, self.settings.length)
            arrays |= {"label": np.int32(self.number.get(example.gold, -1)), "unused": unused}
            rows.append(Row(arrays, i))
        return rows

    def predictions(self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[np.ndarray]) -> list[str]:
        return [self.labels[int(np.argmax(logits[: len(self.labels)]))] for logits in outputs]


class Head(keras.layers.Layer):
    def __init__(self, outputs: int):
        super().__init__(name="head")
        self.dense = keras.layers.Dense(outputs, name="classes")

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        return self.dense(reading.pooled) + batch["unused"][:, : self.dense.units]  # [B, classes]

    def loss(self, logits: Any, batch: dict[str, Any]) -> Any:
        return ops.mean(keras.losses.sparse_categorical_crossentropy(batch["label"], logits, from_logits=True))
