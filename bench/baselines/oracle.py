"""The sentences of a text that are nearest to its reference: about the best that an extractive summary can reach."""

from collections.abc import Sequence

from ptmbench.bench.adapt import summaries
from ptmbench.bench.baselines import Training
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

LABEL = "oracle sentences"


def by_default(task: Task) -> bool:
    return summaries.wanted(task)


def _best(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """Uses the first reference."""
    most = summaries.most(task, "oracle")
    return [summaries.best(e.inputs[0], e.gold[0], most) for e in examples]


PREDICTORS = {Form.GENERATION: _best}
TRAINING = {Form.GENERATION: Training.UNUSED}
