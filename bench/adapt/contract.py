"""The contract of adaptations: what the harness asks of one, with fine-tuning's answers as defaults.

A folder ``bench/adapt/NAME`` holds the adaptation NAME: its ``__init__.py`` defines ``ADAPTATION``, an instance of a
subclass of `Adaptation`, and imports neither TensorFlow nor Keras, because plans and cost estimates read it. Methods
that need them import them from the folder's other files. `bench.adapt.load` imports a folder and checks it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ptmbench.bench.adapt.settings import Learning, Settings
from ptmbench.bench.errors import NotApplicable
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

if TYPE_CHECKING:
    from ptmbench.bench.adapt.adapted import Adapted
    from ptmbench.bench.adapt.asking import Asked
    from ptmbench.bench.adapt.course import Bookmark, Course
    from ptmbench.bench.adapt.heads import Row
    from ptmbench.bench.adapt.parts import Decoding, Extension, Reading
    from ptmbench.bench.engine.step import TrainStep


class Adaptation:
    """How a pre-trained model meets a task."""

    summary: str
    settings: type[Settings] = Learning
    heads: Mapping[Form, str] | None = None
    """Forms that it meets, with the module of head and codec below `bench.adapt`; None: all, with the shared heads."""
    only: tuple[Form, ...] = ()
    """Forms that every model meets in this way, whatever a user asks for. Nobody names such an adaptation."""
    learns = True
    """False: nothing is trained. `respond` gives the predictions, and there is no head."""

    def head(self, form: Form) -> str:
        """The module of head and codec for ``form``. Raises `NotApplicable` where there is none."""
        if self.heads is not None and form not in self.heads:
            forms = ", ".join(self.heads)
            raise NotApplicable("no-head", f"because the adaptation {self.name} is for {forms} tasks.")
        return self.heads[form] if self.heads else f"heads.{form}"

    def draws(self, settings: Any) -> bool:
        """Whether scores depend on the seed; if not, one seed is enough."""
        return self.learns

    def extend(self, network: Any, decoding: "Decoding | None", settings: Any) -> "Extension":
        """Changes ``network`` where the adaptation reaches into it, and says which variables learn: by default all of
        the encoder, or none where the settings freeze it."""
        from ptmbench.bench.adapt.parts import Extension, every

        return Extension() if settings.FREEZES else Extension(every(network, decoding))

    def reading(self, encoder: Any, settings: Any, *others: Any) -> "Reading":
        """The layer from an `Encoding`, and those of the ``others`` that the settings name, to what the head reads."""
        from ptmbench.bench.adapt.parts import Reading

        return Reading()

    def decoding(self, network: Any, vocabulary: Any, settings: Any) -> "Decoding":
        """What writes under heads that need it: by default the decoder of ``network``."""
        from ptmbench.bench.adapt.parts import Decoding

        return Decoding.of(network)

    def first(self, network: Any, vocabulary: Any, form: Form, **options: Any) -> "First | None":
        """A training of ``network`` before the one under the head; ``options`` are those of its step."""
        return None

    def step(self, loss: Any, variables: Sequence[Any], **options: Any) -> "TrainStep":
        """The training step that minimises ``loss`` by ``variables``."""
        from ptmbench.bench.engine.step import TrainStep

        return TrainStep(loss, variables, **options)

    def loss(self, adapted: "Adapted", numbers: Any, batch: Mapping[str, Any], seed: Any) -> Any:
        """What training minimises, a scalar, given the head's ``numbers``. ``seed`` is None outside of training."""
        return adapted.head.loss(numbers, batch)

    def rate(self, step: "TrainStep", number: int, steps: int, settings: Any) -> float:
        """The learning rate of step ``number`` of ``steps``."""
        from ptmbench.bench.engine.rates import rate_at

        return rate_at(number, steps, peak=settings.learning_rate, warmup=settings.warmup)

    def turn(self, steps: int, settings: Any) -> int:
        """The step of ``steps`` that a second stage of training begins with; 0 for one stage."""
        return 0

    def second(self, reading: Any, head: Any) -> Sequence[Any] | None:
        """Variables of ``reading`` and ``head`` that learn in the second stage. All others are frozen then, and there
        is no dropout. None: what learnt in the first stage goes on learning."""
        return None

    def by_loss(self, adapted: "Adapted") -> bool:
        """Whether early stopping goes by the loss, and not by the task's metric. It does under a decoder: to decode the
        selection split each time would cost more than training."""
        return bool(adapted.decoding)

    def make(
        self, adapted: "Adapted", rows: Sequence["Row"], settings: Any, seed: tuple[int, int]
    ) -> tuple[Sequence["Row"], float]:
        """The rows of a step, made of ``rows`` with the weights at that step, and the FLOPs of making them."""
        return rows, 0.0

    def numbers(self, adapted: "Adapted", batch: Mapping[str, Any]) -> Any:
        """What the codec reads for ``batch``, an array with the rows as its first axis. By default one forward pass
        over the whole network."""
        return adapted.forward(batch)

    def flops(self, adapted: "Adapted", rows: Sequence["Row"], outputs: Sequence[Any]) -> float:
        """FLOPs of answering ``rows`` with ``outputs``, which they may depend on (early exit)."""
        return adapted.answering_flops(rows, outputs)

    def told(self, adapted: "Adapted", outputs: Sequence[Any]) -> Mapping[str, float]:
        """What the record's cost says of ``outputs`` besides their FLOPs."""
        return {}

    def respond(self, asked: "Asked") -> tuple[list[Any], float]:
        """Predictions of a network under which nothing learns, and their FLOPs."""
        raise NotImplementedError(f"The adaptation {self.name} trains a network and has no `respond`.")

    def signatures(self, asked: "Asked") -> Mapping[str, str]:
        """What `Answers.signatures` says of the answers that `respond` gives."""
        return {}

    @property
    def name(self) -> str:
        """The name of its folder."""
        return type(self).__module__.rpartition(".")[2]


class First(Protocol):
    """A training before the one under the head."""

    def __call__(self, rows: Sequence["Row"], settings: Any, seed: int, bookmark: "Bookmark") -> "Course": ...


class Answers(NamedTuple):
    """What a predictor says of some examples."""

    predictions: list[Any]
    """One for each example, as the task's metrics compare them."""
    probabilities: list[Mapping[Any, float]] | None
    """For each example the probability of every answer; None where the head does not define it."""
    flops: float
    """Of all examples together."""
    told: Mapping[str, float] = MappingProxyType({})
    """What a record's cost says of the answers besides."""
    signatures: Mapping[str, str] = MappingProxyType({})
    """How it answered, in one line, by the name of the metric that follows from it; for records."""


class Predictor(Protocol):
    """What a cell leaves behind. `bench.adapt.predictor.load` reads what ``save`` wrote, without the training set."""

    def answer(self, examples: Sequence[Example]) -> Answers: ...

    def flops(self, examples: Sequence[Example]) -> list[float]:
        """FLOPs of answering each example."""

    def gradients(self, examples: Sequence[Example]) -> list[Any]:
        """For each row that the examples make, the gradient float32 [T, E] of its loss with respect to the vectors of
        its tokens. Raises `NotApplicable` where the network does not look tokens up in a table."""

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Writes a checkpoint; ``about`` says more about the cell that it comes from."""
