"""Functions that several baselines share."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptmbench.bench.errors import NotApplicable
from ptmbench.tasks.task import Example, Question, Task

Shares = Callable[[Sequence[str], Sequence[Question], Sequence[Question]], np.ndarray]
"""Maps (answers, training questions, questions to answer) to the probabilities of the answers, [N, C]."""


def most_common(values: Sequence[Any]) -> Any:
    return Counter(values).most_common(1)[0][0]


def check_targets(train: Sequence[Example]) -> None:
    """Raises `NotApplicable` if no training example has a target text."""
    if not any(example.gold for example in train):
        raise NotApplicable("no-targets", "because its training set has no target texts.")


def classified(shares_of: Shares, task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """Predicts with one classifier for each list of answers that the questions have. Most tasks have one list."""
    learned: dict[tuple[str, ...], list[Question]] = defaultdict(list)
    for question in (question for example in train for question in task.questions(example)):
        learned[question.answers].append(question)
    asked = [(i, question) for i, example in enumerate(examples) for question in task.questions(example)]
    found: list[Any] = [None] * len(asked)
    for answers in dict.fromkeys(question.answers for _, question in asked):
        places = [place for place, (_, question) in enumerate(asked) if question.answers == answers]
        shares = shares_of(answers, learned[answers], [asked[place][1] for place in places])
        for place, share in zip(places, shares, strict=True):
            found[place] = share
    of_example: list[list[Any]] = [[] for _ in examples]
    for (i, _), share in zip(asked, found, strict=True):
        of_example[i].append(share)
    return [task.chosen(shares) for shares in of_example]
