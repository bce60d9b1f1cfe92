"""Text files to pieces: runs of whole documents that are cut cheaply here and read (dearly) wherever there is a core.

Where pieces end follows from the files alone, so that whatever is made of them does not depend on who makes it.
Files may be gzipped, begin with a byte-order mark and end their lines in any way. No TensorFlow.
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
"""A gzip file may unpack to ``SMALL`` bytes, or to ``RATIO`` times its own size: deflate reaches 1032 on a file made to
fill the memory of its reader, text 3 to 20."""
SUFFIXES = (".txt", ".tokens", ".jsonl", ".pairs.tsv")
"""What is read from a folder, each also with ".gz", besides the training splits of files of records
(`models.text.records`); files that are named one by one may end as they like."""
SIDECAR = ".layers.jsonl"
"""What the name of a text's annotation adds to the text's (`models.text.annotations`)."""
HELD_OUT = "heldout.txt"
"""Text for measuring, which is not read from a folder: it lies next to the text that models train on
(`bench.data.making`)."""
VALIDATION = {"wiki.train.tokens": "wiki.valid.tokens"}
"""Text for measuring that a distribution keeps next to its training text, under another name."""
VECTORS = ("entity2id.txt", "entity2vec.vec")
"""The files of a folder of vectors (`models.text.vectors`), which are no text."""

PIECE = 1 << 24
"""Characters after which a piece ends with its document. A document that goes on for as many again is cut there."""

_SHOWN, _BLOCK = 1 << 20, 1 << 16  # characters that show a file's layout; that are read at a time to find a cut


class CorpusError(ValueError):
    """Text that is missing, empty or unreadable; the message names the file, the line and the next step."""


class CorpusUnfit(CorpusError):
    """Text of a kind that an objective cannot learn from."""


@dataclass(frozen=True)
class Part:
    """Whole documents that stand together in a file."""

    path: Path
    layout: str
    number: int
    """Of the first line in the file, counted from 1."""
    text: bytes
    """UTF-8, line ends "\\n": a third of what a string with one curly quote takes."""

    def documents(self) -> Iterator[list[str]]:
        """Documents as lists of sentences, none of them empty; `CorpusError` for a line that is not in the layout."""
        with readable(self.path):
            for document in documents(self.layout, io.StringIO(self.text.decode()), self.number):
                sentences = [" ".join(sentence.split()) for sentence in document]
                if sentences := [sentence for sentence in sentences if sentence]:
                    yield sentences


def expand(files: Sequence[Path]) -> list[Path]:
    """``files``, each folder replaced by the text files below it, sorted; `CorpusError` where there is nothing."""
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
    """SHA-256 of a file; remembered while its size and time stay as they are."""
    with readable(path):
        status = path.stat()
        return _file_hash(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1 << 16)
def _file_hash(path: Path, size: int, changed: int) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def pieces(files: Sequence[Path], size: int | None = None) -> Iterator[list[Part]]:
    """The text of ``files`` in pieces of about ``size`` characters (`PIECE`), or some more.

    Small files share a piece. `CorpusError` for a file that is missing, empty or not UTF-8.
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
    """Turns what reading ``path`` can raise into a `CorpusError`."""
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
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of ``path``; of a gzip file what it unpacks to, and of a file of records lines of JSON. `CorpusError`
    for what reading can raise."""
    with readable(path), path.open("rb") as raw:
        if records.is_records(path.name):
            yield records.opened(raw, path)
            return
        packed = path.suffix == ".gz"
        yield io.BufferedReader(_Unpacked(raw, path.stat().st_size), 2**16) if packed else raw


class _Unpacked(io.RawIOBase):
    """The bytes that a gzip ``file`` of ``size`` bytes unpacks to; `ValueError` beyond `SMALL` and `RATIO`."""

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
    """The text of ``path``: parts of about ``size`` characters, each of which ends where a document does."""
    empty = True
    with opened(path) as binary:
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
    """``lines`` and more of ``file`` up to where a document ends after ``size`` characters; what was read beyond."""
    lines, rest = _split(lines, size)
    if not rest:
        lines += file.readlines(max(1, size - sum(map(len, lines))))
    found, held = opening(kind, rest), sum(map(len, rest))
    while found is None and held < PIECE:
        more = file.readlines(max(_BLOCK, held))  # twice as much each time: lines are not looked at over and over
        if not more:
            return lines + rest, []
        rest += more
        found, held = opening(kind, rest), held + sum(map(len, more))
    found = found or 0
    return lines + rest[:found], rest[found:]


def _split(lines: list[str], size: int) -> tuple[list[str], list[str]]:
    """``lines`` before and behind the line that makes up ``size`` characters."""
    total = 0
    for count, line in enumerate(lines, 1):
        total += len(line)
        if total >= size:
            return lines[:count], lines[count:]
    return lines, []
