"""Span: where the answer begins and ends, by two scores per token (Devlin et al., 2019, section 4.2)."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from bench.adapt.heads import Row, layout
from bench.adapt.settings import Settings
from models.tokenizers import Tokenizer
from tasks.task import Example, Task

_LONGEST_ANSWER = 30
_BEST = 20


class Codec:
    """Question and context to windows of tokens; scores of all windows of an example to one piece of its original
    context.

    A context that does not fit is read in overlapping windows, ``settings.stride`` tokens apart. A window without the
    answer points at [CLS].
    """

    outputs = 2

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        self.tokenizer, self.settings = tokenizer, settings

    def rows(self, examples: Sequence[Example]) -> list[Row]:
        questions = self.tokenizer.encode([e.inputs[0] for e in examples])
        contexts = self.tokenizer.encode_with_offsets([e.inputs[1] for e in examples])
        rows = []
        for i, (example, question, (ids, offsets)) in enumerate(zip(examples, questions, contexts, strict=True)):
            question = question[: self.settings.length // 3]
            room = self.settings.length - 3 - len(question)
            edges = np.array(offsets, np.int64).reshape(-1, 2)  # first and past-the-last character of each token
            answer = _token_span(edges, example.gold[0]) if example.gold else None
            for begin in range(0, max(1, len(ids)), max(1, min(self.settings.stride, room))):
                window = ids[begin : begin + room]
                arrays = layout(self.tokenizer.vocabulary, [question, window], self.settings.length)
                first = len(question) + 2  # [CLS] question [SEP]
                start = end = 0
                if answer and begin <= answer[0] and answer[1] < begin + len(window):
                    start, end = answer[0] - begin + first, answer[1] - begin + first
                inside = np.zeros(len(arrays["tokens"]), np.int32)
                inside[[0, *range(first, first + len(window))]] = 1
                arrays |= {"inside": inside, "start": np.int32(start), "end": np.int32(end)}
                rows.append(Row(arrays, i, note=(first, edges[begin : begin + len(window)])))
                if begin + room >= len(ids):
                    break
        return rows

    def predictions(self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[np.ndarray]) -> list[str]:
        best = [(-np.inf, "")] * len(examples)
        for row, scores in zip(rows, outputs, strict=True):
            first, edges = row.note
            if not len(edges):
                continue
            starts, ends = scores[first : first + len(edges)].T  # [window], [window]
            # Against the window's own "no answer" score, so that windows of one example can be compared.
            score, i, j = _best_span(starts, ends)
            score -= float(scores[0].sum())
            if score > best[row.example][0]:
                text = examples[row.example].inputs[1][int(edges[i][0]) : int(edges[j][1])]
                best[row.example] = (score, text)
        return [text for _, text in best]


class Head(keras.layers.Layer):
    def __init__(self, outputs: int):
        super().__init__(name="head")
        self.dense = keras.layers.Dense(2, name="edges")

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        outside = 1.0 - ops.cast(batch["inside"], "float32")
        return self.dense(reading.tokens) - 1e9 * outside[..., None]  # [B, T, 2]

    def loss(self, scores: Any, batch: dict[str, Any]) -> Any:
        start = keras.losses.sparse_categorical_crossentropy(batch["start"], scores[..., 0], from_logits=True)
        end = keras.losses.sparse_categorical_crossentropy(batch["end"], scores[..., 1], from_logits=True)
        return ops.mean(start + end) / 2


def _token_span(edges: np.ndarray, answer: Any) -> tuple[int, int] | None:
    """First and last token that touch the answer's characters."""
    touching = np.flatnonzero((edges[:, 1] > answer.start) & (edges[:, 0] < answer.start + len(answer.text)))
    return (int(touching[0]), int(touching[-1])) if len(touching) else None


def _best_span(starts: np.ndarray, ends: np.ndarray) -> tuple[float, int, int]:
    """The pair i <= j < i + 30 of largest sum, among the 20 best starts and ends."""
    best = (-np.inf, 0, 0)
    for i in np.argsort(-starts)[:_BEST]:
        reach = ends[i : i + _LONGEST_ANSWER]
        j = int(i) + int(np.argmax(reach))
        if starts[i] + ends[j] > best[0]:
            best = (float(starts[i] + ends[j]), int(i), j)
    return best
