"""The survey's Table 2 (models) and Table 3 (compressed models), with reported and with measured scores.

Qiu, Sun, Xu, Shao, Dai and Huang (2020), "Pre-trained Models for Natural Language Processing: A Survey". The tables
have the survey's columns. Values that a card or a record does not have are blank with a reason code, never guessed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ptmbench.leaderboard.records.record import method_of
from ptmbench.leaderboard.scores.benchmarks import BENCHMARKS, Benchmark
from ptmbench.leaderboard.scores.grid import NO_SEED, Grid, Row

COMPRESSION = {
    "pruning": "pruning",
    "quantization": "quantisation",
    "sharing": "parameter sharing",
    "distillation": "distillation",
    "replacing": "module replacing",
    "exit": "early exit",
    "width": "adaptive width and depth",
    "search": "architecture search",
}
_INPUTS = {"knowledge": "text and entities", "visual": "text and images", "multimodal": "text and images"}
TABLE_2 = ("model", "architecture", "input", "objective", "corpus", "corpus here", "parameters", "parameters here")
TABLE_3 = ("method", "type", "layers", "loss", "speed-up", "parameters", "parameters here", "source", "licence")
GLUE = ("GLUE reported", "GLUE split", "GLUE source", "GLUE measured", "GLUE seeds", "GLUE low", "GLUE high")
_FIELDS = {"layers": "layers", "speed-up": "speed_up", "source": "source_model", "licence": "licence"}
FROZEN = ("acceptability", "cloze", "features", "fused", "likelihood", "mapping", "prompt", "stacked", "taglm", "words")
"""Adaptations that do not change the model's weights."""
NOT_STATED = "[not-stated]"


def table_2(grid: Grid) -> list[dict[str, Any]]:
    """Returns one line per row with a card that no transform has changed: `TABLE_2`, `GLUE` and "FT", the answer to
    "is it fine-tuned?"."""
    return [
        {
            "model": row,
            "architecture": _words(_card(row).get("architecture")),
            "input": _inputs(row),
            "objective": _words(_card(row).get("objectives")),
            **_sizes(row),
            **_glue(grid, row, glue()),
            "FT": _tuned(row),
        }
        for row in _carded(grid)
        if not row.transform
    ]


def table_3(grid: Grid) -> list[dict[str, Any]]:
    """Returns one line per row whose card names a compression, and per other compressed row with a GLUE average:
    `TABLE_3` and `GLUE`, measured by the average of the survey's table 3."""
    lines = []
    for row in _carded(grid):
        own = [one for one in _card(row).get("extensions") or () if one in COMPRESSION]
        kinds = [COMPRESSION[one] for one in dict.fromkeys((*own, *row.compression)) if one in COMPRESSION]
        measured = _glue(grid, row, compressed_glue())
        if own or (kinds and measured["GLUE seeds"]):
            line = {"method": row, "type": ", ".join(kinds), "loss": _words(_card(row).get("loss"))}
            for column, field in _FIELDS.items():
                line[column] = _words(_card(row).get(field))
            sizes = _sizes(row)
            line |= {"parameters": sizes["parameters"], "parameters here": sizes["parameters here"]}
            lines.append(line | measured)
    return lines


def glue() -> Benchmark:
    """Returns the official GLUE average, which the survey's table 2 uses."""
    return next(one for one in BENCHMARKS if one.title == "GLUE")


def compressed_glue() -> Benchmark:
    """Returns the GLUE average of the survey's table 3."""
    return next(one for one in BENCHMARKS if "table 3" in one.title)


def reported_glue(row: Row) -> Mapping[str, Any] | None:
    """Returns the GLUE score on the card of ``row``: "value", "split", "source". None if the card has none."""
    entries = _card(row).get("reported") or ()
    return next(
        (one for one in entries if (one["task"].casefold(), one["metric"].casefold()) == ("glue", "average")), None
    )


def _inputs(row: Row) -> str:
    return ", ".join(dict.fromkeys(_INPUTS.get(one, "text") for one in _card(row).get("extensions") or ("",)))


def _tuned(row: Row) -> str:
    """Returns whether the model's weights are trained on the task, with the adaptation if it is not plain fine-tuning:
    "yes (ulmfit)"."""
    answer = "no" if method_of(row.adaptation) in FROZEN else "yes"
    return answer if row.adaptation == "finetune" else f"{answer} ({row.adaptation})"


def _card(row: Row) -> Mapping[str, Any]:
    """Returns the part of the card that applies to the weights of ``row``. A published checkpoint shares the
    architecture with the model on the card, but its corpus, losses, sizes and scores may differ."""
    if row.kind == "pretrained":
        return row.card
    return {name: row.card[name] for name in ("architecture", "extensions") if name in row.card}


def _carded(grid: Grid) -> Sequence[Row]:
    return [row for row in grid.rows if row.card and row.kind in ("pretrained", "published")]


def _sizes(row: Row) -> dict[str, Any]:
    counts = [one for one in (record.cost.get("parameters") for record in row.records) if type(one) is int]
    corpora = sorted({str(record.pretraining.get("corpus")) for record in row.records if record.pretraining})
    return {
        "corpus": _words(_card(row).get("corpus")),
        "corpus here": ", ".join(corpora) or ("its own" if row.division == "published" else "[not-recorded]"),
        "parameters": _words(_card(row).get("parameters")),
        "parameters here": max(counts, default=None),
    }


def _glue(grid: Grid, row: Row, average: Benchmark) -> dict[str, Any]:
    entry = reported_glue(row)
    summary, interval = average.summary(grid, row)
    count = len(average.tasks)
    missing = count - len(_scored(grid, row, average))
    code = "" if summary.n else f"[{missing} of {count} tasks missing]" if missing else f"[{NO_SEED}]"
    return {
        "GLUE reported": entry["value"] if entry else None,
        "GLUE split": str(entry.get("split") or "") if entry else "[not-reported]",
        "GLUE source": str(entry.get("source") or "") if entry else "[not-reported]",
        "GLUE measured": summary.mean if summary.n else code,
        "GLUE seeds": summary.n,
        "GLUE low": interval.low,
        "GLUE high": interval.high,
    }


def _scored(grid: Grid, row: Row, average: Benchmark) -> list[str]:
    return [name for name, one in average.columns(grid).items() if average.values(grid.cells.get((row, one)))]


def _words(value: Any) -> str:
    words = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else "" if value is None else str(value)
    return words or NOT_STATED
