"""Reads thousands of records quickly: parts that many records share are parsed, checked and sealed once.

`leaderboard.records.record.write` puts every field on lines of its own, indented by one space, and JSON texts have no
raw line breaks. So a line that starts with one space and a quote always starts a field. Cards, tasks and versions are
repeated literally from record to record, so their text identifies them. A text with another layout, or a damaged one,
is left to the slower parser, which reports the errors.
"""

import hashlib
import json
import re
from typing import Any

from ptmbench.leaderboard.records.layout import DEEPEST, check_part, check_values, restore_part

_FIELD = re.compile(r'\n "(\w+)": ')
SHARED = frozenset(("schema", "status", "row", "pretraining", "task", "adaptation", "versions", "commit", "device"))
"""Fields that many records share literally."""
_PLAIN = re.compile(r'"[ !#-\[\]-~]*"|null|0|-?[1-9][0-9]{0,17}')
_NOT_FINITE = re.compile(r'"(?:nan|-?inf)"')


def _integer(digits: str) -> int:
    """Parses an integer of at most 308 digits, which fits a float. Raises `ValueError` for a longer one; the caller
    words the error."""
    if len(digits) > 308:
        raise ValueError("too large")
    return int(digits)


_parse = json.JSONDecoder(parse_int=_integer).raw_decode
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


class Pieces:
    """A cache for one loading: {(field, text): (value, canonical JSON)}. The values are shared, so they must not be
    changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Any, str]] = {}

    def body(self, text: str) -> dict[str, Any] | None:
        """Returns the fields of a sealed record, checked one by one and restored; None for a text that needs the slower
        parser."""
        found = _FIELD.split(text)
        if len(found) < 3 or found[0] != "{" or not found[-1].endswith("\n}\n"):
            return None
        names, values = found[1::2], found[2::2]
        values[-1] = values[-1][:-3] + ","
        body, canonical = {}, {}
        for name, value in zip(names, values, strict=True):
            if name in body or not value.endswith(","):
                return None
            piece = self._known.get((name, value))
            if piece is None and (piece := _piece(name, value)) is None:
                return None
            if name in SHARED:
                self._known[name, value] = piece
            body[name], canonical[name] = piece
        sealed = ",".join(f'"{name}":{canonical[name]}' for name in sorted(canonical) if name != "seal")
        return body if hashlib.sha256(f"{{{sealed}}}".encode()).hexdigest() == body.get("seal") else None


def _piece(name: str, text: str) -> tuple[Any, str] | None:
    text = text[:-1]
    try:
        if _PLAIN.fullmatch(text):  # the text is already canonical
            value = text[1:-1] if text[0] == '"' else None if text == "null" else int(text)
            check_part(name, value)
            return value, text
        value = _value(text)
        if text.count("[") + text.count("{") > DEEPEST:
            check_values(value, name)
        check_part(name, value)
        canonical = _canonical(value)
        finite = name != "curve" and not _NOT_FINITE.search(text)
        return value if finite else restore_part(name, value), canonical
    except (ValueError, RecursionError):  # damaged, or breaks the layout: the caller words the error
        return None


def _value(text: str) -> Any:
    value, end = _parse(text)
    if end != len(text):
        raise ValueError(f"more than one value: {text[end : end + 20]}")
    return value
