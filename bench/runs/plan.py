"""Makes the cells of models x sizes x tasks x adaptations x seeds, and the plan of a run. Reads no data."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ptmbench.bench.adapt import transforms as transforms_of
from ptmbench.bench.adapt.conditions import ChosenCondition, choose
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs import graph, plugins
from ptmbench.bench.runs.artefacts import RANDOM, Artefact, Cell, Row, from_dict, to_dict
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.tasks import load
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


def cells_of(
    rows: Sequence[Row],
    tasks: Sequence[Task],
    *,
    adaptations: Sequence[str],
    seeds: Sequence[int],
    data_sha256: Mapping[str, str],
    pretraining_of: Mapping[Row, str],
    tokenizer: str,
    own_tokenizers: Mapping[str, str] | None = None,
    suite_settings: Mapping[str, Mapping[str, float]] | None = None,
    settings: Mapping[str, Any] | None = None,
    limit: int = 0,
    neighbour: Callable[[Row, str, str], str] | None = None,
    teacher: Callable[[str], Teaching] | None = None,
    adapted: Callable[[Cell], str] | None = None,
    conditions: Sequence[str] = (),
    transforms: Sequence[str] = (),
    chosen_by: Mapping[Row, str] | None = None,
    tuned: Callable[[Cell], Cell] = lambda cell: cell,
    keeps: Callable[[Cell], bool] = lambda cell: True,
) -> tuple[Cell, ...]:
    """Returns the cells of all combinations, in the order of the board. Each cell is followed by the same cell under
    each of ``conditions``. For a network, the same cells after each of ``transforms`` come next.

    Cells with the same training share one adapted model: a cell under conditions, after transforms, and with several
    settings for prediction (FastBERT's speed, the beam); an intermediate task that is also a task of the run; and a
    teacher that is also a row of the run.

    - ``own_tokenizers``: the keys of the tokenizers of models with their own.
    - ``neighbour``: maps a row, the name of an extra encoder and its kind of tokens to a key for `Cell.neighbours`;
      needed for adaptations with extra encoders.
    - ``teacher``: maps the setting of that name ("bert-mini") to the row and the pre-training of the teacher.
    - ``adapted``: maps a cell to the key of its adapted or transformed model; needed if cells share one.
    - ``chosen_by``: `Cell.chosen_by` of the rows that are pre-trained several times.
    - ``tuned``: gives a cell its tuned settings; models of an intermediate task keep the untuned ones.
    - ``keeps``: whether to run a combination of the other options; called before conditions are added.
    """
    if not rows or not tasks:
        raise UsageError("The run has no cells. Name at least one model and one task.")
    variants = {asked: variant(asked) for asked in adaptations}
    asked_for = tuple(name for name, _ in variants.values())
    under, after_it = tuple(map(choose, conditions)), tuple(map(transforms_of.choose, transforms))

    def own_tokenizer(row: Row) -> str:
        return (own_tokenizers or {}).get(row.model or "", tokenizer if row.kind != "baseline" else "")

    intermediate: set[str] = set()
    """Keys of the cells that represent the training on an intermediate task or the training of a teacher."""

    def drawn(
        row: Row,
        task: Task,
        asked: str,
        name: str,
        changes: Mapping[str, str],
        after: str,
        begins_as: Teaching | None = None,
    ) -> Iterator[Cell]:
        """Yields a cell for each seed that changes the result. ``begins_as`` is given for a teacher only."""
        adaptation = adaptation_of(row, task.form, asked)
        method, own = (name, changes) if adaptation == asked else (adaptation, {})
        given = adaptation_settings.applying(settings or {}, method, asked_for)
        chosen = settings_of(task, method, suite_settings or {}, {**given, **own})
        here = adaptation_settings.read(method, chosen).of(task.name)
        chosen, also = adaptation_settings.recorded(here), here.models(task.form)
        # Without randomness one seed is enough. The seed determines the weights of a random twin without a checkpoint,
        # and the examples of a task with few training examples.
        start = begins_as.pretraining if begins_as else pretraining_of.get(row)
        drawn_weights = row.kind == "random" and not start
        still = adaptation == "baseline" or not (drawn_weights or load_adaptation(method).draws(here))
        still = still and not task.train_examples
        begins: dict[int, str] = {}
        if after not in ("", task.name) and adaptation == asked:  # a task is not its own intermediate task
            first = load(after)
            if adaptation_of(row, first.form, name) != name:
                raise UsageError(f"'{asked}': models are not trained on {after}. Name another intermediate task.")
            plain = f"{name}:{'+'.join(map('='.join, changes.items()))}" if changes else name
            found = [training_cell(one) for one in drawn(row, first, plain, name, changes, "")]
            intermediate.update(one.key for one in found)
            begins = {one.seed: adapted(one) for one in found}
        learns_from = here.teacher if here.teacher and fits(method, task.form) else ""
        teaches = teachers_of(task, method, learns_from) if learns_from else {}
        also_taught = [name for name in here.others if learns_from and load(name).form is task.form]
        others_teach = {name: teachers_of(load(name), method, learns_from) for name in also_taught}
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
                tokenizer=(begins_as and begins_as.tokenizer) or own_tokenizer(row),
                pretraining=start,
                chosen_by=(chosen_by or {}).get(row, ""),
                adaptation_version=here.VERSION,
                limit=limit,
                auxiliary={name: _auxiliary(name, data_sha256) for name in here.others},
                neighbours={name: neighbour(row, name, cut) for name, cut in also.items()},
                adapted=begins.get(seed, ""),
                teacher=teaches.get(seed, ""),
                auxiliary_teachers={name: others_teach[name][seed] for name in also_taught},
                plugins=plugins.sources((row.model, *also), task.name, method),
            )

    def teachers_of(task: Task, method: str, named: str) -> dict[int, str]:
        """The keys of the teacher ``named`` of the adaptation ``method``, when adapted to ``task``, by seed."""
        if teacher is None:
            raise UsageError(
                f"A cell learns from the teacher {named}, which only `ptmbench run` and `evaluate` train. Choose "
                "another --adaptation."
            )
        begins, way = teacher(named), load_adaptation(method).teaching
        made = drawn(begins.row, task, way, way, {}, "", begins)
        found = [training_cell(one if begins.tokenizer else tuned(one)) for one in made]
        intermediate.update(one.key for one in found)
        return {one.seed: adapted(one) for one in found}

    plain: dict[str, Cell] = {}
    for row in rows:
        for task in tasks:
            for asked, (name, changes) in variants.items():
                own = {key: value for key, value in changes.items() if key != AFTER}
                found = drawn(row, task, asked, name, own, changes.get(AFTER, ""))
                plain |= {one.key: one for one in map(tuned, found)}
    kept = {key: [other for other in _with_transforms(one, after_it) if keeps(other)] for key, one in plain.items()}
    alike = Counter(training_cell(one).key for key, one in plain.items() if kept[key] and _learns(one))
    cells: dict[str, Cell] = {}
    for one in plain.values():
        key = training_cell(one).key if _learns(one) else ""
        shared = any(other.transforms for other in kept[one.key]) or alike[key] > 1 or key in intermediate
        for other in kept[one.key]:
            cells |= {made.key: made for made in _with_conditions(other, under, adapted, shared)}
    return tuple(cells.values())


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


def _learns(cell: Cell) -> bool:
    return cell.row.kind != "baseline" and load_adaptation(cell.method).learns


def _with_transforms(cell: Cell, chains: Sequence[Sequence[transforms_of.ChosenTransform]]) -> Iterator[Cell]:
    """Yields ``cell`` and, unless it is a baseline, the same cell after each of the ``chains`` of transforms."""
    yield cell
    for chain in chains if cell.row.kind != "baseline" else ():
        yield replace(cell, transforms=tuple(one.recorded() for one in chain))


def _with_conditions(
    cell: Cell, conditions: Sequence[ChosenCondition], adapted: Callable[[Cell], str] | None, shared: bool
) -> Iterator[Cell]:
    """Yields ``cell``, and the same cell under each of ``conditions``. If the model is trained, all these cells share
    one adapted model. ``shared`` means that other cells need it too."""
    fitting = {one for one in conditions if one.condition.fits(cell.form)}
    predictor = adapted(training_cell(cell)) if _learns(cell) and (fitting or shared) else ""
    yield replace(cell, predictor=predictor)
    for one in conditions:
        yield replace(
            cell,
            condition=one.title,
            condition_settings=adaptation_settings.recorded(one.settings),
            condition_version=one.condition.version,
            predictor=predictor if one in fitting else "",
        )


def _auxiliary(name: str, data_sha256: Mapping[str, str]) -> dict[str, Any]:
    """The entry of the auxiliary task ``name`` in `Cell.auxiliary`. Raises `UnknownTask`."""
    task = load(name)
    return {"title": task.title, "version": task.version, "data_sha256": data_sha256[name]}
