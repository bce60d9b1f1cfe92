"""Cuts text files into pieces: runs of whole documents.

Cutting is cheap and takes place in one process; the costly work on the pieces is shared among several processes. The
ends of pieces depend only on the files, so that results do not depend on the number of processes. Files may be gzipped,
begin with a byte-order mark, and have any line ends.
"""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from ptmbench.models.text import records
from ptmbench.models.text.layouts import documents, layout, opening

SMALL, RATIO = 2**28, 100
"""A gzip file may unpack to ``SMALL`` bytes, or to ``RATIO`` times its own size. Text reaches a ratio of 3 to 20, a
file made to fill the memory of its reader 1032."""
SUFFIXES = (".txt", ".tokens", ".jsonl", ".pairs.tsv")
"""Endings of the files that are read from a folder, each also with ".gz". The training splits of files of records are
read as well (`models.text.records`). Files that are named one by one may have any ending."""
SIDECAR = ".layers.jsonl"
"""The ending that is added to a text's name for its annotation (`models.text.annotations`)."""
HELD_OUT = "heldout.txt"
"""Held-out text next to the training text (`bench.data.making`). It is not read from a folder."""
VALIDATION = {"wiki.train.tokens": "wiki.valid.tokens"}
"""Held-out text that a distribution has next to its training text, by the name of the training text."""
VECTORS = ("entity2id.txt", "entity2vec.vec")
"""The files of a folder of vectors (`models.text.vectors`), which are not text."""

PIECE = 1 << 24
"""A piece ends at the end of the document that reaches this number of characters. If that document goes on for as many
characters again, it is cut."""

_SHOWN, _BLOCK = 1 << 20, 1 << 16  # characters read to recognise a file's layout; and at a time to find a cut


class CorpusError(ValueError):
    """Text is missing, empty or unreadable. The message names the file, the line and the next step."""


class CorpusUnfit(CorpusError):
    """An objective cannot learn from this kind of text."""


@dataclass(frozen=True)
class Part:
    """Consecutive whole documents of a file."""

    path: Path
    layout: str
    number: int
    """The first line's number in the file, counted from 1."""
    text: bytes
    """UTF-8 with line ends "\\n". A string with a single curly quote would need three times the memory."""

    def documents(self) -> Iterator[list[str]]:
        """Yields documents as lists of sentences, none of them empty.

        Raises `CorpusError` for a line that is not in the layout.
        """
        with readable(self.path):
            for document in documents(self.layout, io.StringIO(self.text.decode()), self.number):
                sentences = [" ".join(sentence.split()) for sentence in document]
                if sentences := [sentence for sentence in sentences if sentence]:
                    yield sentences


def expand(files: Sequence[Path]) -> list[Path]:
    """Replaces each folder in ``files`` by the text files below it, sorted.

    Raises `CorpusError` for a file that does not exist, a sidecar, a folder without text, and an empty list.
    """
    found = []
    for path in map(Path, files):
        if path.is_dir():
            below = sorted(p for p in path.rglob("*") if p.is_file() and _is_text(p.name))
            if not below:
                raise CorpusError(
                    f"The folder {path} holds no text: no file ends in {', '.join(SUFFIXES)}, nor in these with .gz, "
                    f"and there are no training splits of {' or '.join(records.FORMATS)} files."
                )
            found += below
        elif path.name.endswith(SIDECAR):
            raise CorpusError(f"{path} annotates a text. Name the text instead: its annotation is read with it.")
        elif path.is_file():
            found.append(path)
        else:
            raise CorpusError(
                f"There is no corpus file {path}. Check the name; `ptmbench data make DIR` makes a small corpus."
            )
    if not found:
        raise CorpusError("No corpus file was given. Name at least one file or folder.")
    return found


def _is_text(name: str) -> bool:
    return (
        (name.removesuffix(".gz").endswith(SUFFIXES) or records.is_training(name))
        and not name.endswith(SIDECAR)
        and name not in (HELD_OUT, *VECTORS)
    )


def file_hash(path: Path) -> bytes:
    """Returns the SHA-256 of a file. The hash is cached while the file's size and modification time stay the same."""
    with readable(path):
        status = path.stat()
        return _file_hash(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1 << 16)
def _file_hash(path: Path, size: int, changed: int) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def pieces(files: Sequence[Path], size: int | None = None) -> Iterator[list[Part]]:
    """Yields the text of ``files`` in pieces of at least about ``size`` characters (default: `PIECE`).

    Small files share a piece. Raises `CorpusError` for a file that is missing, empty or not UTF-8.
    """
    size = size or PIECE
    piece, held = [], 0
    for path in expand(files):
        for part in _parts(path, size):
            piece.append(part)
            held += len(part.text)
            if held >= size:
                yield piece
                piece, held = [], 0
    if piece:
        yield piece


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Converts the errors of reading ``path`` to `CorpusError`."""
    try:
        yield
    except UnicodeDecodeError as error:
        bad = error.object[error.start]
        raise CorpusError(f"{path} is not UTF-8 text: it holds the byte 0x{bad:02x}. Convert it first.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusError(f"{path} is not a whole gzip file: {error}.") from error
    except OSError as error:
        raise CorpusError(f"Cannot read the corpus file {path}: {error.strerror or error}.") from error
    except CorpusError:
        raise
    except ValueError as error:
        raise CorpusError(f"{path}, {error}") from error


@contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Opens ``path`` for reading bytes. Unpacks gzip files, and converts files of records to lines of JSON.

    Converts the errors of reading to `CorpusError`.
    """
    with readable(path), path.open("rb") as raw:
        if records.is_records(path.name):
            yield records.open_records(raw, path)
            return
        packed = path.suffix == ".gz"
        yield io.BufferedReader(_Unpacked(raw, path.stat().st_size), 2**16) if packed else raw


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a gzip ``file`` of ``size`` bytes. Raises `ValueError` beyond `SMALL` and `RATIO`."""

    def __init__(self, file: IO[bytes], size: int):
        self._gzip, self._room = gzip.GzipFile(fileobj=file), max(SMALL, RATIO * size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        count = self._gzip.readinto(buffer)
        self._room -= count
        if self._room < 0:
            raise ValueError(f"whose gzip stream unpacks to over {RATIO} times its size, is no text. Pack it anew.")
        return count


def _parts(path: Path, size: int) -> Iterator[Part]:
    """Yields the text of ``path`` in parts of about ``size`` characters, which end at the end of a document."""
    empty = True
    with open_unpacked(path) as binary:
        file = io.TextIOWrapper(binary, encoding="utf-8-sig")  # universal line ends, with or without a BOM
        rest = file.readlines(_SHOWN)
        kind, number = layout(path.name, rest), 1
        while rest:
            lines, rest = _cut(kind, rest, file, size)
            text = "".join(lines)
            if text.strip():
                empty = False
                yield Part(path, kind, number, text.encode())
            number += len(lines)
    if empty:
        raise CorpusError(f"The corpus file {path} holds no text. Leave it out, or check how it was made.")


def _cut(kind: str, lines: list[str], file: io.TextIOWrapper, size: int) -> tuple[list[str], list[str]]:
    """Extends ``lines`` from ``file`` up to the first end of a document after ``size`` characters.

    Returns the lines of the part, and the lines that were read beyond its end.
    """
    lines, rest = _split(lines, size)
    if not rest:
        lines += file.readlines(max(1, size - sum(map(len, lines))))
    found, held = opening(kind, rest), sum(map(len, rest))
    while found is None and held < PIECE:
        more = file.readlines(max(_BLOCK, held))  # doubling: `opening` starts from the first line again
        if not more:
            return lines + rest, []
        rest += more
        found, held = opening(kind, rest), held + sum(map(len, more))
    found = found or 0
    return lines + rest[:found], rest[found:]


def _split(lines: list[str], size: int) -> tuple[list[str], list[str]]:
    """Splits ``lines`` after the line that completes ``size`` characters."""
    total = 0
    for count, line in enumerate(lines, 1):
        total += len(line)
        if total >= size:
            return lines[:count], lines[count:]
    return lines, []
