"""Scores the predictions of a record again on resampled examples. The gate calls it.

A record has scores, but only the predictions show how much they depend on the choice of examples. The predictions are
used only if the record has their hash and the current metrics give the recorded score. So a changed metric is never
mistaken for a changed model.
"""

import gzip
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench import tasks
from ptmbench.leaderboard.gate import resampling
from ptmbench.leaderboard.records.record import UNDER, Record
from ptmbench.tasks.forms import Answer, Answers, Form, Part, Reply, Scored, Target
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.task import DataError, Task, headline

_LARGEST = 256 * 2**20  # bytes unpacked; ptmbench writes no larger files
_SUMMED, _CALLED = 1000, 100  # replicates; fewer if each one calls the metric
_CLOSE = 1e-6


def scored(record: Record, roots: Sequence[Path]) -> resampling.Scored | None:
    """The predictions of ``record`` below one of ``roots``. None if they are missing, have another hash, or give
    another score."""
    content = _content(record, roots)
    if content is None:
        return None
    try:
        task = tasks.load(record.task["name"].partition(UNDER)[0])
        rows = [json.loads(line) for line in content.split("\n") if line]  # texts may contain U+2028
        ids = tuple(str(row["id"]) for row in rows)
        gold, guesses = _restored(task.form, rows)
        value = task.score(gold, guesses)["headline"]
        if not rows or not abs(value - record.headline["value"]) <= _CLOSE * max(1.0, abs(value)):
            return None
        groups = tuple(row.get("group") for row in rows)
        each, additive = None, all(isinstance(metric, Additive) for metric in task.metrics)
        if additive:
            statistics, together = _additive(task, gold, guesses)
            redraw, each = _summed(statistics, together), _each(statistics, together, value)
        else:
            redraw = _called(task, gold, guesses)
    except (DataError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None  # files of other versions, and of tasks whose answers JSON cannot represent
    return resampling.Scored(
        ids=ids, groups=groups if any(groups) else None, value=value, each=each, redraw=redraw,
        replicates=_SUMMED if additive else _CALLED,
    )  # fmt: skip


def _content(record: Record, roots: Sequence[Path]) -> str | None:
    kept = record.predictions
    for root in roots if kept else ():
        path = root / kept["file"]
        if path.is_file() and path.stat().st_size <= _LARGEST:
            packed = path.read_bytes()
            if hashlib.sha256(packed).hexdigest() != kept["sha256"]:
                continue
            try:
                with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
                    plain = file.read(_LARGEST + 1)
                return plain.decode() if len(plain) <= _LARGEST else None
            except (OSError, EOFError, UnicodeDecodeError):
                return None
    return None


def _restored(form: Form, rows: Sequence[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Gold and predictions of ``rows`` in the types of the metrics, which JSON has changed to lists and strings.

    Rows with only gold and prediction have plain labels and texts, or come from older files with fewer details. If
    these details matter, the score differs from that of the record.
    """
    gold, guesses = [row["gold"] for row in rows], [_known(row) for row in rows]
    if form is Form.SPAN:
        gold = [
            Answers((Answer(*answer) for answer in row["gold"]), map(_name, row.get("gold_facts", ()))) for row in rows
        ]
    elif form is Form.CLASSIFICATION:
        gold = [Part(row["gold"], row.get("whole"), row.get("kind")) for row in rows]
    elif form in (Form.CLOZE, Form.RANKING, Form.ANALOGY):
        gold = [Target(row["gold"], kind=row.get("kind")) for row in rows]
    elif form is Form.GENERATION:
        gold = [tuple(references) for references in gold]
    elif form is Form.MINIMAL_PAIR:
        gold = [Part(row["gold"], kind=row.get("kind")) for row in rows]
        guesses = [tuple(guess) for guess in guesses]
    elif form is Form.LANGUAGE_MODELLING:
        guesses = [tuple(guess) for guess in guesses]
    return gold, guesses


def _known(row: dict[str, Any]) -> Any:
    """The prediction of ``row`` with its scores, span or facts."""
    guess = row["prediction"]
    if "scores" in row:
        return Scored(guess, row["scores"])
    details = {name: row[name] for name in ("no_answer", "span", "facts") if name in row}
    if "facts" in details:
        details["facts"] = tuple(map(_name, details["facts"]))
    return Reply(guess, **details) if details else guess


def _name(fact: Any) -> Any:
    """The name of a `tasks.forms.Piece`. JSON has lists in place of tuples."""
    return tuple(fact) if isinstance(fact, list) else fact


def _additive(task: Task, gold: list, guesses: list) -> tuple[np.ndarray, Callable[[np.ndarray], float]]:
    """Statistics per example, [N, K], and a function of their sum [K] that returns the headline."""
    tables = [metric.statistics(gold, guesses) for metric in task.metrics]
    edges = np.cumsum([0, *(table.shape[1] for table in tables)])

    def together(sums: np.ndarray) -> float:
        named: dict[str, float] = {}
        for metric, first, last in zip(task.metrics, edges, edges[1:], strict=False):
            named |= metric.value(sums[first:last])
        return headline(task.headline, named)

    return np.concatenate(tables, axis=1), together


def _summed(statistics: np.ndarray, together: Callable[[np.ndarray], float]) -> Callable[[np.ndarray], np.ndarray]:
    def redraw(counts: np.ndarray) -> np.ndarray:
        return np.array([together(sums) for sums in counts @ statistics])

    return redraw


def _called(task: Task, gold: list, guesses: list) -> Callable[[np.ndarray], np.ndarray]:
    def redraw(counts: np.ndarray) -> np.ndarray:
        values = []
        for row in counts:
            drawn = np.repeat(np.arange(len(gold)), row.astype(int))
            values.append(task.score([gold[i] for i in drawn], [guesses[i] for i in drawn])["headline"])
        return np.array(values)

    return redraw


def _each(statistics: np.ndarray, together: Callable[[np.ndarray], float], value: float) -> np.ndarray | None:
    """Per-example scores [N] if the headline is their mean on every draw, else None. This is tested on a few draws,
    because metrics do not state it."""
    n = len(statistics)
    few = statistics[: min(n, 64)]
    if abs(together(few.sum(axis=0)) - np.mean([together(row) for row in few])) > _CLOSE:
        return None
    each = np.array([together(row) for row in statistics])
    counts = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=4).astype(float)
    means = np.abs(counts @ each / n - _summed(statistics, together)(counts))
    return each if means.max() <= _CLOSE and abs(each.mean() - value) <= _CLOSE else None
