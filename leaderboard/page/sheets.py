"""The sheets of models and tasks, and the planes of score against cost, as plain values for the template."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ptmbench.leaderboard.page import charts, lessons
from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.records.record import slug
from ptmbench.leaderboard.scores import overlap
from ptmbench.leaderboard.scores.costs import adaptation_tuning_of, tuning_of
from ptmbench.leaderboard.scores.grid import Column, Grid, Row
from ptmbench.leaderboard.scores.measures import held_out_of
from ptmbench.leaderboard.stats import LARGEST
from ptmbench.leaderboard.text import duration, number, quantity

_AXES = ("representation", "architecture", "objectives", "extensions")
_MEASURES = {
    "parameters": ("Parameters", ""),
    "pre-training FLOPs": ("Pre-training FLOPs", "FLOP"),
    "FLOPs per cell": ("FLOPs per cell", "FLOP"),
    "seconds per cell": ("Seconds per cell", "s"),
    "disk MiB": ("Disk", "MiB"),
    "latency seconds": ("Latency of one example", "s"),
    "peak memory MiB": ("Peak memory", "MiB"),
}
_COSTS = {
    "parameters": "Parameters",
    "embedding": "Embedding parameters",
    "tokens": "Pre-training tokens",
    "flops": "Pre-training FLOPs",
    "seconds": "Pre-training time",
    "cell flops": "FLOPs per cell",
    "cell seconds": "Time per cell",
    "all seconds": "Time of all cells",
    "memory": "Peak memory",
    "bits": "Bits per weight",
    "zeros": "Zero weights",
    "disk": "On disk",
    "compressed": "Compressed",
}
_OF_WEIGHTS = ("bits", "zeros", "disk", "compressed")
_METRICS = {
    "accuracy": "share of right answers, in percent",
    "mcc": "Matthews correlation coefficient times 100; 0 for a constant answer",
    "f1": "harmonic mean of precision and recall, in percent",
    "macro_f1": "F1 of every label, averaged over labels, in percent",
    "exact_match": "share of answers equal to a gold answer after normalisation, in percent",
    "pearson": "Pearson correlation times 100",
    "spearman": "Spearman rank correlation times 100",
    "perplexity": "exponential of the mean negative log-likelihood; 1 is perfect",
    "bleu": "corpus BLEU, in percent",
    "rouge1": "ROUGE-1 F1, in percent",
    "rouge2": "ROUGE-2 F1, in percent",
    "rougeL": "ROUGE-L F1, in percent",
    "rougeLsum": "ROUGE-L F1 sentence by sentence, in percent",
    "author_rougeL": "ROUGE-L F1 against the subject that the author wrote, in percent",
    "micro_f1": "F1 over all pairs of a mention and a type, in percent",
    "f1a": "F1 of the right answers over all questions, in percent",
    "joint_f1": "F1 of answers and supporting facts together, in percent",
    "aspect_f1": "F1 of the aspects that a sentence mentions, in percent",
    "hits_at_1": "share of cases in which the right answer comes first, in percent",
    "p_at_1": "share of cases in which a right answer comes first, in percent",
    "mrr": "mean reciprocal rank: the mean of 1 / (rank of the right answer), in percent",
    "bits_per_byte": "code length of held-out text in bits, divided by its bytes in UTF-8",
}


def column(grid: Grid, column: Column, place: int) -> dict[str, Any]:
    """Returns a task's sheet: definition, metric, size, chance and headroom."""
    task = column.task
    scored = [cell.summary.mean for row in grid.rows if (cell := grid.cells.get((row, column))) and cell.ok]
    return {
        "id": f"t{place}",
        "title": column.title,
        "head": task["title"],
        "qualifiers": [
            part
            for part in ("" if column.official else task["source"], *column.part.split(", "), overlap.mark(task))
            if part
        ],
        "name": task["name"],
        "metric": task["headline"],
        "meaning": _meaning(task["headline"]),
        "arrow": "↑" if task["higher_is_better"] else "↓",
        "better": "higher is better" if task["higher_is_better"] else "lower is better",
        "form": str(task.get("form") or "").replace("_", " "),
        "source": task.get("source") or "",
        "split": task.get("split") or "",
        "examples": task.get("examples"),
        "chance": number(task.get("chance"), decimals=column.decimals),
        "headroom": _headroom(column, [one for one in scored if math.isfinite(one)]),
        "overlap": overlap.training(task),
        "rows": len(scored),
        "version": task["version"],
        "data": (task["data_sha256"] or "")[:12],
        "licence": task.get("licence") or "",
    }


def models(
    grid: Grid, rows: Sequence[dict[str, Any]], catalogue: lessons.Catalogue, home: str = ""
) -> list[dict[str, Any]]:
    """Returns one sheet per name, with its card, if there is one, and its rows.

    Each model of the ``catalogue`` has a sheet with its lesson, even without rows. If the catalogue is on the page
    ``home``, models without rows have no sheet here, and the others have the address of their lesson ("about").
    """
    sheets: dict[str, dict[str, Any]] = {}
    for row, shown in zip(grid.rows, rows, strict=True):
        sheet = sheets.setdefault(row.name, _blank(row.name, row.label))
        sheet["rows"].append(shown | {"made": [*_pretraining(row.records), *_adaptation_tuning(row.records)]})
        if row.card and row.kind != "random" and not sheet["card"]:
            sheet["card"] = _card(row.card)
            sheet["title"] = sheet["card"]["title"] or row.label
            sheet["model"] = lessons.model_of(row.name, row.card, catalogue)
    for name, entry in {} if home else catalogue.get("models", {}).items():
        if name not in sheets:
            sheets[name] = _blank(name, entry["title"]) | {"model": name, "card": _card(entry)}
    ordered = sorted(sheets.items(), key=lambda item: (item[1]["card"] is None, item[0]))
    names = Counter(slug(name) for name in sheets)
    found = [
        sheet | {"id": f"model-{slug(name)}" + (f"-{i}" if names[slug(name)] > 1 else "")}
        for i, (name, sheet) in enumerate(ordered)
    ]
    if home:
        return [sheet | {"lesson": None, "about": sheet["model"] and _address(sheet["model"], home)} for sheet in found]
    links = links_of(found, catalogue)
    return [
        sheet | {"lesson": lessons.lesson(sheet["model"], catalogue, links) if sheet["model"] else None, "about": ""}
        for sheet in found
    ]


def links_of(found: Sequence[Mapping[str, Any]], catalogue: lessons.Catalogue, home: str = "") -> dict[str, str]:
    """Returns {model of the ``catalogue``: the address of its sheet}. Models without a sheet in ``found`` have one on
    the page ``home``."""
    others = {name: _address(name, home) for name in catalogue.get("models", {})}
    return others | {sheet["name"]: f"#{sheet['id']}" for sheet in found if sheet["model"] == sheet["name"]}


def _address(model: str, home: str) -> str:
    """Returns the address of the lesson of ``model`` on the page ``home``."""
    return f"{home}#model-{slug(model)}"


def _blank(name: str, title: str) -> dict[str, Any]:
    return {"name": name, "title": title, "model": "", "card": None, "rows": []}


def planes(grid: Grid, costs: Mapping[Row, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns pictures of the average against every measured cost, and the lines of one table for all of them."""
    scored = [row for row in grid.rows if abs(grid.macro_summary(row).mean) < LARGEST]
    lines = [{"number": i, "row": row, "costs": []} for i, row in enumerate(scored, 1)]
    drawn: list[dict[str, Any]] = []
    for name, (title, unit) in _MEASURES.items():
        points = {
            row: (costs[row][name], grid.macro_summary(row).mean) for row in scored if (costs[row][name] or 0) > 0
        }
        if len(points) < 2:
            continue
        best = charts.front(points)
        dots = [
            charts.Dot(
                number=line["number"], cost=points[line["row"]][0], score=points[line["row"]][1],
                interval=grid.macro_interval(line["row"]), front=line["row"] in best,
            )
            for line in lines if line["row"] in points
        ]  # fmt: skip
        ticks = _ticks([dot.cost for dot in dots], unit)
        drawn.append({"title": title, "svg": charts.plane(dots, ticks)})
        for line in lines:
            cost = costs[line["row"]][name]
            text = duration(cost) if unit == "s" and cost else quantity(cost, unit)
            line["costs"].append({"text": text, "sort": cost, "front": line["row"] in best})
    shown = [
        {"number": line["number"], "label": line["row"].label, "words": line["row"].words, "costs": line["costs"],
         "mean": number(grid.macro_summary(line["row"]).mean)}
        for line in lines
    ]  # fmt: skip
    return {"drawn": drawn, "lines": shown}


def costs(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the columns of the table of costs that have a number in at least one of the ``rows``."""
    known = [key for key in _COSTS if any(row["cost"][key][1] for row in rows)]
    return [{"key": key, "title": _COSTS[key], "weights": key in _OF_WEIGHTS} for key in known]


def _card(card: Mapping[str, Any]) -> dict[str, Any]:
    names = (*_AXES, "title", "citation", "year", "loss", "tokenizer", "corpus", "parameters", "reference", "licence")
    reported = [
        f"{one['task']} {one['value']} {one['metric']} ({one.get('split')})" for one in card.get("reported") or ()
    ]
    return {name: _words(card.get(name)) for name in names} | {"reported": "; ".join(reported)}


def _pretraining(records: Sequence[Any]) -> list[str]:
    """Returns each pre-training of a row in words, once per weights."""
    made = {str(one.pretraining.get("weights_sha256")): one.pretraining for one in records if one.pretraining}
    return [
        ", ".join(
            str(part)
            for part in (
                f"seed {one.get('seed')}", one.get("corpus"),
                *(f"{quantity(one[n])} {n}" for n in ("steps", "tokens") if is_number(one.get(n))),
                quantity(one["flops"], "FLOP") if is_number(one.get("flops")) else "",
                duration(one["seconds"]) if is_number(one.get("seconds")) else "", _tuning(one),
                f"final loss {one['loss']:.3f}" if is_number(one.get("loss")) else "", _held_out(one),
                f"weights {digest[:12]}",
                _other("continued from", one.get("base")), _other("taught by", one.get("teacher")),
            )
            if part
        )
        for digest, one in sorted(made.items())
    ]  # fmt: skip


def _held_out(made: Mapping[str, Any]) -> str:
    """Returns the loss on held-out text with its parts in words; "" if none was measured."""
    found = held_out_of(made)
    parts = [f"{name} {value:.3f}" for name, value in found.items() if name.endswith("_loss") and is_number(value)]
    return f"held-out loss {found['loss']:.3f}" + (f" ({', '.join(parts)})" if parts else "") if found else ""


def _tuning(made: Mapping[str, Any]) -> str:
    """Returns whether the recipe was tuned, and the cost of the tuning, in words."""
    flops = (made.get("tuning") or {}).get("flops")
    return tuning_of(made) + (f" ({quantity(flops, 'FLOP')})" if is_number(flops) else "")


def _adaptation_tuning(records: Sequence[Any]) -> list[str]:
    """Returns the tuning of the adaptation and its cost for all tasks together, in words; [] for an untuned row."""
    found = {one.task["name"]: one.adaptation for one in records if one.adaptation.get("tuning")}
    if not found:
        return []
    flops = [value for one in found.values() if is_number(value := one["tuning"].get("flops"))]
    return [f"{adaptation_tuning_of(next(iter(found.values())))} for each task ({quantity(sum(flops), 'FLOP')})"]


def _other(relation: str, made: Mapping[str, Any] | None) -> str:
    """Returns words on another pre-training that this one depends on; "" if there is none."""
    if not made:
        return ""
    return f"{relation} {made.get('model')} {made.get('size')}, weights {str(made.get('weights_sha256'))[:12]}"


def _headroom(column: Column, scored: Sequence[float]) -> str:
    """Returns words on the distance from the best row to the metric's bound, and on the share of the way from chance
    that it covers."""
    if not scored or not column.averaged:
        return ""
    best, chance = max(scored), column.task.get("chance")
    left, reached = (number(value, decimals=column.decimals) for value in (100 - best, best))
    room = f"{left} points from the best row ({reached}) to the metric's bound of 100"
    if isinstance(chance, (int, float)) and math.isfinite(chance) and chance < 100:
        room += (
            f"; the best row closes {100 * (best - chance) / (100 - chance):.0f} % of the gap between chance and 100"
        )
    return room


def _meaning(metric: str) -> str:
    parts = [_METRICS[one] for one in metric.split("+") if one in _METRICS]
    several = "mean of: " if len(parts) > 1 else ""
    return several + "; ".join(parts)


def _ticks(costs: Sequence[float], unit: str) -> dict[float, str]:
    """Returns the costs that are labels of a logarithmic axis: both ends, and the middle if it is another number."""
    low, high = min(costs), max(costs)
    values = {low, math.sqrt(low * high), high} if high > 1.2 * low else {low, high}
    texts = {value: duration(value) if unit == "s" else quantity(value, unit) for value in sorted(values)}
    return {value: text for value, text in texts.items() if value == low or text != texts[low]}


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else "" if value is None else str(value)
