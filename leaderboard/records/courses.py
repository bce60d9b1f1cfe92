"""The course of pre-trainings: the loss at each step, for the weights that records name.

A run keeps it in the manifest of each pre-training (``pretrained/NAME/manifest.json``). A baseline keeps all of them in
one file, ``courses.json``, which `keep` writes. Both name the SHA-256 of the weights, as records do. So a course is
shown for exactly the weights that a row was measured with.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.records.record import Record, seal
from ptmbench.leaderboard.records.store import runs_below

FILE = "courses.json"
MOST = 100
"""Most points kept of a course; the first and the last one are among them."""
_LARGEST = 4 * 2**20  # bytes of a manifest; a real one has some kilobytes

Points = tuple[tuple[float, float], ...]
"""(step, loss) pairs, in order."""


def load(folders: Sequence[Path], records: Iterable[Record]) -> dict[str, Points]:
    """Returns {SHA-256 of weights: course} for the pre-trainings of ``records`` whose course is in ``folders``."""
    wanted = {str(one.pretraining.get("weights_sha256")) for one in records if one.pretraining}
    found: dict[str, Points] = {}
    for home in (home for folder in folders for home in runs_below(Path(folder))):
        for weights, points in _courses(home):
            if weights in wanted and len(points) > 1:
                found.setdefault(weights, points)
    return found


def keep(sources: Sequence[Path], target: Path, records: Iterable[Record]) -> None:
    """Writes the courses of the pre-trainings of ``records`` that are in the folders ``sources`` to
    ``target``/courses.json: an object from weights to points, a line each. Writes nothing if there are none."""
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
        if not isinstance(body, dict) or body.get("seal") != seal(body):
            continue  # damaged, or not finished
        about, files = body.get("about"), body.get("files")
        if isinstance(about, dict) and isinstance(files, dict) and isinstance(about.get("curve"), list):
            pairs = [(one.get("step"), one.get("loss")) for one in about["curve"] if isinstance(one, dict)]
            yield str(files.get("weights.safetensors")), _points(pairs)


def _json(path: Path) -> Any:
    """Returns the JSON in ``path``; None if the file is not readable JSON or is too large to be a manifest."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.stat().st_size <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        return None


def _points(pairs: Sequence[Any]) -> Points:
    """Returns the pairs that are finite and positive, at most `MOST` of them."""
    known = [
        (float(one[0]), float(one[1]))
        for one in pairs
        if isinstance(one, (list, tuple)) and len(one) == 2 and all(is_number(value) and value > 0 for value in one)
    ]
    if len(known) > MOST:
        places = sorted({round(i * (len(known) - 1) / (MOST - 1)) for i in range(MOST)})
        known = [known[place] for place in places]
    return tuple(known)
