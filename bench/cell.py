"""One cell, from data to record. Everything that can go wrong in it ends as a record with a reason."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import models
import tasks
from bench import baselines, checkpoint, cost, environment, score
from bench.adapt import NotApplicable
from bench.adapt.settings import Settings
from bench.checkpoint import Checkpoint
from bench.cost import Meter, phase
from bench.plan import Cell
from leaderboard.record import Record
from models.card import Size
from models.tokenizers import Tokenizer
from tasks.forms import Form
from tasks.task import DataError, Example, MissingData, Task


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a cell needs besides its plan. ``weights`` is the checkpoint of a pre-trained row."""

    data: Path
    out: Path
    shape: Size | None = None
    tokenizer: Tokenizer | None = None
    weights: Checkpoint | None = None
    command: str = ""
    keep: bool = False
    """Keep the adapted weights, for ``predict``."""
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Outcome:
    scores: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, Any] = field(default_factory=dict)
    curve: list[dict[str, float]] = field(default_factory=list)
    predictions: dict[str, str] | None = None
    examples: int = 0


def run(cell: Cell, context: Context) -> Record:
    """Run ``cell`` and return its record, unwritten. Only a signal from outside gets through as an exception."""
    task, outcome, meter = tasks.load(cell.task), _Outcome(), Meter()
    status, reason = "ok", None
    try:
        with meter:
            _run(cell, context, task, outcome)
    except MissingData as error:
        status, reason = "not_applicable", {"code": "missing-data", "text": f"because {_lower(str(error))}"}
    except NotApplicable as error:
        status, reason = "not_applicable", {"code": error.code, "text": str(error)}
    except DataError as error:
        status, reason = "failed", {"code": "malformed-data", "text": str(error)}
    except MemoryError:
        status, reason = "failed", {"code": "out-of-memory", "text": "The machine ran out of memory."}
    except Exception as error:  # one failing cell never stops the others
        status, reason = failure(error)
    outcome.cost |= meter.cost() | {"threads": environment.threads()}
    device = environment.device() if cell.row.model else environment.processor()
    return _record(cell, context, task, outcome, status, reason, device)


def unrun(cell: Cell, context: Context, status: str, reason: Mapping[str, str]) -> Record:
    """The record of a cell that could not be run, because of ``reason`` ("code", "text"); no device has seen it."""
    return _record(cell, context, tasks.load(cell.task), _Outcome(), status, reason)


def _record(
    cell: Cell,
    context: Context,
    task: Task,
    outcome: _Outcome,
    status: str,
    reason: Mapping[str, str] | None,
    device: str | None = None,
) -> Record:
    return Record(
        key=cell.key,
        status=status,
        reason=reason,
        row=row_of(cell),
        pretraining=_pretraining(context.weights) if cell.row.kind == "pretrained" else None,
        task=_sheet(task, cell, context, outcome.examples),
        adaptation={"name": cell.adaptation, "settings": dict(cell.settings)},
        seed=cell.seed,
        scores=outcome.scores,
        cost=outcome.cost,
        curve=tuple(outcome.curve),
        predictions=outcome.predictions,
        versions=environment.versions(),
        commit=environment.commit(),
        device=device,
        command=context.command,
        finished=now(),
    )


def row_of(cell: Cell) -> dict[str, Any]:
    """The ``row`` part of a record: who stands on this line of the board."""
    row = cell.row
    if row.kind == "baseline":
        label, card = baselines_label(row.name), None
    else:
        module = models.load(row.model)
        label, card = module.CARD.title, asdict(module.CARD)
    return {
        "name": row.name,
        "label": label,
        "kind": row.kind,
        "size": row.size or "",
        "division": row.division,
        "card": card,
    }


def baselines_label(name: str) -> str:
    from bench.plan import BASELINES

    return BASELINES[name]


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def splits(
    task: Task, data: Path, settings: Settings, limit: int
) -> tuple[list[Example], list[Example], list[Example]]:
    """Examples to learn from, to stop by, and to report.

    Where the test labels are public, they are reported and the dev set says when to stop. Where they are not, the dev
    set is reported; stopping by it too would choose the best of many looks at the answer, so a part of the training
    set, the same for every seed and model, is held out for that.
    """
    train, report = read(task, data, "train"), read(task, data, task.report)
    train, report = train[: limit or None], report[: limit or None]
    if all(example.gold is None for example in report):
        raise NotApplicable("no-labels", f"because the {task.report} split of {task.title} has no public labels.")
    if task.report != "dev" and "dev" in task.files:
        return train, read(task, data, "dev")[: min(settings.selection, limit or settings.selection)], report
    order = np.random.default_rng(len(train)).permutation(len(train))
    held = max(1, min(settings.selection, len(train) // 10))
    return [train[i] for i in sorted(order[held:])], [train[i] for i in sorted(order[:held])], report


def read(task: Task, data: Path, split: str) -> list[Example]:
    """Examples of one split, read once a process."""
    return _read(task.name, data, split)


@lru_cache(maxsize=16)
def _read(name: str, data: Path, split: str) -> list[Example]:
    return tasks.load(name).examples(data, split)


def _run(cell: Cell, context: Context, task: Task, outcome: _Outcome) -> None:
    settings = Settings(**cell.settings)
    with phase("load"):
        train, selection, report = _examples(cell, context, task, settings)
    outcome.examples = len(report)
    if cell.row.kind == "baseline":
        with phase("train"):
            predictions = baselines.predict(cell.row.name, task, train, report)
    else:
        predictions = _adapt(cell, context, task, settings, train, selection, report, outcome)
    with phase("score"):
        outcome.scores = score.scores(task, report, predictions)
        outcome.predictions = score.keep_predictions(context.out, cell.key, report, predictions)


def _examples(
    cell: Cell, context: Context, task: Task, settings: Settings
) -> tuple[Sequence[Example], Sequence[Example], Sequence[Example]]:
    """`splits` for this cell's seed, or the text to model."""
    if cell.form is Form.LANGUAGE_MODELLING:  # the text is its own gold, and there is nothing to stop early
        train = read(task, context.data, "train") if cell.row.kind == "baseline" else []
        return train, [], read(task, context.data, task.report)[: cell.limit or None]
    train, selection, report = splits(task, context.data, settings, cell.limit)
    if settings.train_limit and len(train) > settings.train_limit:
        drawn = np.random.default_rng([cell.seed, 3]).choice(len(train), settings.train_limit, replace=False)
        train = [train[i] for i in sorted(drawn)]
    return train, selection, report


def _adapt(
    cell: Cell,
    context: Context,
    task: Task,
    settings: Settings,
    train: Sequence[Example],
    selection: Sequence[Example],
    report: Sequence[Example],
    outcome: _Outcome,
) -> list[Any]:
    """Predictions of a network for ``report``."""
    import importlib

    with phase("import"):  # TensorFlow, in the first cell of a process
        from bench.adapt import adapted as shared
        from bench.adapt import loop

    module = models.load(cell.row.model)
    everything, embedding = module.parameters(context.shape, context.tokenizer.vocabulary)
    outcome.cost |= {"parameters": everything, "parameters_embedding": embedding}
    with phase("build"):
        arrays = _arrays(cell, context)
    if cell.adaptation == "likelihood":
        return _likelihood(cell, context, settings, report, arrays, outcome)

    head = importlib.import_module(f"bench.adapt.heads.{cell.form}")
    if cell.form is Form.GENERATION and cell.adaptation == "features":
        raise NotApplicable(
            "no-head", "because generation needs the decoder to learn; frozen features have none to offer."
        )
    with phase("encode"):
        codec = head.Codec(task, context.tokenizer, settings, train)
        parts = (("train", train), ("selection", selection), ("report", report))
        rows = {name: codec.rows(part) for name, part in parts}
    with phase("build"):
        baked = (settings.dropout, settings.weight_decay, settings.clip)
        network = shared.adapted(
            cell.row.model, context.shape, context.tokenizer, cell.form, cell.adaptation, codec.outputs, baked
        )
        network.reset(arrays, cell.seed)

    sign = 1.0 if task.higher_is_better else -1.0

    def selection_score() -> float:
        if cell.form is Form.GENERATION:  # decoding the selection set each time would cost more than training
            return -network.mean_loss(rows["selection"])
        found = codec.predictions(selection, rows["selection"], loop.outputs(network, rows["selection"]))
        return sign * task.score([e.gold for e in selection], found)["headline"]

    with phase("train"):
        course = loop.train(network, rows["train"], settings, cell.seed, selection_score)
    outcome.curve = course.curve
    with phase("evaluate"):
        written = loop.outputs(network, rows["report"])
        predictions = codec.predictions(report, rows["report"], written)
    if cell.form is Form.GENERATION:
        reported = cost.writing_flops(module, context.shape, context.tokenizer.vocabulary, rows["report"], written)
    else:
        reported = network.forward_flops(rows["report"])
    outcome.cost |= {
        "steps": course.steps,
        "tokens": course.tokens,
        "flops": course.flops,
        "flops_evaluate": len(course.curve) * network.forward_flops(rows["selection"]) + reported,
    }
    if context.keep:
        with phase("keep"):
            _keep(cell, context, task, network)
    return predictions


def _likelihood(
    cell: Cell,
    context: Context,
    settings: Settings,
    report: Sequence[Example],
    arrays: Mapping[str, np.ndarray],
    outcome: _Outcome,
) -> list[Any]:
    """(nats, words, characters) of each text of ``report``, by the network as it is."""
    from bench.adapt import likelihood
    from bench.engine import networks

    module, vocabulary = models.load(cell.row.model), context.tokenizer.vocabulary
    with phase("build"):
        network = networks.build(cell.row.model, context.shape, context.tokenizer, 0)
        networks.assign(network.loss.variables, arrays)
        network.encoder.dropout = 0.0
    with phase("encode"):
        windows = likelihood.windows(context.tokenizer, settings, report)
    with phase("evaluate"):
        predictions = likelihood.predictions(network, module.CARD.title, context.tokenizer, settings, report, windows)
    lengths = [1 + len(ids) for _, _, ids in windows]  # [CLS] and the text
    flops = sum(n * module.likelihood_flops_per_token(context.shape, vocabulary, n) for n in lengths)
    outcome.cost |= {"steps": 0, "tokens": 0, "flops": 0.0, "flops_evaluate": flops}
    return predictions


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


def _keep(cell: Cell, context: Context, task: Task, network: Any) -> None:
    """Save the adapted network as a checkpoint of its own, below the run folder."""
    from bench.engine import networks

    arrays = networks.weights(network.network.loss.variables)
    arrays |= {f"adapted/{i:03d}": v.numpy() for i, v in enumerate(network.own)}
    about = {
        "kind": "adapted",
        "model": cell.row.model,
        "size": cell.row.size,
        "shape": asdict(context.shape),
        "task": task.name,
        "task_version": task.version,
        "adaptation": cell.adaptation,
        "settings": dict(cell.settings),
        "seed": cell.seed,
        "cell": cell.key,
        "limit": cell.limit,
    }
    folder = context.out / "adapted" / f"{cell.row.name}-{cell.row.size}.{task.name}.{cell.adaptation}.s{cell.seed}"
    checkpoint.write(
        folder, about=about, arrays={"weights": arrays}, texts={"tokenizer.json": context.tokenizer.to_json()}
    )


def _sheet(task: Task, cell: Cell, context: Context, examples: int) -> dict[str, Any]:
    return {
        "name": task.name,
        "title": task.title,
        "version": task.version,
        "form": str(task.form),
        "source": context.source.get("name", "official") + (f", first {cell.limit}" if cell.limit else ""),
        "split": task.report,
        "examples": examples,
        "data_sha256": cell.data_sha256,
        "headline": task.headline,
        "higher_is_better": task.higher_is_better,
        "chance": task.chance,
        "licence": context.source.get("licence", task.source.licence),
    }


def _pretraining(found: Checkpoint | None) -> dict[str, Any] | None:
    if found is None:
        return None
    about = found.about
    names = ("seed", "steps", "tokens", "flops", "seconds", "loss", "corpus_sha256", "tokenizer")
    newer = ("peak_memory_bytes", "energy", "threads", "device")  # checkpoints of before lack them
    return {
        "corpus": about.get("corpus", ""),
        "weights_sha256": found.weights_sha256,
        **{name: about[name] for name in names},
        **{name: about[name] for name in newer if name in about},
    }


def failure(error: Exception) -> tuple[str, dict[str, str]]:
    """Status and reason of a cell that ended in ``error``."""
    from bench.errors import Diverged

    if isinstance(error, Diverged):
        return "diverged", {"code": "diverged", "text": str(error)}
    kind = type(error).__name__
    if kind == "ResourceExhaustedError":
        return "failed", {
            "code": "out-of-memory",
            "text": "TensorFlow ran out of memory. Try a smaller batch or length.",
        }
    return "failed", {
        "code": "error",
        "text": f"{kind}: {str(error).splitlines()[0][:500] if str(error) else 'no message'}",
    }


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
