"""The source text without the words that give it its label (`bench.adapt.attributes`)."""

from collections.abc import Sequence

from ptmbench.bench.adapt import attributes
from ptmbench.bench.errors import NotApplicable
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

LABEL = "the source less its label's words"


def by_default(task: Task) -> bool:
    return attributes.has_polarities(task)


def _less(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    if not attributes.has_polarities(task):
        raise NotApplicable("no-baseline", "because delete applies only to texts with labels that can be exchanged.")
    return attributes.without(task, train, examples)


PREDICTORS = {Form.GENERATION: _less}
