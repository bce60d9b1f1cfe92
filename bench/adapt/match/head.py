"""Matching: the cosine of a text and each of its candidate summaries.

Zhong et al. (2020), sections 4.1 and 4.2, MATCHSUM. D is the text, C* its reference, and C_1, C_2, ... are n candidates
in the order of their ROUGE against the reference, the best first. f is the cosine of two vectors from the same encoder:

    L_1 = sum_i max(0, f(D, C_i) - f(D, C*) + gold_margin) / n                     (equation 5)
    L_2 = sum_{i < j} max(0, f(D, C_j) - f(D, C_i) + (j - i) margin) / (n - j + i) (equation 6)
    L   = L_1 + L_2                                                                (equation 7)

The paper leaves the weights open. As in the authors' code, the loss is a mean over the pairs that are equally far
apart. ROUGE is the mean of ROUGE-1, ROUGE-2 and ROUGE-L. The nearest candidate is the summary (equation 8). If a
summary has three sentences, candidates are two or three of the five that extraction scores best, in the order of the
text (section 4.2).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import channels, heads, parts, summaries
from ptmbench.bench.adapt.heads import InputRow, layout, stack
from ptmbench.bench.adapt.match import Own
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.metrics.rouge import rouge
from ptmbench.tasks.task import Example, Task


class Codec(heads.Codec):
    """Converts texts and candidates to rows side by side, and cosines to the nearest candidate. `follow` must first get
    extraction's outputs for the same texts."""

    STATE = ("outputs", "sizes")
    prediction_batch = 4
    """Rows per batch in prediction. Each has about twenty texts."""

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Own, train: Sequence[Example]):
        if not summaries.wanted(task):
            raise NotApplicable("no-sentences", "because the target text is not part of the source.")
        self.tokenizer, self.settings = tokenizer, settings
        most = max(2, settings.sentences or task.extra["lead"])
        self.sizes = (most - 1, most)
        self.outputs = (settings.gold_margin, settings.margin)
        self.first = ("extract", settings.extract())
        """The adaptation whose outputs `follow` takes, and its settings."""
        self._candidates: dict[str, list[str]] = {}

    def follow(self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]) -> None:
        """Makes the candidates of each text from extraction's ``rows`` and its scores of their sentences."""
        for row, scores in zip(rows, outputs, strict=True):
            chosen = summaries.candidates(scores[: len(row.note)], self.settings.ranked, self.sizes)
            self._candidates[examples[row.example].inputs[0]] = [summaries.joined(row.note, one) for one in chosen]

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        """Rows of text and candidates."""
        return [self._row(i, example, self._extracted(example)) for i, example in enumerate(examples)]

    def training_rows(self, examples: Sequence[Example]) -> list[InputRow]:
        """Rows of text, reference and candidates. The best candidates come first."""
        rows = []
        for i, example in enumerate(examples):
            gold = example.gold[0]
            candidates = sorted(self._extracted(example), key=lambda one: -likeness(one, gold))
            rows.append(self._row(i, example, [gold, *candidates]))
        return rows

    def _extracted(self, example: Example) -> list[str]:
        """The candidates for the text of ``example``. Raises `NotApplicable` if `follow` has not made them."""
        if example.inputs[0] not in self._candidates:
            raise NotApplicable("no-candidates", "because no candidates were extracted from this text.")
        return self._candidates[example.inputs[0]]

    def _row(self, number: int, example: Example, candidates: list[str]) -> InputRow:
        """The row of example ``number`` with ``candidates``."""
        encoded = self.tokenizer.encode([example.inputs[0], *candidates])
        texts = channels.texts(self.tokenizer, example, encoded[:1])
        texts += channels.texts(self.tokenizer, example, encoded[1:], candidates)
        laid = [InputRow(layout(self.tokenizer.vocabulary, [one], self.settings.length), number) for one in texts]
        arrays = stack(laid, multiple=1)  # tokens, segments [1 + C, T]
        return InputRow(arrays | {"unused": np.zeros(len(candidates), np.float32)}, number, note=candidates)

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[str]:
        return [row.note[int(np.argmax(near[: len(row.note)]))] for row, near in zip(rows, outputs, strict=True)]


@lru_cache(maxsize=1 << 17)
def likeness(candidate: str, reference: str) -> float:
    """The mean of ROUGE-1, ROUGE-2 and ROUGE-L, 0 to 1; cached."""
    return float(np.mean(rouge.statistics([[reference]], [candidate])[0, :3]))


class Head(parts.Head):
    """Reads all texts of a batch as separate rows, [B * (1 + C), T]. ``outputs`` are the two margins. It has no
    weights."""

    def __init__(self, outputs: tuple[float, float]):
        super().__init__()
        self.gold_margin, self.margin = outputs

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        x = tf.math.l2_normalize(tf.cast(reading.pooled, tf.float32), axis=-1)  # [B * (1 + C), D]
        x = tf.reshape(x, [tf.shape(batch["unused"])[0], -1, x.shape[-1]])  # [B, 1 + C, D]
        near = tf.reduce_sum(x[:, :1] * x[:, 1:], axis=-1)  # [B, C]
        return near + batch["unused"][:, : tf.shape(near)[1]]  # far below 0 where there is no candidate

    def loss(self, near: Any, batch: dict[str, Any]) -> Any:
        gold, near = near[:, :1], near[:, 1:]  # [B, 1], [B, N]
        known = tf.cast(near > -2.0, tf.float32)
        count = tf.reduce_sum(known, axis=1)  # [B]
        places = tf.range(tf.shape(near)[1])
        apart = tf.cast(places[None] - places[:, None], tf.float32)  # [N, N], j - i
        first = tf.reduce_sum(known * tf.nn.relu(near - gold + self.gold_margin), axis=1) / tf.maximum(count, 1.0)
        pairs = tf.nn.relu(near[:, None] - near[:, :, None] + apart * self.margin)  # [B, i, j]
        share = tf.where(apart > 0, 1.0 / tf.maximum(count[:, None, None] - apart, 1.0), 0.0)
        both = known[:, None] * known[:, :, None]
        return tf.reduce_mean(first + tf.reduce_sum(tf.where(both > 0, share * pairs, 0.0), axis=[1, 2]))
