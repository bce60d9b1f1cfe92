"""Makes the corpus of a recipe: checks the sources, cleans them, removes repeats, and writes the text and a manifest.

    corpus.txt    text to train on: one paragraph per line, an empty line between documents
    heldout.txt   the whole held-out files in the same form
    recipe.json   the manifest: sources with their SHA-256, amounts of text after each step, novels found twice

``data corpus`` calls `make`. The same sources give the same bytes on every machine. Only one source file is in memory
at a time.

Repeats, which `bench.data.repeats` finds, are removed in this order:

1. A training file is removed if more than half of its words stand in one earlier file.
2. A paragraph is removed if four fifths of its words stand in held-out text or in earlier paragraphs.

A recipe may set both shares (`CorpusRecipe`).
"""

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from filelock import FileLock

from ptmbench.bench.data import cleaning, repeats
from ptmbench.bench.data.recipes import CorpusRecipe, Source
from ptmbench.bench.data.repeats import Counts, Repeats, Words
from ptmbench.bench.data.sums import sum_of
from ptmbench.bench.engine.checkpoint import write_text
from ptmbench.models.text.layouts import layout
from ptmbench.models.text.pieces import HELD_OUT, CorpusError, open_unpacked

CORPUS, MANIFEST = "corpus.txt", "recipe.json"
VERSION = 1
"""Raised whenever the same recipe would give another corpus. Cleaning and repeats have their own versions."""

STEPS = ("distributed", "cleaned", "held out", "found twice", "in held-out text", "repeated", "kept")
"""Steps after which the manifest counts the text of each source. For "distributed", it counts files and lines as
documents and paragraphs."""

_WORK = ".making-"  # prefix of the temporary folder of cleaned files

Document = list[str]


@dataclass
class Amount:
    """The amount of text after a step."""

    documents: int = 0
    paragraphs: int = 0
    words: int = 0
    bytes: int = 0

    def join(self, other: "Amount") -> None:
        """Adds another amount."""
        self.documents += other.documents
        self.paragraphs += other.paragraphs
        self.words += other.words
        self.bytes += other.bytes

    def add(self, document: Sequence[str]) -> None:
        """Adds a document. An empty one adds nothing."""
        self.documents += bool(document)
        self.paragraphs += len(document)
        self.words += sum(len(paragraph.split()) for paragraph in document)
        self.bytes += sum(len(paragraph.encode()) + 1 for paragraph in document) + bool(document)


@dataclass
class File:
    """A source file and its cleaned text."""

    path: str
    source: Source
    held_out: bool
    cleaned: Path
    """File of its documents. The file of the same name that ends in ".words" has the words of each document."""
    read: Amount = field(default_factory=Amount)
    first: int = 0
    """Number of its first paragraph, counted over all files."""

    def documents(self) -> Iterator[Document]:
        """The cleaned documents."""
        with self.cleaned.open(encoding="utf-8") as lines:
            yield from _read_documents(lines)

    def words(self) -> Iterator[Words]:
        """The words of each document."""
        with self.cleaned.with_suffix(".words").open("rb") as file:
            while file.peek(1):
                yield Words(np.load(file), np.load(file))


def make(
    name: str, recipe: CorpusRecipe, data: Path, out: Path, done: Callable[[str], None] = lambda path: None
) -> dict:
    """Makes the corpus of ``recipe`` from the files in ``data``, and writes it to the folder ``out``.

    A corpus that is already there and intact is not made again. ``done`` is called with the path of each file after it
    was cleaned. ``name`` is the recipe's name. Returns the manifest.

    Raises `CorpusError` if a source is missing or changed, or if the result is not the corpus that the recipe states.
    """
    identity = _identity(name, recipe)
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / ".lock"):
        if (found := _read_manifest(out, identity)) is not None:
            return found
        _check(name, recipe, data)
        for leftover in out.glob(f"{_WORK}*"):  # of runs that were killed
            shutil.rmtree(leftover)
        with tempfile.TemporaryDirectory(dir=out, prefix=_WORK) as folder:
            files = _clean(recipe, data, Path(folder), done)
            texts = _write_texts(files, _find_repeats(files), recipe, out)
        sha256 = texts["corpus"]["sha256"]
        if recipe.sha256 and sha256 != recipe.sha256:
            raise CorpusError(
                f"{out / CORPUS} is not version {recipe.version} of the corpus {name}: its SHA-256 is {sha256}, "
                f"expected {recipe.sha256}. After a change of the recipe or of the cleaning, raise the recipe's "
                "version and write the new sum into it; otherwise report this."
            )
        manifest = identity | texts
        write_text(out / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        return manifest


def _identity(name: str, recipe: CorpusRecipe) -> dict[str, Any]:
    """The part of the manifest that determines the corpus."""
    return {
        "recipe": name,
        "version": recipe.version,
        "rules": {
            "making": VERSION,
            "cleaning": cleaning.VERSION,
            "repeats": repeats.VERSION,
            "run_words": repeats.RUN,
            "twice": recipe.twice,
            "repeated": recipe.repeated,
        },
        "sources": [
            {name: getattr(source, name) for name in ("name", "title", "licence", "url")}
            | {"cleaned_by": source.clean.__name__, "files": dict(source.files)}
            for source in recipe.sources
        ],
        "held_out_files": list(recipe.held_out),
    }


def _read_manifest(out: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The manifest in ``out`` if it agrees with ``identity`` and both texts are intact, else None."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        sums = {CORPUS: found["corpus"]["sha256"], HELD_OUT: found["held_out"]["sha256"]}
        if all(found[part] == identity[part] for part in identity) and all(
            sum_of(out / name) == sha256 for name, sha256 in sums.items()
        ):
            return found
    return None


def _check(name: str, recipe: CorpusRecipe, data: Path) -> None:
    """Raises `CorpusError` for the first source file that is missing in ``data`` or has another text."""
    for source in recipe.sources:
        for path, expected in source.files.items():
            file = data / path
            if not file.is_file():
                raise CorpusError(
                    f"The recipe {name} needs {file}, which is missing. It is a file of {source.title}. "
                    f"Get it from {source.url}. docs/corpora.md describes the expected form."
                )
            if (found := _text_sum(file)) != expected:
                raise CorpusError(
                    f"{file} is not the file that version {recipe.version} of the recipe {name} was written for: the "
                    f"SHA-256 of its text is {found}, expected {expected}. Get the file again from {source.url}, "
                    "or write your own recipe for other files (docs/corpora.md)."
                )
    known = {path for source in recipe.sources for path in source.files}
    if unknown := [path for path in recipe.held_out if path not in known]:
        raise CorpusError(
            f"The recipe {name} holds out {unknown[0]}, which is not a file of its sources. Correct held_out in the "
            "recipe."
        )


def _text_sum(file: Path) -> str:
    """The SHA-256 of a file, or of the unpacked content of a gzip file."""
    if file.suffix != ".gz":
        return sum_of(file)
    digest = hashlib.sha256()
    with open_unpacked(file) as unpacked:
        while block := unpacked.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _clean(recipe: CorpusRecipe, data: Path, folder: Path, done: Callable[[str], None]) -> list[File]:
    """Cleans all files of ``recipe`` into ``folder``.

    Returns the held-out files first, then the training files, both in the recipe's order.
    """
    found = [
        File(path, source, path in recipe.held_out, folder / f"{number}.txt")
        for number, (source, path) in enumerate((source, path) for source in recipe.sources for path in source.files)
    ]
    found.sort(key=lambda file: not file.held_out)
    paragraphs = 0
    for file in found:
        file.first = paragraphs
        with (
            open_unpacked(data / file.path) as binary,
            file.cleaned.open("w", encoding="utf-8", newline="\n") as out,
            file.cleaned.with_suffix(".words").open("wb") as kept,
        ):
            file.read.documents = 1
            lines = _count(io.TextIOWrapper(binary, encoding="utf-8-sig"), file.read)
            for document in file.source.clean(lines):
                paragraphs += len(document)
                _write(document, out)
                words = Words.of(document)
                np.save(kept, words.sizes)
                np.save(kept, words.runs)
        done(file.path)
    return found


def _count(lines: Iterable[str], amount: Amount) -> Iterator[str]:
    for line in lines:
        amount.paragraphs += bool(line.strip())
        amount.words += len(line.split())
        amount.bytes += len(line.encode())
        yield line


def _find_repeats(files: Sequence[File]) -> Repeats:
    """The runs of words that occur more than once in ``files``, and where each occurs first."""
    counts = Counts()
    for file in files:
        for words in file.words():
            counts.add(words)
    return Repeats(counts, (words for file in files for words in file.words()))


def _write_texts(files: Sequence[File], found: Repeats, recipe: CorpusRecipe, out: Path) -> dict[str, Any]:
    """Writes both texts. Returns the manifest's part about them."""
    training = next((file.first for file in files if not file.held_out), 0)
    account = {source.name: {step: Amount() for step in STEPS} for source in recipe.sources}
    twice = []
    with _open_text(out / HELD_OUT) as held_out, _open_text(out / CORPUS) as corpus:
        for number, file in enumerate(files):
            steps = account[file.source.name]
            steps["distributed"].join(file.read)
            documents = list(file.documents())
            parts = {"cleaned": documents}
            if file.held_out:
                parts["held out"] = documents
            else:
                words = list(file.words())
                earlier = _find_earlier(words, file.first, found)
                other, share = _find_largest_overlap(files, np.concatenate([*earlier, np.zeros(0, np.int64)]), number)
                if share > recipe.twice:
                    twice.append({"file": file.path, "stands_in": files[other].path, "share": round(share, 4)})
                    parts["found twice"] = documents
                else:
                    parts |= _sort_paragraphs(documents, words, earlier, training, recipe.repeated)
            for step, texts in parts.items():
                for document in texts:
                    steps[step].add(document)
            for step, text in (("held out", held_out), ("kept", corpus)):
                for document in parts.get(step, ()):
                    _write(document, text)
    return {
        "steps": {name: {step: asdict(amount) for step, amount in steps.items()} for name, steps in account.items()},
        "found_twice": twice,
        "held_out": _describe(out / HELD_OUT, [steps["held out"] for steps in account.values()]),
        "corpus": _describe(out / CORPUS, [steps["kept"] for steps in account.values()]),
    }


def _find_earlier(documents: Sequence[Words], first: int, found: Repeats) -> list[np.ndarray]:
    """`Repeats.earlier_paragraphs` for each document of a file, whose first paragraph has the number ``first``."""
    earlier = []
    for words in documents:
        earlier.append(found.earlier_paragraphs(words, first))
        first += len(words.sizes)
    return earlier


def _find_largest_overlap(files: Sequence[File], earlier: np.ndarray, own: int) -> tuple[int, float]:
    """The earlier file that shares most words with the file numbered ``own``, and the share of these words."""
    begins = np.array([file.first for file in files])
    inside = np.searchsorted(begins, earlier[earlier >= 0], side="right") - 1
    words = np.bincount(inside[inside != own], minlength=len(files))
    return int(words.argmax()), float(words.max() / max(1, len(earlier)))


def _sort_paragraphs(
    documents: Sequence[Document], words: Sequence[Words], earlier: Sequence[np.ndarray], training: int, most: float
) -> dict[str, list[Document]]:
    """Sorts the paragraphs of a file's ``documents`` into "in held-out text", "repeated" and "kept".

    Paragraphs with a number below ``training`` are held out. A paragraph is removed if at least the share ``most`` of
    its words is repeated.
    """
    parts: dict[str, list[Document]] = {"in held-out text": [], "repeated": [], "kept": []}
    for document, one, sources in zip(documents, words, earlier, strict=True):
        sizes = one.sizes
        owners = np.repeat(np.arange(len(document)), sizes)
        held, again = (
            np.bincount(owners, weights=known, minlength=len(document)) >= np.maximum(most * sizes, 1)
            for known in ((sources >= 0) & (sources < training), sources >= 0)
        )
        for name, chosen in (("in held-out text", held), ("repeated", again & ~held), ("kept", ~held & ~again)):
            parts[name].append([document[place] for place in np.flatnonzero(chosen)])
    return parts


def _describe(path: Path, amounts: Iterable[Amount]) -> dict[str, Any]:
    """The manifest's entry for the text at ``path``. Raises `CorpusError` if it would be read in another layout."""
    whole = Amount()
    for amount in amounts:
        whole.join(amount)
    with path.open(encoding="utf-8") as text:
        found = layout(path.name, text.readlines(1 << 20))
    if whole.words and found != "plain":
        raise CorpusError(
            f"{path} would be read in the layout '{found}'; expected: one paragraph per line. Report this."
        )
    return {"file": path.name, "sha256": sum_of(path), **asdict(whole)}


def _read_documents(lines: Iterable[str]) -> Iterator[Document]:
    document: Document = []
    for line in lines:
        if line != "\n":
            document.append(line[:-1])
        else:
            yield document
            document = []


def _write(document: Document, out: TextIO) -> None:
    if document:
        out.write("".join(f"{paragraph}\n" for paragraph in document) + "\n")


@contextmanager
def _open_text(path: Path) -> Iterator[TextIO]:
    """Opens a text file for writing. It gets the name ``path`` only when it is complete."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with fresh.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
