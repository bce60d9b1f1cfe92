"""Low-level readers that the task files share: lines, tab-separated rows and JSON lines.

The official files come from many sources, so the readers do not guess. Text is UTF-8; a byte order mark is removed. A
line ends only at LF or CRLF: ``str.splitlines`` would also split at U+2028, U+0085 or form feeds inside sentences. Tabs
separate fields, and quotes are ordinary characters: the quoting of the csv module would merge whole rows of STS-B. Gzip
is recognised by its first bytes. Readers of lines are generators and do not hold the file in memory.
"""

import csv
import gzip
import io
import json
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ptmbench.tasks.task import DataError, MissingData

SMALL, RATIO = 2**28, 100
"""A gzip file may unpack to ``SMALL`` bytes, or to ``RATIO`` times its own size if that is more. Text compresses by a
factor of 3 to 20. Deflate reaches 1032 on a file that is made to exhaust the reader's memory."""
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def pick(folder: Path, names: str) -> Path:
    """The first of the "|"-joined ``names`` (an entry of ``Task.files``) that exists in ``folder``."""
    for name in names.split("|"):
        if (folder / name).exists():
            return folder / name
    wanted = names.replace("|", " or ")
    raise MissingData(f"There is no file {wanted} in {folder}. Put the official file there or choose another split.")


def malformed(path: Path, line: int, what: str) -> DataError:
    """The error for a bad line of ``path``: its place, ``what`` is wrong with it, and what to do."""
    return DataError(f"{path}, line {line}: {what} Fetch the official file again, or correct the line.")


def read_unpacked(path: Path) -> bytes:
    """All bytes of a file, plain or gzipped, for parsers that decode text themselves."""
    return b"".join(raw for _, raw in _raw_lines(path, lambda raw: raw))


def lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, text without its line end) for every line of a text file, plain or gzipped.

    ``encoding`` is for official files that are older than UTF-8.
    """
    return _raw_lines(path, lambda raw: raw.decode(encoding).removesuffix("\n").removesuffix("\r"))


def _raw_lines(path: Path, read: Callable[[bytes], Any]) -> Iterator[tuple[int, Any]]:
    """Yields (line number, result of ``read`` for the bytes of the line)."""
    number = 0
    try:
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"  # the magic number of gzip (RFC 1952, section 2.3.1)
            stream = io.BufferedReader(_Unpacked(file, path.stat().st_size), 2**16) if packed else file
            for number, raw in enumerate(stream, start=1):  # noqa: B007 - the handlers below name the line
                if number == 1:
                    raw = raw.removeprefix(b"\xef\xbb\xbf")
                yield number, read(raw)
    except FileNotFoundError as error:
        raise MissingData(
            f"The file {path} is missing. Put the official file there or choose another split."
        ) from error
    except UnicodeDecodeError as error:
        raise malformed(path, number, f"byte {error.start + 1} of the line is not UTF-8 ({error.reason}).") from error
    except _TooLarge as error:
        raise DataError(f"{path}: {error} Fetch the official file again.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise malformed(path, number + 1, f"the gzip stream is damaged or cut short ({error}).") from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror or error}. Check the path and its permissions."
        ) from error


class _TooLarge(ValueError):
    """A gzip file that unpacks to more than a text file can be expected to."""


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a gzip ``file`` of ``size`` bytes. Raises `_TooLarge` beyond the limit of `SMALL` and
    `RATIO`."""

    def __init__(self, file: io.BufferedReader, size: int):
        self._gzip, self._room = gzip.GzipFile(fileobj=file), max(SMALL, RATIO * size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._gzip.readinto(buffer)
        self._room -= count
        if self._room < 0:
            raise _TooLarge(
                f"the gzip stream unpacks to more than {RATIO} times its size, which is too much for a text."
            )
        return count


def fields(text: str) -> list[str]:
    """The parts of ``text`` between spaces and tabs. Unlike ``str.split``, this does not split words at other kinds of
    space, such as a no-break space (U+00A0) or a line separator (U+2028)."""
    return [part for part in text.replace("\t", " ").split(" ") if part]


def rows(
    path: Path, columns: Sequence[str], *, header: bool = True, ragged: str = "refuse"
) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, the values of ``columns`` in the requested order) for every row of a tab-separated file.

    If ``header`` is True, the first line names the columns, and other columns are ignored. Otherwise ``columns`` are
    all columns of the file. Empty lines are skipped. A row with a wrong number of fields raises `DataError`, or is
    skipped if ``ragged`` is "skip", as in the official readers of QQP.
    """
    wanted, width = list(range(len(columns))), len(columns)
    found = None if header else list(columns)
    for number, text in lines(path):
        if not text:
            continue
        fields = text.split("\t")
        if found is None:
            found, width = fields, len(fields)
            lacking = [name for name in columns if name not in found]
            if lacking:
                raise malformed(path, number, f"the header lacks {_listed(lacking)}; it has {_listed(found)}.")
            wanted = [found.index(name) for name in columns]
            continue
        if len(fields) != width:
            if ragged == "skip":
                continue
            raise malformed(
                path, number, f"{len(fields)} tab-separated fields where {width} were expected ({', '.join(found)})."
            )
        yield number, [fields[place] for place in wanted]
    if found is None:
        raise DataError(
            f"{path} is empty: a header with {_listed(columns)} was expected. Fetch the official file again."
        )


def comma_rows(path: Path, width: int) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, fields) for a file of comma-separated values without a header, with ``width`` fields per
    line.

    Inside quoted fields, quotes are doubled. A row never spans several lines: these files write a line feed in a text
    as a backslash and an n, which is converted back here.
    """
    for number, text in lines(path):
        if not text:
            continue
        try:
            (fields,) = csv.reader([text], strict=True)
        except (csv.Error, ValueError) as error:
            raise malformed(path, number, f"these are not comma-separated values ({error}).") from error
        if len(fields) != width:
            raise malformed(path, number, f"{len(fields)} comma-separated fields where {width} were expected.")
        yield number, [field.replace("\\n", "\n") for field in fields]


def json_document(path: Path) -> Any:
    """The content of a file that is one JSON value. Rejects objects with a repeated key, because Python would silently
    keep the last value."""
    text = "\n".join(line for _, line in lines(path))
    try:
        return json.loads(text, object_pairs_hook=without_repeats)
    except json.JSONDecodeError as error:
        raise malformed(path, error.lineno, f"this is not JSON ({error.msg}).") from error
    except RecursionError as error:
        raise malformed(path, 1, "the JSON is nested too deeply.") from error
    except RepeatedKey as error:
        raise DataError(
            f"{path} has the key {str(error)!r:.60} twice in one object; leave only one of them."
        ) from error
    except ValueError as error:  # an integer with too many digits for Python
        raise malformed(path, 1, f"this is not JSON ({error}).") from error


class RepeatedKey(ValueError):
    """A key that a JSON object holds twice."""


def without_repeats(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """An ``object_pairs_hook`` for ``json.loads`` that raises `RepeatedKey` if an object holds a key twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise RepeatedKey(key)
        found[key] = value
    return found


def json_lines(path: Path, *, unique: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, object) for every line of a JSON-lines file. Empty lines are skipped.

    If ``unique`` is True, an object with a repeated key is rejected, because Python would silently keep the last value.
    """
    for number, text in lines(path):
        if not text.strip(" \t\r"):  # white space in JSON
            continue
        try:
            record = json.loads(text, object_pairs_hook=without_repeats if unique else None)
        except RepeatedKey as error:
            raise malformed(path, number, f"the object has the key {str(error)!r:.60} twice.") from error
        except ValueError as error:
            raise malformed(path, number, f"this is not JSON ({error}).") from error
        except RecursionError as error:
            raise malformed(path, number, "the JSON is nested too deeply.") from error
        if not isinstance(record, dict):
            raise malformed(path, number, f"a JSON object was expected, not {type(record).__name__}.")
        yield number, record


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number that a float can hold, unlike true, NaN, Infinity and integers of 400 digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def entry(path: Path, line: int, record: dict[str, Any], key: str, kind: type = str) -> Any:
    """``record[key]``. Raises `DataError` if it is missing or not of type ``kind`` (bool, str, int, list or dict)."""
    value = record.get(key)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        shown = f"is {value!r:.60}" if key in record else "is missing"
        raise malformed(path, line, f'the key "{key}" {shown}; {_KINDS.get(kind, kind.__name__)} was expected.')
    return value


def label(path: Path, line: int, value: str, labels: Sequence[str]) -> str:
    """``value``. Raises `DataError` if it is not one of ``labels``."""
    if value not in labels:
        raise malformed(path, line, f"the label {value!r:.60} is not one of {_listed(labels)}.")
    return value


def label_with_number(path: Path, line: int, value: str, labels: Sequence[str]) -> str:
    """The label with the number ``value``, counted from 1."""
    if value not in map(str, range(1, len(labels) + 1)):
        raise malformed(path, line, f"the class {value!r:.60} is not a number from 1 to {len(labels)}.")
    return labels[int(value) - 1]


def number(path: Path, line: int, value: str, low: float = -math.inf, high: float = math.inf) -> float:
    """Converts ``value`` to a finite float between ``low`` and ``high``.

    Python's ``float`` also accepts "1_0" (as 10), digits of other scripts, and "nan". These are rejected here.
    """
    result = float(value) if _NUMBER.fullmatch(value.strip(" ")) else math.nan
    if not (math.isfinite(result) and low <= result <= high):
        limits = "" if math.isinf(low) and math.isinf(high) else f" from {low:g} to {high:g}"
        raise malformed(path, line, f"{value!r:.60} is not a number{limits}.")
    return result


def mark_word(text: str, start: int, end: int) -> str:
    """Marks the word from ``start`` to ``end`` for an encoder: returns ``text`` with asterisks around these characters.

    Spaces separate the asterisks from the word, so it is tokenized as elsewhere.
    """
    return " ".join(" ".join((text[:start], "*", text[start:end], "*", text[end:])).split())


_KINDS = {bool: "true or false", str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
