"""What the network of a cell answers, under whatever adaptation."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench import models, tasks
from ptmbench.bench import checkpoint, neighbours
from ptmbench.bench.adapt import NotApplicable, load
from ptmbench.bench.adapt.settings import Settings, baked
from ptmbench.bench.checkpoint import Checkpoint
from ptmbench.bench.cost import phase, writing_flops
from ptmbench.bench.data import examples
from ptmbench.bench.data.examples import Parts
from ptmbench.bench.data.overlap import Overlap
from ptmbench.bench.engine.stopping import SAVE_SECONDS
from ptmbench.bench.neighbours import Neighbour
from ptmbench.bench.plan import Cell
from ptmbench.leaderboard.record import slug
from ptmbench.models.card import Size
from ptmbench.models.tokenizers import Tokenizer
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a cell needs besides its plan. ``weights`` is the checkpoint of a pre-trained row."""

    data: Path
    out: Path
    shape: Size | None = None
    tokenizer: Tokenizer | None = None
    weights: Checkpoint | None = None
    neighbours: tuple[Checkpoint, ...] = ()
    """Those of models that are read besides, in the order in which the cell names them."""
    adapted: Checkpoint | None = None
    """The model, adapted to an intermediate task, whose weights the cell begins with in place of those of
    ``weights``."""
    intermediate: Mapping[str, Any] = field(default_factory=dict)
    """The task of ``adapted`` and what its adaptation cost, for the record."""
    command: str = ""
    overlap: Overlap | None = None
    """What the reported examples have in common with what the cell learns from, where it has been counted."""
    keep: bool = False
    """Keep the adapted weights, for ``predict``."""
    source: Mapping[str, Any] = field(default_factory=dict)
    unfinished: Path | None = None
    """Where the cell saves what it has learnt, to go on from if it is stopped; None for a cell that does not save."""
    save_every: float = SAVE_SECONDS

    @property
    def also(self) -> tuple[Neighbour, ...]:
        """What the networks of ``neighbours`` are built from."""
        return tuple(map(neighbours.of, self.neighbours))


@dataclass
class Outcome:
    scores: dict[str, Any] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    """How scorers have computed some of ``scores``."""
    cost: dict[str, Any] = field(default_factory=dict)
    curve: list[dict[str, float]] = field(default_factory=list)
    predictions: dict[str, str] | None = None
    examples: int = 0
    learned_from: str = "train"
    """The split that a baseline without a training file has learnt from."""
    left_out: int = 0
    """Examples that the score under "clean" leaves out."""


def predictions_of(
    cell: Cell, context: Context, task: Task, settings: Settings, parts: Parts, outcome: Outcome
) -> list[Any]:
    """Predictions of a network for the report of ``parts``; what they cost goes to ``outcome``."""
    with phase("import"):  # TensorFlow, in the first cell of a process
        adaptation = load(cell.method)
        importlib.import_module("ptmbench.bench.adapt.loop")
    if reason := neighbours.unfit(cell):
        raise NotApplicable("beside-itself", f"because {reason}")
    attempt = _Attempt(cell, context, task, settings, parts, outcome)
    outcome.cost |= attempt.size()
    respond = getattr(adaptation, "respond", None)
    return attempt.as_it_is(respond) if respond else attempt.adapted()


@dataclass(frozen=True)
class _Attempt:
    """The network of one cell at its task: what it learns, what it answers, and what both cost."""

    cell: Cell
    context: Context
    task: Task
    settings: Settings
    parts: Parts
    outcome: Outcome

    @cached_property
    def own(self) -> Neighbour:
        """What the row's own network is built from."""
        return Neighbour(self.cell.row.model, self.context.shape, self.context.tokenizer)

    @cached_property
    def module(self) -> Any:
        return models.load(self.cell.row.model)

    @cached_property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The weights that the cell begins from: those of its checkpoint, or a random twin's."""
        from ptmbench.bench.adapt.adapted import random_weights

        found = self.context.adapted or self.context.weights
        if found is not None:
            return weights_of(found)
        return random_weights(*self.own, self.cell.seed)

    def size(self) -> dict[str, int]:
        """Parameters of all that is read, and their place as float32."""
        read = (self.own, *self.context.also)
        counts = [models.load(one.model).parameters(one.shape, one.tokenizer.vocabulary) for one in read]
        everything, embedding = (sum(part) for part in zip(*counts, strict=True))
        return {"parameters": everything, "parameters_embedding": embedding, "disk_bytes": 4 * everything}

    def as_it_is(self, respond: Callable[[Any], tuple[list[Any], float]]) -> list[Any]:
        """What the adaptation's ``respond`` makes of a network that learns nothing."""
        from ptmbench.bench.adapt.asking import Asked
        from ptmbench.bench.engine import networks

        with phase("build"):
            network = networks.build(*self.own, 0)
            networks.assign(network.loss.variables, self.arrays)
            network.encoder.dropout = 0.0
        asked = Asked(
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
        predictions, self.outcome.cost["flops_evaluate"] = respond(asked)
        self.outcome.cost |= {"steps": 0, "tokens": 0, "flops": 0.0}
        return predictions

    def adapted(self) -> list[Any]:
        """What the network answers under a head, after both have learnt."""
        from ptmbench.bench.adapt import heads, loop
        from ptmbench.bench.adapt.course import Bookmark

        form, method, cost = self.cell.form, self.cell.method, self.outcome.cost
        head = heads.of(form, method)
        if form is Form.GENERATION and method == "features":
            raise NotApplicable(
                "no-head", "because generation needs the decoder to learn; frozen features have none to offer."
            )
        with phase("encode"):
            codec = head.Codec(self.task, self.context.tokenizer, self.settings, self.parts.train)
            if self.context.neighbours:
                codec.join([other.tokenizer for other in self.context.also])
        bookmark, kept = Bookmark(self.context.unfinished, self.context.save_every), {}
        if first := getattr(codec, "first", None):  # what the codec goes on from is the answers of another adaptation
            kept["first"] = self._followed(codec, *first, bookmark)
        network, rows = self._taught(self.settings, method, codec, bookmark)
        report = self.parts.report
        with phase("evaluate"):
            written = loop.outputs(network, rows["report"], getattr(codec, "together", 64))
            predictions = codec.predictions(report, rows["report"], written)
        if network.decoding:
            cost["parameters"] += sum(int(np.prod(v.shape)) for v in network.own)
            cost["disk_bytes"] = 4 * cost["parameters"]
            own = (network.counts, self.context.shape, self.context.tokenizer.vocabulary)
            cost["flops_evaluate"] += writing_flops(*own, rows["report"], written, network.writing.beam)
        else:
            cost["flops_evaluate"] += network.forward_flops(rows["report"])
        if self.context.keep:
            with phase("keep"):
                self._keep(kept | {"weights": network.arrays()})
        return predictions

    def _followed(self, codec: Any, method: str, settings: Settings, bookmark: Any) -> Mapping[str, np.ndarray]:
        """Teach a first network under the adaptation ``method``, and have ``codec`` take up what that one answers;
        returns its weights."""
        from ptmbench.bench.adapt import heads, loop

        with phase("encode"):
            own = heads.of(self.cell.form, method).Codec(self.task, self.context.tokenizer, settings, self.parts.train)
        network, rows = self._taught(settings, method, own, bookmark)
        for name, part in self.parts.by_name().items():
            with phase("evaluate" if name == "report" else "train"):  # the latency is that of answers to the report
                numbers = loop.outputs(network, rows[name])
            with phase("encode"):
                codec.follow(part, rows[name], numbers)
            self.outcome.cost["flops_evaluate"] += network.forward_flops(rows[name])
        return network.arrays() if self.context.keep else {}

    def _taught(self, settings: Settings, method: str, codec: Any, bookmark: Any) -> tuple[Any, dict[str, Any]]:
        """The network that learnt the task under the adaptation ``method``, from the cell's weights or from where
        ``bookmark`` is, and the rows of all parts."""
        from ptmbench.bench.adapt import adapted as shared
        from ptmbench.bench.adapt import loop

        cell, selection = self.cell, self.parts.selection
        with phase("load"):
            others = examples.beside(cell, self.context.data, settings, [*selection, *self.parts.report])
        with phase("encode"):
            rows = {name: codec.rows(part) for name, part in self.parts.by_name().items()}
            beside = codec.beside(others) if others else []
        with phase("build"):
            network = shared.adapted(*self.own, cell.form, method, codec.outputs, baked(settings), self.context.also)
            network.reset(self.arrays, cell.seed, [weights_of(found) for found in self.context.neighbours])
            network.writes(settings, cell.seed)

        # A task without a training set takes the model of another one, just as that one chooses it.
        judge = tasks.load(self.task.extra.get("trained_on", self.task.name))
        sign = 1.0 if judge.higher_is_better else -1.0

        def selection_score() -> float:
            if network.decoding:  # decoding the selection set each time would cost more than training
                return -network.mean_loss(rows["selection"])
            numbers = loop.outputs(network, rows["selection"], getattr(codec, "together", 64))
            found = codec.predictions(selection, rows["selection"], numbers)
            return sign * judge.score([e.gold for e in selection], found)["headline"]

        with phase("train"):
            read = loop.prepare(network, rows["train"], settings, cell.seed, bookmark)
            course = loop.Course()
            if joint := settings.joint():
                course = loop.train(network, [*rows["train"], *beside], joint, cell.seed, selection_score, bookmark)
            course = course.then(loop.train(network, rows["train"], settings, cell.seed, selection_score, bookmark))
        self.outcome.curve = course.curve
        prepared = self.module.flops_per_token(self.context.shape, self.context.tokenizer.vocabulary, settings.length)
        spent = {
            "steps": course.steps + read.steps,
            "tokens": course.tokens + read.tokens,
            "flops": course.flops + read.tokens * prepared,
            "flops_evaluate": len(course.curve) * network.forward_flops(rows["selection"]),
        }
        for name, value in spent.items():
            self.outcome.cost[name] = self.outcome.cost.get(name, 0) + value
        return network, rows

    def _keep(self, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Save the adapted network as a checkpoint of its own, below the run folder: its ``weights``, and those of the
        ``first`` one, if its codec goes on from the answers of another."""
        cell, also = self.cell, self.context.also
        about = {
            "kind": "adapted",
            "model": cell.row.model,
            "size": cell.row.size,
            "shape": asdict(self.context.shape),
            "task": self.task.name,
            "task_version": self.task.version,
            "adaptation": cell.method,
            "settings": dict(cell.settings),
            "seed": cell.seed,
            "cell": cell.key,
            "limit": cell.limit,
            "train_sha256": examples.fingerprint_of(self.parts.train),
        }
        texts = {"tokenizer.json": self.context.tokenizer.to_json()}
        if also:
            about["neighbours"] = [{"model": other.model, "shape": asdict(other.shape)} for other in also]
            texts |= {neighbours.file_of(n): other.tokenizer.to_json() for n, other in enumerate(also, 1)}
        name = f"{cell.row.name}-{cell.row.size}.{self.task.name}.{slug(cell.adaptation)}.s{cell.seed}"
        checkpoint.write(self.context.out / "adapted" / name, about=about, arrays=arrays, texts=texts)


@lru_cache(maxsize=4)
def _weights(folder: Path, sha256: str) -> dict[str, np.ndarray]:
    return checkpoint.read(folder).arrays()


def weights_of(found: Checkpoint) -> dict[str, np.ndarray]:
    """The weights of a checkpoint, read once a process."""
    return _weights(found.folder, found.weights_sha256)
