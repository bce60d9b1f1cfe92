"""Adapts a model to a cell's task, predicts the reported examples, and accounts for the cost."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench import models, tasks
from ptmbench.bench.adapt import load, neighbours, shapes, transforms
from ptmbench.bench.adapt.contract import Predictor
from ptmbench.bench.adapt.neighbours import Neighbour
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.data.overlap import Overlap
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.engine.stopping import SAVE_SECONDS
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import examples, stored
from ptmbench.bench.runs.examples import Parts
from ptmbench.bench.runs.plan import Cell
from ptmbench.bench.runs.teachers import AdaptedTeacher
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Context:
    """The inputs of a cell's run: folders, the network's shape and tokenizer, and the checkpoints to begin with."""

    data: Path
    out: Path
    shape: Size | None = None
    tokenizer: Tokenizer | None = None
    weights: Checkpoint | None = None
    """The pre-trained checkpoint of the row; None for a random twin."""
    neighbours: tuple[Checkpoint, ...] = ()
    """The pre-trained checkpoints of the extra encoders, in the order in which the cell names them."""
    adapted: Checkpoint | None = None
    """A model adapted to an intermediate task. The cell begins with its weights instead of ``weights``."""
    intermediate: Mapping[str, Any] = field(default_factory=dict)
    """The task of ``adapted`` and the cost of its adaptation, for the record."""
    teacher: AdaptedTeacher | None = None
    """The adapted model that the cell learns from; None for a cell without a teacher."""
    auxiliary_teachers: Mapping[str, AdaptedTeacher] = field(default_factory=dict)
    """The adapted models that teach the auxiliary tasks, by task."""
    predictor: Checkpoint | None = None
    """The adapted model that predicts or is transformed; None for a cell that adapts the model itself."""
    spent: Mapping[str, Any] = field(default_factory=dict)
    """The cost of ``predictor``: its adaptation, and its transform if there was one."""
    command: str = ""
    """The command that repeats the cell."""
    planned: Mapping[str, Any] = field(default_factory=dict)
    """The planned budget and seed of the pre-training, if the row has several. A failed cell's record needs it."""
    overlap: Overlap | None = None
    """The reported examples that also occur in the training data; None if they were not counted."""
    keep: bool = False
    """Keep the adapted weights, for ``predict``."""
    profile: bool = False
    """Measure latency and memory of the stored model (`bench.runs.inference`)."""
    compared: bool = False
    """Record the headline on bootstrap replicates of the examples (`bench.scoring.score.redrawn`), and the size of the
    weights after compression."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where the task's data come from, for the record."""
    unfinished: Path | None = None
    """Folder of the training state, from which a stopped cell resumes; None for a cell that does not save."""
    save_every: float = SAVE_SECONDS
    """Seconds between training states."""

    @property
    def extra_encoders(self) -> tuple[Neighbour, ...]:
        """Model, shape and tokenizer of each of ``neighbours``."""
        return tuple(map(neighbours.of, self.neighbours))


@dataclass
class Outcome:
    """The parts of a record that come from running the cell."""

    scores: dict[str, Any] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    """Signatures of official scorers, by the name of the score."""
    cost: dict[str, Any] = field(default_factory=dict)
    curve: list[dict[str, float]] = field(default_factory=list)
    predictions: dict[str, str] | None = None
    predictor: Predictor | None = None
    """The model that predicted; None for a baseline."""
    examples: int = 0
    training_split: str = "train"
    """The split that the baseline was fitted on, where the task has no training file."""
    left_out_of_clean: int = 0
    """Number of examples that the score "clean" leaves out."""


def predictor_of(
    cell: Cell, context: Context, task: Task, settings: Settings, parts: Parts, outcome: Outcome
) -> Predictor:
    """Returns the network of ``cell``, adapted to its task: newly trained, or made from the predictor in ``context``.
    Adds its cost to ``outcome``. Raises `NotApplicable` if the model cannot be adapted or transformed in this way."""
    with phase("import"):  # the first cell of a process imports TensorFlow
        importlib.import_module("ptmbench.bench.adapt.predictor")
    if reason := neighbours.unfit(cell.row.model, cell.neighbours):
        raise NotApplicable("encoder-twice", f"because {reason}")
    attempt = _Attempt(cell, context, task, settings, parts, outcome)
    learns = load(cell.method).learns
    if context.predictor is not None:
        predictor = attempt.restore(context.predictor)
        if len(predictor.chain) < len(cell.transforms):
            predictor = attempt.transform(predictor, context.predictor)
            outcome.cost |= attempt.measure(predictor.stored())
    elif cell.transforms:
        raise NotApplicable("trains-nothing", f"because the adaptation {cell.method} trains nothing to transform.")
    else:
        outcome.cost |= attempt.size()
        predictor = attempt.train() if learns else attempt.build_responder()
        outcome.cost |= attempt.measure(predictor.stored() if learns else {"weights": attempt.arrays})
    outcome.cost = {"steps": 0, "tokens": 0, "flops": 0.0, "flops_evaluate": 0.0} | outcome.cost
    # An adaptation that trains nothing has no weights of its own to keep.
    if context.keep and learns and not cell.condition:
        about = {"size": cell.row.size, "cell": cell.key, "limit": cell.limit, "curve": outcome.curve}
        with phase("keep"):
            predictor.save(attempt.checkpoint_folder(), about)
    return predictor


@dataclass(frozen=True)
class _Attempt:
    """Builds, trains, restores or transforms the network of one cell, and adds up the cost."""

    cell: Cell
    context: Context
    task: Task
    settings: Settings
    parts: Parts
    outcome: Outcome

    @cached_property
    def own(self) -> Neighbour:
        """Model, shape and tokenizer of the row's own network."""
        return Neighbour(self.cell.row.model, self.context.shape, self.context.tokenizer)

    @cached_property
    def module(self) -> Any:
        return models.load(self.cell.row.model)

    @cached_property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The initial weights: those of the cell's checkpoint, or random weights."""
        from ptmbench.bench.adapt.built import random_weights

        found = self.context.adapted or self.context.weights
        if found is not None:
            return stored.weights_of(found)
        return random_weights(*self.own, self.cell.seed)

    @property
    def extra_encoders(self) -> tuple[Neighbour, ...]:
        """The extra encoders that the network reads."""
        return self.context.extra_encoders if load(self.cell.method).reads_encoders else ()

    def size(self) -> dict[str, int]:
        """Parameters of the network and its extra encoders."""
        read = (self.own, *self.extra_encoders)
        counts = [models.load(one.model).describe(one.shape, one.tokenizer.vocabulary).parameters() for one in read]
        everything, embedding = (sum(part) for part in zip(*counts, strict=True))
        return {"parameters": everything, "parameters_embedding": embedding}

    def _parameters(self, stack: Any) -> tuple[int, int]:
        """The parameters of the row's own network with a ``stack`` of this shape (None for its own): all of them, and
        those of embedding tables."""
        described = self.module.describe(self.context.shape, self.context.tokenizer.vocabulary)
        return shapes.described(described, stack).parameters()

    def measure(self, arrays: stored.Stored) -> dict[str, Any]:
        """Returns `stored.measured` of ``arrays``, with compressed sizes only if weights are kept or compared."""
        with phase("measure"):
            return stored.measured(arrays, compress=self.context.keep or self.context.compared)

    def checkpoint_folder(self) -> Path:
        """The folder that ``--keep`` saves the predictor in."""
        return self.context.out / "adapted" / self.cell.folder

    def restore(self, found: Checkpoint) -> Any:
        """Loads the adapted network from the checkpoint ``found``. It predicts with the settings of this cell."""
        from ptmbench.bench.adapt import predictor

        measured = ("seconds", "peak_memory_bytes", "energy", "threads", "transform")  # other code adds these
        self.outcome.cost |= {name: value for name, value in self.context.spent.items() if name not in measured}
        self.outcome.curve = found.about.get("curve", [])
        with phase("load"):
            return predictor.load(found, self.settings)

    def transform(self, source: Any, found: Checkpoint) -> Predictor:
        """Applies the cell's next transform to ``source``, the predictor in the checkpoint ``found``."""
        from ptmbench.bench.adapt.course import Bookmark, Course
        from ptmbench.bench.adapt.transforms.contract import Material
        from ptmbench.bench.runs import transformed

        chosen = transforms.read(self.cell.transforms[len(source.chain)])
        training = chosen.transform.training(chosen.settings, self.settings)
        rows: dict[str, Any] = {}
        spent = {"steps": 0, "tokens": 0, "flops": 0.0, "flops_evaluate": 0.0}
        if training is not None:
            source, rows, spent["flops_evaluate"] = self._learner(source)
        bookmark = Bookmark(self.context.unfinished, self.context.save_every, title=self.cell.title)

        def score(predictor: Any = source) -> float:
            bookmark.course.flops_evaluate += predictor.learning.forward_flops(rows["selection"])
            return self._selection_score(predictor, rows["selection"])

        material = Material(
            predictor=source,
            settings=chosen.settings,
            training=training,
            seed=self.cell.seed,
            rows=rows,
            score=score,
            chain=(*source.chain, chosen),
            bookmark=bookmark,
        )
        with phase("transform"):
            made = chosen.transform.transformed(material)
        after = transformed.predictor_of(material, made, found)
        counts = zip(self._parameters(after.shape), self._parameters(source.shape), strict=True)
        for name, (now, before) in zip(("parameters", "parameters_embedding"), counts, strict=True):
            self.outcome.cost[name] += now - before
        if (course := made.course) is not None:
            adapted = Course(steps=self.outcome.cost["steps"], curve=self.outcome.curve)
            self.outcome.curve = adapted.then(course).curve
            spent |= {"steps": course.steps, "tokens": course.tokens, "flops": course.flops}
            spent["flops_evaluate"] += course.flops_evaluate
        for name, value in spent.items():
            self.outcome.cost[name] = self.outcome.cost.get(name, 0) + value
        before = self.context.spent.get("transform", {})  # of the earlier transforms
        spent = {name: before.get(name, 0) + value for name, value in spent.items()}
        self.outcome.cost |= transformed.sizes(after, self.outcome.cost["parameters"])
        self.outcome.cost |= made.extra_costs | {"transform": spent}
        return after

    def _learner(self, source: Any) -> tuple[Any, dict[str, Any], float]:
        """Returns ``source`` with a codec that has read the training set, the rows for training and for model
        selection, and the FLOPs of making these rows."""
        codec, flops = self._codec(self.cell.method, self.settings, self.extra_encoders), 0.0
        for part in (self.parts.train, self.parts.selection) if source.first else ():
            flops += source.first.follow(codec, part, during="train")
        with phase("encode"):
            rows = {"train": codec.training_rows(self.parts.train), "selection": codec.rows(self.parts.selection)}
        return replace(source, codec=codec), rows, flops

    def build_responder(self) -> Predictor:
        """Returns the pre-trained network with an adaptation that trains nothing."""
        from ptmbench.bench.adapt.asking import AnsweringInput
        from ptmbench.bench.adapt.predictor import UntrainedPredictor
        from ptmbench.bench.engine import networks

        with phase("build"):
            network = networks.build(*self.own, 0)
            networks.assign(network.loss.variables, self.arrays)
            network.encoder.dropout = 0.0
        asked = AnsweringInput(
            network=network,
            module=self.module,
            shape=self.context.shape,
            tokenizer=self.context.tokenizer,
            task=self.task,
            settings=self.settings,
            train=self.parts.train,
            report=self.parts.report,
            seed=self.cell.seed,
        )
        return UntrainedPredictor(adaptation=load(self.cell.method), asked=asked)

    def train(self) -> Predictor:
        """Trains the network with a head and returns its predictor."""
        from ptmbench.bench.adapt.course import Bookmark

        codec = self._codec(self.cell.method, self.settings, self.extra_encoders)
        bookmark, first = Bookmark(self.context.unfinished, self.context.save_every, title=self.cell.title), None
        if codec.first:  # the codec makes its rows from the predictions of another adaptation
            method, settings = codec.first
            first = self._train_predictor(self._codec(method, settings), method, settings, bookmark)
            first.weights = first.network.arrays()
            for part in (self.parts.train, self.parts.selection):
                self.outcome.cost["flops_evaluate"] += first.follow(codec, part, during="train")
        made = self._train_predictor(codec, self.cell.method, self.settings, bookmark, self.extra_encoders)
        made.first = first
        self.outcome.cost["parameters"] += made.network.added
        return made

    def _codec(self, method: str, settings: Settings, extra_encoders: tuple[Neighbour, ...] = ()) -> Any:
        """Returns the codec of the adaptation ``method``, fitted on the training set; it tokenizes for all encoders."""
        from ptmbench.bench.adapt import heads

        with phase("encode"):
            made = heads.of(self.cell.form, method).Codec(self.task, self.context.tokenizer, settings, self.parts.train)
            if extra_encoders:
                made.join([other.tokenizer for other in extra_encoders])
        return made

    def _train_predictor(
        self, codec: Any, method: str, settings: Settings, bookmark: Any, extra_encoders: tuple[Neighbour, ...] = ()
    ) -> Any:
        """Trains a predictor by the adaptation ``method``. Starts from the cell's weights, or resumes from the training
        state of ``bookmark``."""
        from ptmbench.bench.adapt import loop, predictor
        from ptmbench.bench.adapt.predictor import Trained

        cell, selection = self.cell, self.parts.selection
        with phase("load"):
            auxiliary = examples.auxiliary_examples(cell, self.context.data, settings, [*selection, *self.parts.report])
        train = self._enlarged(method, settings)
        with phase("encode"):
            rows = {"train": codec.training_rows(train), "selection": codec.rows(selection)}
            auxiliary_rows = {name: codec.auxiliary_rows({name: some}) for name, some in auxiliary.items()}
        with phase("build"):
            given = {"own": self.own, "others": extra_encoders, "task": self.task, "seed": cell.seed}
            made = Trained(**given, method=method, settings=settings, codec=codec)
            network, taught = made.network, self.context.teacher
            teacher = predictor.load(taught.adapted) if taught is not None else None
        if teacher is not None:
            rows["train"] = self._with_teacher_outputs(teacher, network, rows["train"], train, method, settings)
        for name, one in self.context.auxiliary_teachers.items():
            theirs, some = predictor.load(one.adapted), (auxiliary_rows[name], auxiliary[name])
            auxiliary_rows[name] = self._with_teacher_outputs(theirs, network, *some, method, settings)
        with phase("build"):
            found = self.context.neighbours[: len(extra_encoders)]
            network.reset(self.arrays, cell.seed, [stored.weights_of(one) for one in found])

        def selection_score() -> float:
            return self._selection_score(made, rows["selection"])

        with phase("train"):
            read = loop.prepare(network, rows["train"], settings, cell.seed, bookmark, teacher)
            (rows["train"], once), (rows["selection"], again) = (
                load(method).precompute_vectors(network, rows[part]) for part in ("train", "selection")
            )
            course = loop.Course()
            if joint := settings.joint():
                together = [*rows["train"], *(row for some in auxiliary_rows.values() for row in some)]
                course = loop.train(network, together, joint, cell.seed, selection_score, bookmark)
            course = course.then(loop.train(network, rows["train"], settings, cell.seed, selection_score, bookmark))
        network.weights_owner = made
        self.outcome.curve = course.curve
        described = self.module.describe(self.context.shape, self.context.tokenizer.vocabulary)
        prepared = described.training_flops(settings.length) / settings.length
        spent = {
            "steps": course.steps + read.steps,
            "tokens": course.tokens + read.tokens,
            "flops": once + course.flops + (read.flops or read.tokens * prepared),
            "flops_evaluate": again + len(course.curve) * network.forward_flops(rows["selection"]),
        }
        spent |= {"flops_teacher": read.asked} if read.asked else {}
        for name, value in spent.items():
            self.outcome.cost[name] = self.outcome.cost.get(name, 0) + value
        return made

    def _enlarged(self, method: str, settings: Settings) -> Any:
        """Returns the training examples, labelled or not, and those that ``method`` makes from them. Adds the cost."""
        given, taught, cost = [*self.parts.train, *self.parts.unlabelled], self.context.teacher, self.outcome.cost
        others = (taught and taught.weights, self.context.neighbours)
        found, flops = load(method).enlarged(self.task, given, settings, self.cell.seed, *others)
        cost |= {"unlabelled_examples": len(self.parts.unlabelled)} if self.parts.unlabelled else {}
        if len(found) > len(given):
            total = cost.get("flops", 0.0) + flops
            cost |= {"flops": total, "flops_augment": flops, "augmented_examples": len(found) - len(given)}
        return found

    def _with_teacher_outputs(
        self, teacher: Any, student: Any, rows: Any, examples: Any, method: str, settings: Settings
    ) -> Any:
        """Returns ``rows`` of ``examples`` with the teacher outputs that ``student`` learns from. Adds their cost."""
        with phase("teach"):
            taught, flops = load(method).taught(teacher, student, rows, examples, settings, self.cell.seed)
        for name in ("flops", "flops_teacher"):
            self.outcome.cost[name] = self.outcome.cost.get(name, 0.0) + flops
        return taught

    def _selection_score(self, made: Any, rows: Any) -> float:
        """Returns the current score of ``made`` on the ``rows`` of the selection split; higher is better."""
        from ptmbench.bench.adapt import loop

        network, selection = made.learning, self.parts.selection
        if network.by_loss:
            return -network.mean_loss(rows)
        # A task without a training set takes the model of another task, selected by the metric of that task.
        judge = tasks.load(self.task.extra.get("trained_on", self.task.name))
        found = made.codec.predictions(selection, rows, loop.outputs(network, rows, made.codec.prediction_batch))
        score = judge.score([example.gold for example in selection], found)["headline"]
        return score if judge.higher_is_better else -score
