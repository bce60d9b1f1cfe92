"""Models x sizes x tasks x adaptations x seeds to cells. Pure: reads no data, runs nothing, imports no TensorFlow.

A cell's key is a hash of all that its result depends on. Two runs that plan the same cell agree on its key; that is
how an interrupted run knows what is done, and how nothing is ever done twice.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ptmbench.bench import baselines
from ptmbench.bench.adapt import check as check_adaptation
from ptmbench.bench.adapt import names as adaptation_names
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.budget import Budget
from ptmbench.bench.errors import UsageError
from ptmbench.bench.registry import RANDOM
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Task

_ONLY = {
    Form.LANGUAGE_MODELLING: "likelihood",
    Form.CLOZE: "probe",
    Form.SIMILARITY: "words",
    Form.ANALOGY: "words",
}
"""Forms that are met in one way, whatever is asked for."""
_ADAPTATIONS = tuple(name for name in adaptation_names() if name not in _ONLY.values())
"""What a user may ask for."""
VERSION = 3
"""Raised when the harness itself changes what the same cell scores."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the board: a model at a size, its random twin, or a baseline."""

    name: str
    kind: str
    """pretrained, published, random or baseline (the kinds of `leaderboard.record`)."""
    model: str | None = None
    size: str | None = None
    division: str = "controlled"

    @classmethod
    def parse(cls, name: str, size: str | None) -> "Row":
        """ "bert", "random-bert", "majority": whatever ``--models`` takes."""
        if name in baselines.names():
            return cls(name=name, kind="baseline")
        kind = "random" if name.startswith(RANDOM) else "pretrained"
        return cls(name=name, kind=kind, model=name.removeprefix(RANDOM), size=size)


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """One model to pre-train; cells name it by its key."""

    model: str
    size: str
    corpus: tuple[str, ...]
    corpus_sha256: str
    corpus_name: str
    tokenizer: str
    vocabulary: int
    budget: Budget
    recipe: Mapping[str, float]
    seed: int = 0

    @property
    def key(self) -> str:
        matters = asdict(self)
        del matters["corpus"], matters["corpus_name"]  # where the text lies does not matter, what it says does
        return digest({"pretraining": matters})

    @property
    def name(self) -> str:
        """Which model, and what it reads: one run may train a model over tokens of two kinds."""
        return f"{self.model}-{self.size} ({self.tokenizer})"

    @property
    def title(self) -> str:
        """What people call it."""
        return f"Pre-training {self.name}"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One score to be: (model, size, budget, task, adaptation, seed)."""

    row: Row
    task: str
    task_version: int
    form: Form
    data_sha256: str
    adaptation: str
    """With the settings that set it apart, if any: "features", "features:layers=top", "ulmfit:unfreeze=0+concat=0"."""
    settings: Mapping[str, float | str]
    seed: int
    tokenizer: str
    """Key of the shared tokenizer, as a random twin reads the same tokens."""
    pretraining: str | None = None
    """Key of a `Pretraining`, or "checkpoint:<sha256>" for weights that exist."""
    adaptation_version: int = 1
    limit: int = 0
    beside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Other tasks that are learnt besides, by name: "title", "version" and "data_sha256" of each."""
    neighbours: Mapping[str, str] = field(default_factory=dict)
    """Other models that are read besides (`bench.neighbours`), by name: as ``pretraining`` has the cell's own."""

    @property
    def key(self) -> str:
        matters = asdict(self)
        for newer, empty in (("adaptation_version", 1), ("beside", {}), ("neighbours", {})):
            if matters[newer] == empty:
                del matters[newer]  # cells of before there was such a thing keep their keys
        return digest({"cell": matters, "version": VERSION})

    @property
    def needs(self) -> tuple[str, ...]:
        """Keys of all pre-trainings that it waits for: its own, then its neighbours'."""
        return (*((self.pretraining,) if self.pretraining else ()), *self.neighbours.values())

    @property
    def method(self) -> str:
        """The adaptation without settings: the name of its file."""
        return self.adaptation.partition(":")[0]

    @property
    def title(self) -> str:
        """What people call it."""
        who = f"{self.row.name}-{self.row.size}" if self.row.size else self.row.name
        return f"{who} {self.task} {self.adaptation} seed {self.seed}"

    @property
    def group(self) -> str:
        """Cells of one group share a traced step: same network, form and adaptation."""
        row = self.row
        return f"{row.model or row.name}.{row.size or 'none'}.{self.form}.{self.adaptation}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    pretrainings: tuple[Pretraining, ...]
    cells: tuple[Cell, ...]

    def groups(self) -> dict[str, list[Cell]]:
        groups: dict[str, list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(cell.group, []).append(cell)
        return groups

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        content = json.loads(text)
        pretrainings = tuple(
            Pretraining(**(p | {"budget": Budget(**p["budget"]), "corpus": tuple(p["corpus"])}))
            for p in content["pretrainings"]
        )
        cells = tuple(Cell(**(c | {"row": Row(**c["row"]), "form": Form(c["form"])})) for c in content["cells"])
        return cls(pretrainings=pretrainings, cells=cells)


def rows_of(names: Sequence[str], sizes: Sequence[str], floor: Sequence[str] | None) -> list[Row]:
    """The rows that ``names`` stand for. With a ``floor``, the names of baselines, each model brings its random twin,
    and the run these."""
    rows = []
    for name in names:
        if name in baselines.names():
            rows.append(Row.parse(name, None))
            continue
        for size in sizes:
            rows.append(Row.parse(name, size))
            if floor is not None and not name.startswith(RANDOM):
                rows.append(Row.parse(RANDOM + name, size))
    rows += [Row.parse(name, None) for name in floor or ()]
    return list(dict.fromkeys(rows))


def adaptation_of(row: Row, form: Form, adaptation: str) -> str:
    """How ``row`` meets a task of ``form`` when ``adaptation`` is asked for: some pairs have only one way."""
    if row.kind == "baseline":
        return "baseline"
    return _ONLY.get(form, adaptation)


def variant(adaptation: str) -> tuple[str, dict[str, str]]:
    """The name of an adaptation and the settings behind it: "ulmfit:unfreeze=0+concat=0". What has no = of its own
    belongs to the value before it: "multitask:beside=sst2+trec". `UsageError` for others."""
    name, colon, changes = adaptation.partition(":")
    if name not in _ADAPTATIONS:
        raise UsageError(f"There is no adaptation '{name}'. Choices: {', '.join(_ADAPTATIONS)}.")
    check_adaptation(name)
    pairs = [change.split("=") for change in re.split(r"\+(?=[^+]*=)", changes)] if colon else []
    if any(len(pair) != 2 for pair in pairs):
        raise UsageError(f"'{adaptation}' is not an adaptation with settings; one is ulmfit:unfreeze=0+concat=0.")
    return name, dict(pairs)


def settings_of(
    task: Task, adaptation: str, suite: Mapping[str, Mapping[str, float]], chosen: Mapping[str, Any]
) -> dict[str, float]:
    """Defaults of the task's form, then the suite's changes, the general ones first, then the user's."""
    settings = adaptation_settings.defaults(task.form, adaptation)
    for name in ("", str(task.form), f"{task.form}/{adaptation}", task.name, f"{task.name}/{adaptation}"):
        settings = adaptation_settings.changed(settings, suite.get(name, {}))
    return adaptation_settings.recorded(adaptation_settings.changed(settings, chosen))


def cells_of(
    rows: Sequence[Row],
    tasks: Sequence[Any],
    *,
    adaptations: Sequence[str],
    seeds: Sequence[int],
    data_sha256: Mapping[str, str],
    pretraining_of: Mapping[Row, str],
    tokenizer: str,
    suite_settings: Mapping[str, Mapping[str, float]] | None = None,
    settings: Mapping[str, Any] | None = None,
    limit: int = 0,
    neighbour: Callable[[Row, str, str], str] | None = None,
) -> tuple[Cell, ...]:
    """Every combination, in the order in which a reader of the board goes through them.

    ``neighbour`` gives what stands in `Cell.neighbours` for a row, the name of another model and the kind of tokens
    that it is to read; it is needed where an adaptation reads one.
    """
    if not rows or not tasks:
        raise UsageError("There is nothing to run: name at least one model and one task.")
    variants = {asked: variant(asked) for asked in adaptations}
    asked_for = tuple(name for name, _ in variants.values())
    cells: dict[str, Cell] = {}
    for row in rows:
        for task in tasks:
            for asked, (name, changes) in variants.items():
                adaptation = adaptation_of(row, task.form, asked)
                method, own = (name, changes) if adaptation == asked else (adaptation, {})
                given = adaptation_settings.applying(settings or {}, method, asked_for)
                chosen = settings_of(task, method, suite_settings or {}, {**given, **own})
                here = adaptation_settings.read(method, chosen).of(task.name)
                chosen, also = adaptation_settings.recorded(here), here.models(task.form)
                # Baselines, likelihoods, probes and prompts without examples draw nothing: one seed is all there is.
                asks = method in _ONLY.values() or (method == "prompt" and not chosen["shots"])
                drawn = seeds[:1] if adaptation == "baseline" or (asks and row.kind != "random") else seeds
                for seed in drawn:
                    cell = Cell(
                        row=row,
                        task=task.name,
                        task_version=task.version,
                        form=task.form,
                        data_sha256=data_sha256[task.name],
                        adaptation=adaptation,
                        settings=chosen,
                        seed=seed,
                        tokenizer=tokenizer if row.kind != "baseline" else "",
                        pretraining=pretraining_of.get(row),
                        adaptation_version=here.VERSION,
                        limit=limit,
                        beside={name: _beside(name, data_sha256) for name in here.others},
                        neighbours={name: neighbour(row, name, cut) for name, cut in also.items()},
                    )
                    cells[cell.key] = cell
    return tuple(cells.values())


def _beside(name: str, data_sha256: Mapping[str, str]) -> dict[str, Any]:
    """What a cell has to say of the task ``name`` that it learns besides; `UnknownTask` where there is none."""
    task = load(name)
    return {"title": task.title, "version": task.version, "data_sha256": data_sha256[name]}


def digest(value: Any) -> str:
    """SHA-256 of ``value`` as canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()
