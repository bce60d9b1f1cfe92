"""Prompts, and the likelihood of their answers."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptmbench.bench.adapt.asking import AnsweringInput, filled
from ptmbench.bench.adapt.channels import Quote, Text, quoted, spelled, without_picture
from ptmbench.bench.adapt.likelihood.network import scorer
from ptmbench.bench.adapt.prompt import Own, check_form
from ptmbench.bench.adapt.prompt.wording import answers, question
from ptmbench.bench.engine.cost import phase
from ptmbench.models.channels import TEXT
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

_MULTIPLE = 16
"""Rows are padded to a multiple of this, so that few different shapes occur."""


@dataclass(frozen=True)
class AnswerRow:
    """One answer to one example, after its prompt. ``begin`` is the index in ``text`` (without [CLS]) at which the
    answer begins."""

    example: int
    answer: int
    begin: int
    text: Text

    @property
    def ids(self) -> list[int]:
        return self.text.ids


def respond(asked: AnsweringInput) -> tuple[list[Any], float]:
    """The most likely answers after the prompts, and the FLOPs of finding them."""
    with phase("encode"):
        found = rows(asked.task, asked.tokenizer, asked.settings, asked.train, asked.report, asked.seed, asked.reads)
    with phase("evaluate"):
        size = len(asked.report)
        chosen = predictions(asked.network, asked.title, asked.task, asked.tokenizer, asked.settings, found, size)
    return chosen, asked.scoring_flops([len(row.ids) for row in found])


def solved(task: Task, example: Example) -> list[Quote]:
    """``example`` with its correct answer, as a sentence. It is without the picture, because a row has the picture of
    its question only."""
    seen = without_picture(example)
    right = example.gold if task.form is Form.CHOICE else task.labels.index(example.gold)
    found = [*question(task, seen), Quote(" ", seen), answers(task, seen)[right]]
    return found if spelled(found).endswith((".", "!", "?")) else [*found, Quote(".", seen)]


def rows(
    task: Task,
    tokenizer: Tokenizer,
    settings: Own,
    train: Sequence[Example],
    examples: Sequence[Example],
    seed: int,
    reads: Collection[str] = TEXT,
) -> list[AnswerRow]:
    """A row for each answer to each example, with the channels that a model ``reads``. The solved examples are drawn
    from ``train`` by the seed and the example's place."""
    check_form(task)
    known, found = [e for e in train if e.gold is not None], []
    room = settings.length - len(tokenizer.vocabulary.template.start)
    for place, example in enumerate(examples):
        rng = np.random.default_rng([seed, 4, place])
        drawn = rng.choice(len(known), min(settings.shots, len(known)), replace=False)
        shown, asked = [solved(task, known[i]) for i in drawn], question(task, example)
        endings = answers(task, example)
        while True:
            prompt = [quote for one in shown for quote in (*one, Quote(" ", example))] + asked
            texts = [[*prompt, Quote(" ", example), ending] for ending in endings]
            bare, *whole = tokenizer.encode([spelled(prompt), *map(spelled, texts)])
            if not shown or max(map(len, whole)) <= room:
                break
            shown = shown[1:]
        begins = [_answer_begin(bare, ids) for ids in whole]
        # The same for all answers to an example. It ends before the answers, so a long one does not shorten the others.
        cut = min(max(0, max(map(len, whole)) - room), *begins)
        for number, (quotes, ids, begin) in enumerate(zip(texts, whole, begins, strict=True)):
            own = max(cut, len(ids) - room)
            text = quoted(tokenizer, quotes, ids).only(reads)
            found.append(AnswerRow(place, number, max(begin - own, 0), text[own:]))
    return found


def _answer_begin(bare: Sequence[int], whole: Sequence[int]) -> int:
    """The index in ``whole``, the ids of prompt and answer, at which the answer begins; ``bare`` are the ids of the
    prompt alone."""
    same = next((i for i, pair in enumerate(zip(bare, whole, strict=False)) if pair[0] != pair[1]), len(bare))
    return min(same, len(whole) - 1)  # an answer has at least one token


def predictions(
    network: Any, label: str, task: Task, tokenizer: Tokenizer, settings: Own, asked: Sequence[AnswerRow], count: int
) -> list[Any]:
    """The most likely answer to each of ``count`` examples, in the format of the task's metrics."""
    score = scorer(network, label, "an answer after a question")
    start = tokenizer.vocabulary.template.start
    best: list[tuple[float, int]] = [(-np.inf, 0)] * count
    order = sorted(asked, key=lambda row: len(row.ids))
    for first in range(0, len(order), settings.batch):
        part = order[first : first + settings.batch]
        longest = -(-(len(start) + len(part[-1].ids)) // _MULTIPLE) * _MULTIPLE
        batch = filled([row.text.filled(start) + row.text for row in part], min(longest, settings.length))
        for row, values in zip(part, score(batch), strict=True):
            size = len(row.ids) - row.begin
            value = float(values[len(start) + row.begin :].sum()) / (
                size if settings.per_token else 1
            )  # padding has the value 0
            # The negative number breaks ties: the first answer wins, in any order of the rows.
            best[row.example] = max(best[row.example], (value, -row.answer))
    chosen = [-answer for _, answer in best]
    return chosen if task.form is Form.CHOICE else [task.labels[answer] for answer in chosen]
