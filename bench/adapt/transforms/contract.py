"""The contract of transforms: a change of a trained network that keeps its task.

A folder ``bench/adapt/transforms/NAME`` holds the transform NAME: its ``__init__.py`` defines ``TRANSFORM`` and imports
neither TensorFlow nor Keras, because plans and cost estimates read it. Methods that need them import them from the
folder's other files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from ptmbench.bench.adapt.settings import Settings

if TYPE_CHECKING:
    from ptmbench.bench.adapt.adapted import Adapted
    from ptmbench.bench.adapt.course import Bookmark, Course
    from ptmbench.bench.adapt.heads import Row
    from ptmbench.bench.adapt.predictor import Trained


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a transform makes a smaller predictor of."""

    predictor: "Trained"
    """The adapted model. Its network is shared: take arrays from it before anything else is learnt."""
    settings: Any
    """Those of the transform."""
    training: Settings | None
    """What `Transform.training` gave."""
    seed: int
    rows: Mapping[str, Sequence["Row"]] = field(default_factory=dict)
    """The rows of "train" and "selection"; none where the transform trains nothing."""
    score: Callable[[], float] = lambda: 0.0
    """The score of the network on the selection split, as it is at the moment; higher is better."""
    bookmark: "Bookmark"
    """Where a training of the transform saves how far it has come."""


class Transformed(NamedTuple):
    """What a transform made."""

    weights: Mapping[str, Any]
    """All arrays of the network as they are stored (`bench.engine.packing`)."""
    changed: tuple[str, ...]
    """Names of the arrays that were pruned or quantised."""
    course: "Course | None" = None
    """What its training did; None where it trains nothing."""


@runtime_checkable
class Transform(Protocol):
    """How a predictor becomes another one of the same task, with fewer parameters or fewer bits."""

    summary: str
    settings: type
    """A frozen dataclass; its fields are what can be changed, each a `bench.adapt.settings.setting`."""
    version: int
    """Raised when the same predictor becomes another one."""
    compression: str
    """What the survey calls it: a key of `leaderboard.survey.COMPRESSION`."""
    rebuilds: bool
    """Whether the transformed network has other layers than the adapted one. `prepare` makes them then."""

    def label(self, settings: Any) -> str:
        """What the board says of a model that was transformed with ``settings``: "pruned to 50 % zeros"."""

    def training(self, settings: Any, adaptation: Settings) -> Settings | None:
        """The settings of the training that the transform does, given those of the ``adaptation``; None where it trains
        nothing."""

    def transformed(self, material: Material) -> Transformed:
        """The transformed weights. Raises `NotApplicable` where the network has nothing to transform."""

    def prepare(self, adapted: "Adapted", settings: Any) -> None:
        """Changes the layers of the network of ``adapted``, which was just built and is not traced. It takes the
        transformed weights afterwards."""
