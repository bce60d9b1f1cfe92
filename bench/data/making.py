"""Makes the corpus of a recipe: checks the sources, cleans them, takes out repeats, and writes text and manifest.

    corpus.txt    what models train on: a paragraph a line, an empty line between documents
    heldout.txt   held-out files in the same form, complete
    recipe.json   where every byte comes from: sources with their sums, what each step left, which novels came twice

``data corpus`` calls `make`. The same sources give the same bytes on every machine; one file of the sources is in
memory at a time. `bench.data.repeats` finds repeats, in this order: a training file that stands in an earlier one to
more than half goes; then each paragraph goes of which four fifths stand in held-out text or in an earlier paragraph.
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
from ptmbench.models.text.pieces import HELD_OUT, CorpusError, opened

CORPUS, MANIFEST = "corpus.txt", "recipe.json"
VERSION = 1
"""Raised whenever the same recipe would give another corpus; cleaning and repeats have versions of their own."""

STEPS = ("distributed", "cleaned", "held out", "found twice", "in held-out text", "repeated", "kept")
"""What the manifest counts for each source. Of "distributed", documents are files and paragraphs lines."""

_WORK = ".making-"  # begins the name of the folder of cleaned files

Document = list[str]


@dataclass
class Amount:
    """How much text there is after a step."""

    documents: int = 0
    paragraphs: int = 0
    words: int = 0
    bytes: int = 0

    def join(self, other: "Amount") -> None:
        """Add another amount."""
        self.documents += other.documents
        self.paragraphs += other.paragraphs
        self.words += other.words
        self.bytes += other.bytes

    def add(self, document: Sequence[str]) -> None:
        """Count a document, which may be empty."""
        self.documents += bool(document)
        self.paragraphs += len(document)
        self.words += sum(len(paragraph.split()) for paragraph in document)
        self.bytes += sum(len(paragraph.encode()) + 1 for paragraph in document) + bool(document)


@dataclass
class File:
    """One file of the sources on its way into the corpus."""

    path: str
    source: Source
    held_out: bool
    cleaned: Path
    """Its documents; beside them, with ".words", the words of each."""
    read: Amount = field(default_factory=Amount)
    first: int = 0
    """The number of its first paragraph among those of all files."""

    def documents(self) -> Iterator[Document]:
        """The cleaned documents."""
        with self.cleaned.open(encoding="utf-8") as lines:
            yield from _documents(lines)

    def words(self) -> Iterator[Words]:
        """The words of each document."""
        with self.cleaned.with_suffix(".words").open("rb") as file:
            while file.peek(1):
                yield Words(np.load(file), np.load(file))


def make(
    name: str, recipe: CorpusRecipe, data: Path, out: Path, done: Callable[[str], None] = lambda path: None
) -> dict:
    """Make the corpus of ``recipe``, called ``name``, from the files in ``data`` in the folder ``out``.

    Returns the manifest. What is there and intact is not made again. ``done`` gets the path of each file that was
    cleaned. `CorpusError` for sources that are missing or changed, and where another corpus comes out than the recipe
    says.
    """
    asked = _identity(name, recipe)
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / ".lock"):
        if (found := _made(out, asked)) is not None:
            return found
        _check(name, recipe, data)
        for left in out.glob(f"{_WORK}*"):  # by one that was killed
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(dir=out, prefix=_WORK) as folder:
            files = _cleaned(recipe, data, Path(folder), done)
            told = _written(files, _repeats(files), recipe, out)
        sha256 = told["corpus"]["sha256"]
        if recipe.sha256 and sha256 != recipe.sha256:
            raise CorpusError(
                f"{out / CORPUS} is not version {recipe.version} of the corpus {name}: its SHA-256 is {sha256}, "
                f"expected was {recipe.sha256}. After a change of the recipe or of the cleaning, raise the recipe's "
                "version and write the new sum into it; otherwise report this."
            )
        manifest = asked | told
        write_text(out / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        return manifest


def _identity(name: str, recipe: CorpusRecipe) -> dict[str, Any]:
    """What decides the corpus, as the manifest says it."""
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


def _made(out: Path, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """The manifest in ``out``, where the corpus that is ``asked`` for lies there, whole."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        sums = {CORPUS: found["corpus"]["sha256"], HELD_OUT: found["held_out"]["sha256"]}
        if all(found[part] == asked[part] for part in asked) and all(
            sum_of(out / name) == sha256 for name, sha256 in sums.items()
        ):
            return found
    return None


def _check(name: str, recipe: CorpusRecipe, data: Path) -> None:
    """`CorpusError` for the first file of the sources that is missing in ``data`` or has other text."""
    for source in recipe.sources:
        for path, expected in source.files.items():
            file = data / path
            if not file.is_file():
                raise CorpusError(
                    f"The recipe {name} needs {file}, which is missing: a file of {source.title}. See {source.url}, "
                    "and docs/corpora.md for the form in which it is expected."
                )
            if (found := _text_sum(file)) != expected:
                raise CorpusError(
                    f"{file} is not the file that version {recipe.version} of the recipe {name} was written for: the "
                    f"SHA-256 of its text is {found}, expected was {expected}. Get the file anew from {source.url}, "
                    "or write a recipe of your own for other files (docs/corpora.md)."
                )
    known = {path for source in recipe.sources for path in source.files}
    if unknown := [path for path in recipe.held_out if path not in known]:
        raise CorpusError(f"The recipe {name} holds out {unknown[0]}, which is no file of its sources. Correct it.")


def _text_sum(file: Path) -> str:
    """The SHA-256 of a file or, of a gzip file, of what it unpacks to."""
    if file.suffix != ".gz":
        return sum_of(file)
    digest = hashlib.sha256()
    with opened(file) as unpacked:
        while block := unpacked.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _cleaned(recipe: CorpusRecipe, data: Path, folder: Path, done: Callable[[str], None]) -> list[File]:
    """The cleaned files in ``folder``: held-out ones first, then those to train on, as the recipe has them."""
    found = [
        File(path, source, path in recipe.held_out, folder / f"{number}.txt")
        for number, (source, path) in enumerate((source, path) for source in recipe.sources for path in source.files)
    ]
    found.sort(key=lambda file: not file.held_out)
    paragraphs = 0
    for file in found:
        file.first = paragraphs
        with (
            opened(data / file.path) as binary,
            file.cleaned.open("w", encoding="utf-8", newline="\n") as out,
            file.cleaned.with_suffix(".words").open("wb") as kept,
        ):
            file.read.documents = 1
            lines = _counted(io.TextIOWrapper(binary, encoding="utf-8-sig"), file.read)
            for document in file.source.clean(lines):
                paragraphs += len(document)
                _write(document, out)
                words = Words.of(document)
                np.save(kept, words.sizes)
                np.save(kept, words.runs)
        done(file.path)
    return found


def _counted(lines: Iterable[str], amount: Amount) -> Iterator[str]:
    for line in lines:
        amount.paragraphs += bool(line.strip())
        amount.words += len(line.split())
        amount.bytes += len(line.encode())
        yield line


def _repeats(files: Sequence[File]) -> Repeats:
    """Where the runs of ``files`` that come back stand first."""
    counts = Counts()
    for file in files:
        for words in file.words():
            counts.add(words)
    return Repeats(counts, (words for file in files for words in file.words()))


def _written(files: Sequence[File], found: Repeats, recipe: CorpusRecipe, out: Path) -> dict[str, Any]:
    """Write both texts; what the manifest says of them."""
    training = next((file.first for file in files if not file.held_out), 0)
    account = {source.name: {step: Amount() for step in STEPS} for source in recipe.sources}
    twice = []
    with _text(out / HELD_OUT) as held_out, _text(out / CORPUS) as corpus:
        for number, file in enumerate(files):
            steps = account[file.source.name]
            steps["distributed"].join(file.read)
            documents = list(file.documents())
            parts = {"cleaned": documents}
            if file.held_out:
                parts["held out"] = documents
            else:
                words = list(file.words())
                earlier = _earlier(words, file.first, found)
                other, share = _most_in(files, np.concatenate([*earlier, np.zeros(0, np.int64)]), number)
                if share > recipe.twice:
                    twice.append({"file": file.path, "stands_in": files[other].path, "share": round(share, 4)})
                    parts["found twice"] = documents
                else:
                    parts |= _parted(documents, words, earlier, training, recipe.repeated)
            for step, texts in parts.items():
                for document in texts:
                    steps[step].add(document)
            for step, text in (("held out", held_out), ("kept", corpus)):
                for document in parts.get(step, ()):
                    _write(document, text)
    return {
        "steps": {name: {step: asdict(amount) for step, amount in steps.items()} for name, steps in account.items()},
        "found_twice": twice,
        "held_out": _sealed(out / HELD_OUT, [steps["held out"] for steps in account.values()]),
        "corpus": _sealed(out / CORPUS, [steps["kept"] for steps in account.values()]),
    }


def _earlier(documents: Sequence[Words], first: int, found: Repeats) -> list[np.ndarray]:
    """What `Repeats.earlier` says of each of a file's documents; ``first`` is the number of its first paragraph."""
    told = []
    for words in documents:
        told.append(found.earlier(words, first))
        first += len(words.sizes)
    return told


def _most_in(files: Sequence[File], earlier: np.ndarray, own: int) -> tuple[int, float]:
    """The file before the one numbered ``own`` that has most of its words, and the share that it has."""
    begins = np.array([file.first for file in files])
    inside = np.searchsorted(begins, earlier[earlier >= 0], side="right") - 1
    words = np.bincount(inside[inside != own], minlength=len(files))
    return int(words.argmax()), float(words.max() / max(1, len(earlier)))


def _parted(
    documents: Sequence[Document], words: Sequence[Words], earlier: Sequence[np.ndarray], training: int, most: float
) -> dict[str, list[Document]]:
    """The paragraphs of a file's ``documents`` by what becomes of them; those before the one numbered ``training`` are
    held out. A paragraph goes from the share ``most`` of its words on."""
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


def _sealed(path: Path, amounts: Iterable[Amount]) -> dict[str, Any]:
    """What the manifest says of the text at ``path``; `CorpusError` if it would be read in another layout."""
    whole = Amount()
    for amount in amounts:
        whole.join(amount)
    with path.open(encoding="utf-8") as text:
        found = layout(path.name, text.readlines(1 << 20))
    if whole.words and found != "plain":
        raise CorpusError(
            f"{path} looks like text in the layout '{found}', not like one paragraph a line. Report this."
        )
    return {"file": path.name, "sha256": sum_of(path), **asdict(whole)}


def _documents(lines: Iterable[str]) -> Iterator[Document]:
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
def _text(path: Path) -> Iterator[TextIO]:
    """A text file to write that has its name when it is complete."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with fresh.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
