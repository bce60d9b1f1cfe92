"""Chooses the examples for the training, the model selection and the reported score of a cell."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ptmbench import tasks
from ptmbench.bench import baselines
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.baselines import Training
from ptmbench.bench.data import sums
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs.artefacts import Cell
from ptmbench.tasks.forms import UNTRAINED, Form
from ptmbench.tasks.task import Example, MissingData, Task


class Parts(NamedTuple):
    """Examples for training, for model selection, and for the reported score."""

    train: Sequence[Example]
    selection: Sequence[Example]
    report: Sequence[Example]
    training_split: str = "train"
    """The split of ``train``; not "train" for a baseline on a task without a training file."""
    unlabelled: Sequence[Example] = ()
    """Further training examples without gold answers, which a teacher predicts."""

    def by_name(self) -> dict[str, Sequence[Example]]:
        """The three lists of examples, by field name."""
        return {"train": self.train, "selection": self.selection, "report": self.report}


def parts_of(cell: Cell, data: Path, task: Task, settings: Settings) -> Parts:
    """The parts of ``cell``: `splits`, with training examples drawn by its seed. A cell that trains nothing has only
    the parts that it reads."""
    if cell.form in UNTRAINED:
        return Parts([], [], read(task, data, task.report)[: cell.limit or None])
    if cell.form is Form.LANGUAGE_MODELLING:  # nothing is trained, so no examples select a model
        train = read(task, data, "train") if cell.row.kind == "baseline" else []
        return Parts(train, [], read(task, data, task.report)[: cell.limit or None])
    parts = _untrained(cell, data, task) or splits(task, data, settings, cell.limit, cell.seed)
    return _with_drawn(parts, task, cell.seed, settings)


def _untrained(cell: Cell, data: Path, task: Task) -> Parts | None:
    """The parts of a baseline without training examples; None for cells that read training examples."""
    use = baselines.training(cell.row.name, cell.form) if cell.row.kind == "baseline" else Training.NEEDED
    if use is Training.NEEDED or (use is Training.REPLACEABLE and _is_there(task, data, "train")):
        return None
    report = read(task, data, task.report)[: cell.limit or None]
    _check_labels(task, report)
    if use is Training.UNUSED:
        return Parts([], [], report)
    split = "dev" if _is_there(task, data, "dev") else task.report
    return Parts(read(task, data, split)[: cell.limit or None], [], report, split)


def _is_there(task: Task, data: Path, split: str) -> bool:
    try:
        return bool(task.paths(data, split))
    except MissingData:
        return False


def _check_labels(task: Task, examples: Sequence[Example], split: str = "") -> None:
    """Raises `NotApplicable` if the ``examples`` of a split, by default the reported one, have no labels."""
    if all(example.gold is None for example in examples):
        split = split or task.report
        raise NotApplicable("no-labels", f"because the {split} split of {task.title} has no public labels.")


def parts_to_tune(cell: Cell, data: Path, task: Task, settings: Settings, held_out: int) -> Parts:
    """The parts of a trial of ``cell``: held-out training examples replace the reported split. The trial uses them
    neither for training nor for model selection.

    A fifth of the training examples is held out, but at most ``held_out``. They are the same for all models, settings
    and seeds, unless the seed draws the few examples of a task. The other examples are divided as in `splits`.
    """
    train = _training(task, data, cell.limit, cell.seed)
    _check_labels(task, train, "train")
    held = _held(train, max(1, min(held_out, len(train) // 5)), salt=1)
    kept, report = ([e for e, h in zip(train, held, strict=True) if h == side] for side in (False, True))
    parts = _selected(task, data, settings, cell.limit, kept, report)
    return _with_drawn(parts, task, cell.seed, settings)


def splits(task: Task, data: Path, settings: Settings, limit: int, seed: int) -> Parts:
    """The parts of a task with training.

    If the test labels are public, the test set is reported and the dev set selects the model. Otherwise the dev set is
    reported, and selecting by it would bias the score. In this case a part of the training set is held out for
    selection, the same for every seed and model. A task with few training examples (`tasks.few`), which depend on the
    ``seed``, also holds out a part of these. Examples of one group (the questions about one text) stay together.
    """
    train, report = _training(task, data, limit, seed), read(task, data, task.report)[: limit or None]
    _check_labels(task, report)
    return _selected(task, data, settings, limit, train, report)


def _selected(
    task: Task, data: Path, settings: Settings, limit: int, train: Sequence[Example], report: Sequence[Example]
) -> Parts:
    """Adds the examples that select the model: those of the dev set, or a held-out part of ``train``."""
    if task.report != "dev" and "dev" in task.files and not task.train_examples:
        return Parts(train, read(task, data, "dev")[: min(settings.selection, limit or settings.selection)], report)
    held = _held(train, max(1, min(settings.selection, len(train) // 10)))
    kept, stop = ([e for e, h in zip(train, held, strict=True) if h == side] for side in (False, True))
    return Parts(kept, stop, report)


def _training(task: Task, data: Path, limit: int, seed: int) -> Sequence[Example]:
    """The training examples of ``task``: the first ``limit`` of its training split (0 for all), or few of these, drawn
    with ``seed``. Raises `NotApplicable` if the split has too few examples to draw from."""
    train, few = read(task, data, "train")[: limit or None], task.train_examples
    if len(train) < few and not limit:
        reason = f"because {task.title} cannot be drawn from a training split of {len(train)}."
        raise NotApplicable("few-examples", reason)
    return _draw(train, few, [seed, 5]) if few else train


def auxiliary_examples(
    cell: Cell, data: Path, settings: Settings, kept_out: Sequence[Example]
) -> dict[str, Sequence[Example]]:
    """Returns training examples of the auxiliary tasks of ``cell``, by task. The limits of the cell's own training set
    apply to each. Leaves out the texts of ``kept_out``, because tasks may share sentences. Raises `NotApplicable` for a
    task of another form, without labels, or without other texts."""
    texts, found = {example.inputs for example in kept_out}, {}
    for name in cell.auxiliary:
        task = tasks.load(name)
        if reason := unfit(task, cell.form):
            raise NotApplicable("another-form", f"because {reason}")
        whole = [e for e in _training(task, data, cell.limit, cell.seed) if e.gold is not None]
        if not whole:
            reason = f"because the train split of the auxiliary task {task.title} has no labels."
            raise NotApplicable("no-labels", reason)
        whole = [example for example in whole if example.inputs not in texts]
        if not whole:
            reason = f"because the auxiliary task {task.title} has only training examples that this cell is scored on."
            raise NotApplicable("no-auxiliary-examples", reason)
        found[name] = drawn(whole, cell.seed, settings)
    return found


def unfit(task: Task, form: Form) -> str:
    """The reason why ``task`` cannot be an auxiliary task of a task of ``form``; "" if it can."""
    return f"the auxiliary task {task.title} is {task.form} and not {form}." if task.form is not form else ""


def _with_drawn(parts: Parts, task: Task, seed: int, settings: Settings) -> Parts:
    """Draws at most ``settings.train_limit`` training examples of ``parts``. At most ``settings.unlabelled`` of the
    others lose their gold answers. Raises `NotApplicable` if there are no others."""
    train = drawn(parts.train, seed, settings)
    if not settings.unlabelled:
        return parts._replace(train=train)
    labelled = set(map(id, train))
    others = [example for example in parts.train if id(example) not in labelled]
    if not others:
        used = f"because all {len(train)} training examples of {task.title} are used with their labels."
        raise NotApplicable("no-unlabelled-examples", f"{used} Set a lower train_limit.")
    chosen = _draw(others, settings.unlabelled, [seed, 9])
    return parts._replace(train=train, unlabelled=[replace(example, gold=None) for example in chosen])


def drawn(train: Sequence[Example], seed: int, settings: Settings) -> Sequence[Example]:
    """At most ``settings.train_limit`` examples of ``train``, drawn with ``seed``, in their original order."""
    return _draw(train, settings.train_limit, [seed, 3]) if settings.train_limit else train


def _draw(examples: Sequence[Example], count: int, seed: Sequence[int]) -> Sequence[Example]:
    """``count`` random ``examples`` in their original order, or all if there are not more."""
    if len(examples) <= count:
        return examples
    places = np.random.default_rng(seed).choice(len(examples), count, replace=False)
    return [examples[i] for i in sorted(places)]


def _held(train: Sequence[Example], count: int, salt: int = 0) -> np.ndarray:
    """Draws about ``count`` held-out examples of ``train`` and returns their mask, bool [N]. Keeps groups whole if
    there are several. Another ``salt`` draws other examples."""
    names = [i if example.group is None else example.group for i, example in enumerate(train)]
    if len(set(names)) == 1:
        names = list(range(len(train)))
    number = {name: place for place, name in enumerate(dict.fromkeys(names))}
    groups = np.array([number[name] for name in names])  # [N]
    order = np.random.default_rng([len(train), salt] if salt else len(train)).permutation(len(number))
    ends = np.cumsum(np.bincount(groups)[order])
    return np.isin(groups, order[: max(1, np.searchsorted(ends, count, side="right"))])


def read(task: Task, data: Path, split: str) -> list[Example]:
    """Examples of one split, read once per process. Raises `DataError` if a file has changed since it was fetched."""
    return _read(task.name, data, split)


@lru_cache(maxsize=16)
def _read(name: str, data: Path, split: str) -> list[Example]:
    task = tasks.load(name)
    sums.check(task, data, split)
    return task.examples(data, split)
