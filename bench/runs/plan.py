"""The plan of a run, and the names of rows, adaptations and teachers in it. Reads no data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ptmbench import models
from ptmbench.bench import baselines
from ptmbench.bench.adapt import check as check_adaptation
from ptmbench.bench.adapt import load as load_adaptation
from ptmbench.bench.adapt import names as adaptation_names
from ptmbench.bench.adapt import only
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs import graph
from ptmbench.bench.runs.artefacts import RANDOM, Artefact, Cell, Row, from_dict, to_dict
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Task

AFTER = "after"
"""The setting with the intermediate task of an adaptation: ``finetune:after=mnli`` begins with a model adapted to MNLI
(Phang et al., 2018, "Sentence Encoders on STILTs")."""


class Teaching(NamedTuple):
    """The row, pre-training and tokenizer from which a teacher of cells is adapted."""

    row: Row
    pretraining: str | None = None
    """Key of its pre-training or checkpoint; None for random weights."""
    tokenizer: str = ""
    """Key of its tokenizer; "" for the tokenizer of the run."""


@dataclass(frozen=True)
class Plan:
    """All artefacts of a run, in topological order. Raises `UsageError` for a missing dependency, and for dependencies
    that form a cycle."""

    artefacts: tuple[Artefact, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "artefacts", graph.ordered(self.artefacts))

    @cached_property
    def by_key(self) -> Mapping[str, Artefact]:
        return {artefact.key: artefact for artefact in self.artefacts}

    @cached_property
    def pretrainings(self) -> tuple[Pretraining, ...]:
        return tuple(one for one in self.artefacts if isinstance(one, Pretraining))

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(one for one in self.artefacts if isinstance(one, Cell))

    @cached_property
    def ends(self) -> tuple[Artefact, ...]:
        """The artefacts that no other artefact needs. For a run, these are its cells."""
        needed = {key for artefact in self.artefacts for key in artefact.needs}
        return tuple(one for one in self.artefacts if one.key not in needed)

    def groups(self) -> dict[str, list[Artefact]]:
        """The `ends` by group."""
        groups: dict[str, list[Artefact]] = {}
        for one in self.ends:
            groups.setdefault(one.group, []).append(one)
        return groups

    def workers(self, asked: int | None, usual: int) -> int:
        """The number of workers: ``asked``, but at most the number of `ends`. If ``asked`` is None, ``usual``, but at
        most the number of groups, because two workers on one group trace its step twice."""
        return max(1, min(asked, len(self.ends)) if asked else min(usual, len(self.groups())))

    def to_json(self) -> str:
        return json.dumps({"artefacts": [to_dict(artefact) for artefact in self.artefacts]}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        return cls(tuple(map(from_dict, json.loads(text)["artefacts"])))


def rows_of(names: Sequence[str], sizes: Sequence[str], floor: Sequence[str] | None) -> list[Row]:
    """The rows of ``names`` at each of ``sizes``. Unless ``floor`` is None, adds the baselines that it names, and the
    random twin of each model."""
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


def check_rows(rows: Sequence[Row]) -> None:
    """Raises the error of an unknown model or size, or of a broken file of a model or baseline, before training."""
    for row in rows:
        if row.kind == "baseline":
            baselines.label(row.name)
        if row.model:
            sized(models.load(row.model), row.size, 0)  # raises the error


def adaptation_of(row: Row, form: Form, adaptation: str) -> str:
    """The adaptation of ``row`` to a task of ``form``: ``adaptation``, unless the row or the form allows only one."""
    if row.kind == "baseline":
        return "baseline"
    return only().get(form, adaptation)


def adaptations() -> tuple[str, ...]:
    """Names of the adaptations that a user may choose."""
    return tuple(name for name in adaptation_names() if name not in only().values())


def variant(adaptation: str) -> tuple[str, dict[str, str]]:
    """Splits "ulmfit:unfreeze=0" into the name of the adaptation and its settings. Raises `UsageError` for an unknown
    adaptation or a wrong format."""
    name, pairs = adaptation_settings.split(adaptation)
    if name not in (choices := adaptations()):
        raise UsageError(f"There is no adaptation '{name}'. Choices: {', '.join(choices)}.")
    check_adaptation(name)
    if any(len(pair) != 2 for pair in pairs):
        raise UsageError(f"'{adaptation}' is not an adaptation with settings; one is ulmfit:unfreeze=0+concat=0.")
    return name, dict(pairs)


def settings_of(
    task: Task, adaptation: str, suite: Mapping[str, Mapping[str, float]], chosen: Mapping[str, Any]
) -> dict[str, float]:
    """The settings of ``adaptation`` on ``task``: defaults of the task's form, changed by the suite (general changes
    first), then by the user."""
    settings = adaptation_settings.defaults(task.form, adaptation)
    for name in ("", str(task.form), f"{task.form}/{adaptation}", task.name, f"{task.name}/{adaptation}"):
        settings = adaptation_settings.changed(settings, suite.get(name, {}))
    return adaptation_settings.recorded(adaptation_settings.changed(settings, chosen))


def training_cell(cell: Cell) -> Cell:
    """The cell that represents the training of ``cell``, the same for all cells with this training. It has the defaults
    of settings that change only predictions, such as the beam."""
    name, pairs = adaptation_settings.split(cell.adaptation)
    answering = adaptation_settings.answering(name)
    idle = (*answering, *(() if cell.adapted else (AFTER,)))  # a task is not its own intermediate task
    kept = "+".join("=".join(pair) for pair in pairs if pair[0] not in idle)
    usual = adaptation_settings.defaults(cell.form, name)
    settings = replace(
        adaptation_settings.read(name, cell.settings), **{each: getattr(usual, each) for each in answering}
    )
    recorded = adaptation_settings.recorded(settings)
    return replace(cell, adaptation=f"{name}:{kept}" if kept else name, settings=recorded)


def fits(adaptation: str, form: Form) -> bool:
    """Whether ``adaptation`` has a head for tasks of ``form``."""
    heads = load_adaptation(adaptation).heads
    return heads is None or form in heads


def teacher_row(named: str) -> Row:
    """The row for the value ``named`` of a setting ``teacher``: "bert-mini" or "random-bert-mini". Raises `UsageError`
    for a name without a size, and for a baseline."""
    name, _, size = named.rpartition("-")
    if not name:
        raise UsageError(
            f"teacher={named} names no size. Name a model and its size, such as bert-mini, or a checkpoint that is "
            "given with --task-teacher."
        )
    row = Row.parse(name, size)
    if row.model is None:
        raise UsageError(f"teacher={named} names the baseline {name}, which cannot teach. Name a model and its size.")
    if row.model not in models.names():
        raise UsageError(
            f"teacher={named} is neither a model and its size, such as bert-mini, nor the name of a checkpoint that is "
            "given with --task-teacher. `ptmbench ls models` shows the models, `info CHECKPOINT` the name of a "
            "checkpoint."
        )
    return row
