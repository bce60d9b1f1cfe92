"""The source text without changes, for translation and rewriting."""

from collections.abc import Sequence

from ptmbench.bench.adapt import attributes
from ptmbench.bench.baselines import Training
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

LABEL = "the source as it is"


def by_default(task: Task) -> bool:
    return attributes.has_polarities(task)


def _sources(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    return [example.inputs[0] for example in examples]


PREDICTORS = {Form.GENERATION: _sources}
TRAINING = {Form.GENERATION: Training.UNUSED}
