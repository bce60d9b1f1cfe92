"""The contract of transforms: a change of a trained network that keeps its task."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ptmbench.bench.adapt.contract import Predictor
from ptmbench.tasks.task import Example


@runtime_checkable
class Transform(Protocol):
    """How a predictor becomes another one of the same task, smaller or faster."""

    summary: str
    settings: type
    """A frozen dataclass; its fields are what can be changed."""
    version: int
    """Raised when the same predictor becomes another one."""

    def transformed(
        self, predictor: Predictor, examples: Sequence[Example], settings: Any, seed: int
    ) -> tuple[Predictor, float]:
        """The transformed predictor, which can be saved like any other, and the FLOPs of making it. ``examples`` are
        unlabelled or training ones, for calibration."""

    def size(self, predictor: Predictor) -> tuple[int, int]:
        """Parameters of a transformed predictor that are not zero, and its bytes on disk."""
