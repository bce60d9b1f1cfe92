"""Reads, checks and writes sidecars: files with the annotations of a text.

A text file ``novel.txt`` may have a sidecar, ``novel.txt.layers.jsonl``, in UTF-8. Its first line is a header:

    {"format": 1, "text_sha256": "9f86...", "layers": ["entities", "languages"], "default": {"languages": "en"}}

- ``text_sha256``: SHA-256 of the text file, so that a sidecar is never used with another text.
- ``default`` (optional): the symbol of all tokens without another annotation, by layer. For ``*.pairs.tsv`` files it
  may be a list of two symbols, for the text and for its translation.
- ``vectors`` (optional): {"entities": "FOLDER"}, a folder with vectors of the layer's symbols (`models.text.vectors`),
  relative to the sidecar's folder. Symbols without a vector are ignored.
- ``pictures`` (optional): {"file": "FILE", "sha256": "5e88..."}, a file of pictures or sounds (`models.text.media`),
  relative to the sidecar's folder, and its SHA-256.

Each further line annotates one line of the text, in ascending order. Lines without annotation are left out:

    {"line": 3, "entities": [[0, 6, "Q64"], [11, 16, "Q1707", "Spree"]], "languages": "de"}

``line`` counts from 1. The value of a layer is a symbol for the whole line, or a list of spans: first character, end
(past the last character), symbol, and optionally the characters, which are compared with the text. Offsets count
characters of the line; in ``*.jsonl`` files, of its "text". Spans of one layer do not overlap. ``picture`` names the
picture of the line's document: {"line": 3, "picture": "beach"}.

In ``*.pairs.tsv`` files the layer ``word_alignments`` says which words of a text and of its translation belong
together, in the Pharaoh format: {"line": 3, "word_alignments": "0-0 1-2"}. Words are what white space divides, counted
from 0. A line with "" has no aligned words; a line without the layer is not annotated.
"""

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ptmbench.models.channels import ALIGNED
from ptmbench.models.text import media, vectors
from ptmbench.models.text.pieces import SIDECAR, CorpusError, file_hash

FORMAT = 1

_NAME = re.compile(r"[a-z][a-z_]*")
_LINK = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")
_NO_LAYERS = ("line", "picture")
"""Keys of a line that are not layers."""


@dataclass(frozen=True)
class Span:
    """Characters ``begin`` to ``end`` (past the last one) of a line, which ``symbol`` annotates."""

    begin: int
    end: int
    symbol: str
    text: str | None = None


@dataclass(frozen=True)
class Line:
    """Line ``number`` of a sidecar: the symbol or the spans of each of its layers, and the name of its ``picture``."""

    number: int
    layers: Mapping[str, str | tuple[Span, ...]]
    picture: str | None = None
    links: tuple[tuple[int, int], ...] | None = None
    """Pairs of aligned words, of the text and of its translation; None for a line without word alignments."""


@dataclass(frozen=True)
class Sidecar:
    """A sidecar in the right format. ``lines`` have the numbers of the text's lines as keys.

    `models.text.annotations.locate_spans` compares the spans with the text.
    """

    path: Path
    layers: tuple[str, ...]
    default: Mapping[str, tuple[str, ...]]
    lines: Mapping[int, Line]
    vectors: Mapping[str, Path]
    pictures: Path | None = None
    """The file of the text's pictures or sounds."""


def sidecar_of(text: Path) -> Path:
    """Returns the path of the sidecar of the file ``text``. The sidecar need not exist."""
    return text.with_name(text.name + SIDECAR)


def companions(text: Path) -> list[Path]:
    """Returns all files with annotations of the file ``text``: its sidecar, and the vectors and pictures in its header.

    Returns [] without a sidecar.
    """
    path = sidecar_of(text)
    if not path.is_file():
        return []
    with path.open("rb") as file:
        first = file.readline()
    head = _object(path, 1, _decoded(path, first))
    found = [file for folder in _folders(path, head.get("vectors")).values() for file in vectors.paths(folder)]
    pictures = _pictures(path, head.get("pictures"))
    return [path, *found, *([pictures] if pictures else [])]


def write(
    text: Path,
    lines: Iterable[tuple[int, Mapping[str, Any]]],
    default: Mapping[str, str | list[str]] | None = None,
    folders: Mapping[str, Path] | None = None,
    pictures: Path | None = None,
) -> Path:
    """Writes the sidecar of the file ``text`` and returns its path.

    ``lines`` are pairs of a line's number, from 1, and its layers, in the format of this module. ``folders`` are the
    folders of vectors by layer; ``pictures`` is a file of pictures. If a line is not in the format, raises
    `CorpusError` and leaves an existing sidecar unchanged.
    """
    rows = [{"line": number, **layers} for number, layers in lines]
    names = sorted({name for row in rows for name in row if name not in _NO_LAYERS} | set(default or {}))
    head: dict[str, Any] = {"format": FORMAT, "text_sha256": _sha256(text), "layers": names}
    head["default"] = dict(default or {})
    path = sidecar_of(text)
    for name, folder in sorted((folders or {}).items()):
        vectors.indices(folder), vectors.width(folder)  # raises errors in these files now
        head.setdefault("vectors", {})[name] = _below(folder, path)
    if pictures is not None:
        head["pictures"] = {"file": _below(pictures, path), "sha256": _sha256(pictures)}
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in (head, *rows)).encode()
    _parsed(text, path, content)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        raise CorpusError(f"Cannot write the annotation {path}: {error.strerror or error}.") from error
    return path


def _below(other: Path, sidecar: Path) -> str:
    return os.path.relpath(other.resolve(), sidecar.resolve().parent)


def read_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Reads the lines of a file in the format of a sidecar without a header, for `write`.

    Raises `CorpusError` for a line that is not a JSON object with a "line".
    """
    found = []
    for number, row in enumerate(_content(path).decode("utf-8", errors="replace").split("\n"), 1):
        if row.strip():
            line = _object(path, number, row)
            if "line" not in line:
                raise CorpusError(f'{path}, line {number}: it has no "line", the number of a line of the text.')
            found.append((line.pop("line"), line))
    return found


def read_alignments(path: Path, text: Path) -> list[tuple[int, dict[str, Any]]]:
    """Reads the word alignments of ``text`` for `write`, from a file in the Pharaoh format.

    Line n of the file belongs to line n of ``text``. Raises `CorpusError` for a damaged line, and if the files have
    different numbers of lines.
    """
    rows, there = _rows(path), len(_rows(text))
    if len(rows) != there:
        raise CorpusError(
            f"{path} has {len(rows)} lines, and {text} has {there}. Align the present text again: line n belongs to "
            "line n."
        )
    for number, row in enumerate(rows, 1):
        _links(path, number, row)
    return [(number, {ALIGNED: " ".join(row.split())}) for number, row in enumerate(rows, 1)]


def _rows(path: Path) -> list[str]:
    """Reads the lines of a file, which may be gzipped."""
    content = _content(path)
    if path.name.endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise CorpusError(f"{path} is not a gzip file, or is damaged. Fetch it again.") from error
    return _decoded(path, content).removesuffix("\n").split("\n")


def read(text: Path) -> Sidecar | None:
    """Reads the sidecar of the file ``text``; None without a sidecar. Raises `CorpusError` for a wrong line."""
    path = sidecar_of(text)
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return _read(text, path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(text: Path, path: Path, changed: int, size: int) -> Sidecar:
    return _parsed(text, path, _content(path))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorpusError(f"Cannot read the annotation {path}: {error.strerror or error}.") from error


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text. Write the annotation in UTF-8.") from error


def _parsed(text: Path, path: Path, content: bytes) -> Sidecar:
    rows = _decoded(path, content).split("\n")
    head = _object(path, 1, rows[0])
    if head.get("format") != FORMAT:
        raise CorpusError(
            f'{path}, line 1: expected {{"format": {FORMAT}, "text_sha256": ..., "layers": [...]}}, found '
            f"{rows[0][:60]!r}. Write this line first."
        )
    if head.get("text_sha256") != _sha256(text):
        raise CorpusError(
            f"{path} annotates another text than {text}: the file's SHA-256 is {_sha256(text)}, and line 1 says "
            f"{head.get('text_sha256')}. Annotate the present text again, or restore the annotated one."
        )
    layers = head.get("layers")
    if not isinstance(layers, list) or not all(isinstance(one, str) and _NAME.fullmatch(one) for one in layers):
        raise CorpusError(f'{path}, line 1: "layers" is a list of names of small letters and "_", not {layers!r:.60}.')
    default = _default(path, head.get("default", {}), layers, text)
    folders = _folders(path, head.get("vectors"))
    if unknown := [name for name in folders if name not in layers]:
        raise CorpusError(f'{path}, line 1: "vectors" names the layer {unknown[0]!r}, which is not among "layers".')
    pictures = _checked_pictures(path, head.get("pictures"))
    known = media.pictures(pictures).numbers if pictures else {}
    lines: dict[int, Line] = {}
    for number, row in enumerate(rows[1:], 2):
        if row.strip():
            place, found = _line(path, number, row, layers)
            picture, links = found.pop("picture", None), found.pop(ALIGNED, None)
            if links is not None and not _paired(text):
                raise CorpusError(
                    f'{path}, line {number}: only *.pairs.tsv files have "{ALIGNED}", and {text.name} is none.'
                )
            if picture is not None and picture not in known:
                where = f"{pictures} has no picture of that name" if pictures else 'line 1 names no file of "pictures"'
                raise CorpusError(f"{path}, line {number}: the picture {picture!r:.60} is unknown: {where}.")
            if lines and place <= next(reversed(lines)):
                raise CorpusError(
                    f"{path}, line {number}: line {place} of the text is out of order. Sort the lines by their number."
                )
            lines[place] = Line(number, found, picture, links)
    return Sidecar(path, tuple(sorted(layers)), default, lines, folders, pictures)


def _pictures(path: Path, given: Any) -> Path | None:
    """Returns the file of pictures that line 1 of the sidecar ``path`` names, or None."""
    if given is None:
        return None
    if not isinstance(given, dict) or not all(isinstance(given.get(name), str) for name in ("file", "sha256")):
        raise CorpusError(f'{path}, line 1: "pictures" has a "file" and its "sha256", not {given!r:.60}.')
    found = path.parent / given["file"]
    if not found.is_file():
        raise CorpusError(f"{path}, line 1: there is no file of pictures {found}. Restore it, or annotate again.")
    return found


def _checked_pictures(path: Path, given: Any) -> Path | None:
    """Returns `_pictures`, and raises `CorpusError` if the file has another SHA-256."""
    found = _pictures(path, given)
    if found is not None and file_hash(found).hex() != given["sha256"]:
        raise CorpusError(
            f"{path}, line 1: the file of pictures {found} is damaged or another one: its SHA-256 is "
            f"{file_hash(found).hex()}, and {given['sha256']:.64} is expected. Restore it, or annotate again."
        )
    return found


def _folders(path: Path, given: Any) -> dict[str, Path]:
    given = {} if given is None else given
    if not isinstance(given, dict) or not all(isinstance(folder, str) and folder for folder in given.values()):
        raise CorpusError(f'{path}, line 1: "vectors" gives layers their folders of vectors, not {given!r:.60}.')
    return {name: path.parent / folder for name, folder in given.items()}


def _object(path: Path, number: int, row: str) -> dict[str, Any]:
    try:
        found = json.loads(row)
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{path}, line {number}: expected a JSON object, found {row[:60]!r}.") from error
    if not isinstance(found, dict):
        raise CorpusError(f"{path}, line {number}: expected a JSON object, found {row[:60]!r}.")
    return found


def _default(path: Path, given: Any, layers: Sequence[str], text: Path) -> dict[str, tuple[str, ...]]:
    found = {}
    for name, value in given.items() if isinstance(given, dict) else [("default", given)]:
        symbols = [value] if isinstance(value, str) else value
        fits = isinstance(symbols, list) and all(isinstance(one, str) for one in symbols) and name != ALIGNED
        if name not in layers or not fits or len(symbols) not in ((1, 2) if _paired(text) else (1,)):
            raise CorpusError(
                f'{path}, line 1: "default" gives a symbol to layers that "layers" lists (two symbols in a *.pairs.tsv '
                f"file), not {value!r:.60} to {name!r}."
            )
        found[name] = tuple(symbols)
    return found


def _line(path: Path, number: int, row: str, layers: Sequence[str]) -> tuple[int, dict[str, Any]]:
    found = _object(path, number, row)
    place = found.pop("line", None)
    if type(place) is not int or place < 1:
        raise CorpusError(
            f'{path}, line {number}: "line" is the number of a line of the text, from 1, not {place!r:.60}.'
        )
    for name, value in found.items():
        if name == "picture":
            if not isinstance(value, str):
                raise CorpusError(f'{path}, line {number}: "picture" is the name of a picture, not {value!r:.60}.')
            continue
        if name not in layers:
            raise CorpusError(f'{path}, line {number}: the layer {name!r} is not among "layers" in line 1.')
        if name == ALIGNED:
            found[name] = _links(path, number, value)
        elif not isinstance(value, str):
            found[name] = _spans(path, number, name, value)
    return place, found


def _paired(text: Path) -> bool:
    return text.name.removesuffix(".gz").endswith(".pairs.tsv")


def _links(path: Path, number: int, value: Any) -> tuple[tuple[int, int], ...]:
    """Parses pairs of words in the Pharaoh format."""
    found = [_LINK.fullmatch(one) for one in value.split()] if isinstance(value, str) else [None]
    if None in found:
        raise CorpusError(
            f'{path}, line {number}: "{ALIGNED}" are pairs of words such as "0-0 1-2", a word of the text and one of '
            f"its translation, counted from 0, not {value!r:.60}."
        )
    return tuple((int(one[1]), int(one[2])) for one in found if one)


def _spans(path: Path, number: int, name: str, value: Any) -> tuple[Span, ...]:
    spans = []
    for one in value if isinstance(value, list) else [value]:
        kinds = [type(part) for part in one] if isinstance(one, list) else []
        if kinds[:3] != [int, int, str] or kinds[3:] not in ([], [str]) or not 0 <= one[0] < one[1]:
            raise CorpusError(
                f"{path}, line {number}: a span of the layer '{name}' is [first character, end, symbol], or these and "
                f"the text, not {one!r:.60}."
            )
        spans.append(Span(*one))
    spans.sort(key=lambda span: span.begin)
    for before, after in zip(spans, spans[1:], strict=False):
        if after.begin < before.end:
            raise CorpusError(
                f"{path}, line {number}: the spans [{before.begin}, {before.end}] and [{after.begin}, {after.end}] of "
                f"the layer '{name}' overlap. Keep one of them, or write the other into a layer of its own."
            )
    return tuple(spans)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
