"""What the network of a cell answers, under whatever adaptation."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import models
import tasks
from bench import checkpoint, cost, neighbours
from bench.adapt import NotApplicable
from bench.adapt.settings import Settings, baked
from bench.checkpoint import Checkpoint
from bench.cost import phase
from bench.data import examples
from bench.engine.stopping import SAVE_SECONDS
from bench.neighbours import Neighbour
from bench.plan import Cell
from leaderboard.record import slug
from models.card import Size
from models.tokenizers import Tokenizer
from tasks.forms import Form
from tasks.task import Example, Task


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
    command: str = ""
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


def predictions_of(
    cell: Cell,
    context: Context,
    task: Task,
    settings: Settings,
    train: Sequence[Example],
    selection: Sequence[Example],
    report: Sequence[Example],
    outcome: Outcome,
) -> list[Any]:
    """Predictions of a network for ``report``."""
    with phase("import"):  # TensorFlow, in the first cell of a process
        adaptation = importlib.import_module(f"bench.adapt.{cell.method}")
        from bench.adapt import heads, loop
        from bench.adapt.asking import Asked
        from bench.adapt.course import Bookmark

    if reason := neighbours.unfit(cell):
        raise NotApplicable("beside-itself", f"because {reason}")
    own = Neighbour(cell.row.model, context.shape, context.tokenizer)
    counts = [models.load(one.model).parameters(one.shape, one.tokenizer.vocabulary) for one in (own, *context.also)]
    everything, embedding = (sum(part) for part in zip(*counts, strict=True))
    outcome.cost |= {
        "parameters": everything,
        "parameters_embedding": embedding,
        "disk_bytes": 4 * everything,
    }  # float32
    with phase("build"):
        arrays = _arrays(cell, context)
    if respond := getattr(adaptation, "respond", None):
        predictions, outcome.cost["flops_evaluate"] = respond(
            Asked(
                network=_unadapted(cell, context, arrays),
                module=models.load(cell.row.model),
                shape=context.shape,
                tokenizer=context.tokenizer,
                task=task,
                settings=settings,
                train=train,
                report=report,
                seed=cell.seed,
            )
        )
        outcome.cost |= {"steps": 0, "tokens": 0, "flops": 0.0}
        return predictions

    head = heads.of(cell.form, cell.method)
    if cell.form is Form.GENERATION and cell.method == "features":
        raise NotApplicable(
            "no-head", "because generation needs the decoder to learn; frozen features have none to offer."
        )
    parts = {"train": train, "selection": selection, "report": report}
    with phase("encode"):
        codec = head.Codec(task, context.tokenizer, settings, train)
        if context.neighbours:
            codec.join([other.tokenizer for other in context.also])
    kept: dict[str, Mapping[str, np.ndarray]] = {}
    bookmark = Bookmark(context.unfinished, context.save_every)
    if first := getattr(codec, "first", None):  # what the codec goes on from is the answers of another adaptation
        method, own = first
        with phase("encode"):
            other = heads.of(cell.form, method).Codec(task, context.tokenizer, own, train)
        network, rows = _taught(cell, context, task, own, method, other, parts, arrays, outcome, bookmark)
        for name, part in parts.items():
            with phase("evaluate" if name == "report" else "train"):  # the latency is that of answers to the report
                numbers = loop.outputs(network, rows[name])
            with phase("encode"):
                codec.follow(part, rows[name], numbers)
            outcome.cost["flops_evaluate"] += network.forward_flops(rows[name])
        if context.keep:
            kept["first"] = network.arrays()
    network, rows = _taught(cell, context, task, settings, cell.method, codec, parts, arrays, outcome, bookmark)
    with phase("evaluate"):
        written = loop.outputs(network, rows["report"], getattr(codec, "together", 64))
        predictions = codec.predictions(report, rows["report"], written)
    if network.decoding:
        outcome.cost["parameters"] += sum(int(np.prod(v.shape)) for v in network.own)
        outcome.cost["disk_bytes"] = 4 * outcome.cost["parameters"]
        words, beam = context.tokenizer.vocabulary, network.writing.beam
        reported = cost.writing_flops(network.counts, context.shape, words, rows["report"], written, beam)
    else:
        reported = network.forward_flops(rows["report"])
    outcome.cost["flops_evaluate"] += reported
    if context.keep:
        with phase("keep"):
            _keep(cell, context, task, kept | {"weights": network.arrays()})
    return predictions


def _taught(
    cell: Cell,
    context: Context,
    task: Task,
    settings: Settings,
    method: str,
    codec: Any,
    parts: Mapping[str, Sequence[Example]],
    arrays: Mapping[str, np.ndarray],
    outcome: Outcome,
    bookmark: Any,
) -> tuple[Any, dict[str, Any]]:
    """The network that learnt ``task`` under the adaptation ``method``, from the weights ``arrays`` or from where
    ``bookmark`` is, and the rows of all ``parts``; adds what it cost to ``outcome``."""
    from bench.adapt import adapted as shared
    from bench.adapt import loop

    with phase("load"):
        others = examples.beside(cell, context.data, settings, [*parts["selection"], *parts["report"]])
    with phase("encode"):
        rows = {name: codec.rows(part) for name, part in parts.items()}
        beside = codec.beside(others) if others else []
    with phase("build"):
        own = (cell.row.model, context.shape, context.tokenizer)
        network = shared.adapted(*own, cell.form, method, codec.outputs, baked(settings), context.also)
        network.reset(arrays, cell.seed, [weights_of(found) for found in context.neighbours])
        network.writes(settings, cell.seed)

    # A task without a training set takes the model of another one, just as that one chooses it.
    judge = tasks.load(task.extra.get("trained_on", task.name))
    sign = 1.0 if judge.higher_is_better else -1.0
    selection = parts["selection"]

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
    outcome.curve = course.curve
    module, vocabulary = models.load(cell.row.model), context.tokenizer.vocabulary
    spent = {
        "steps": course.steps + read.steps,
        "tokens": course.tokens + read.tokens,
        "flops": course.flops + read.tokens * module.flops_per_token(context.shape, vocabulary, settings.length),
        "flops_evaluate": len(course.curve) * network.forward_flops(rows["selection"]),
    }
    for name, value in spent.items():
        outcome.cost[name] = outcome.cost.get(name, 0) + value
    return network, rows


def _unadapted(cell: Cell, context: Context, arrays: Mapping[str, np.ndarray]) -> Any:
    """The network with the weights that it begins from, without dropout."""
    from bench.engine import networks

    with phase("build"):
        network = networks.build(cell.row.model, context.shape, context.tokenizer, 0)
        networks.assign(network.loss.variables, arrays)
        network.encoder.dropout = 0.0
    return network


def _arrays(cell: Cell, context: Context) -> Mapping[str, np.ndarray]:
    """The weights that the cell begins from: those of its checkpoint, or a random twin's."""
    from bench.adapt.adapted import random_weights

    if context.weights is not None:
        return weights_of(context.weights)
    return random_weights(cell.row.model, context.shape, context.tokenizer, cell.seed)


@lru_cache(maxsize=4)
def _weights(folder: Path, sha256: str) -> dict[str, np.ndarray]:
    return checkpoint.read(folder).arrays()


def weights_of(found: Checkpoint) -> dict[str, np.ndarray]:
    """The weights of a checkpoint, read once a process."""
    return _weights(found.folder, found.weights_sha256)


def _keep(cell: Cell, context: Context, task: Task, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Save the adapted network as a checkpoint of its own, below the run folder: its ``weights``, and those of the
    ``first`` one, if its codec goes on from the answers of another."""
    about = {
        "kind": "adapted",
        "model": cell.row.model,
        "size": cell.row.size,
        "shape": asdict(context.shape),
        "task": task.name,
        "task_version": task.version,
        "adaptation": cell.method,
        "settings": dict(cell.settings),
        "seed": cell.seed,
        "cell": cell.key,
        "limit": cell.limit,
    }
    texts = {"tokenizer.json": context.tokenizer.to_json()}
    if context.neighbours:
        about["neighbours"] = [{"model": other.model, "shape": asdict(other.shape)} for other in context.also]
        texts |= {neighbours.file_of(n): other.tokenizer.to_json() for n, other in enumerate(context.also, 1)}
    folder = (
        context.out / "adapted" / f"{cell.row.name}-{cell.row.size}.{task.name}.{slug(cell.adaptation)}.s{cell.seed}"
    )
    checkpoint.write(folder, about=about, arrays=arrays, texts=texts)
