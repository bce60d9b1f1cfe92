"""Finds the translations of words by the direction of their vectors, which `bench.adapt.mapping` maps.

The candidates are ranked by the cosine, or by CSLS (Conneau et al., 2018, section 2.3):

    CSLS(x, y) = 2 cos(x, y) - r(x) - r(y)

where r is the mean cosine of a word with its k nearest words in the other language. A candidate that is near to every
question is then less likely to be the answer to any of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import channels, heads, parts
from ptmbench.bench.adapt.heads import InputRow, layout, stack, tie_safe_products
from ptmbench.bench.adapt.heads.ranking import candidates_of
from ptmbench.bench.adapt.mapping import Own
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Rank
from ptmbench.tasks.metrics.ranks import rank
from ptmbench.tasks.task import Example, Mention, Task

_ANSWER, _QUESTION = 1, 2


class Codec(heads.Codec):
    """Converts training examples to rows of question and answer. Other examples become one row for each distinct
    question, including those of the training examples, and one row for each candidate, because CSLS needs all known
    words of both languages.

    ``inside`` marks the tokens of the word, without those of the template: 2 in questions, 1 in answers.
    """

    outputs = 1

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Own, train: Sequence[Example]):
        self.tokenizer, self.settings = tokenizer, settings
        self.known = _questions(train)

    def state(self) -> dict[str, Any]:
        given = {asked: (e.inputs, e.channels) for asked, e in self.known.items() if e.channels}
        return {"known": tuple(self.known)} | ({"channels": given} if given else {})

    def restore(self, state: Mapping[str, Any]) -> None:
        self.known = {asked: Example(id="", inputs=(asked,)) for asked in state["known"]}
        for asked, (inputs, given) in state.get("channels", {}).items():
            layers = {
                name: tuple(one if isinstance(one, str) else Mention(*one) for one in layer)
                for name, layer in given.items()
            }
            self.known[asked] = Example(id="", inputs=tuple(inputs), channels=layers)

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        questions = self.known | {k: e for k, e in _questions(examples).items() if k not in self.known}
        rows = [_row([word], text) for text, word in self._words(questions, _QUESTION).items()]
        answers = self._answers(examples)
        return rows + [_row([answers[text]]) for text in candidates_of(examples).values()]

    def training_rows(self, examples: Sequence[Example]) -> list[InputRow]:
        words, answers = self._words(_questions(examples), _QUESTION), self._answers(examples)
        candidates = candidates_of(examples)
        return [_row([words[_question(e)], answers[candidates[e.gold]]]) for e in examples]

    def _answers(self, examples: Sequence[Example]) -> dict[str, InputRow]:
        """The row of each distinct text among the candidates."""
        texts = candidates_of(examples).values()
        return self._words({text: channels.candidate_of(examples[0], text) for text in texts}, _ANSWER)

    def _words(self, asked: Mapping[str, Example], side: int) -> dict[str, InputRow]:
        """The row of each text in ``asked``, with the channels of its example."""
        vocabulary, length = self.tokenizer.vocabulary, self.settings.length
        encoded = self.tokenizer.encode_words([text.split() for text in asked])
        found = {}
        for (text, example), (ids, owners) in zip(asked.items(), encoded, strict=True):
            own = channels.in_words(self.tokenizer, example, ids, owners)[: length - vocabulary.template.added(1)]
            arrays = layout(vocabulary, [own], length)
            arrays["inside"] = np.zeros_like(arrays["tokens"])
            begin = vocabulary.template.begins([len(own)])[0]
            arrays["inside"][begin : begin + len(own)] = side
            found[text] = InputRow(arrays, 0)
        return found

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[Rank]:
        if not examples:
            return []
        vectors = np.stack([output[0] for output in outputs])
        number = {row.note: place for place, row in enumerate(rows) if row.note is not None}
        asked, offered = vectors[: len(number)], vectors[len(number) :]
        scores = tie_safe_products(offered)(asked)  # [questions, C]: cosines
        if self.settings.csls:
            scores = csls(scores, self.settings.neighbours)
        names = list(examples[0].gold.candidates)
        place, found = {name: i for i, name in enumerate(names)}, []
        for example in examples:
            row, others = scores[number[_question(example)]], [place[name] for name in example.gold.others]
            found.append(Rank(rank(row, place[example.gold], others), best=names[int(np.argmax(row))]))
        return found


class Head(parts.Head):
    """Reads all words of a batch as separate rows, [B * C, T]. In training, C is 2: the question and its answer."""

    def __init__(self, outputs: int):
        super().__init__()

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        x = tf.convert_to_tensor(reading.pooled)  # [B * C, D]
        return tf.reshape(x, [tf.shape(batch["tokens"])[0], -1, x.shape[-1]])  # [B, C, D]

    def loss(self, vectors: Any, batch: dict[str, Any]) -> Any:
        """Minus the sum over the batch, not its mean, so that batches of all sizes add up."""
        return -tf.reduce_sum(vectors[:, 0] * vectors[:, -1])


def csls(cosines: np.ndarray, neighbours: int) -> np.ndarray:
    """CSLS of every question with every candidate, [Q, C], from their ``cosines``. If there are fewer words than
    ``neighbours``, the mean is over all of them."""
    asked, offered = _nearest(cosines, neighbours), _nearest(cosines.T, neighbours)
    return 2.0 * cosines - asked[:, None] - offered[None]


def _nearest(cosines: np.ndarray, count: int) -> np.ndarray:
    """The mean of the ``count`` largest numbers of each row."""
    count = min(count, cosines.shape[1])
    return np.partition(cosines, cosines.shape[1] - count, axis=1)[:, -count:].mean(axis=1)


def _question(example: Example) -> str:
    return " ".join(example.inputs)


def _questions(examples: Sequence[Example]) -> dict[str, Example]:
    """Each question once, as an example with its channels and nothing else. Words have no picture."""
    found: dict[str, Example] = {}
    for example in examples:
        given = channels.without_picture(example).channels
        inputs = example.inputs if given else (_question(example),)
        found.setdefault(_question(example), Example(id="", inputs=inputs, channels=given))
    return found


def _row(words: list[InputRow], note: str | None = None) -> InputRow:
    return InputRow(stack(words, multiple=1), -1, note)
