"""Classification: a softmax over the classes on the pooled vector."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from ptmbench.bench.adapt import channels, heads, parts
from ptmbench.bench.adapt.heads import InputRow, classes, layout
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task


class Codec(heads.Codec):
    """Converts texts to token ids, and answers to class numbers and back. Each question that the task asks about an
    example has a row; most tasks ask one question, with their labels as answers."""

    STATE = ("outputs", "number")

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        self.task, self.labels, self.tokenizer, self.settings = task, task.labels, tokenizer, settings
        answers = task.answers or task.labels
        self.outputs = classes(len(answers))
        self.number = {answer: i for i, answer in enumerate(answers)}

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        asked = [(i, question) for i, example in enumerate(examples) for question in self.task.questions(example)]
        texts = list(dict.fromkeys(text for _, question in asked for text in question.inputs))
        ids = dict(zip(texts, self.tokenizer.encode(texts), strict=True))
        # Outputs that are no answer here are excluded from the softmax, so that any task can use the shared head.
        numbers = {answers: [self.number[answer] for answer in answers] for answers in {q.answers for _, q in asked}}
        unused = {answers: np.full(self.outputs, -1e9, np.float32) for answers in numbers}
        for answers, places in numbers.items():
            unused[answers][places] = 0.0
        rows = []
        for i, question in asked:
            encoded = [ids[text] for text in question.inputs]
            parts = channels.texts(self.tokenizer, examples[i], encoded, question.inputs)
            arrays = layout(self.tokenizer.vocabulary, parts, self.settings.length)
            arrays |= {"label": np.int32(self.number.get(question.gold, -1)), "unused": unused[question.answers]}
            rows.append(InputRow(arrays, i, note=numbers[question.answers]))
        return rows

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[str]:
        shares: list[list[np.ndarray]] = [[] for _ in examples]
        for row, logits in zip(rows, outputs, strict=True):
            shares[row.example].append(_softmax(np.asarray(logits, np.float64)[row.note]))
        return [self.task.chosen(share) for share in shares]

    def probabilities(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[dict[Any, float]] | None:
        if len(rows) != len(examples):  # a task may ask several questions about an example
            return None
        answers = list(self.number)
        shares = (_softmax(np.asarray(logits, np.float64)[row.note]) for row, logits in zip(rows, outputs, strict=True))
        return [
            {answers[number]: float(p) for number, p in zip(row.note, share, strict=True)}
            for row, share in zip(rows, shares, strict=True)
        ]


class Head(parts.Head):
    def __init__(self, outputs: int):
        super().__init__()
        self.dense = keras.layers.Dense(outputs, name="classes")

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        return self.dense(reading.pooled) + batch["unused"][:, : self.dense.units]  # [B, classes]

    def loss(self, logits: Any, batch: dict[str, Any]) -> Any:
        return ops.mean(keras.losses.sparse_categorical_crossentropy(batch["label"], logits, from_logits=True))


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()
