"""The first sentences of a text as its summary."""

from collections.abc import Sequence

from ptmbench.bench.adapt import summaries
from ptmbench.bench.baselines import Training
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

LABEL = "first sentences"


def by_default(task: Task) -> bool:
    return summaries.wanted(task)


def _lead(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    most = summaries.most(task, "lead")
    return [summaries.lead(e.inputs[0], most) for e in examples]


PREDICTORS = {Form.GENERATION: _lead}
TRAINING = {Form.GENERATION: Training.UNUSED}
