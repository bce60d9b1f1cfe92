"""The contract of transforms: a change of a trained network that keeps its task.

The folder ``bench/adapt/transforms/NAME`` has the transform NAME. Its ``__init__.py`` defines ``TRANSFORM``. It imports
neither TensorFlow nor Keras, because plans and cost estimates read it; methods import them from the other files of the
folder.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.adapt.shapes import Shape

if TYPE_CHECKING:
    from ptmbench.bench.adapt.adapted import Adapted
    from ptmbench.bench.adapt.course import Bookmark, Course
    from ptmbench.bench.adapt.heads import InputRow
    from ptmbench.bench.adapt.predictor import Trained
    from ptmbench.bench.adapt.transforms import ChosenTransform


@dataclass(frozen=True, kw_only=True)
class Material:
    """The input of a transform."""

    predictor: "Trained"
    """The adapted model, after the earlier transforms of a chain. Its network is shared, so read its arrays before
    another model is trained."""
    settings: Any
    """The settings of the transform."""
    training: Settings | None
    """The result of `Transform.training`."""
    seed: int
    rows: Mapping[str, Sequence["InputRow"]] = field(default_factory=dict)
    """Rows of the splits "train" and "selection"; empty for a transform that trains nothing."""
    score: Callable[..., float] = lambda predictor=None: 0.0
    """Returns the current score on the selection split, of ``predictor`` or of its argument; higher is better."""
    chain: "tuple[ChosenTransform, ...]" = ()
    """The transforms of the output: the transforms of ``predictor``, and this one."""
    bookmark: "Bookmark"
    """Saves and resumes the training of the transform."""


class Transformed(NamedTuple):
    """The output of a transform."""

    weights: Mapping[str, Any]
    """All arrays of the network by name. Int8 codes may replace numbers (`bench.engine.packing`). The caller stores
    them without their zeros."""
    changed: tuple[str, ...]
    """Names of the arrays that were pruned or quantised."""
    course: "Course | None" = None
    """Steps, costs and curve of its training; None without training."""
    shape: Shape | None = None
    """The shape of the encoder's stack, if the transform has changed it."""
    extra_costs: Mapping[str, float] = MappingProxyType({})
    """Further entries for the cost of a record, by name, such as the number of remaining heads."""


@runtime_checkable
class Transform(Protocol):
    """Converts a predictor to another one of the same task, with fewer parameters or fewer bits."""

    summary: str
    settings: type
    """A frozen dataclass whose fields are `bench.adapt.settings.setting`. No value contains a +, because that separates
    settings, and the transforms of a chain."""
    version: int
    """Increased when a change leads to another predictor for the same input."""
    compression: str
    """The survey's kind of compression: a key of `leaderboard.survey.reported.COMPRESSION`."""
    rebuilds: bool
    """Whether `prepare` gives the transformed network layers of other kinds. Fewer layers, heads or inner dimensions
    are described by `Transformed.shape` instead."""
    final: bool
    """Whether it must be the last transform of a chain, because no other one can train or change its weights."""

    def label(self, settings: Any) -> str:
        """The text on the board for a model transformed with ``settings``: "pruned to 50 % zeros"."""

    def training(self, settings: Any, adaptation: Settings) -> Settings | None:
        """The settings of the transform's training, derived from the settings of the ``adaptation``; None without
        training."""

    def transformed(self, material: Material) -> Transformed:
        """The transformed weights. Raises `NotApplicable` if the network has nothing to transform."""

    def prepare(self, adapted: "Adapted", settings: Any) -> None:
        """Replaces layers of the network of ``adapted``, which is built and not yet traced, so that the transformed
        weights fit."""
