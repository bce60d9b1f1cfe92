"""The share of a task's examples that a row may have seen in training, as text for the page and the exports.

Counts are in the part ``overlap`` of a record's task (`bench.data.overlap` defines them), and the score without these
examples is under "clean". Older records have neither, and then everything here is empty.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ptmbench.leaderboard.records.record import Record
from ptmbench.leaderboard.text import decimals_of, number

MARKED = 0.01
"""Share of overlapping examples from which a task or a cell is marked. A score in percent may then owe a point to them,
and many rows differ by less."""
CLEAN = "clean"

HEADS = ["task", "version", "split", "examples", "run words", "training examples", "same", "same label", "near", "run"]
HEADS += ["covered", "overlapping", "share", "repeated", "other label"]


def training(task: Mapping[str, Any]) -> str:
    """Returns a sentence about the overlap of a task's splits; "" if it was not counted."""
    report, train, words = _part(task, "report"), _part(task, "train"), (task.get("overlap") or {}).get("run_words")
    if not report:
        return ""
    within = f"{report.get('repeated')} examples have the text of another one{_labelled(report, 'other_label', True)}."
    if not train:
        return f"No training split to compare with. {within}"
    return (
        f"{_of(train, 'overlapping', report)} overlap with the {train.get('examples')} training examples: "
        f"{train.get('near')} are near one, {train.get('same')} of them the same{_labelled(train, 'same_label')}, and "
        f"{train.get('covered')} are covered by runs of {words} words; {train.get('run')} share such a run. {within}"
    )


def in_corpus(task: Mapping[str, Any]) -> str:
    """Returns a sentence about the overlap with the row's pre-training corpus; "" if there is nothing to count."""
    corpus, report = _part(task, "corpus"), _part(task, "report")
    if not corpus or "unknown" in corpus:
        return corpus.get("unknown", "")
    covered = f"{_of(corpus, 'covered', report)} are covered by its runs of {corpus.get('run_words')} words"
    return f"Corpus: {covered}; {corpus.get('run')} share one."


def mark(task: Mapping[str, Any]) -> str:
    """Returns the mark below a task's name if too much of it is in its training split; "" otherwise."""
    share = share_of(task)
    return f"{100 * share:.0f} % in training" if share is not None and share >= MARKED else ""


def cell_mark(records: Sequence[Record]) -> str:
    """Returns the mark of a cell if too many of its examples are in the row's pre-training corpus; "" otherwise."""
    share = max((share_of(record.task, "corpus", "covered") or 0.0 for record in records), default=0.0)
    return f"{100 * share:.0f} % of the examples in its corpus" if share >= MARKED else ""


def share_of(task: Mapping[str, Any], part: str = "train", name: str = "overlapping") -> float | None:
    """Returns a count as a share of the report split; None if it was not counted."""
    count, examples = _part(task, part).get(name), _part(task, "report").get("examples")
    return count / examples if isinstance(count, int) and examples else None


def clean_mean(records: Sequence[Record]) -> float | None:
    """Returns the mean over seeds of the score without overlapping examples; None if a seed has none."""
    values = [record.scores[CLEAN]["value"] for record in records if CLEAN in record.scores]
    return float(sum(values)) / len(values) if values and len(values) == len(records) else None


def cell_line(records: Sequence[Record]) -> str:
    """Returns the text about overlap for a cell on a row's sheet; "" if nothing was counted."""
    if not records:
        return ""
    parts, mean = [in_corpus(records[0].task)], clean_mean(records)
    if mean is not None:
        left = (records[0].task.get("overlap") or {}).get("left_out")
        parts.append(f"Without {left} overlapping examples: {number(mean, decimals=decimals_of(records[0].task))}.")
    return " ".join(filter(None, parts))


def line(title: str, task: Mapping[str, Any]) -> list[Any]:
    """Returns a line of the table of overlaps, under `HEADS`; [] if nothing was counted."""
    report, train = _part(task, "report"), _part(task, "train")
    if not report:
        return []
    counts = [train.get(name) for name in ("examples", "same", "same_label", "near", "run", "covered", "overlapping")]
    words = task["overlap"].get("run_words")
    within = [report.get("repeated"), report.get("other_label")]
    return [
        title,
        task["version"],
        task.get("split") or "",
        report.get("examples"),
        words,
        *counts,
        share_of(task),
        *within,
    ]


def _part(task: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (task.get("overlap") or {}).get(name) or {}


def _of(part: Mapping[str, Any], name: str, report: Mapping[str, Any]) -> str:
    count, examples = part.get(name) or 0, report.get("examples") or 0
    return f"{count} of {examples} examples ({100 * count / max(1, examples):.1f} %)"


def _labelled(part: Mapping[str, Any], name: str, other: bool = False) -> str:
    count = part.get(name)
    return "" if count is None else f" ({count} with {'different labels' if other else 'the same label'})"
