"""Few examples: any task that is learnt, with a small part of its training set. "sst2-500" is SST-2 with 500 examples.

`tasks.load` makes these variants of all tasks alike. What is reported stays whole and official; only what is learnt
from changes, so a variant is a task of its own, with its own column.

The examples are drawn at random from the training split, without replacement and not by class, from the seed of the
cell: every model under the same seed gets the same ones, and the spread over seeds contains the draw. They are all that
is labelled: a tenth of them says when to stop, and the dev set stays unread unless it is what is reported. Choosing by
a dev set of thousands would use more labels than the training (Perez, Kiela and Cho, 2021, "True few-shot learning with
language models").
"""

import re
from dataclasses import replace

from ptmbench.tasks.forms import UNTRAINED, Form
from ptmbench.tasks.task import Task

LEAST = 10
"""Examples: one of them says when to stop."""
VERSION = 1
"""Raised whenever the same seed draws other examples."""
DRAWN = "at random and not by class, from the seed; a tenth of them says when to stop"
"""What records say of the examples."""
_COUNT = re.compile(r"[1-9]\d{1,5}")
_OTHERWISE = UNTRAINED | {Form.LANGUAGE_MODELLING, Form.FEW_SHOT}
"""Forms without a training set to draw from: nothing is learnt, or each example brings its own."""


def counts(text: str) -> bool:
    """Whether ``text``, the end of a task's name, is a number of training examples."""
    return bool(_COUNT.fullmatch(text))


def able(task: Task) -> bool:
    """Whether ``task`` has a training split of its own to draw from."""
    return "train" in task.files and task.form not in _OTHERWISE and not task.train_examples


def variant(task: Task, count: int) -> Task:
    """``task`` with ``count`` training examples."""
    notes = f"Learns from {count} training examples, drawn {DRAWN}."
    return replace(
        task,
        name=f"{task.name}-{count}",
        title=f"{task.title}, {count} training examples",
        version=task.version + VERSION - 1,
        notes=f"{task.notes} {notes}".strip(),
        train_examples=count,
    )
