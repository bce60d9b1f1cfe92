"""The layout of a record's JSON: the fields and their types, and the conversion of Python values to JSON and back."""

import math
import re
import sys
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

SCHEMA = 1
STATUSES = ("ok", "failed", "not_applicable", "diverged")
KINDS = ("pretrained", "random", "baseline", "published", "external")
DIVISIONS = ("controlled", "published", "external")
_LARGEST = 2**63
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class LayoutError(ValueError):
    """Raised for a value that the layout does not allow; the message names the place."""


def is_number(value: Any) -> bool:
    """Whether ``value`` is usable as a number: finite, not a bool, and not too large."""
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < _LARGEST)


def plain(value: Any, place: str) -> Any:
    """Converts ``value`` to JSON types, NumPy scalars and tuples included. Non-finite floats become strings. Raises
    `LayoutError` for other types."""
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
        f"A record cannot hold {place}: {type(value).__name__} is not a JSON type. Convert it to text or numbers."
    )


def restore(value: Any) -> Any:
    """The inverse of `plain`, for parts that hold only numbers."""
    if isinstance(value, str):
        return _NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {name: restore(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(restore(part) for part in value)
    return value


AUXILIARY = ("auxiliary", "beside")
"""Names of the part of a record's "task" about auxiliary tasks: the current name, and an older one."""

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
    **dict.fromkeys(("reason.code", "reason.text", "predictions.file", "predictions.sha256", "adaptation.name"), _TEXT),
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
"""{dotted place: allowed types or words}. If a part is None, the places below it are not checked."""
_PLACES: dict[str, list[tuple[str, tuple[str, ...], tuple]]] = {}
for _place, _allowed in _LAYOUT.items():
    _field, *_above = _place.split(".")
    _PLACES.setdefault(_field, []).append((_place, tuple(_above), _allowed))
_REQUIRED = frozenset(_PLACES)


_PRETRAINING = (("tokenizer", _PART_OR_NULL), ("corpus_sha256", _TEXT_OR_NULL), ("weights_sha256", _TEXT_OR_NULL))
_PRETRAINING += (("tokens", _MAYBE), ("base", _PART_OR_NULL), ("teacher", _PART_OR_NULL))
_PRETRAINING += (("including", _PART_OR_NULL), ("budget", _PART_OR_NULL), ("tuning", _PART_OR_NULL))
"""Parts that distinguish pre-trainings, each if it is known. "budget" is the requested budget by unit, "base" the
pre-training that was continued, and "teacher" the one that it learnt from. "including" is its cost with the cost of all
before it, "tuning" the trials that chose its recipe."""


def restore_part(name: str, value: Any) -> Any:
    """Returns the field ``name`` with "nan", "inf" and "-inf" as floats in the places of numbers only: a model may be
    called nan."""
    if name == "curve":
        return tuple(restore(value))
    if name in ("scores", "cost"):
        return restore(value)
    if name in _NUMBERS and value:
        return value | {one: restore(value[one]) for one in _NUMBERS[name] if one in value}
    if name == "row" and (value["card"] or {}).get("reported"):
        reported = [entry | {"value": restore(entry["value"])} for entry in value["card"]["reported"]]
        return value | {"card": value["card"] | {"reported": reported}}
    return value


_NUMBERS = {"pretraining": ("steps", "tokens", "flops", "seconds", "loss"), "task": ("chance",)}


DEEPEST = 32
"""Most levels of nesting in a field; a real record has five."""


def check_values(value: Any, place: str, depth: int = 0) -> None:
    """Raises `LayoutError` if a number in ``value`` is too large or not finite, or if it nests more than `DEEPEST`
    levels."""
    if depth > DEEPEST:
        raise LayoutError(f"{place[:80]} is nested more than {DEEPEST} levels deep.")
    if isinstance(value, dict):
        for name, part in value.items():
            check_values(part, f"{place}.{name}"[:200], depth + 1)
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            check_values(part, f"{place}[{i}]"[:200], depth + 1)
    elif isinstance(value, int) and abs(value) > sys.float_info.max:
        raise LayoutError(f"{place} is larger than the largest number that can be used.")
    elif isinstance(value, float) and not math.isfinite(value):
        raise LayoutError(f"{place} is {value}, which JSON has no number for.")


def check(body: dict[str, Any]) -> None:
    """Raises `LayoutError` unless the parts that boards rely on have the right types."""
    for name, value in body.items():
        check_values(value, name)
    for name in sorted(set(body) - FIELDS) or sorted(_REQUIRED):
        check_part(name, body.get(name, ...))
    check_whole(body)


def check_part(name: str, value: Any) -> None:
    """Raises `LayoutError` unless ``value`` is allowed in the field ``name``."""
    if name not in FIELDS:
        raise LayoutError(f"it has the unknown field '{name}'. The fields of schema {SCHEMA} are fixed.")
    for place, above, allowed in _PLACES.get(name, ()):
        part: Any = value
        for one in above[:-1]:
            part = part and part.get(one)
        if not above:
            _expect(part, allowed, place)
        elif part is not None:
            _expect(part.get(above[-1], ...), allowed, place)
    if name == "schema" and value != SCHEMA:
        raise LayoutError(f"schema must be {SCHEMA}, found {value}.")
    if further := _FURTHER.get(name):
        further(value)


def check_whole(body: dict[str, Any]) -> None:
    """Raises `LayoutError` unless all required fields are there and agree with each other."""
    if lacking := _REQUIRED - body.keys():
        check_part(min(lacking), ...)
    if body["status"] == "ok" and "headline" not in body["scores"]:
        raise LayoutError("a cell that is ok needs a score under 'headline'.")
    if body["status"] != "ok" and not body["reason"]:
        raise LayoutError(f"a cell that is {body['status']} needs a reason with a code and a text.")


def _check_key(key: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{12,}", key):
        raise LayoutError(f"the key must be at least 12 hexadecimal digits, not '{key[:40]}'.")


def _check_row(row: dict[str, Any]) -> None:
    _check_tokenizer(row.get("tokenizer"), "row")
    _expect(row.get("planned"), _PART_OR_NULL, "row.planned")
    _check_pretraining(row.get("planned"), "row.planned")
    external = row.get("external")
    _expect(external, _PART_OR_NULL, "row.external")
    _expect((external or {}).get("declared"), _PART_OR_NULL, "row.external.declared")
    extensions = (row["card"] or {}).get("extensions")
    _expect(extensions, (list, None), "row.card.extensions")
    for one in extensions or ():
        _expect(one, (str, bool, int, float, None), "row.card.extensions")
    for entry in _reported(row):
        for one, allowed in (("task", (str,)), ("metric", (str,)), ("value", _NUMBER)):
            found = entry.get(one, ...) if isinstance(entry, dict) else ...
            _expect(found, allowed, f"row.card.reported.{one}")


def _check_pretraining(made: dict[str, Any] | None, place: str = "pretraining") -> None:
    for one, allowed in _PRETRAINING if made else ():
        _expect(made.get(one), allowed, f"{place}.{one}")
    _check_tokenizer((made or {}).get("tokenizer"), place)


def _check_tokenizer(tokenizer: Any, place: str) -> None:
    _expect(tokenizer, _PART_OR_NULL, f"{place}.tokenizer")
    _expect((tokenizer or {}).get("sha256"), _TEXT_OR_NULL, f"{place}.tokenizer.sha256")


def _check_adaptation(adaptation: dict[str, Any]) -> None:
    _expect(adaptation.get("version", 1), (int,), "adaptation.version")
    _expect(adaptation.get("tuning"), _PART_OR_NULL, "adaptation.tuning")
    transform = adaptation.get("transform")
    _expect(transform, _PART_OR_NULL, "adaptation.transform")
    for one, allowed in (*_TRANSFORM, *_LABELS) if transform else ():
        _expect(transform.get(one), allowed, f"adaptation.transform.{one}")
    before = (transform or {}).get("before")
    _expect(before, (list, None), "adaptation.transform.before")
    for entry in before or ():
        _expect(entry, _PART, "adaptation.transform.before")
        for one, allowed in _TRANSFORM:
            _expect(entry.get(one), allowed, f"adaptation.transform.before.{one}")
    for model, made in _named_parts(adaptation.get("neighbours"), "adaptation.neighbours"):
        _check_pretraining(made, f"adaptation.neighbours.{model}")


def _named_parts(value: Any, place: str) -> list[tuple[str, dict[str, Any]]]:
    """Returns the entries of an optional part, each of which must be a part itself."""
    _expect(value, _PART_OR_NULL, place)
    for name, part in (value or {}).items():
        _expect(part, _PART, f"{place}.{name}")
    return list((value or {}).items())


def _check_task(task: dict[str, Any]) -> None:
    for one, allowed in (("examples", (int, float, None)), ("chance", _MAYBE)):
        _check_number(task.get(one), allowed, f"task.{one}")
    for one in AUXILIARY:
        _named_parts(task.get(one), f"task.{one}")
    condition = task.get("condition")
    _expect(condition, _PART_OR_NULL, "task.condition")
    for one, allowed in (("name", _TEXT), ("settings", _PART), ("version", (int,))) if condition else ():
        _expect(condition.get(one), allowed, f"task.condition.{one}")
    overlap = task.get("overlap")
    _expect(overlap, _PART_OR_NULL, "task.overlap")
    for one in ("report", "train", "corpus") if overlap else ():
        _expect(overlap.get(one), _PART_OR_NULL, f"task.overlap.{one}")
        for name, value in (overlap.get(one) or {}).items():
            _expect(value, _TEXT if name == "unknown" else (int, None), f"task.overlap.{one}.{name}")


_TRANSFORM = (("name", _TEXT), ("settings", _PART), ("version", (int,)))
_LABELS = (("label", _TEXT), ("compression", _TEXT))
_LONGEST_NAME = 255  # bytes, on the usual file systems


def _check_predictions(predictions: dict[str, Any] | None) -> None:
    file = PurePosixPath(predictions["file"] if predictions else "")
    if file.is_absolute() or ".." in file.parts or "\\" in str(file):
        raise LayoutError(f"the predictions file '{str(file)[:80]}' would lie outside the run folder.")
    if any(len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME for part in file.parts):
        raise LayoutError(f"predictions.file '{str(file)[:40]}...' is too long for the name of a file.")


def _check_scores(scores: dict[str, Any]) -> None:
    for name, score in scores.items():
        if not isinstance(score, dict):
            _expect(..., _NUMBER, f"scores.{name}.value")
        for bound, allowed in (("value", _NUMBER), ("low", _MAYBE), ("high", _MAYBE)):
            if type(found := score.get(bound)) is not float:
                _check_number(found, allowed, f"scores.{name}.{bound}")


def _check_curve(curve: list[Any]) -> None:
    for i, point in enumerate(curve):
        if type(point) is not dict:
            _expect(point, _PART, f"curve[{i}]")


_FURTHER = {
    "curve": _check_curve,
    "key": _check_key,
    "row": _check_row,
    "adaptation": _check_adaptation,
    "pretraining": _check_pretraining,
    "task": _check_task,
    "scores": _check_scores,
    "predictions": _check_predictions,
}
"""Checks of a field that `_PLACES` cannot express."""


def _check_number(value: Any, allowed: tuple, place: str) -> None:
    _expect(value, allowed, place)
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise LayoutError(f"{place} is larger than the largest number that can be used.")


def _reported(row: dict[str, Any]) -> list[dict[str, Any]]:
    reported = (row["card"] or {}).get("reported")
    if not isinstance(reported, (list, type(None))):
        raise LayoutError("row.card.reported must be a list.")
    return reported or []


def _expect(value: Any, allowed: tuple, place: str) -> None:
    if type(value) in allowed:  # nearly always; the rest handles subclasses, words and errors
        return
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
