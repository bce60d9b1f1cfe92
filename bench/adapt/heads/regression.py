"""Regression: one number on the pooled vector, in units of the training set's standard deviation."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from ptmbench.bench.adapt import channels, heads, parts
from ptmbench.bench.adapt.heads import InputRow, layout
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task


class Codec(heads.Codec):
    """Converts texts to token ids, and scores to standard units and back. Predictions are clipped to the range of the
    training scores; without training examples, they are 0."""

    STATE = ("mean", "deviation", "low", "high")
    outputs = 1

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        gold = np.array([e.gold for e in train] or [0.0], np.float64)
        numbers = (gold.mean(), gold.std() or 1.0, gold.min(), gold.max())
        self.mean, self.deviation, self.low, self.high = map(float, numbers)
        self.tokenizer, self.settings = tokenizer, settings

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        parts = [self.tokenizer.encode([e.inputs[i] for e in examples]) for i in range(len(examples[0].inputs))]
        rows = []
        for i, (example, *encoded) in enumerate(zip(examples, *parts, strict=True)):
            texts = channels.texts(self.tokenizer, example, encoded)
            arrays = layout(self.tokenizer.vocabulary, texts, self.settings.length)
            score = 0.0 if example.gold is None else (example.gold - self.mean) / self.deviation
            rows.append(InputRow(arrays | {"score": np.float32(score)}, i))
        return rows

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[float]:
        return [float(np.clip(float(value[0]) * self.deviation + self.mean, self.low, self.high)) for value in outputs]


class Head(parts.Head):
    def __init__(self, outputs: int):
        super().__init__()
        self.dense = keras.layers.Dense(1, name="score")

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        return self.dense(reading.pooled)  # [B, 1]

    def loss(self, scores: Any, batch: dict[str, Any]) -> Any:
        return ops.mean(ops.square(scores[:, 0] - batch["score"]))
