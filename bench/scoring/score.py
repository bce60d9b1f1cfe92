"""Computes scores with confidence intervals over examples, and writes the file of predictions."""

import gzip
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.bench.engine.checkpoint import write_bytes
from ptmbench.leaderboard import stats
from ptmbench.tasks.forms import gold_details, prediction_details
from ptmbench.tasks.metrics.additive import Additive, Rowwise
from ptmbench.tasks.metrics.common import wholes
from ptmbench.tasks.task import Example, Task, headline

CLEAN = "clean"
"""The name of the headline over the examples that do not overlap with training data; it has no interval."""


def scores(task: Task, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Every metric of ``task`` and the headline, each as {"value", "low", "high"}: 95 % intervals over examples.

    Examples of one group (questions about one passage) are drawn together. The headline's interval comes from the same
    draws, so that a mean of two metrics has the interval of the mean.
    """
    gold = [example.gold for example in examples]
    groups = [example.group for example in examples]
    groups = groups if any(groups) else None
    values = task.score(gold, predictions)
    additive = [metric for metric in task.metrics if isinstance(metric, Additive)]
    rowwise = [metric for metric in task.metrics if isinstance(metric, Rowwise)]
    others = [metric for metric in task.metrics if not isinstance(metric, Additive | Rowwise)]
    intervals: dict[str, stats.Interval] = {}
    if additive:
        tables = [metric.statistics(gold, predictions) for metric in additive]
        edges = np.cumsum([0, *(table.shape[1] for table in tables)])

        def summed(sums: np.ndarray) -> dict[str, float]:
            parts = zip(additive, edges, edges[1:], strict=False)
            return _headed(task, [metric.value(sums[first:last]) for metric, first, last in parts])

        intervals |= stats.bootstrap_interval(np.concatenate(tables, axis=1), summed, groups)
    for metric in rowwise:

        def resampled(rows: np.ndarray, metric: Rowwise = metric) -> dict[str, float]:
            return _headed(task, [metric.value(rows)])

        intervals |= stats.bootstrap_rows(resampled, metric.table(gold, predictions), groups)
    if others:

        def called(right: Sequence[Any], guesses: Sequence[Any]) -> dict[str, float]:
            return _headed(task, [metric(right, guesses) for metric in others])

        intervals |= stats.bootstrap_metric(called, gold, predictions, groups)
    if "headline" not in intervals:  # a mean over metrics of several kinds
        intervals |= stats.bootstrap_metric(task.score, gold, predictions, groups)
    return {
        name: {"value": float(value), "low": intervals[name].low, "high": intervals[name].high}
        for name, value in values.items()
    }


def redrawn(task: Task, examples: Sequence[Example], predictions: Sequence[Any]) -> list[float]:
    """The headline on replicates of the examples (`stats.redrawn`). A board uses it to compare two models on the same
    examples. [] if it is not a function of sums over examples, or not defined on every replicate."""
    additive = [metric for metric in task.metrics if isinstance(metric, Additive)]
    gold, groups = [example.gold for example in examples], [example.group for example in examples]
    tables = [metric.statistics(gold, predictions) for metric in additive]
    edges = np.cumsum([0, *(table.shape[1] for table in tables)])

    def summed(sums: np.ndarray) -> float:
        parts = zip(additive, edges, edges[1:], strict=False)
        return _headed(task, [metric.value(sums[first:last]) for metric, first, last in parts]).get("headline", np.nan)

    if not tables:
        return []
    found = stats.redrawn(np.concatenate(tables, axis=1), summed, groups if any(groups) else None)
    return [round(float(one), 4) for one in found] if np.isfinite(found).all() else []


def clean(
    task: Task, examples: Sequence[Example], predictions: Sequence[Any], overlapping: Sequence[int]
) -> tuple[dict[str, dict[str, float | None]], int]:
    """Returns the headline without the rows ``overlapping``, as "clean", and the number of rows that were left out.

    Rows that are judged together are left out together. The first result is {} if no row overlaps or none would be
    left.
    """
    out, gold = set(overlapping), [example.gold for example in examples]
    kept = [row for rows in wholes(gold) if out.isdisjoint(rows) for row in rows]
    if not out or not kept:
        return {}, len(examples) - len(kept)
    kept.sort()
    value = task.score([gold[row] for row in kept], [predictions[row] for row in kept])["headline"]
    return {CLEAN: {"value": float(value), "low": None, "high": None}}, len(examples) - len(kept)


def signatures(task: Task, examples: Sequence[Example]) -> dict[str, str]:
    """The signatures of the values of ``task`` by name: how the scorer computed a value, for scorers that state it."""
    asked = [metric.signatures for metric in task.metrics if isinstance(metric, Additive) and metric.signatures]
    return {name: line for ask in asked for name, line in ask([example.gold for example in examples]).items()}


def _headed(task: Task, parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """All values of ``parts``, and the headline if they have all of its metrics."""
    values = {name: value for part in parts for name, value in part.items()}
    known = set(task.headline.split("+")) <= set(values)
    return values | {"headline": headline(task.headline, values)} if known else values


def keep_predictions(folder: Path, key: str, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, str]:
    """Writes id, gold and prediction of every example as gzipped JSON lines. Returns the path below ``folder`` and the
    SHA-256 of the file.

    The rows also have the other inputs of metrics (groups of rows, probabilities, evidence). Equal predictions give
    equal bytes, because the gzip header has no time and no name.
    """
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as packed:
        for example, prediction in zip(examples, predictions, strict=True):
            row = {"id": example.id, "gold": example.gold, "prediction": prediction}
            row |= gold_details(example.gold) | prediction_details(prediction)
            row |= {"group": example.group} if example.group else {}
            packed.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
    content = buffer.getvalue()
    file = f"predictions/{key[:32]}.jsonl.gz"
    write_bytes(folder / file, content)
    return {"file": file, "sha256": hashlib.sha256(content).hexdigest()}
