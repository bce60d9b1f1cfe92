"""The contract of adaptations, with fine-tuning as the default of every method.

The folder ``bench/adapt/NAME`` has the adaptation NAME. Its ``__init__.py`` defines ``ADAPTATION``, an instance of a
subclass of `Adaptation`. It imports neither TensorFlow nor Keras, because plans and cost estimates read it; methods
import them from the other files of the folder. `bench.adapt.load` imports a folder and checks it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ptmbench.bench.adapt.settings import Learning, Settings
from ptmbench.bench.errors import NotApplicable
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

if TYPE_CHECKING:
    from ptmbench.bench.adapt.adapted import Adapted
    from ptmbench.bench.adapt.asking import AnsweringInput
    from ptmbench.bench.adapt.course import Bookmark, Course
    from ptmbench.bench.adapt.heads import InputRow
    from ptmbench.bench.adapt.parts import Decoding, Extension, Reading
    from ptmbench.bench.adapt.predictor import Trained
    from ptmbench.bench.adapt.transforms.prune import Settings as Pruning
    from ptmbench.bench.engine.checkpoint import Checkpoint
    from ptmbench.bench.engine.step import TrainStep
    from ptmbench.models.pretrainable import Encoding


class Adaptation:
    """A way to apply a pre-trained model to a task."""

    summary: str
    settings: type[Settings] = Learning
    heads: Mapping[Form, str] | None = None
    """Its forms, each with the module in `bench.adapt` that has head and codec; None for all forms with the shared
    heads."""
    only: tuple[Form, ...] = ()
    """Forms that always use this adaptation. Users cannot choose it."""
    systems: tuple[str, ...] = ()
    """The names in the survey's figure 3 that stand for this adaptation, other than its own."""
    teaching = ""
    """The adaptation of its teacher, for adaptations with a setting ``teacher``."""
    compression = ""
    """The kind of compression, a key of `leaderboard.survey.reported.COMPRESSION`, of an adaptation that compresses the
    model without a setting ``teacher``. Its rows are compared with rows of plain fine-tuning."""
    reads_encoders = True
    """Whether the network reads the extra encoders (`Settings.models`); if not, only `enlarged` uses them."""
    learns = True
    """Whether a network is trained. If False, there is no head, and `respond` gives the predictions."""

    def head(self, form: Form) -> str:
        """The module of head and codec for ``form``. Raises `NotApplicable` for another form."""
        if self.heads is not None and form not in self.heads:
            forms = ", ".join(self.heads)
            raise NotApplicable("no-head", f"because the adaptation {self.name} is for {forms} tasks.")
        return self.heads[form] if self.heads else f"heads.{form}"

    def draws(self, settings: Any) -> bool:
        """Whether scores depend on the seed; if not, one seed is enough."""
        return self.learns

    def extend(self, network: Any, decoding: "Decoding | None", settings: Any) -> "Extension":
        """Changes layers of ``network`` and returns the variables to train. By default nothing is changed, and all
        variables of the encoder are trained unless the settings freeze it."""
        from ptmbench.bench.adapt.parts import Extension, every

        return Extension() if settings.FREEZES else Extension(every(network, decoding))

    def reading(self, encoder: Any, settings: Any, *others: Any) -> "Reading":
        """The layer that converts the `Encoding` of ``encoder`` and of each of the ``others`` to the head's input."""
        from ptmbench.bench.adapt.parts import Reading

        return Reading()

    def decoding(self, network: Any, vocabulary: Any, settings: Any) -> "Decoding":
        """The decoder for heads that generate text: by default the decoder of ``network``."""
        from ptmbench.bench.adapt.parts import Decoding

        return Decoding.of(network)

    def first(self, network: Any, vocabulary: Any, form: Form, **options: Any) -> "First | None":
        """A training of ``network`` before the training with the head, or None; ``options`` are for its step."""
        return None

    def step(self, loss: Any, variables: Sequence[Any], **options: Any) -> "TrainStep":
        """The training step that minimises ``loss`` over ``variables``."""
        from ptmbench.bench.engine.step import TrainStep

        return TrainStep(loss, variables, **options)

    def loss(self, adapted: "Adapted", numbers: Any, batch: Mapping[str, Any], seed: Any) -> Any:
        """The loss, a scalar, from the head's output ``numbers``. ``seed`` is None outside of training."""
        return adapted.head.loss(numbers, batch)

    def layer_loss(self, adapted: "Adapted", encoding: "Encoding", batch: Mapping[str, Any]) -> Any:
        """A loss of the encoder's layers, a scalar, which is added to `loss`; None for no such loss."""
        return None

    def pruning(self, settings: Any) -> "Pruning | None":
        """The pruning of the adapted model whose zeros stay zero when a transform trains it further; None for none."""
        return None

    def rate(self, step: "TrainStep", number: int, steps: int, settings: Any) -> float:
        """The learning rate of step ``number`` of ``steps``."""
        from ptmbench.bench.engine.rates import rate_at

        return rate_at(number, steps, peak=settings.learning_rate, warmup=settings.warmup)

    def second_stage_start(self, steps: int, settings: Any) -> int:
        """The first of ``steps`` that belongs to a second stage of training; 0 for a single stage."""
        return 0

    def second(self, reading: Any, head: Any) -> Sequence[Any] | None:
        """Variables of ``reading`` and ``head`` that the second stage trains, without dropout; all others are frozen.
        None to train the variables of the first stage."""
        return None

    def by_loss(self, adapted: "Adapted") -> bool:
        """Whether early stopping uses the loss instead of the task's metric. By default it does for decoders, because
        decoding the selection split at each evaluation would cost more than training."""
        return bool(adapted.decoding)

    def make(
        self, adapted: "Adapted", rows: Sequence["InputRow"], settings: Any, seed: tuple[int, int]
    ) -> tuple[Sequence["InputRow"], float]:
        """The rows that a step trains on, made from ``rows`` with the current weights, and the FLOPs of making them."""
        return rows, 0.0

    def enlarged(
        self,
        task: Task,
        examples: Sequence[Example],
        settings: Any,
        seed: int,
        pretrained: "Checkpoint | None",
        others: Sequence["Checkpoint"],
    ) -> tuple[Sequence[Example], float]:
        """The examples that a student learns from, made from the training ``examples``, and the FLOPs of making them.
        ``pretrained`` is its teacher before the adaptation to the task; None for random weights. ``others`` are the
        extra encoders."""
        return examples, 0.0

    def taught(
        self,
        teacher: "Trained",
        student: "Adapted",
        rows: Sequence["InputRow"],
        examples: Sequence[Example],
        settings: Any,
        seed: int,
    ) -> tuple[Sequence["InputRow"], float]:
        """The training ``rows`` of ``examples`` with the targets that the adapted model ``teacher`` gives the network
        ``student``, and the FLOPs of computing them. Only adaptations with a setting ``teacher`` need it
        (`Settings.teacher`)."""
        raise NotImplementedError(f"The adaptation {self.name} has a teacher and no `taught`.")

    def precompute_vectors(self, adapted: "Adapted", rows: Sequence["InputRow"]) -> tuple[Sequence["InputRow"], float]:
        """``rows``, each with the vectors that the frozen encoder computes for it (`bench.adapt.heads.LAYERS`), and the
        FLOPs of that. By default the rows are unchanged, and the encoder reads them in every step."""
        return rows, 0.0

    def numbers(self, adapted: "Adapted", batch: Mapping[str, Any]) -> Any:
        """The output for ``batch`` that the codec reads, an array with the rows as its first axis. By default one
        forward pass of the whole network."""
        return adapted.forward(batch)

    def flops(self, adapted: "Adapted", rows: Sequence["InputRow"], outputs: Sequence[Any]) -> float:
        """FLOPs of predicting ``rows``. They may depend on the ``outputs`` (early exit)."""
        return adapted.answering_flops(rows, outputs)

    def skipped_flops(self, adapted: "Adapted", rows: Sequence["InputRow"]) -> float:
        """FLOPs of a forward pass over ``rows`` that a training step leaves out, as a mean over its draws."""
        return 0.0

    def extra_costs(
        self, adapted: "Adapted", rows: Sequence["InputRow"], outputs: Sequence[Any]
    ) -> Mapping[str, float]:
        """Further entries for the cost of a record, from the ``outputs`` for ``rows``: the mean exit layer."""
        return {}

    def respond(self, asked: "AnsweringInput") -> tuple[list[Any], float]:
        """Predictions of an adaptation that trains nothing, and their FLOPs."""
        raise NotImplementedError(f"The adaptation {self.name} trains a network and has no `respond`.")

    def signatures(self, asked: "AnsweringInput") -> Mapping[str, str]:
        """`Answers.signatures` for the predictions of `respond`."""
        return {}

    @property
    def name(self) -> str:
        """The name of its folder."""
        return type(self).__module__.rpartition(".")[2]


class First(Protocol):
    """A training before the training with the head. ``teacher`` is the adapted model that the cell learns from, if
    there is one. FLOPs that the course leaves at 0 are counted as the model's own objective on as many tokens."""

    def __call__(
        self,
        adapted: "Adapted",
        rows: Sequence["InputRow"],
        settings: Any,
        seed: int,
        bookmark: "Bookmark",
        teacher: "Trained | None" = None,
    ) -> "Course": ...


class Answers(NamedTuple):
    """Predictions of some examples, and their cost."""

    predictions: list[Any]
    """One for each example, in the format of the task's metrics."""
    probabilities: list[Mapping[Any, float]] | None
    """The probabilities of all answers for each example; None for heads without probabilities."""
    flops: float
    """FLOPs of all examples together."""
    extra_costs: Mapping[str, float] = MappingProxyType({})
    """Further entries for the cost of a record, by name (`Adaptation.extra_costs`)."""
    signatures: Mapping[str, str] = MappingProxyType({})
    """One line on how the predictions were made, by the name of the metric, for records."""


class Predictor(Protocol):
    """An adapted model that predicts examples. `bench.adapt.predictor.load` restores it without the training set."""

    def answer(self, examples: Sequence[Example]) -> Answers: ...

    def flops(self, examples: Sequence[Example]) -> list[float]:
        """FLOPs of predicting each example."""

    def gradients(self, examples: Sequence[Example]) -> list[Any]:
        """The gradient float32 [T, E] of the loss with respect to the token vectors, for each row of the examples.
        Raises `NotApplicable` if the network does not look tokens up in a table."""

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Writes a checkpoint; ``about`` are further entries for its manifest."""
