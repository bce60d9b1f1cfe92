"""Few-example variants of tasks, with a small part of the training set. "sst2-500" is SST-2 with 500 training examples.

`tasks.load` makes these variants for every task with a training set. The reported split stays whole and official. Only
the training data change, so a variant is a separate task with its own column.

The examples are drawn from the training split at random, without replacement and not by class, with the seed of the
cell. Every model gets the same examples for the same seed, and the spread over seeds includes the draw. They are all
the labelled data: a tenth of them is held out for early stopping, and the dev set is not used unless it is reported.
Early stopping on a dev set of thousands would use more labels than the training (Perez, Kiela and Cho, 2021, "True
few-shot learning with language models").
"""

import re
from dataclasses import replace

from ptmbench.tasks.forms import UNTRAINED, Form
from ptmbench.tasks.task import Task

LEAST = 10
"""The smallest number of training examples. One of them is held out for early stopping."""
VERSION = 1
"""Increased whenever the same seed draws other examples."""
DRAWN = "at random and not by class, from the seed; a tenth of them says when to stop"
"""How the examples are drawn, for the records."""
_COUNT = re.compile(r"[1-9]\d{1,5}")
_OTHERWISE = UNTRAINED | {Form.LANGUAGE_MODELLING, Form.FEW_SHOT}
"""Forms without a training set to draw from: they are not trained, or each example has its own training examples."""


def is_example_count(text: str) -> bool:
    """Whether ``text``, the end of a task's name, is a number of training examples."""
    return bool(_COUNT.fullmatch(text))


def has_training_split(task: Task) -> bool:
    """Whether ``task`` has a training split to draw from."""
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
