"""The board's section about the course of pre-trainings: pictures of the loss, and one line per model."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ptmbench.leaderboard.page import charts
from ptmbench.leaderboard.records.courses import Points
from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.scores.grid import Grid
from ptmbench.leaderboard.scores.measures import held_out_of
from ptmbench.leaderboard.text import number, quantity

_WINDOW = 9  # points in a running mean
_BITS = "bits_per_byte"


def section(grid: Grid, found: Mapping[str, Points]) -> dict[str, Any]:
    """Returns {"pictures", "lines", "bits", "missing"} for the template. The pictures show loss against tokens and
    FLOPs. Each model has a line with its objectives, losses, and bits per byte of held-out text if the board has the
    task. "missing" is a sentence about the pre-trainings without a curve. {} if nothing was pre-trained."""
    missing = _missing(grid, found)
    groups: dict[tuple[str, str], dict[str, tuple[Mapping[str, Any], Points]]] = {}
    about: dict[tuple[str, str], dict[str, Any]] = {}
    for row in grid.rows:
        for made in (one.pretraining for one in row.records if one.pretraining):
            weights = str(made.get("weights_sha256"))
            if weights not in found or not all(_positive(made.get(name)) for name in ("steps", "tokens", "flops")):
                continue
            key = (row.label, row.size)
            groups.setdefault(key, {})[weights] = (made, found[weights])
            bits = _bits(grid, row)
            named = row.card.get("objectives")
            objectives = ", ".join(map(str, named)) if isinstance(named, (list, tuple)) else str(named or "")
            line = about.setdefault(key, {"objectives": objectives, "bits": None})
            line["bits"] = bits if line["bits"] is None else line["bits"]
    if not groups:
        return {"pictures": [], "lines": [], "bits": False, "missing": missing} if missing else {}
    lines = [
        _line(i, key, list(members.values()), about[key]) for i, (key, members) in enumerate(sorted(groups.items()), 1)
    ]
    pictures = [
        {"title": title, "svg": charts.courses([_drawn(line, unit) for line in lines], unit)}
        for title, unit in (("tokens", "tokens"), ("FLOPs", "flops"))
    ]
    return {"pictures": pictures, "lines": lines, "bits": any(line["bits"] for line in lines), "missing": missing}


def _missing(grid: Grid, found: Mapping[str, Points]) -> str:
    """Returns how many pre-trainings have no curve, and why; "" if all have one."""
    made = {
        str(one.pretraining.get("weights_sha256"))
        for row in grid.rows
        if row.division == "controlled"
        for one in row.records
        if one.pretraining
    }
    lacking = len(made - found.keys())
    if not lacking:
        return ""
    those = "The pre-training of this board has" if len(made) == 1 else f"{lacking} of {len(made)} pre-trainings have"
    return (
        f"{those} no curve, because records do not hold it and it was not kept when they were accepted: the folder "
        "'pretrained' of the run was gone, or the version of ptmbench did not copy curves yet."
    )


def _line(place: int, key: tuple[str, str], members: Sequence[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    tenths = [points[-max(1, len(points) // 10) :] for _, points in members]
    ends = [sum(loss for _, loss in tenth) / len(tenth) for tenth in tenths]
    held_out = [value for made, _ in members if is_number(value := held_out_of(made).get("loss"))]
    return {
        "number": place,
        "label": key[0],
        "words": key[1],
        "members": members,
        "objectives": facts["objectives"],
        "pretrainings": len(members),
        "tokens": quantity(sum(made["tokens"] for made, _ in members) / len(members)),
        "flops": quantity(sum(made["flops"] for made, _ in members) / len(members), "FLOP"),
        "first": number(sum(points[0][1] for _, points in members) / len(members), decimals=3),
        "last": number(sum(ends) / len(ends), decimals=3),
        "held_out": number(sum(held_out) / len(held_out), decimals=3) if held_out else "",
        "bits": number(facts["bits"], decimals=2) if facts["bits"] is not None else "",
    }


def _smooth(points: Points) -> Points:
    """Returns running means over `_WINDOW` points, because one batch says little about a model. Near both ends, the
    windows are narrower but still centred."""
    half = _WINDOW // 2
    found = []
    for i, (step, _) in enumerate(points):
        near = points[i - min(half, i) : i + min(half, i) + 1]
        found.append((step, sum(loss for _, loss in near) / len(near)))
    return tuple(found)


def _drawn(line: Mapping[str, Any], unit: str) -> charts.Course:
    def scaled(made: Mapping[str, Any], points: Points) -> Points:
        return tuple((step * made[unit] / made["steps"], loss) for step, loss in points)

    return charts.Course(
        number=line["number"],
        label=f"{line['label']} {line['words']}".strip(),
        paths=[scaled(made, _smooth(points)) for made, points in line["members"]],
        raw=[scaled(made, points) for made, points in line["members"]],
    )


def _bits(grid: Grid, row: Any) -> float | None:
    """Returns the row's bits per byte on held-out text, if the board has that task."""
    for column in grid.columns:
        cell = grid.cells.get((row, column))
        if column.task["name"] == _BITS and column.official and cell and cell.ok:
            return cell.summary.mean if math.isfinite(cell.summary.mean) else None
    return None


def _positive(value: Any) -> bool:
    return is_number(value) and 0 < value < math.inf
