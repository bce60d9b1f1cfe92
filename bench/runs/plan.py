"""Models x sizes x tasks x adaptations x seeds to cells, and the plan of a run. Pure: reads no data, runs nothing,
imports no TensorFlow."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ptmbench.bench import baselines
from ptmbench.bench.adapt import check as check_adaptation
from ptmbench.bench.adapt import load as load_adaptation
from ptmbench.bench.adapt import names as adaptation_names
from ptmbench.bench.adapt import only
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt import transforms as transforms_of
from ptmbench.bench.adapt.conditions import Chosen, choose
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs import graph
from ptmbench.bench.runs.artefacts import RANDOM, Artefact, Cell, Row, from_dict, to_dict
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Task

AFTER = "after"
"""What an adaptation calls its intermediate task: ``finetune:after=mnli`` begins with a model adapted to MNLI (Phang et
al., 2018, "Sentence Encoders on STILTs")."""


@dataclass(frozen=True)
class Plan:
    """All artefacts of a run, each behind those that it needs. `UsageError` for a need that is not among them, and for
    artefacts that need each other."""

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

    def groups(self) -> dict[str, list[Cell]]:
        groups: dict[str, list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(cell.group, []).append(cell)
        return groups

    def to_json(self) -> str:
        return json.dumps({"artefacts": [to_dict(artefact) for artefact in self.artefacts]}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        return cls(tuple(map(from_dict, json.loads(text)["artefacts"])))


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
    return only().get(form, adaptation)


def adaptations() -> tuple[str, ...]:
    """What a user may ask for."""
    return tuple(name for name in adaptation_names() if name not in only().values())


def variant(adaptation: str) -> tuple[str, dict[str, str]]:
    """The name of an adaptation and the settings behind it, as `settings.split` reads them. `UsageError` for others."""
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
    """Defaults of the task's form, then the suite's changes, the general ones first, then the user's."""
    settings = adaptation_settings.defaults(task.form, adaptation)
    for name in ("", str(task.form), f"{task.form}/{adaptation}", task.name, f"{task.name}/{adaptation}"):
        settings = adaptation_settings.changed(settings, suite.get(name, {}))
    return adaptation_settings.recorded(adaptation_settings.changed(settings, chosen))


def cells_of(
    rows: Sequence[Row],
    tasks: Sequence[Task],
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
    adapted: Callable[[Cell], str] | None = None,
    conditions: Sequence[str] = (),
    transforms: Sequence[str] = (),
) -> tuple[Cell, ...]:
    """Every combination, in the order in which a reader of the board goes through them. Each cell is followed by the
    same one under each of ``conditions``, and each cell of a network then by those of the adapted model after each of
    ``transforms``.

    ``neighbour`` gives what stands in `Cell.neighbours` for a row, the name of another model and the kind of tokens
    that it is to read; it is needed where an adaptation reads one. ``adapted`` gives the key of the model that a cell
    adapts, or of what its transform makes of that; it is needed for intermediate tasks (``finetune:after=mnli``), for
    conditions and for transforms.
    """
    if not rows or not tasks:
        raise UsageError("There is nothing to run: name at least one model and one task.")
    variants = {asked: variant(asked) for asked in adaptations}
    asked_for = tuple(name for name, _ in variants.values())
    under, after_it = tuple(map(choose, conditions)), tuple(map(transforms_of.choose, transforms))

    def drawn(row: Row, task: Task, asked: str, name: str, changes: Mapping[str, str], after: str) -> Iterator[Cell]:
        """A cell for each seed that makes a difference."""
        adaptation = adaptation_of(row, task.form, asked)
        method, own = (name, changes) if adaptation == asked else (adaptation, {})
        given = adaptation_settings.applying(settings or {}, method, asked_for)
        chosen = settings_of(task, method, suite_settings or {}, {**given, **own})
        here = adaptation_settings.read(method, chosen).of(task.name)
        chosen, also = adaptation_settings.recorded(here), here.models(task.form)
        # What draws nothing has one seed; under a random twin the seed draws the weights.
        still = adaptation == "baseline" or (row.kind != "random" and not load_adaptation(method).draws(here))
        begins: dict[int, str] = {}
        if after not in ("", task.name) and adaptation == asked:  # a task after itself is the task alone
            first = load(after)
            if adaptation_of(row, first.form, name) != name:
                raise UsageError(f"'{asked}': {after} is met in one way only, without learning. Name another task.")
            plain = f"{name}:{'+'.join(map('='.join, changes.items()))}" if changes else name
            begins = {one.seed: adapted(one) for one in drawn(row, first, plain, name, changes, "")}
        for seed in seeds[:1] if still else seeds:
            yield Cell(
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
                adapted=begins.get(seed, ""),
            )

    cells: dict[str, Cell] = {}
    for row in rows:
        for task in tasks:
            for asked, (name, changes) in variants.items():
                own = {key: value for key, value in changes.items() if key != AFTER}
                for one in drawn(row, task, asked, name, own, changes.get(AFTER, "")):
                    for other in _with_transforms(one, after_it):
                        shared = bool(after_it)
                        cells |= {made.key: made for made in _with_conditions(other, under, adapted, shared)}
    return tuple(cells.values())


def _with_transforms(cell: Cell, transforms: Sequence[transforms_of.Chosen]) -> Iterator[Cell]:
    """``cell``, and the same one after each of ``transforms``. A baseline has no network to transform."""
    yield cell
    for one in transforms if cell.row.kind != "baseline" else ():
        settings = adaptation_settings.recorded(one.settings)
        version = one.transform.version
        yield replace(cell, transform=one.title, transform_settings=settings, transform_version=version)


def _with_conditions(
    cell: Cell, conditions: Sequence[Chosen], adapted: Callable[[Cell], str] | None, shared: bool
) -> Iterator[Cell]:
    """``cell``, and the same one under each of ``conditions``. What learns is adapted once and answers in all of them
    that fit the task; ``shared`` says that cells after a transform need it too."""
    learns = cell.row.kind != "baseline" and load_adaptation(cell.method).learns
    fitting = {one for one in conditions if one.condition.fits(cell.form)}
    predictor = adapted(cell) if learns and (fitting or shared) else ""
    yield replace(cell, predictor=predictor)
    for one in conditions:
        yield replace(
            cell,
            condition=one.title,
            condition_settings=adaptation_settings.recorded(one.settings),
            condition_version=one.condition.version,
            predictor=predictor if one in fitting else "",
        )


def _beside(name: str, data_sha256: Mapping[str, str]) -> dict[str, Any]:
    """What a cell has to say of the task ``name`` that it learns besides; `UnknownTask` where there is none."""
    task = load(name)
    return {"title": task.title, "version": task.version, "data_sha256": data_sha256[name]}
