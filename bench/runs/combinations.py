"""Makes the cells of models x tasks x adaptations x seeds, after transforms and under conditions. Reads no data."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from ptmbench.bench.adapt import load as load_adaptation
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt import transforms as transforms_of
from ptmbench.bench.adapt.conditions import ChosenCondition, choose
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs import plugins
from ptmbench.bench.runs.artefacts import Cell, Row
from ptmbench.bench.runs.plan import AFTER, Teaching, adaptation_of, fits, settings_of, training_cell, variant
from ptmbench.tasks import load
from ptmbench.tasks.task import Task


class AskedAdaptation(NamedTuple):
    """An adaptation that a user asked for."""

    text: str
    """As the user wrote it: "finetune:after=mnli+epochs=2"."""
    name: str
    settings: Mapping[str, str]
    """The settings in the text, without the intermediate task."""
    after: str = ""
    """The intermediate task; "" for none."""

    @classmethod
    def parse(cls, text: str) -> "AskedAdaptation":
        """Raises `UsageError` like `plan.variant`."""
        name, settings = variant(text)
        own = {key: value for key, value in settings.items() if key != AFTER}
        return cls(text, name, own, settings.get(AFTER, ""))

    @property
    def first(self) -> "AskedAdaptation":
        """The same adaptation to the intermediate task."""
        pairs = "+".join(map("=".join, self.settings.items()))
        return AskedAdaptation(f"{self.name}:{pairs}" if pairs else self.name, self.name, self.settings)


@dataclass(frozen=True, kw_only=True)
class Combinations:
    """Makes cells with these options.

    Cells with the same training share one adapted model: a cell under conditions, after transforms, and with several
    settings for prediction (FastBERT's speed, the beam); an intermediate task that is also a task of the run; and a
    teacher that is also a row of the run.
    """

    adaptations: Sequence[str]
    seeds: Sequence[int]
    data_sha256: Mapping[str, str]
    """Checksums of the data by task."""
    pretraining_of: Mapping[Row, str]
    """Keys of the pre-trainings or checkpoints of rows."""
    tokenizer: str
    """Key of the tokenizer of the run."""
    own_tokenizers: Mapping[str, str] = field(default_factory=dict)
    """Keys of the tokenizers of models with their own."""
    suite_settings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    limit: int = 0
    neighbour: Callable[[Row, str, str], str] | None = None
    """Maps a row, the name of an extra encoder and its kind of tokens to a key for `Cell.neighbours`. Needed for
    adaptations with extra encoders."""
    teacher: Callable[[str], Teaching] | None = None
    """Maps the setting of that name ("bert-mini") to the row and the pre-training of the teacher."""
    adapted: Callable[[Cell], str] | None = None
    """Maps a cell to the key of its adapted or transformed model. Needed if cells share one."""
    conditions: Sequence[str] = ()
    transforms: Sequence[str] = ()
    chosen_by: Mapping[Row, str] = field(default_factory=dict)
    """`Cell.chosen_by` of the rows that are pre-trained several times."""
    tuned: Callable[[Cell], Cell] = lambda cell: cell
    """Gives a cell its tuned settings. Models of an intermediate task keep the untuned ones."""
    keeps: Callable[[Cell], bool] = lambda cell: True
    """Whether to run a combination of the other options. Called before conditions are added."""
    _needed: set[str] = field(default_factory=set, init=False, repr=False)
    """Keys of the cells that represent the training on an intermediate task, or that of a teacher."""

    def cells(self, rows: Sequence[Row], tasks: Sequence[Task]) -> tuple[Cell, ...]:
        """The cells of all combinations with ``rows`` and ``tasks``, in the order of the board. Each is followed by the
        same cell under each condition. For a network, the same cells after each chain of transforms come next."""
        if not rows or not tasks:
            raise UsageError("The run has no cells. Name at least one model and one task.")
        plain: dict[str, Cell] = {}
        for row, task, asked in product(rows, tasks, self._asked):
            plain |= {one.key: one for one in map(self.tuned, self._plain(row, task, asked))}
        kept = {key: list(filter(self.keeps, self._transformed(one))) for key, one in plain.items()}
        alike = Counter(training_cell(one).key for key, one in plain.items() if kept[key] and _learns(one))
        cells: dict[str, Cell] = {}
        for one in plain.values():
            key = training_cell(one).key if _learns(one) else ""
            shared = any(other.transforms for other in kept[one.key]) or alike[key] > 1 or key in self._needed
            for other in kept[one.key]:
                cells |= {made.key: made for made in self._under_conditions(other, shared)}
        return tuple(cells.values())

    @cached_property
    def _asked(self) -> tuple[AskedAdaptation, ...]:
        return tuple(map(AskedAdaptation.parse, self.adaptations))

    @cached_property
    def _conditions(self) -> tuple[ChosenCondition, ...]:
        return tuple(map(choose, self.conditions))

    @cached_property
    def _chains(self) -> tuple[Sequence[transforms_of.ChosenTransform], ...]:
        return tuple(map(transforms_of.choose, self.transforms))

    def _plain(self, row: Row, task: Task, asked: AskedAdaptation, begins: Teaching | None = None) -> Iterator[Cell]:
        """Yields a cell without transform and condition for each seed that changes the result. ``begins`` is given for
        a teacher only."""
        adaptation = adaptation_of(row, task.form, asked.text)
        method, own = (asked.name, asked.settings) if adaptation == asked.text else (adaptation, {})
        given = adaptation_settings.applying(self.settings, method, tuple(one.name for one in self._asked))
        chosen = settings_of(task, method, self.suite_settings, {**given, **own})
        settings = adaptation_settings.read(method, chosen).of(task.name)
        tokenizer = self.own_tokenizers.get(row.model or "", self.tokenizer) if row.kind != "baseline" else ""
        start = begins.pretraining if begins else self.pretraining_of.get(row)
        # A task is not its own intermediate task.
        staged = asked.after not in ("", task.name) and adaptation == asked.text
        first_models = self._first_models(row, asked) if staged else {}
        teachers, others_teachers = self._teachers(task, method, settings)
        extra_encoders = settings.models(task.form)
        for seed in self._seeds(row, task, method, settings, start):
            yield Cell(
                row=row,
                task=task.name,
                task_version=task.version,
                form=task.form,
                data_sha256=self.data_sha256[task.name],
                adaptation=adaptation,
                settings=adaptation_settings.recorded(settings),
                seed=seed,
                tokenizer=(begins and begins.tokenizer) or tokenizer,
                pretraining=start,
                chosen_by=self.chosen_by.get(row, ""),
                adaptation_version=settings.VERSION,
                limit=self.limit,
                auxiliary={name: self._auxiliary(name) for name in settings.others},
                neighbours={name: self.neighbour(row, name, cut) for name, cut in extra_encoders.items()},
                adapted=first_models.get(seed, ""),
                teacher=teachers.get(seed, ""),
                auxiliary_teachers={name: by_seed[seed] for name, by_seed in others_teachers.items()},
                plugins=plugins.sources((row.model, *extra_encoders), task.name, method),
            )

    def _seeds(self, row: Row, task: Task, method: str, settings: Settings, start: str | None) -> Sequence[int]:
        """The seeds that change the result. Without randomness one is enough. The seed determines the weights of a
        random twin without a checkpoint, and the examples of a task with few training examples."""
        drawn = row.kind == "random" and not start
        draws = row.kind != "baseline" and (drawn or load_adaptation(method).draws(settings))
        return self.seeds if draws or task.train_examples else self.seeds[:1]

    def _first_models(self, row: Row, asked: AskedAdaptation) -> dict[int, str]:
        """The keys of the models of ``row`` adapted to the intermediate task of ``asked``, by seed."""
        task = load(asked.after)
        if adaptation_of(row, task.form, asked.name) != asked.name:
            raise UsageError(
                f"'{asked.text}': models are not trained on {asked.after}. Name another intermediate task."
            )
        return self._needed_models(map(training_cell, self._plain(row, task, asked.first)))

    def _teachers(
        self, task: Task, method: str, settings: Settings
    ) -> tuple[dict[int, str], dict[str, dict[int, str]]]:
        """The keys of the teachers of ``task`` by seed, and those of auxiliary tasks of the same form by task and
        seed."""
        if not settings.teacher or not fits(method, task.form):
            return {}, {}
        others = [name for name in settings.others if load(name).form is task.form]
        teachers = {name: self._teachers_of(load(name), method, settings.teacher) for name in (task.name, *others)}
        return teachers.pop(task.name), teachers

    def _teachers_of(self, task: Task, method: str, named: str) -> dict[int, str]:
        """The keys of the teacher ``named`` of the adaptation ``method``, when adapted to ``task``, by seed."""
        if self.teacher is None:
            raise UsageError(
                f"A cell learns from the teacher {named}, which only `ptmbench run` and `evaluate` train. Choose "
                "another --adaptation."
            )
        begins, way = self.teacher(named), load_adaptation(method).teaching
        found = self._plain(begins.row, task, AskedAdaptation(way, way, {}), begins)
        return self._needed_models(training_cell(one if begins.tokenizer else self.tuned(one)) for one in found)

    def _needed_models(self, cells: Iterator[Cell]) -> dict[int, str]:
        """The keys of the adapted models of ``cells``, which other cells begin with or learn from, by seed."""
        found = list(cells)
        self._needed.update(one.key for one in found)
        return {one.seed: self.adapted(one) for one in found}

    def _auxiliary(self, name: str) -> dict[str, Any]:
        """The entry of the auxiliary task ``name`` in `Cell.auxiliary`. Raises `UnknownTask`."""
        task = load(name)
        return {"title": task.title, "version": task.version, "data_sha256": self.data_sha256[name]}

    def _transformed(self, cell: Cell) -> Iterator[Cell]:
        """Yields ``cell`` and, unless it is a baseline, the same cell after each chain of transforms."""
        yield cell
        for chain in self._chains if cell.row.kind != "baseline" else ():
            yield replace(cell, transforms=tuple(one.recorded() for one in chain))

    def _under_conditions(self, cell: Cell, shared: bool) -> Iterator[Cell]:
        """Yields ``cell``, and the same cell under each condition. If the model is trained, all these cells share one
        adapted model. ``shared`` means that other cells need it too."""
        fitting = {one for one in self._conditions if one.condition.fits(cell.form)}
        predictor = self.adapted(training_cell(cell)) if _learns(cell) and (fitting or shared) else ""
        yield replace(cell, predictor=predictor)
        for one in self._conditions:
            yield replace(
                cell,
                condition=one.title,
                condition_settings=adaptation_settings.recorded(one.settings),
                condition_version=one.condition.version,
                predictor=predictor if one in fitting else "",
            )


def check_transforms(asked: Sequence[str], cells: Sequence[Cell]) -> None:
    """Raises `UsageError` for a chain of ``asked`` transforms that none of ``cells`` has: the suite keeps none of its
    combinations."""
    there = {cell.transform for cell in cells}
    learned = dict.fromkeys(cell.adaptation for cell in cells if cell.row.kind != "baseline")
    after = f" after {', '.join(learned)}" if learned else ""
    for text in asked:
        if transforms_of.title([one.recorded() for one in transforms_of.choose(text)]) not in there:
            raise UsageError(
                f"--transform {text} has no effect: the suite compresses no model of this run in this way{after}. "
                "Leave it out, or choose another --adaptation or suite."
            )


def _learns(cell: Cell) -> bool:
    return cell.row.kind != "baseline" and load_adaptation(cell.method).learns
