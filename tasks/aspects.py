"""Aspect-based sentiment as sentence pairs: Sun, Huang & Qiu, 2019 (the survey's section 7.3 and reference 193).

What does a text say about an aspect? There are five ways to ask a classifier. All use the same examples, whose inputs
are (text, aspect as a phrase), so their scores and predictions can be compared one by one.

======  ==========================================  ===================================================================
single  the text alone                              labels of this aspect: one classifier per aspect, shared encoder
qa-m    the text and a question                     one of the task's labels
nli-m   the text and the phrase                     one of the task's labels
qa-b    the text and a statement for each label     yes or no; the label whose statement has the highest p(yes)
nli-b   the text and "label - phrase" for each      as in qa-b
======  ==========================================  ===================================================================

The paper's `single` also trains one encoder per aspect, eight for SentiHood. Here all aspects share one encoder, which
costs an eighth and lets aspects learn from each other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ptmbench.tasks.task import Example, Question, Task, UnknownTask

YES_NO = ("no", "yes")


class Wording(NamedTuple):
    """The auxiliary sentences of one aspect."""

    question: str
    statement: str
    """ "{}" is the place of the label."""


def construction(task: Task, way: str, wordings: Mapping[str, Wording]) -> Task:
    """Returns ``task`` with the questions of the construction ``way``. ``wordings`` has the auxiliary sentences of each
    phrase. Raises `UnknownTask` if there is no such construction."""
    if way not in _WAYS:
        raise UnknownTask(f"{task.title} has no construction '{way}'. Choices: {', '.join(_WAYS)}.")
    ask, answers = _WAYS[way](task.labels, wordings)
    return replace(
        task,
        name=task.name if way == "single" else f"{task.name}-{way}",
        title=f"{task.title} ({way})",
        ask=ask,
        answers=answers,
        decide=_most_affirmed if answers == YES_NO else None,
    )


def _ask_own_classifier(labels: Sequence[str], wordings: Mapping[str, Wording]) -> tuple[Callable, tuple[str, ...]]:
    own = {phrase: tuple(f"{phrase}: {label}" for label in labels) for phrase in wordings}

    def ask(example: Example) -> tuple[Question]:
        text, phrase = example.inputs
        gold = None if example.gold is None else f"{phrase}: {example.gold}"
        return (Question(inputs=(text,), answers=own[phrase], gold=gold),)

    return ask, tuple(answer for answers in own.values() for answer in answers)


def _ask_label(
    question: bool, labels: tuple[str, ...], wordings: Mapping[str, Wording]
) -> tuple[Callable, tuple[str, ...]]:
    def ask(example: Example) -> tuple[Question]:
        text, phrase = example.inputs
        second = wordings[phrase].question if question else phrase
        return (Question(inputs=(text, second), answers=labels, gold=example.gold),)

    return ask, labels


def _ask_yes_no(
    statement: bool, labels: tuple[str, ...], wordings: Mapping[str, Wording]
) -> tuple[Callable, tuple[str, ...]]:
    def ask(example: Example) -> tuple[Question, ...]:
        text, phrase = example.inputs
        pattern = wordings[phrase].statement if statement else f"{{}} - {phrase}"
        gold = [None if example.gold is None else YES_NO[example.gold == label] for label in labels]
        return tuple(
            Question(inputs=(text, pattern.format(label)), answers=YES_NO, gold=right)
            for label, right in zip(labels, gold, strict=True)
        )

    return ask, YES_NO


_WAYS = {
    "single": _ask_own_classifier,
    "qa-m": partial(_ask_label, True),
    "nli-m": partial(_ask_label, False),
    "qa-b": partial(_ask_yes_no, True),
    "nli-b": partial(_ask_yes_no, False),
}


def _most_affirmed(probabilities: Sequence[Sequence[float]]) -> list[float]:
    """p(yes) of each label's question, divided by the sum over labels."""
    yes = [float(share[1]) for share in probabilities]
    return [share / sum(yes) for share in yes] if sum(yes) > 0 else [1 / len(yes)] * len(yes)
