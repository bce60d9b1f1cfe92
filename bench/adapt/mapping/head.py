"""Words and their translations by the direction of their vectors, which `bench.adapt.mapping` maps.

Which candidate is a word's translation is told by the cosine, or by CSLS (Conneau et al., 2018, section 2.3):

    CSLS(x, y) = 2 cos(x, y) - r(x) - r(y)

with r the mean cosine of a word with its k nearest ones in the other language: a candidate that lies near to every
question is less likely to be the answer to any of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import heads, parts
from ptmbench.bench.adapt.heads import Row, against, stack
from ptmbench.bench.adapt.mapping import Own
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Rank
from ptmbench.tasks.metrics.ranks import rank
from ptmbench.tasks.task import Example, Task

_ANSWER, _QUESTION = 1, 2


class Codec(heads.Codec):
    """Training examples to rows of question and answer; others to one row for each different question, those of the
    training examples among them, and one for each candidate: CSLS looks at all words of both languages that there are.

    ``inside`` marks the tokens that are the word, and not the template's: 2 in questions, 1 in answers.
    """

    STATE = ("known",)
    outputs = 1

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Own, train: Sequence[Example]):
        self.tokenizer, self.settings, self.train = tokenizer, settings, train
        self.known = tuple(dict.fromkeys(map(_question, train)))

    def rows(self, examples: Sequence[Example]) -> list[Row]:
        candidates = next((e.gold.candidates for e in examples), {})
        questions = list(dict.fromkeys([*self.known, *map(_question, examples)]))
        texts = list(dict.fromkeys([*questions, *candidates.values()]))
        encoded = self.tokenizer.encode_words([text.split() for text in texts])
        ids = {text: found for text, (found, _) in zip(texts, encoded, strict=True)}
        if examples is not self.train:
            rows = [_row([self._word(ids[text], _QUESTION)], text) for text in questions]
            return rows + [_row([self._word(ids[text], _ANSWER)]) for text in candidates.values()]
        return [
            _row([self._word(ids[_question(e)], _QUESTION), self._word(ids[candidates[e.gold]], _ANSWER)])
            for e in examples
        ]

    def _word(self, ids: list[int], side: int) -> Row:
        template = self.tokenizer.vocabulary.template
        own = ids[: self.settings.length - template.added(1)]
        tokens, segments = (np.array(part, np.int32) for part in template.lay([own]))
        inside = np.zeros_like(tokens)
        begin = template.begins([len(own)])[0]
        inside[begin : begin + len(own)] = side
        return Row({"tokens": tokens, "segments": segments, "inside": inside}, 0)

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[np.ndarray]
    ) -> list[Rank]:
        if not examples:
            return []
        vectors = np.stack([output[0] for output in outputs])
        number = {row.note: place for place, row in enumerate(rows) if row.note is not None}
        asked, offered = vectors[: len(number)], vectors[len(number) :]
        scores = against(offered)(asked)  # [questions, C]: cosines
        if self.settings.csls:
            scores = csls(scores, self.settings.neighbours)
        names = list(examples[0].gold.candidates)
        place, found = {name: i for i, name in enumerate(names)}, []
        for example in examples:
            row, others = scores[number[_question(example)]], [place[name] for name in example.gold.others]
            found.append(Rank(rank(row, place[example.gold], others), best=names[int(np.argmax(row))]))
        return found


class Head(parts.Head):
    """Reads words that lie side by side, [B * C, T]; in training C is 2, the question and its answer."""

    def __init__(self, outputs: int):
        super().__init__()

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        x = tf.convert_to_tensor(reading.pooled)  # [B * C, D]
        return tf.reshape(x, [tf.shape(batch["tokens"])[0], -1, x.shape[-1]])  # [B, C, D]

    def loss(self, vectors: Any, batch: dict[str, Any]) -> Any:
        """Minus the sum over the batch, not its mean: batches of all sizes add up."""
        return -tf.reduce_sum(vectors[:, 0] * vectors[:, -1])


def csls(cosines: np.ndarray, neighbours: int) -> np.ndarray:
    """CSLS of every question with every candidate, [Q, C], from their ``cosines``; where there are fewer words than
    ``neighbours``, the mean is over all of them."""
    asked, offered = _nearest(cosines, neighbours), _nearest(cosines.T, neighbours)
    return 2.0 * cosines - asked[:, None] - offered[None]


def _nearest(cosines: np.ndarray, count: int) -> np.ndarray:
    """The mean of the ``count`` largest numbers of each row."""
    count = min(count, cosines.shape[1])
    return np.partition(cosines, cosines.shape[1] - count, axis=1)[:, -count:].mean(axis=1)


def _question(example: Example) -> str:
    return " ".join(example.inputs)


def _row(words: list[Row], note: str | None = None) -> Row:
    return Row(stack(words, multiple=1), -1, note)
