"""Choice: each choice is read with the context and gets one score, with a softmax over the scores (Radford et al.,
2018, section 3.3).

Examples of a batch may have different numbers of choices. Padding is excluded from the softmax.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from ptmbench.bench.adapt import channels, heads, parts
from ptmbench.bench.adapt.heads import InputRow, layout, stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task


class Codec(heads.Codec):
    """Converts context and choices to one row of C sequences, and scores to the index of the best choice."""

    outputs = 1

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        self.tokenizer, self.settings = tokenizer, settings

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        vocabulary, rows = self.tokenizer.vocabulary, []
        for i, example in enumerate(examples):
            encoded = self.tokenizer.encode(example.inputs)
            context, *choices = channels.texts(self.tokenizer, example, encoded)
            each = [InputRow(layout(vocabulary, [context, choice], self.settings.length), i) for choice in choices]
            gold = np.int32(-1 if example.gold is None else example.gold)
            arrays = stack(each, multiple=1)  # tokens [C, T]
            rows.append(InputRow(arrays | {"choice": gold, "unused": np.zeros(len(choices), np.float32)}, i))
        return rows

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[int]:
        return [int(np.argmax(scores[: len(row.arrays["unused"])])) for row, scores in zip(rows, outputs, strict=True)]

    def probabilities(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[dict[Any, float]]:
        found = []
        for row, scores in zip(rows, outputs, strict=True):
            powers = np.exp(np.asarray(scores[: len(row.arrays["unused"])], np.float64) - np.max(scores))
            found.append(dict(enumerate((powers / powers.sum()).tolist())))
        return found


class Head(parts.Head):
    """Reads all choices of a batch as separate rows, [B * C, T]; `bench.adapt.adapted` reshapes the batch."""

    def __init__(self, outputs: int):
        super().__init__()
        self.dense = keras.layers.Dense(1, name="score")

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        scores = ops.reshape(self.dense(reading.pooled), (ops.shape(batch["choice"])[0], -1))  # [B, C]
        return scores + batch["unused"][:, : ops.shape(scores)[1]]

    def loss(self, scores: Any, batch: dict[str, Any]) -> Any:
        return ops.mean(keras.losses.sparse_categorical_crossentropy(batch["choice"], scores, from_logits=True))
