"""Estimates the cost of a plan before it runs: FLOPs by formula, time by a short benchmark of this machine.

Tokens are counted with the tokenizer of the plan if an earlier run made it. Otherwise a word has `TOKENS_PER_WORD`
tokens.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ptmbench import models, tasks
from ptmbench.bench import baselines
from ptmbench.bench.adapt import conditions, load, transforms
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.effort import TOKENS_PER_WORD, Cut, Network, Split
from ptmbench.bench.adapt.neighbours import unfit as unfit_encoders
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.baselines import Training
from ptmbench.bench.console import duration
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import steps_of
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.engine.recipe import Recipe, recipe_of
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs.artefacts import AdaptedModel, Artefact, Cell, Given, TransformedModel
from ptmbench.bench.runs.examples import read, unfit
from ptmbench.bench.runs.plan import Plan, teacher_row
from ptmbench.bench.runs.trainings import Pretraining, TokenizerTraining
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks.forms import UNTRAINED, Form
from ptmbench.tasks.task import DataError, Task

EFFICIENCY = 0.4
"""FLOP/s of small networks in training, as a fraction of the rate of a matrix product."""
_CUT = Cut(Vocabulary(size=8000))
"""How texts become tokens if the plan does not define it."""
STEP = 0.004
"""Seconds of overhead per pre-training step, including its batch. Steps of word vectors are mostly overhead."""
_WHAT = {"cell": "cell", "adapted": "adapt", "transformed": "transform"}
"""First column of the table, by kind of artefact."""
FIXED = 1.0
"""Seconds of overhead per cell: loading weights, making batches, scoring."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimated cost of one artefact of a plan: a pre-training, an adapted model or a cell."""

    piece: Artefact
    names: tuple[str, ...]
    """The first columns of the table: kind, model, task, adaptation and seed."""
    tokens: float
    flops: float
    seconds: float
    """Seconds on one core; 0 if it is not applicable."""
    note: str = ""
    """Why it is not applicable."""
    done: bool = False
    """Whether a run folder has it, or no longer needs it."""

    @property
    def line(self) -> str:
        """A line of the table of a dry run."""
        cost = f"{self.tokens:.3g}\t{self.flops:.2g}\t{'done' if self.done else duration(self.seconds)}"
        return "\t".join((*self.names, f"not applicable, because {self.note}" if self.note else cost))


def estimates(plan: Plan, data: Path, rate: float) -> Iterator[Estimate]:
    """Estimates the artefacts of ``plan`` on a core that computes ``rate`` FLOP/s, pre-trainings first."""
    for pretraining in plan.pretrainings:
        tokens, flops, seconds = pretraining_cost(pretraining, rate)
        names = ("pre-train", pretraining.name, "", "", str(pretraining.seed))
        yield Estimate(piece=pretraining, names=names, tokens=tokens, flops=flops, seconds=seconds)
    examples: dict[str, Any] = {}
    costs: dict[Any, tuple[float, float, str]] = {}
    for piece in plan.artefacts:
        if not isinstance(piece, AdaptedModel | Cell):
            continue
        what, cell = _WHAT[piece.kind], piece if isinstance(piece, Cell) else piece.cell
        made = isinstance(piece, TransformedModel)
        cut = examples.get(cell.tokenizer) or examples.setdefault(cell.tokenizer, _cut(plan, cell))
        alike = (made, cell.who, cell.column, cell.treatment, cell.chosen_by, bool(cell.predictor), repr(cell.settings))
        if alike not in costs:  # seeds cost the same
            costs[alike] = cell_cost(cell, data, examples, *given_shapes(cell, plan), made, cut, teacher_of(cell, plan))
        tokens, flops, note = costs[alike]
        names = (what, f"{cell.who} {cell.chosen_by}".rstrip(), cell.column, cell.treatment, str(cell.seed))
        seconds = 0.0 if note else flops / rate + FIXED
        yield Estimate(piece=piece, names=names, tokens=tokens, flops=flops, seconds=seconds, note=note)


def table(found: Sequence[Estimate], rate: float) -> str:
    """Formats the estimates ``found`` as tab-separated lines, with the total of those that remain in the last line."""
    left = [one for one in found if not one.done]
    pretrainings, cells = (sum(isinstance(one.piece, kind) for one in left) for kind in (Pretraining, Cell))
    idle = sum(isinstance(one.piece, Cell) and bool(one.note) for one in left)
    count = f"{pretrainings} pre-trainings, {cells} cells" + (f", {idle} of them not applicable" if idle else "")
    total = duration(sum(one.seconds for one in left))
    return "\n".join(
        [
            "what\tmodel\ttask\tadaptation\tseed\ttokens\tFLOPs\ttime",
            *(one.line for one in found),
            f"total\t{count}\t\t\t\t\t\tabout {total} of one core at {rate / 1e9:.0f} GFLOP/s",
        ]
    )


def seconds_of(
    cell: Cell,
    data: Path,
    seen: dict[str, Any],
    shape: Size | None = None,
    neighbours: Mapping[str, Size] | None = None,
    teacher: Network | None = None,
) -> float:
    """Estimated seconds of ``cell`` on one core of this machine; infinite if it is not applicable. Arguments as in
    `cell_cost`; ``seen`` caches the sizes of tasks between calls, initially {}."""
    _, flops, note = cell_cost(cell, data, seen, shape, neighbours, teacher=teacher)
    return math.inf if note else flops / training_rate() + FIXED


def training_rate() -> float:
    """FLOP/s that a training reaches on one core of this machine."""
    return flops_per_second() * EFFICIENCY


@cache
def flops_per_second() -> float:
    """FLOP/s of a float32 matrix product on one core of this machine, measured for a quarter of a second.

    Processor time is measured, so other work on the machine does not change the result. One thread is used, because
    processor time would count a second one while it waits.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    a = np.ones((512, 512), np.float32)
    best, until = 0.0, time.process_time() + 0.25
    with threadpool_limits(1):
        while time.process_time() < until:
            started = time.process_time()
            a @ a
            best = max(best, 2 * 512**3 / (time.process_time() - started))
    return best


def pretraining_cost(pretraining: Pretraining, rate: float) -> tuple[float, float, float]:
    """Tokens, FLOPs and seconds of ``pretraining`` on one core that computes ``rate`` FLOP/s."""
    module, recipe = models.load(pretraining.model), recipe_of(pretraining.recipe)
    shape = sized(module, pretraining.size, recipe.length)
    per_step = recipe.batch * recipe.length
    model = module.describe(shape, pretraining.words)
    per_token = model.step_flops(recipe.batch, recipe.length) / per_step
    steps = steps_of(pretraining.budget, per_step, per_step * per_token)
    if steps is None:
        seconds = pretraining.budget.minutes * 60
        return seconds * rate / per_token, seconds * rate, seconds
    flops = steps * per_step * per_token
    return steps * per_step, flops, flops / rate + steps * STEP


def cell_cost(
    cell: Cell,
    data: Path,
    seen: dict[str, Any],
    shape: Size | None,
    neighbours: Mapping[str, Size] | None = None,
    transforming: bool = False,
    cut: Cut = _CUT,
    teacher: Network | None = None,
) -> tuple[float, float, str]:
    """Returns (tokens, FLOPs, reason) of a cell. ``reason`` says why the cell is not applicable; "" if it is.

    Lengths are means over the first thousand examples. For an adaptation that trains nothing, each text is counted.
    With ``transforming``, only the last transform is counted.

    ``shape`` is the shape of the checkpoint that the cell adapts, ``neighbours`` are the shapes of given extra encoders
    by model, and ``teacher`` is the teacher's network. A shape or network that is None follows from the names of its
    model and size.
    """
    reason = _obstacle(cell, data, seen)
    if reason or cell.row.kind == "baseline":
        return 0.0, 0.0, reason
    task = tasks.load(cell.task)
    settings = adaptation_settings.read(cell.method, cell.settings)
    if transforming:
        chosen = transforms.read(cell.transforms[-1])
        settings = chosen.transform.training(chosen.settings, settings)
        if settings is None:
            return 0.0, 0.0, ""
    encoders = tuple(_network(name, cell.row.size, (neighbours or {}).get(name), cut) for name in cell.neighbours)
    network = _network(cell.row.model, cell.row.size, shape, cut)._replace(neighbours=encoders)
    if not load(cell.method).learns:
        try:
            report = seen.get((cell.task, "report"), [])[: cell.limit or None]
            return *settings.answering_cost(network, task, report, cut), ""
        except NotApplicable as error:
            return 0.0, 0.0, str(error).removeprefix("because ")
    train, *others = (_training_split(name, seen, cell) for name in (cell.task, *cell.auxiliary))
    report = _within_limit(seen[cell.task][task.report], cell)
    trained, predicted = settings.tokens(task, train, report, others)
    if cell.form is Form.RANKING:  # training reads questions and answers; every evaluation reads all candidates
        candidates = seen[cell.task, "candidates"]
        each = min(candidates.tokens, settings.length)
        trained += settings.rows_read(train) * each
        predicted += (
            (1 + (0 if cell.predictor else settings.epochs * settings.evaluations)) * candidates.examples * each
        )
    if transforming:
        predicted = chosen.measured_texts(network.shape.layers, settings.batch) * min(train.tokens, settings.length)
    elif cell.predictor:
        trained = 0.0
    try:
        load(cell.method).head(cell.form)
        for one in map(transforms.read, cell.transforms):
            if reason := one.obstacle(cell.method, cell.form):
                return 0.0, 0.0, reason
        learning, answering = (flops / settings.length for flops in settings.flops(network, cell.form))
    except NotApplicable as error:
        return 0.0, 0.0, str(error).removeprefix("because ")
    asking = sum(_teacher_flops(settings, one, cut, teacher) for one in (train, *others)) if trained else 0.0
    return trained + predicted, learning * trained + answering * predicted + asking, ""


def _obstacle(cell: Cell, data: Path, seen: dict[str, Any]) -> str:
    """Why ``cell`` is not applicable, as far as its data and names show it; "" if they show nothing. Reads the sizes of
    its splits into ``seen``."""
    task = tasks.load(cell.task)
    if cell.condition and not conditions.load(cell.condition.partition(":")[0]).fits(cell.form):
        return f"the condition {cell.condition} is not for {cell.form} tasks."
    if cell.row.kind == "baseline" and baselines.training(cell.row.name, cell.form) is not Training.NEEDED:
        try:
            read(task, data, task.report)
        except DataError as error:
            return str(error)
        return ""
    for name in (cell.task, *cell.auxiliary):
        _read_split_sizes(name, data, seen)
        reason = seen[name] if isinstance(seen[name], str) else unfit(tasks.load(name), cell.form)
        if reason:
            return reason
    if cell.row.kind == "baseline":
        return ""
    if reason := unfit_encoders(cell.row.model, cell.neighbours):
        return reason
    if cell.transforms and not load(cell.method).learns:
        return f"the adaptation {cell.method} trains nothing to transform."
    return ""


def _cut(plan: Plan, cell: Cell) -> Cut:
    """How the tokenizer of ``cell`` makes tokens. If it is not trained yet, its vocabulary has the planned size."""
    found = plan.by_key.get(cell.tokenizer)
    if isinstance(found, Given):
        tokenizer = Tokenizer.load(Path(found.path))
        return Cut(tokenizer.vocabulary, tokenizer)
    if not isinstance(found, TokenizerTraining):
        return _CUT
    files = [Path(file) for file in found.corpus]
    if path := corpora.tokenizer_at_hand(files, found.corpus_sha256, found.tokenizer, found.vocabulary):
        tokenizer = Tokenizer.load(path)
        return Cut(tokenizer.vocabulary, tokenizer)
    return Cut(Vocabulary(size=found.vocabulary))


def _network(model: str, size: str, shape: Size | None, cut: Cut) -> Network:
    module = models.load(model)
    return Network(module, shape or sized(module, size, Recipe().length), cut.vocabulary)


def given_shapes(cell: Cell, plan: Plan, out: Path = Path()) -> tuple[Size | None, dict[str, Size]]:
    """Returns the shapes of the checkpoints that a user gave for ``cell`` of ``plan``: the one that it adapts (None
    without one), and its extra encoders by model. Their paths may be relative to the run folder ``out``."""

    def shape(key: str | None) -> Size | None:
        found = plan.by_key.get(key or "")
        return Size(**checkpoint.read(found.place(out)).about["shape"]) if isinstance(found, Given) else None

    given = {name: shape(key) for name, key in cell.neighbours.items()}
    return shape(cell.pretraining), {name: one for name, one in given.items() if one}


def teacher_of(cell: Cell, plan: Plan, out: Path = Path()) -> Network | None:
    """The network of the teacher of ``cell`` of ``plan``; None without a teacher. ``out`` as in `given_shapes`."""
    if not cell.teacher:
        return None
    taught_by = plan.by_key[cell.teacher].cell
    return _network(
        taught_by.row.model, taught_by.row.size, given_shapes(taught_by, plan, out)[0], _cut(plan, taught_by)
    )


def _teacher_flops(settings: Settings, train: Split, cut: Cut, teacher: Network | None) -> float:
    """FLOPs of the teacher in ``settings``, if there is one, for the training set ``train``."""
    if not settings.teacher:
        return 0.0
    if teacher is None:
        row = teacher_row(settings.teacher)
        teacher = _network(row.model, row.size, None, cut)
    return settings.teacher_rows(train) * teacher.reading(min(train.tokens, settings.length))


def _read_split_sizes(name: str, data: Path, seen: dict[str, Any]) -> None:
    """Adds the sizes of the splits of the task ``name`` to ``seen``, or the reason why they cannot be read."""
    if name in seen:
        return
    task = tasks.load(name)
    try:
        asked = [split for split in dict.fromkeys(("train", task.report)) if split in task.files]
        splits = {split: read(task, data, split) for split in asked}
        seen[name] = {split: _split(task, part) for split, part in splits.items()}
        seen[name, "candidates"] = _candidates(splits[task.report])
        if task.form in (*UNTRAINED, Form.LANGUAGE_MODELLING, Form.CLASSIFICATION, Form.CHOICE):
            seen[name, "report"] = splits[task.report]
    except DataError as error:
        seen[name] = str(error)


def _training_split(name: str, seen: Mapping[str, Any], cell: Cell) -> Split:
    """The training examples of the task ``name`` that ``cell`` may learn from."""
    split = _within_limit(seen[name].get("train", Split()), cell)
    return split._replace(examples=min(split.examples, tasks.load(name).train_examples or split.examples))


def _within_limit(split: Split, cell: Cell) -> Split:
    return split._replace(examples=min(split.examples, cell.limit or split.examples))


def _split(task: Task, examples: list[Any]) -> Split:
    """The number of ``examples``, their mean number of rows, and the mean tokens of a row; a special token counts as a
    word."""
    looked = examples[:1000]
    asked = [question for example in looked for question in task.questions(example)] if task.ask else looked
    words = [sum(len(text.split()) for text in row.inputs) + 1 + len(row.inputs) for row in asked]
    return Split(len(examples), len(asked) / len(looked), sum(words) / len(words) * TOKENS_PER_WORD)


def _candidates(examples: list[Any]) -> Split:
    """The candidates that all examples of a ranking task share; an empty split for other forms."""
    texts = list((getattr(examples[0].gold, "candidates", None) or {}).values()) if examples else []
    words = sum(len(text.split()) + 2 for text in texts[:1000]) / max(len(texts[:1000]), 1)
    return Split(len(texts), 1.0, words * TOKENS_PER_WORD)
