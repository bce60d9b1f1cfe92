"""Unlabelled text: files to documents (in the layouts that `models._layouts` tells apart), documents to token ids.

Files may be gzipped, begin with a byte-order mark and end their lines in any way. No TensorFlow.
"""

import gzip
import hashlib
import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from models._layouts import documents as documents_of
from models.tokenizers import FORMAT, Tokenizer

VERSION = 1
"""Raised whenever the same files would give other documents, sentences or word beginnings."""

SUFFIXES = (".txt", ".tokens", ".jsonl")
"""What is read from a folder, each also with ".gz"; files that are named one by one may end as they like."""


class CorpusError(ValueError):
    """Text that is missing, empty or unreadable; the message names the file, the line and the next step."""


@dataclass(frozen=True)
class Corpus:
    """A tokenised corpus: all ids in one flat array, with sentence and document boundaries beside it.

    ``ids`` int32 [N] without special tokens; ``sentences`` int64 [S + 1] offsets into ``ids``; ``documents`` int64
    [D + 1] offsets into ``sentences``; ``heads`` bool [N] marks tokens that begin a word. No sentence and no document
    is empty.
    """

    ids: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    heads: np.ndarray
    fingerprint: str = ""
    """SHA-256 of the text and the tokenizer."""

    @property
    def tokens(self) -> int:
        """N, the number of tokens."""
        return len(self.ids)


def expand(files: Sequence[Path]) -> list[Path]:
    """``files``, each folder replaced by the text files below it, sorted; `CorpusError` where there is nothing."""
    found = []
    for path in map(Path, files):
        if path.is_dir():
            below = sorted(p for p in path.rglob("*") if p.is_file() and p.name.removesuffix(".gz").endswith(SUFFIXES))
            if not below:
                raise CorpusError(
                    f"The folder {path} holds no text: no file ends in {', '.join(SUFFIXES)}, nor in these with .gz."
                )
            found += below
        elif path.is_file():
            found.append(path)
        else:
            raise CorpusError(
                f"There is no corpus file {path}. Check the name; `python -m bench data make DIR` makes a small corpus."
            )
    if not found:
        raise CorpusError("No corpus file was given. Name at least one file or folder.")
    return found


def content_hash(files: Sequence[Path]) -> str:
    """SHA-256 over the bytes of ``files`` in order; where they lie does not matter, what tells their layout does."""
    digest = hashlib.sha256(b"%d" % VERSION)
    for path in expand(files):
        with _readable(path), path.open("rb") as file:
            digest.update("".join(path.suffixes[-2:]).encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def read(files: Sequence[Path]) -> Iterator[list[str]]:
    """Documents as lists of sentences, in file order; `CorpusError` for a file that is missing, empty or not UTF-8."""
    for path in expand(files):
        empty = True
        with _readable(path), path.open("rb") as raw:
            binary = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            lines = io.TextIOWrapper(binary, encoding="utf-8-sig")  # universal line ends, with or without a BOM
            for document in documents_of(path, lines):
                sentences = [" ".join(sentence.split()) for sentence in document]
                if sentences := [sentence for sentence in sentences if sentence]:
                    empty = False
                    yield sentences
        if empty:
            raise CorpusError(f"The corpus file {path} holds no text. Leave it out, or check how it was made.")


def tokenise(files: Sequence[Path], tokenizer: Tokenizer, cache: Path | None = None) -> Corpus:
    """``files`` as token ids. With ``cache``, a folder, they are tokenised once and read back ever after.

    About 2 MB of text a second and core. Beside the ids, memory holds one batch of about 2 million characters.
    """
    fingerprint = hashlib.sha256(f"{content_hash(files)} {tokenizer.fingerprint}".encode()).hexdigest()
    stored = cache and Path(cache) / f"corpus-{fingerprint[:32]}.npz"
    if stored and (corpus := _stored(stored, fingerprint)):
        return corpus
    ids, heads, lengths, counts = [], [], [], []
    for documents in _batches(read(files), 2_000_000):
        encoded = tokenizer.encode(list(chain.from_iterable(documents)))
        flat = np.fromiter(chain.from_iterable(encoded), np.int32)
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))  # [sentences of the batch]
        begins = np.cumsum(sizes) - sizes
        head = tokenizer.heads(flat)
        head[begins[sizes > 0]] = True
        # Sentences without a token (of control characters, say) vanish, and documents that have no other.
        owner = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
        count = np.bincount(owner[sizes > 0], minlength=len(documents))
        ids.append(flat), heads.append(head), lengths.append(sizes[sizes > 0]), counts.append(count[count > 0])
    corpus = Corpus(
        ids=np.concatenate(ids),
        sentences=_offsets(lengths),
        documents=_offsets(counts),
        heads=np.concatenate(heads),
        fingerprint=fingerprint,
    )
    if not corpus.tokens:
        raise CorpusError(f"No token is left of {', '.join(map(str, files))}. Was the tokenizer trained on other text?")
    if stored:
        _store(stored, corpus)
    return corpus


def train_tokenizer(
    files: Sequence[Path], kind: str, size: int, cache: Path | None = None, *, lowercase: bool = False
) -> Tokenizer:
    """A tokenizer trained on the sentences of ``files``, from the folder ``cache`` where it was made before."""
    key = hashlib.sha256(f"{content_hash(files)} {kind} {size} {lowercase} {FORMAT}".encode()).hexdigest()
    stored = cache and Path(cache) / f"tokenizer-{key[:32]}.json"
    if stored:
        with suppress(ValueError):  # missing or damaged: trained anew
            return Tokenizer.load(stored)
    tokenizer = Tokenizer.train(kind, _Sentences(files), size, lowercase=lowercase)
    if stored:
        tokenizer.save(stored)
    return tokenizer


@dataclass(frozen=True)
class _Sentences:
    """The sentences of ``files``, read again on every walk: training needs several and never all of them at once."""

    files: Sequence[Path]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(read(self.files))


class _readable:
    """Turns what reading ``path`` can raise into a `CorpusError`."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeDecodeError):
            bad = error.object[error.start]
            raise CorpusError(
                f"{self.path} is not UTF-8 text: it holds the byte 0x{bad:02x}. Convert it first."
            ) from error
        if type(error) is ValueError:
            raise CorpusError(f"{self.path}, {error}") from error
        if isinstance(error, (gzip.BadGzipFile, EOFError, zipfile.zlib.error)):
            raise CorpusError(f"{self.path} is not a whole gzip file: {error}.") from error
        if isinstance(error, OSError):
            raise CorpusError(f"Cannot read the corpus file {self.path}: {error.strerror or error}.") from error


def _batches(documents: Iterable[list[str]], characters: int) -> Iterator[list[list[str]]]:
    """Runs of documents of about ``characters`` altogether."""
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        size += sum(map(len, document))
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _offsets(sizes: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)


def _store(path: Path, corpus: Corpus) -> None:
    """Write ``corpus`` in one step. A disk that is full costs the cache, not the run's result."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.savez(
                file,
                ids=corpus.ids,
                sentences=corpus.sentences,
                documents=corpus.documents,
                heads=np.packbits(corpus.heads),
                fingerprint=np.array(corpus.fingerprint),
            )
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise CorpusError(f"Cannot write the tokenised corpus {path}: {error.strerror or error}.") from error


def _stored(path: Path, fingerprint: str) -> Corpus | None:
    """The corpus at ``path``; None where it is missing or damaged (the archive has checksums): it is made anew then."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            ids, found = stored["ids"], str(stored["fingerprint"])
            heads = np.unpackbits(stored["heads"], count=len(ids)).astype(bool)
            corpus = Corpus(ids, stored["sentences"], stored["documents"], heads, found)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zipfile.zlib.error):
        return None
    return corpus if found == fingerprint else None
