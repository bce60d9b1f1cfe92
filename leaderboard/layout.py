"""The layout of a record's JSON: what may stand where, and how Python values get there and back. No library."""

import math
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

SCHEMA = 1
STATUSES = ("ok", "failed", "not_applicable", "diverged")
KINDS = ("pretrained", "random", "baseline", "published")
DIVISIONS = ("controlled", "published")
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class LayoutError(ValueError):
    """A value that the layout does not allow; the message names the place."""


def plain(value: Any, place: str) -> Any:
    """``value`` as JSON types: NumPy scalars and tuples converted, non-finite floats as strings."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(part, f"{place}.{name}") for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part, f"{place}[{i}]") for i, part in enumerate(value)]
    raise LayoutError(
        f"A record cannot hold {place}: {type(value).__name__} is no JSON type. Convert it to text or numbers."
    )


def restore(value: Any) -> Any:
    """The inverse for parts that hold numbers only."""
    if isinstance(value, str):
        return _NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {name: restore(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(restore(part) for part in value)
    return value


FIELDS = {"schema", "key", "status", "reason", "row", "pretraining", "task", "adaptation", "seed", "scores"}
FIELDS |= {"cost", "curve", "predictions", "versions", "commit", "device", "command", "finished", "seal"}
_NUMBER = (int, float, "number")
_MAYBE = (*_NUMBER, None)
_TEXT, _TEXT_OR_NULL, _PART, _PART_OR_NULL = (str,), (str, None), (dict,), (dict, None)
_LAYOUT: dict[str, tuple] = {
    "schema": (int,),
    "status": STATUSES,
    "seed": (int,),
    "curve": (list,),
    **dict.fromkeys(("key", "command", "finished"), _TEXT),
    **dict.fromkeys(("commit", "device"), _TEXT_OR_NULL),
    **dict.fromkeys(("row", "task", "adaptation", "scores", "cost", "versions"), _PART),
    **dict.fromkeys(("reason", "pretraining", "predictions", "row.card"), _PART_OR_NULL),
    **dict.fromkeys(("reason.code", "reason.text", "predictions.file", "adaptation.name"), _TEXT),
    **dict.fromkeys(("row.name", "row.label"), _TEXT),
    "row.kind": KINDS,
    "row.size": _TEXT_OR_NULL,
    "row.division": DIVISIONS,
    **dict.fromkeys(("task.name", "task.title", "task.headline"), _TEXT),
    **dict.fromkeys(("task.data_sha256", "task.split"), _TEXT_OR_NULL),
    "task.version": (int,),
    "task.higher_is_better": (bool,),
    "adaptation.settings": _PART,
}
"""Dotted place to the types, or the words, that may stand there; a part that is None has no places below it."""


def restore_numbers(body: dict[str, Any]) -> None:
    """Turn "nan" and its kin into floats wherever a number belongs, and nowhere else: a model may be called nan."""
    body["curve"] = tuple(restore(body["curve"]))
    for part in ("scores", "cost"):
        body[part] = restore(body[part])
    for part, names in (("pretraining", ("steps", "tokens", "flops", "seconds", "loss")), ("task", ("chance",))):
        if body[part]:
            body[part] |= {name: restore(body[part][name]) for name in names if name in body[part]}
    for entry in _reported(body):
        entry["value"] = restore(entry["value"])


def check(body: dict[str, Any]) -> None:
    """`LayoutError` unless the parts that boards rely on have the right types."""
    if unknown := sorted(set(body) - FIELDS):
        raise LayoutError(f"it has the unknown field '{unknown[0]}'. The fields of schema {SCHEMA} are fixed.")
    for place, allowed in _LAYOUT.items():
        above, _, name = place.rpartition(".")
        parent = body.get(above) if above else body
        if parent is not None:
            _expect(parent.get(name, ...), allowed, place)
    if not re.fullmatch(r"[0-9a-f]{12,}", body["key"]):
        raise LayoutError(f"the key must be at least 12 hexadecimal digits, not '{body['key'][:40]}'.")
    for name, score in body["scores"].items():
        for bound, allowed in (("value", _NUMBER), ("low", _MAYBE), ("high", _MAYBE)):
            _expect(score.get(bound, None) if isinstance(score, dict) else ..., allowed, f"scores.{name}.{bound}")
    for entry in _reported(body):
        for name, allowed in (("task", (str,)), ("metric", (str,)), ("value", _NUMBER)):
            _expect(entry.get(name, ...) if isinstance(entry, dict) else ..., allowed, f"row.card.reported.{name}")
    if body["status"] == "ok" and "headline" not in body["scores"]:
        raise LayoutError("a cell that is ok needs a score under 'headline'.")
    if body["status"] != "ok" and not body["reason"]:
        raise LayoutError(f"a cell that is {body['status']} needs a reason with a code and a text.")
    if body["predictions"]:
        file = PurePosixPath(body["predictions"]["file"])
        if file.is_absolute() or ".." in file.parts or "\\" in str(file):
            raise LayoutError(f"the predictions file '{file}' would lie outside the run folder.")


def _reported(body: dict[str, Any]) -> list[dict[str, Any]]:
    reported = (body["row"]["card"] or {}).get("reported")
    if not isinstance(reported, (list, type(None))):
        raise LayoutError("row.card.reported must be a list.")
    return reported or []


def _expect(value: Any, allowed: tuple, place: str) -> None:
    types = tuple(one for one in allowed if isinstance(one, type))
    words = tuple(one for one in allowed if isinstance(one, str) and one != "number")
    if value is None and None in allowed:
        return
    if types and isinstance(value, types) and (bool in types or not isinstance(value, bool)):
        return
    if isinstance(value, str) and (value in words or ("number" in allowed and value in _NON_FINITE)):
        return
    wanted = " or ".join(words or ["number" if "number" in allowed else one.__name__ for one in types][:1])
    found = "nothing" if value is ... else repr(value)[:60]
    raise LayoutError(f"{place} must be {wanted}{' or null' if None in allowed else ''}, found {found}.")
