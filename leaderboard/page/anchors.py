"""Anchors of rows and columns on the page. They do not depend on other rows or tasks, unless names collide."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ptmbench.leaderboard.records.record import slug
from ptmbench.leaderboard.scores.grid import Column, Row

_Named = TypeVar("_Named", Row, Column)


def row_anchors(rows: Iterable[Row]) -> dict[Row, str]:
    """Returns an anchor such as "row-bert-tiny-random-finetune" for each row."""
    return _distinct(
        {row: (row.label, row.size, _weights(row), row.adaptation, row.part) for row in rows},
        "row",
        {row: (row.name, row.label, row.size, row.kind, row.division, row.adaptation, row.part) for row in rows},
    )


def column_anchors(columns: Iterable[Column]) -> dict[Column, str]:
    """Returns an anchor such as "task-cola" for each column."""
    words = {column: (column.task["name"], column.part) for column in columns}
    return _distinct(words, "task", words)


def _weights(row: Row) -> str:
    return "" if row.kind == "pretrained" else row.kind


def _distinct(
    words: Mapping[_Named, tuple[str, ...]], prefix: str, identity: Mapping[_Named, tuple[str, ...]]
) -> dict[_Named, str]:
    """Returns slugs of ``words``. If several are the same, each gets the first digits of the hash of its
    ``identity``."""
    names = {one: "-".join([prefix, *(slug(part) for part in parts if part)]) for one, parts in words.items()}
    counts = Counter(names.values())
    return {
        one: name if counts[name] == 1 else f"{name}-{hashlib.sha256(ascii(identity[one]).encode()).hexdigest()[:8]}"
        for one, name in names.items()
    }
