"""Readers for pairs of files whose lines correspond, for translation and headline generation."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from ptmbench.tasks.files import lines
from ptmbench.tasks.task import DataError, UnknownTask

Numbered = Iterator[tuple[int, str]]


def read_parallel(ours: Path, theirs: Path) -> Iterator[tuple[str, str]]:
    """Yields line n of ``ours`` with line n of ``theirs``, plain or gzipped. `DataError` if their lengths differ."""
    yield from zip_lines(ours, lines(ours), theirs, lines(theirs))


def zip_lines(ours: Path, left: Numbered, theirs: Path, right: Numbered) -> Iterator[tuple[str, str]]:
    """Yields the texts of ``left`` and ``right`` in pairs. ``ours`` and ``theirs`` are their files, for the error
    message."""
    for index, (row, other) in enumerate(zip_longest(left, right)):
        if row is None or other is None:
            raise DataError(
                f"{ours if row is None else theirs} ends after line {index}, the other language goes on: "
                "the lines of a pair must match one to one. Copy both files from the same release."
            )
        yield row[1], other[1]


def languages(title: str, pair: str, example: str) -> tuple[str, str]:
    """The source and target language of a ``pair`` such as "de-en". Raises `UnknownTask`, with ``example`` as a valid
    name, if ``pair`` is not of this form."""
    codes = re.fullmatch(r"([a-z]{2,3})-([a-z]{2,3})", pair)
    if not codes or codes[1] == codes[2]:
        raise UnknownTask(f"{title} has no pair '{pair}'. Write source and target as language codes: {example}.")
    return codes[1], codes[2]
