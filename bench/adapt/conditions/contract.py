"""The contract of conditions: a change of the input at evaluation time, which keeps what is right."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ptmbench.bench.adapt.contract import Predictor
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task


@runtime_checkable
class Condition(Protocol):
    """How the examples of a task change before a predictor answers them."""

    summary: str
    settings: type
    """A frozen dataclass; its fields are what can be changed, each a `bench.adapt.settings.setting`."""
    version: int
    """Raised when the same seed gives other examples."""

    def fits(self, form: Form) -> bool:
        """Whether the gold of examples of ``form`` stays right."""

    def changed(
        self, task: Task, examples: Sequence[Example], settings: Any, seed: int, predictor: Predictor | None
    ) -> list[Example]:
        """``examples`` under the condition, in their order and with their ids and gold.

        What happens to an example follows from (seed, its id), and in attacks from what ``predictor`` says of it; which
        other examples there are does not matter. ``predictor`` is None for a baseline: a condition that has to ask it
        raises `NotApplicable`.
        """
