"""The artefacts of a run, as a graph: each has a key and names the artefacts that it needs.

`bench.runs.plan` plans them, `bench.runs.schedule` distributes them to workers by key, needs, group and weight, and
`bench.runs.work` makes them. A key is a hash of everything that a result depends on. Two runs that plan the same
artefact give it the same key, so an interrupted run finds what is finished. Nothing here reads data.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ptmbench.bench import adapt, baselines
from ptmbench.bench.adapt import transforms
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import digest
from ptmbench.bench.runs.trainings import Pretraining, TokenizerTraining, without
from ptmbench.bench.runs.tuning.trials import Trial
from ptmbench.leaderboard.records.record import FOLDER, THEN, UNDER, slug
from ptmbench.tasks.forms import Form

RANDOM = "random-"
"""Prefix of the name of a random twin."""
VERSION = 3
"""Raised when a change of the harness changes the scores of cells."""
COST = "cost.json"
"""File with the cost of an adapted model, in its folder."""
_LONG = 48
"""The maximum length of a slug."""


class Artefact(Protocol):
    """Anything with a content key that something else can depend on."""

    kind: ClassVar[str]
    """Name of the class in `KINDS`, for plans in JSON and for workers. The schedule does not use it."""

    @property
    def key(self) -> str: ...

    @property
    def title(self) -> str:
        """A description for messages."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Keys of the artefacts that must be made first."""

    def relation(self, key: str) -> str:
        """The role of the needed artefact ``key``, as the subject of a sentence: "Its teacher"."""

    @property
    def group(self) -> str:
        """Artefacts of one group share a traced step, so one worker makes them."""

    @property
    def weight(self) -> float:
        """Relative duration, compared with other artefacts that nothing depends on."""

    def place(self, out: Path) -> Path:
        """Path of its sealed result in the run folder ``out``: a file or a folder."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the board: a model at a size, its random twin, or a baseline."""

    name: str
    kind: str
    """pretrained, published, random, baseline or external (the kinds of `leaderboard.records.record`)."""
    model: str | None = None
    size: str | None = None
    division: str = "controlled"

    @classmethod
    def parse(cls, name: str, size: str | None) -> "Row":
        """The row of a name that ``--models`` takes: "bert", "random-bert", "majority"."""
        if name in baselines.names():
            return cls(name=name, kind="baseline")
        kind = "random" if name.startswith(RANDOM) else "pretrained"
        return cls(name=name, kind=kind, model=name.removeprefix(RANDOM), size=size)


@dataclass(frozen=True, kw_only=True)
class Given:
    """A checkpoint that a user gave, or its tokenizer, at ``path``."""

    kind: ClassVar[str] = "given"
    key: str
    path: str
    """Absolute, or relative to the run folder on another machine."""
    needs: ClassVar[tuple[str, ...]] = ()
    weight: ClassVar[float] = 0.0

    @property
    def title(self) -> str:
        return self.path

    @property
    def group(self) -> str:
        return self.key

    def relation(self, key: str) -> str:
        raise KeyError(key)

    def place(self, out: Path) -> Path:
        return out / self.path


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A planned score: (model, size, budget, task, adaptation, seed), with optional transforms and a condition."""

    kind: ClassVar[str] = "cell"
    row: Row
    task: str
    task_version: int
    form: Form
    data_sha256: str
    adaptation: str
    """Name with the requested settings: "features", "features:layers=top", "ulmfit:unfreeze=0+concat=0"."""
    settings: Mapping[str, float | str]
    seed: int
    tokenizer: str
    """Key of the tokenizer, also for a random twin; "" for a baseline."""
    pretraining: str | None = None
    """Key of a `Pretraining`, or of a given checkpoint."""
    chosen_by: str = ""
    """As in `Pretraining`: the options that choose this pre-training among the pre-trainings of the row."""
    adaptation_version: int = 1
    limit: int = 0
    auxiliary: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Auxiliary tasks by name: "title", "version" and "data_sha256" of each."""
    neighbours: Mapping[str, str] = field(default_factory=dict)
    """The keys of its extra encoders (`bench.adapt.neighbours`) by model name, as in ``pretraining``."""
    adapted: str = ""
    """Key of the `AdaptedModel` whose weights it begins with; "" for a cell that begins with its pre-training."""
    teacher: str = ""
    """Key of the `AdaptedModel` that it learns from: another model adapted to the same task with the same seed."""
    auxiliary_teachers: Mapping[str, str] = field(default_factory=dict)
    """Keys of the teachers of the auxiliary tasks, by task: the same model, adapted to that task."""
    condition: str = ""
    """The condition under which the model predicts, with the requested settings: "misspellings:share=0.2"."""
    condition_settings: Mapping[str, float | str] = field(default_factory=dict)
    condition_version: int = 0
    transforms: tuple[Mapping[str, Any], ...] = ()
    """The transforms of the adapted model in order. Each has a "name" with the requested settings
    ("prune:sparsity=0.8"), all its "settings", and a "version"."""
    predictor: str = ""
    """Key of the `AdaptedModel` that predicts; "" for a cell that adapts the model itself. The score is the same, so
    the key of the cell leaves it out."""
    tuning: Mapping[str, Any] = field(default_factory=dict)
    """The tuning that its settings come from: "trials" and "flops"; {} for untuned settings."""
    plugins: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the files of its model, task and adaptation that come from plugins."""

    @cached_property
    def key(self) -> str:
        # A newer field with its default value is left out, so that older cells keep their keys.
        newer = {"adaptation_version": 1, "auxiliary": {}, "neighbours": {}, "adapted": "", "teacher": ""}
        newer |= {"auxiliary_teachers": {}}
        newer |= {"condition": "", "condition_settings": {}, "condition_version": 0, "plugins": {}}
        matters = without(asdict(self), **newer, transforms=())
        del matters["predictor"], matters["chosen_by"], matters["tuning"]
        if len(self.transforms) == 1:  # the fields from before there were chains of transforms
            (one,) = matters.pop("transforms")
            names = {"transform": "name", "transform_settings": "settings", "transform_version": "version"}
            matters |= {older: one[name] for older, name in names.items()}
        return digest({"cell": matters, "version": VERSION})

    @property
    def needs(self) -> tuple[str, ...]:
        begun = (self.tokenizer, self.pretraining, *self.neighbours.values())
        teachers = (self.teacher, *self.auxiliary_teachers.values())
        return tuple(filter(None, (*begun, self.adapted, *teachers, self.predictor)))

    def relation(self, key: str) -> str:
        if key == self.tokenizer:
            return "Its tokenizer"
        if key == self.adapted:
            return "The adaptation to its intermediate task"
        if key == self.teacher:
            return "Its teacher"
        if key in self.auxiliary_teachers.values():
            return "The teacher of an auxiliary task"
        if key == self.predictor:
            return "Its transform" if self.transforms else "Its adaptation"
        encoder = next((name for name, other in self.neighbours.items() if other == key), "")
        return f"The pre-training of {encoder}" if encoder and key != self.pretraining else "Its pre-training"

    @property
    def method(self) -> str:
        """The adaptation without settings: the name of its folder."""
        return self.adaptation.partition(":")[0]

    @property
    def who(self) -> str:
        """The row and its size."""
        return f"{self.row.name}-{self.row.size}" if self.row.size else self.row.name

    @property
    def transform(self) -> str:
        """The chain of transforms of the adapted model: "prune:sparsity=0.8+int8"; "" without one."""
        return transforms.title(self.transforms)

    @property
    def column(self) -> str:
        """The name of the task's column on the board; a score under a condition has its own column."""
        return f"{self.task}{UNDER}{self.condition}" if self.condition else self.task

    @property
    def treatment(self) -> str:
        """The name of the adaptation on the board; a transformed model has its own row."""
        return f"{self.adaptation}{THEN}{self.transform}" if self.transform else self.adaptation

    @property
    def title(self) -> str:
        which = f" {self.chosen_by}" if self.chosen_by else ""
        return f"{self.who} {self.column} {self.treatment} seed {self.seed}{which}"

    @property
    def folder(self) -> str:
        """The folder name of its adapted model, unique among the adapted models of a run."""
        which = f".{slug(self.chosen_by)}" if self.chosen_by else ""
        treatment = slug(self.treatment)
        if len(self.treatment) > _LONG:  # slugs are cut, and chains may share a prefix
            treatment += f"-{digest(self.treatment)[:6]}"
        return f"{self.who}.{self.task}.{treatment}.s{self.seed}{which}"

    @property
    def group(self) -> str:
        row = self.row
        return f"{row.model or row.name}.{row.size or 'none'}.{self.form}.{self.adaptation}"

    @property
    def weight(self) -> float:
        if self.row.kind == "baseline":
            return 0
        return 1 + (adapt.load(self.method).learns and not self.predictor)

    def place(self, out: Path) -> Path:
        records = out / FOLDER
        return next(records.glob(f"*.{self.key[:12]}.json"), records / f"{self.key[:12]}.json")


@dataclass(frozen=True, kw_only=True)
class _OfCell:
    """An artefact that trains the model of ``cell`` as the cell would."""

    cell: Cell

    @property
    def needs(self) -> tuple[str, ...]:
        return self.cell.needs

    def relation(self, key: str) -> str:
        return self.cell.relation(key)

    @property
    def group(self) -> str:
        return self.cell.group

    @property
    def weight(self) -> float:
        return self.cell.weight


@dataclass(frozen=True, kw_only=True)
class AdaptedModel(_OfCell):
    """A model that several cells use, adapted to a task as ``cell`` trains it.

    Cells of another task begin with its weights (`Cell.adapted`). Cells of another model learn from it
    (`Cell.teacher`). Cells with the same training (`bench.runs.plan.training_cell`) predict with it (`Cell.predictor`):
    ``cell`` itself, the same cell under conditions, and with other settings for prediction. A cell whose adapted model
    no other cell needs trains and predicts in one step, without this artefact.
    """

    kind: ClassVar[str] = "adapted"

    @cached_property
    def key(self) -> str:
        return digest({"adapted": self.cell.key})

    @property
    def title(self) -> str:
        return f"Adapting {self.cell.title}"

    def place(self, out: Path) -> Path:
        """A folder laid out like a run folder, with the checkpoint in ``adapted/`` and `COST`, written last. A run
        removes it when its cells have records, unless weights are kept."""
        return out / "intermediate" / self.key[:12]

    def checkpoint(self, out: Path) -> Path:
        """The checkpoint in `place`."""
        return self.place(out) / "adapted" / self.cell.folder


@dataclass(frozen=True, kw_only=True)
class TransformedModel(AdaptedModel):
    """An adapted model after the last transform of ``cell``, which has no condition. `Cell.predictor` is the key of the
    model that is transformed: the adapted model or, in a chain, the result of the previous transform."""

    kind: ClassVar[str] = "transformed"

    @cached_property
    def key(self) -> str:
        return digest({"transformed": self.cell.key})

    def relation(self, key: str) -> str:
        if key != self.cell.predictor:
            return self.cell.relation(key)
        before = transforms.title(self.cell.transforms[:-1])
        return f"The model after {before}" if before else "The adapted model"

    @property
    def title(self) -> str:
        return f"Transforming {self.cell.title}"

    @property
    def weight(self) -> float:
        return 2.0  # it may train


@dataclass(frozen=True, kw_only=True)
class AdaptationTrial(_OfCell):
    """A trial of a tuning (`bench.runs.tuning`): the adaptation of ``cell``, scored on training examples that it does
    not train on. There are at most ``held_out`` of them."""

    kind: ClassVar[str] = "adaptation-trial"
    held_out: int

    @cached_property
    def key(self) -> str:
        return digest({"adaptation trial": self.cell.key, "held_out": self.held_out})

    @property
    def title(self) -> str:
        return f"Trial of {self.cell.title}"

    def home(self, out: Path) -> Path:
        """A folder laid out like a run folder, for its training states. It is removed after the record is written."""
        return out / "unfinished" / self.key[:12]

    def place(self, out: Path) -> Path:
        """The sealed record of the trial."""
        cell = self.cell
        return out / "trials" / f"{cell.who}.{cell.task}.{slug(cell.adaptation)}.{self.key[:12]}.json"


_ALL = (Given, TokenizerTraining, Pretraining, Trial, AdaptedModel, TransformedModel, AdaptationTrial, Cell)
KINDS: Mapping[str, type] = {one.kind: one for one in _ALL}


def to_dict(artefact: Artefact) -> dict[str, Any]:
    """``artefact`` as a dict for JSON."""
    return {"kind": artefact.kind, **asdict(artefact)}  # type: ignore[call-overload]


def from_dict(content: Mapping[str, Any]) -> Artefact:
    """The inverse of `to_dict`."""
    values = dict(content)
    kind = KINDS[values.pop("kind")]
    if "cell" in values:
        return kind(**{**values, "cell": _cell(values["cell"])})
    if kind is Cell:
        return _cell(values)
    if kind is Trial:
        made = from_dict({"kind": Pretraining.kind, **values["pretraining"]})
        return Trial(pretraining=made, probes=tuple(map(_cell, values.get("probes", ()))))
    if "budget" in values:
        values["budget"] = Budget(**values["budget"])
    if "corpus" in values:
        values["corpus"] = tuple(values["corpus"])
    return kind(**values)


def _cell(values: Mapping[str, Any]) -> Cell:
    read = {"row": Row(**values["row"]), "form": Form(values["form"]), "transforms": tuple(values["transforms"])}
    return Cell(**{**values, **read})
