"""Teachers of pre-trainings: the model that a student learns from, and checks of given teachers.

`bench.runs.stages` plans them, and `bench.runs.pretrain` builds them. The teacher of a cell is an `AdaptedTeacher`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ptmbench import models
from ptmbench.bench.engine import networks
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.engine.networks import differences, size_name, sized
from ptmbench.bench.errors import UsageError
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer


@dataclass(frozen=True, kw_only=True)
class AdaptedTeacher:
    """The teacher of a cell: another model, adapted to the same task."""

    adapted: Checkpoint
    weights: Checkpoint | None
    """The pre-trained checkpoint that it was adapted from; None for random weights."""
    about: Mapping[str, Any]
    """Its row, adaptation, seal and cost, for the record."""


def of(model: str, size: str) -> tuple[str, str] | None:
    """Model and size of the teacher of ``model`` at ``size``; None for a model without a teacher. Raises
    `models.BrokenModel` if the teacher has no such size."""
    teacher = models.teacher(model)
    if teacher is None:
        return None
    wanted = teacher.size(sized(models.load(model), size, 0))
    try:
        return teacher.model, size_name(models.load(teacher.model), wanted)
    except models.UnknownModel as error:
        raise models.BrokenModel(
            f"{models.paths()[model]}: TEACHER.size gives {wanted} for the size {size}, which is not a size of "
            f"{teacher.model}. Change the size of one of them."
        ) from error


def mistake(given: Checkpoint, model: str, size: str, length: int) -> str:
    """The reason why ``given`` cannot teach ``model`` at ``size`` with inputs of ``length`` tokens; "" if it can."""
    teacher, about = models.teacher(model), given.about
    if teacher is None:
        return f"{model} learns without a teacher. Leave --teacher out."
    wanted = teacher.size(sized(models.load(model), size, length))
    what = f"{given.folder} cannot teach {model} {size}"
    if about["model"] != teacher.model:
        return f"{what}: it is {about['model']}, and the teacher is {teacher.model}. Give a checkpoint of that model."
    if about["shape"] != asdict(wanted):
        return (
            f"{what}: its {differences(about['shape'], wanted)}. Give a checkpoint of that shape, or choose another "
            "--size or length."
        )
    if lacking := [path for path in about.get("afresh", ()) if path.startswith(teacher.parts)]:
        return (
            f"{what}: it was imported without {', '.join(lacking[:3])}, whose weights are random. Import a checkpoint "
            "that was saved with them."
        )
    return ""


def check(given: Checkpoint, model: str, size: str, length: int) -> None:
    """Raises `UsageError` if ``given`` cannot teach ``model`` at ``size`` with inputs of ``length`` tokens."""
    if found := mistake(given, model, size, length):
        raise UsageError(found)


def vocabulary_of(model: str, size: int) -> int:
    """The vocabulary size of ``model`` if its teacher has one of ``size``; ``size`` for a model without its own."""
    teacher = models.teacher(model)
    return teacher.vocabulary(size) if teacher is not None and teacher.vocabulary is not None else size


def has_own_vocabulary(model: str) -> bool:
    """Whether ``model`` is a student with another vocabulary than its teacher."""
    teacher = models.teacher(model)
    return teacher is not None and teacher.vocabulary is not None


def with_teacher_vocabulary(tokenizer: Tokenizer, teacher: Checkpoint | None, model: str) -> Tokenizer:
    """Returns ``tokenizer`` for the pre-training of ``model``. If the model has its own vocabulary, the tokenizer also
    has the vocabulary of ``teacher``."""
    if teacher is None or not has_own_vocabulary(model):
        return tokenizer
    return tokenizer.with_teacher(Tokenizer.load(teacher.path("tokenizer.json")).vocabulary)


def build_network(teacher: Checkpoint, seed: int) -> Any:
    """Builds the network of ``teacher`` with its weights."""
    tokenizer = Tokenizer.load(teacher.path("tokenizer.json"))
    network = networks.build(teacher.about["model"], Size(**teacher.about["shape"]), tokenizer, seed)
    networks.assign(network.loss.variables, teacher.arrays())
    return network
