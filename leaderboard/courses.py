"""The course of pre-trainings: the loss at each step, for the weights that records name.

A run keeps it in the manifest of each pre-training (``pretrained/NAME/manifest.json``). A baseline keeps all of them in
one file, ``courses.json``, which `keep` writes. Both name the SHA-256 of the weights, and so do records: a course is
shown for exactly the weights that a row was measured with.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ptmbench.leaderboard import charts
from ptmbench.leaderboard.costs import is_number
from ptmbench.leaderboard.grid import Grid
from ptmbench.leaderboard.measures import held_out_of
from ptmbench.leaderboard.record import Record
from ptmbench.leaderboard.store import runs_below
from ptmbench.leaderboard.text import number, quantity

FILE = "courses.json"
MOST = 100
"""Points of a course that are kept; its first and its last one are among them."""
_WINDOW = 9  # points of a running mean
_BITS = "bits_per_byte"
_LARGEST = 4 * 2**20  # bytes of a manifest; a real one has some kilobytes

Points = tuple[tuple[float, float], ...]
"""(step, loss) in order."""


def load(folders: Sequence[Path], records: Iterable[Record]) -> dict[str, Points]:
    """{SHA-256 of weights: course} for the pre-trainings of ``records`` whose course lies in ``folders``."""
    wanted = {str(one.pretraining.get("weights_sha256")) for one in records if one.pretraining}
    found: dict[str, Points] = {}
    for home in (home for folder in folders for home in runs_below(Path(folder))):
        for weights, points in _courses(home):
            if weights in wanted and len(points) > 1:
                found.setdefault(weights, points)
    return found


def keep(sources: Sequence[Path], target: Path, records: Iterable[Record]) -> None:
    """Write the courses of the pre-trainings of ``records``, as far as the folders ``sources`` have them, to
    ``target``/courses.json: an object from weights to points, a line each. Nothing is written if there are none."""
    lines = [f'"{weights}":{json.dumps(points)}' for weights, points in sorted(load(sources, records).items())]
    if lines:
        (target / FILE).write_text("{" + ",\n".join(lines) + "}\n", encoding="ascii")


def _courses(home: Path) -> Iterator[tuple[str, Points]]:
    kept = _json(home / FILE)
    for weights, points in kept.items() if isinstance(kept, dict) else ():
        if isinstance(points, list):
            yield weights, _points(points)
    for path in sorted(home.glob("pretrained/[!.]*/manifest.json")):
        body = _json(path)
        if not isinstance(body, dict) or body.pop("seal", None) != _seal(body):
            continue  # damaged, or not finished
        about, files = body.get("about"), body.get("files")
        if isinstance(about, dict) and isinstance(files, dict) and isinstance(about.get("curve"), list):
            pairs = [(one.get("step"), one.get("loss")) for one in about["curve"] if isinstance(one, dict)]
            yield str(files.get("weights.safetensors")), _points(pairs)


def _json(path: Path) -> Any:
    """What the file ``path`` holds; None for a file that is no JSON or is too large to be a manifest."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.stat().st_size <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        return None


def _seal(body: Mapping[str, Any]) -> str:
    """The seal of a manifest, as `bench.engine.checkpoint` writes it."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _points(pairs: Sequence[Any]) -> Points:
    """The pairs that are finite and positive, at most `MOST` of them."""
    known = [
        (float(one[0]), float(one[1]))
        for one in pairs
        if isinstance(one, (list, tuple)) and len(one) == 2 and all(is_number(value) and value > 0 for value in one)
    ]
    if len(known) > MOST:
        places = sorted({round(i * (len(known) - 1) / (MOST - 1)) for i in range(MOST)})
        known = [known[place] for place in places]
    return tuple(known)


def section(grid: Grid, found: Mapping[str, Points]) -> dict[str, Any]:
    """{"pictures", "lines", "bits"} for the template: loss against tokens and FLOPs, and one line per model with its
    objective, losses, and bits per byte of held-out text where the board has the task; {} without courses."""
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
        return {}
    lines = [
        _line(i, key, list(members.values()), about[key]) for i, (key, members) in enumerate(sorted(groups.items()), 1)
    ]
    pictures = [
        {"title": title, "svg": charts.courses([_drawn(line, unit) for line in lines], unit)}
        for title, unit in (("tokens", "tokens"), ("FLOPs", "flops"))
    ]
    return {"pictures": pictures, "lines": lines, "bits": any(line["bits"] for line in lines)}


def _line(place: int, key: tuple[str, str], members: Sequence[Any], told: Mapping[str, Any]) -> dict[str, Any]:
    tenths = [points[-max(1, len(points) // 10) :] for _, points in members]
    ends = [sum(loss for _, loss in tenth) / len(tenth) for tenth in tenths]
    held_out = [value for made, _ in members if is_number(value := held_out_of(made).get("loss"))]
    return {
        "number": place,
        "label": key[0],
        "words": key[1],
        "members": members,
        "objectives": told["objectives"],
        "pretrainings": len(members),
        "tokens": quantity(sum(made["tokens"] for made, _ in members) / len(members)),
        "flops": quantity(sum(made["flops"] for made, _ in members) / len(members), "FLOP"),
        "first": number(sum(points[0][1] for _, points in members) / len(members), decimals=3),
        "last": number(sum(ends) / len(ends), decimals=3),
        "held_out": number(sum(held_out) / len(held_out), decimals=3) if held_out else "",
        "bits": number(told["bits"], decimals=2) if told["bits"] is not None else "",
    }


def _smooth(points: Points) -> Points:
    """Running means over `_WINDOW` points, because one batch says little about a model. They reach back less at the
    start, where the loss falls fast, and have fewer points after them at the end."""
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
    """The row's bits per byte on held-out text, where the board has that task."""
    for column in grid.columns:
        cell = grid.cells.get((row, column))
        if column.task["name"] == _BITS and column.official and cell and cell.ok:
            return cell.summary.mean if math.isfinite(cell.summary.mean) else None
    return None


def _positive(value: Any) -> bool:
    return is_number(value) and 0 < value < math.inf
