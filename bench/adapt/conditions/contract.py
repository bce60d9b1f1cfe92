"""The contract of conditions. A condition changes the inputs at evaluation time and keeps the gold answers."""

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
    """A frozen dataclass. Each field is a `bench.adapt.settings.setting` that users can change."""
    version: int
    """Increased when the same seed gives other examples."""

    def fits(self, form: Form) -> bool:
        """Whether the gold answers of ``form`` stay right."""

    def changed(
        self, task: Task, examples: Sequence[Example], settings: Any, seed: int, predictor: Predictor | None
    ) -> list[Example]:
        """Returns ``examples`` under the condition, in the same order, with the same ids and gold.

        The change of an example depends on (seed, its id) and, in attacks, on the predictions of ``predictor`` for it,
        but not on the other examples. ``predictor`` is None for a baseline; conditions that need one then raise
        `NotApplicable`.
        """
