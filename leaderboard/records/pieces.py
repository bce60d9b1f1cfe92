"""Thousands of records read quickly: parts that many of them share are parsed, checked and sealed once.

`leaderboard.records.record.write` puts every field on lines of its own, indented by one space, and JSON knows no raw
line break inside a text: so a line that starts with one space and a quote starts a field, wherever it comes from.
Cards, tasks and versions repeat from record to record to the letter, and their text is enough to know them again.
Whatever is not laid out like this (or is damaged) is left to the ordinary, slower way, which knows how to complain.
"""

import hashlib
import json
import re
from typing import Any

from ptmbench.leaderboard.records.layout import DEEPEST, check_part, check_values, restore_part

_FIELD = re.compile(r'\n "(\w+)": ')
SHARED = frozenset(("schema", "status", "row", "pretraining", "task", "adaptation", "versions", "commit", "device"))
"""Fields that many records have in common, to the letter."""
_PLAIN = re.compile(r'"[ !#-\[\]-~]*"|null|0|-?[1-9][0-9]{0,17}')
_NOT_FINITE = re.compile(r'"(?:nan|-?inf)"')


def _integer(digits: str) -> int:
    """No float holds more than 308 digits; the caller finds the words for such a number."""
    if len(digits) > 308:
        raise ValueError("too large")
    return int(digits)


_parse = json.JSONDecoder(parse_int=_integer).raw_decode
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


class Pieces:
    """The memory of one loading: {field, text: value, canonical JSON}. Values are shared, so they are not changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Any, str]] = {}

    def body(self, text: str) -> dict[str, Any] | None:
        """The fields of a sealed record, checked one by one and restored; None for all that needs a closer look."""
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
        if _PLAIN.fullmatch(text):  # its own canonical form
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
    except (ValueError, RecursionError):  # damaged, or against the layout: the caller finds the words for it
        return None


def _value(text: str) -> Any:
    value, end = _parse(text)
    if end != len(text):
        raise ValueError(f"more than one value: {text[end : end + 20]}")
    return value
