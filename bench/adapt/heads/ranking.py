"""Ranking: question and candidate are encoded separately, and compared by the cosine of their vectors.

Two towers with shared weights (Wang et al., 2022, SimKGC, sections 3.2 to 3.4; as the Siamese part of StAR, Wang et
al., 2021): each candidate is encoded once, not once with every question as in KG-BERT (Yao et al., 2019). The answers
in a batch are negatives for each other:

    p(a | q) = softmax_a  s cos(q, a)        over a and those answers of the batch that no training example has for q

The scale s = 1 / temperature is learnt and starts at 20 (SimKGC, section 4.1).
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import channels, heads, parts
from ptmbench.bench.adapt.heads import InputRow, layout, stack, tie_safe_products
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Piece, Rank
from ptmbench.tasks.metrics.ranks import rank
from ptmbench.tasks.task import Example, Task

_SCALE = 20.0
_CHUNK = 256
"""Questions whose scores of all candidates are in memory at the same time."""


class Codec(heads.Codec):
    """Converts training examples to rows of question and answer. Other examples become rows of their questions,
    followed by a row for each candidate."""

    outputs = 1

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        self.tokenizer, self.settings = tokenizer, settings
        self.right: dict[tuple, set[str]] = defaultdict(set)
        for example in train:  # not `Target.others`, which have the answers of the other splits
            self.right[_question(example)].add(str(example.gold))

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        candidates, ids = candidates_of(examples), self._ids(examples)
        number = {name: place for place, name in enumerate(candidates)}
        rows = [_row([self._question_row(ids, e)], number[e.gold], [-1], i) for i, e in enumerate(examples)]
        texts = enumerate(candidates.values())
        return rows + [_row([self._candidate_row(ids, text, examples[0])], n, [-1], -1) for n, text in texts]

    def training_rows(self, examples: Sequence[Example]) -> list[InputRow]:
        candidates, ids = candidates_of(examples), self._ids(examples)
        number = {name: place for place, name in enumerate(candidates)}
        rows = []
        for i, example in enumerate(examples):
            answer = self._candidate_row(ids, candidates[example.gold], examples[0])
            others = [number[name] for name in self.right[_question(example)]]
            rows.append(_row([self._question_row(ids, example), answer], number[example.gold], others, i))
        return rows

    def _ids(self, examples: Sequence[Example]) -> dict[str, list[int]]:
        """The token ids of all texts of ``examples`` and of the candidates."""
        texts = list(dict.fromkeys([*(t for e in examples for t in e.inputs), *candidates_of(examples).values()]))
        return dict(zip(texts, self.tokenizer.encode(texts), strict=True))

    def _question_row(self, ids: dict[str, list[int]], example: Example) -> InputRow:
        """The row of the question of ``example``."""
        first, *rest = channels.texts(self.tokenizer, example, [ids[text] for text in example.inputs])
        return self._sequence([first, channels.joined(rest)] if rest else [first])

    def _candidate_row(self, ids: dict[str, list[int]], text: str, example: Example) -> InputRow:
        """The row of a candidate. All questions share it, so any of them, such as ``example``, gives the language."""
        return self._sequence(channels.texts(self.tokenizer, channels.candidate_of(example, text), [ids[text]]))

    def _sequence(self, parts: list[channels.Text]) -> InputRow:
        return InputRow(layout(self.tokenizer.vocabulary, [part for part in parts if part], self.settings.length), 0)

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[Rank]:
        vectors = np.stack([output[0] for output in outputs])  # [questions + candidates, D]
        asked, offered = vectors[: len(examples)], vectors[len(examples) :]
        names, found = list(examples[0].gold.candidates) if examples else [], []
        number = {name: place for place, name in enumerate(names)}
        compare = tie_safe_products(offered)
        for first in range(0, len(examples), _CHUNK):
            scores = compare(asked[first : first + _CHUNK])  # [n, C]
            for example, row in zip(examples[first : first + _CHUNK], scores, strict=True):
                others = [number[name] for name in example.gold.others]
                found.append(Rank(rank(row, number[example.gold], others), best=names[int(np.argmax(row))]))
        return found


class Head(parts.Head):
    """Reads all texts of a batch as separate rows, [B * C, T]. In training, C is 2: the question and its answer."""

    def __init__(self, outputs: int):
        super().__init__()
        self.scale = self.add_weight(shape=(), initializer=keras.initializers.Constant(math.log(_SCALE)), name="scale")

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        x = tf.math.l2_normalize(tf.convert_to_tensor(reading.pooled), axis=-1)  # [B * C, D]
        return tf.reshape(x, [tf.shape(batch["answer"])[0], -1, x.shape[-1]])  # [B, C, D]

    def loss(self, vectors: Any, batch: dict[str, Any]) -> Any:
        scores = tf.exp(self.scale) * tf.matmul(vectors[:, 0], vectors[:, -1], transpose_b=True)  # [B, B]
        right = tf.reduce_any(tf.equal(batch["others"][:, :, None], batch["answer"][None, None]), axis=1)  # [B, B]
        own = tf.eye(tf.shape(scores)[0], dtype=tf.bool)
        scores -= 1e9 * tf.cast(right & ~own, tf.float32)
        labels = tf.range(tf.shape(scores)[0])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores))


def candidates_of(examples: Sequence[Example]) -> dict[str, str]:
    """The texts by name of the candidates, which all ``examples`` share."""
    return next((e.gold.candidates for e in examples), {})


def _question(example: Example) -> tuple:
    first = example.inputs[0]
    return first.name if isinstance(first, Piece) else first, *map(str, example.inputs[1:])


def _row(sequences: list[InputRow], answer: int, others: Sequence[int], example: int) -> InputRow:
    arrays = stack(sequences, multiple=1)  # tokens [C, T]
    return InputRow(arrays | {"answer": np.int32(answer), "others": np.array(others, np.int32)}, example)
