"""One cell, from data to record. Everything that can go wrong in it ends as a record with a reason."""

import datetime
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import models
import tasks
from bench import baselines, checkpoint, environment, score
from bench.adapt import NotApplicable
from bench.adapt.settings import Settings
from bench.checkpoint import Checkpoint
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
    environment.reset_peak_memory()
    task, began = tasks.load(cell.task), time.perf_counter()
    outcome, status, reason = _Outcome(), "ok", None
    try:
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
    outcome.cost.setdefault("seconds", {})["total"] = round(time.perf_counter() - began, 3)
    outcome.cost["peak_memory_bytes"] = environment.peak_memory_bytes()
    return _record(cell, context, task, outcome, status, reason)


def without_weights(cell: Cell, context: Context, reason: Mapping[str, str]) -> Record:
    """The record of a cell whose pre-training failed with ``reason`` ("status", "code", "text")."""
    text = f"Its pre-training failed: {reason['text']}"
    return _record(
        cell, context, tasks.load(cell.task), _Outcome(), reason["status"], {"code": reason["code"], "text": text}
    )


def _record(
    cell: Cell, context: Context, task: Task, outcome: _Outcome, status: str, reason: Mapping[str, str] | None
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
        device=environment.device() if cell.row.model else environment.processor(),
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
    settings, started = Settings(**cell.settings), time.perf_counter()
    if cell.form is Form.LANGUAGE_MODELLING:  # the text is its own gold, and there is nothing to stop early
        train = read(task, context.data, "train") if cell.row.kind == "baseline" else []
        selection, report = [], read(task, context.data, task.report)[: cell.limit or None]
    else:
        train, selection, report = splits(task, context.data, settings, cell.limit)
    outcome.examples = len(report)
    if settings.train_limit and len(train) > settings.train_limit:
        drawn = np.random.default_rng([cell.seed, 3]).choice(len(train), settings.train_limit, replace=False)
        train = [train[i] for i in sorted(drawn)]
    seconds = {"load": time.perf_counter() - started}
    outcome.cost["seconds"] = seconds
    if cell.row.kind == "baseline":
        started = time.perf_counter()
        predictions = baselines.predict(cell.row.name, task, train, report)
        seconds["train"] = time.perf_counter() - started
    else:
        predictions = _adapt(cell, context, task, settings, train, selection, report, outcome)
    started = time.perf_counter()
    outcome.scores = score.scores(task, report, predictions)
    outcome.predictions = score.keep_predictions(context.out, cell.key, report, predictions)
    seconds["score"] = time.perf_counter() - started
    outcome.cost["seconds"] = {name: round(value, 3) for name, value in seconds.items()}


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

    from bench import pretrain
    from bench.adapt import adapted as shared
    from bench.adapt import likelihood, loop

    model, seconds = cell.row.model, outcome.cost["seconds"]
    module = models.load(model)
    everything, embedding = module.parameters(context.shape, context.tokenizer.vocabulary)
    outcome.cost |= {"parameters": everything, "parameters_embedding": embedding}
    started = time.perf_counter()
    if context.weights is not None:
        arrays = weights_of(context.weights)
    else:
        arrays = shared.random_weights(model, context.shape, context.tokenizer, cell.seed)
    if cell.adaptation == "likelihood":
        network = pretrain.build(model, context.shape, context.tokenizer, 0)
        pretrain.assign(network.loss.variables, arrays)
        network.encoder.dropout = 0.0
        seconds["build"] = time.perf_counter() - started
        started = time.perf_counter()
        predictions = likelihood.predictions(network, module.CARD.title, context.tokenizer, settings, report)
        seconds["evaluate"] = time.perf_counter() - started
        outcome.cost |= {"steps": 0, "tokens": 0, "flops": 0.0}
        return predictions

    head = importlib.import_module(f"bench.adapt.heads.{cell.form}")
    if cell.form is Form.GENERATION and cell.adaptation == "features":
        raise NotApplicable(
            "no-head", "because generation needs the decoder to learn; frozen features have none to offer."
        )
    codec = head.Codec(task, context.tokenizer, settings, train)
    rows = {name: codec.rows(part) for name, part in (("train", train), ("selection", selection), ("report", report))}
    seconds["encode"] = time.perf_counter() - started
    started = time.perf_counter()
    baked = (settings.dropout, settings.weight_decay, settings.clip)
    network = shared.adapted(model, context.shape, context.tokenizer, cell.form, cell.adaptation, codec.outputs, baked)
    network.reset(arrays, cell.seed)
    seconds["build"] = time.perf_counter() - started

    sign = 1.0 if task.higher_is_better else -1.0

    def selection_score() -> float:
        if cell.form is Form.GENERATION:  # decoding the selection set each time would cost more than training
            return -network.mean_loss(rows["selection"])
        found = codec.predictions(selection, rows["selection"], loop.outputs(network, rows["selection"]))
        return sign * task.score([e.gold for e in selection], found)["headline"]

    course = loop.train(network, rows["train"], settings, cell.seed, selection_score)
    outcome.curve = course.curve
    started = time.perf_counter()
    predictions = codec.predictions(report, rows["report"], loop.outputs(network, rows["report"]))
    seconds |= course.seconds | {"evaluate": time.perf_counter() - started}
    # 6 FLOPs per weight and token for forward and backward, 2 for forward alone (Kaplan et al., 2020, section 2.1).
    per_token = (2 if cell.adaptation == "features" else 6) * max(0, everything - embedding)
    outcome.cost |= {"steps": course.steps, "tokens": course.tokens, "flops": float(per_token * course.tokens)}
    if context.keep:
        _keep(cell, context, task, network)
    return predictions


@lru_cache(maxsize=4)
def _weights(folder: Path, sha256: str) -> dict[str, np.ndarray]:
    return checkpoint.read(folder).arrays()


def weights_of(found: Checkpoint) -> dict[str, np.ndarray]:
    """The weights of a checkpoint, read once a process."""
    return _weights(found.folder, found.weights_sha256)


def _keep(cell: Cell, context: Context, task: Task, network: Any) -> None:
    """Save the adapted network as a checkpoint of its own, below the run folder."""
    from bench import pretrain

    arrays = pretrain.weights(network.network.loss.variables)
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
    return {"corpus": about.get("corpus", ""), "weights_sha256": found.weights_sha256} | {
        name: about[name] for name in names
    }


def failure(error: Exception) -> tuple[str, dict[str, str]]:
    """Status and reason of a cell that ended in ``error``."""
    from bench.pretrain import Diverged

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
