"""Unlabelled text as token ids, in memory or in shards on disk.

Text is read in the layouts of `models.text.layouts` and cut into pieces of about 16 million characters. Several
processes tokenise each piece into a shard (`models.text.shards`). Shards do not depend on the number of processes. An
interrupted run continues with the shards that it has written, and a damaged shard is made again.
"""

import hashlib
import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, count, repeat, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.models.channels import CHANNELS, media
from ptmbench.models.text import annotations, duplicates, encoding, shards, vectors, workers
from ptmbench.models.text.joined import Joined
from ptmbench.models.text.media import Media
from ptmbench.models.text.mixing import hash_integers
from ptmbench.models.text.pieces import CorpusError, Part, expand, file_hash, pieces
from ptmbench.models.text.shards import MANIFEST, Shard
from ptmbench.models.text.sidecars import companions
from ptmbench.models.text.tokenizers import FORMAT, Tokenizer

VERSION = 2
"""Incremented whenever the same files would give other documents, sentences, word beginnings or training rows."""

SAMPLE = 1 << 28
"""Most characters of text to train a vocabulary on. More text hardly changes a vocabulary of 30,000 pieces."""

TOKENIZER = "tokenizer.json"

_DRAWN = 1 << 16  # characters in a run of documents, the unit of sampling
_UNPACKED = 4  # assumed ratio of text to its gzip file, for the size of a sample
_MAPPED = 256  # shards that stay mapped at a time; each uses a file descriptor


@dataclass(frozen=True)
class Corpus:
    """A tokenised corpus: all ids in one flat array, with the boundaries of sentences and documents.

    ``ids`` int32 [N] are without special tokens; ``sentences`` int64 [S + 1] are offsets into ``ids``; ``documents``
    int64 [D + 1] are offsets into ``sentences``; ``heads`` bool [N] marks tokens that begin a word. No sentence and no
    document is empty. The arrays are NumPy's or, over many shards, `models.text.joined.Joined`. Both have ``len``,
    ``take`` (mode "wrap") and, for offsets, ``searchsorted``.
    """

    ids: np.ndarray | Joined
    sentences: np.ndarray | Joined
    documents: np.ndarray | Joined
    heads: np.ndarray | Joined
    fingerprint: str = ""
    """SHA-256 of the text, the tokenizer and what was removed."""
    openings: np.ndarray | Joined | None = None
    """Offsets of the documents in ``ids`` if two special tokens were around each, int64 [D + 1]. Computed if None."""
    layers: Mapping[str, np.ndarray | Joined] = field(default_factory=dict)
    """Annotation by layer, int32 [N]: k at the first token of a span with the layer's k-th symbol, -k at its other
    tokens, 0 elsewhere (`models.text.annotations`). The tokenizer has the symbols. ``word_alignments`` has places in
    the translation (`models.channels`)."""
    vectors: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Vectors of the K symbols of each layer with vectors, float32 [K + 1, W] (`models.text.vectors`). Row k belongs to
    the k-th symbol, and row 0 is zeros."""
    media: Media | None = None
    """The pictures or sounds of the documents, if the tokenizer knows any (`models.text.media`)."""

    def __post_init__(self) -> None:
        if self.openings is None:
            openings = self.sentences.take(self.documents) + 2 * np.arange(len(self.documents))
            object.__setattr__(self, "openings", openings)

    @property
    def tokens(self) -> int:
        """N, the number of tokens."""
        return len(self.ids)

    def counts(self) -> np.ndarray:
        """Returns the number of occurrences of each id, int64 [largest id + 1]. Reads the corpus once."""
        counts = np.zeros(0, np.int64)
        for begin in range(0, self.tokens, 1 << 20):
            block = self.ids.take(np.arange(begin, min(begin + (1 << 20), self.tokens)), mode="wrap")
            more = np.bincount(block, minlength=len(counts))
            more[: len(counts)] += counts
            counts = more
        return counts


@dataclass(frozen=True)
class Stored:
    """The manifest of a tokenised corpus in a folder, which is complete and intact."""

    folder: Path
    about: Mapping[str, Any]
    """``fingerprint`` of the corpus, ``tokenizer`` (its fingerprint), ``deduplicate``, and the ``about`` of `store`.
    With annotation also ``layers``, ``media`` and ``vectors``."""
    shards: tuple[Shard, ...]

    def total(self, count: str) -> int:
        """Returns the sum over all shards of a count of `models.text.shards.Shard`, such as "tokens"."""
        return sum(getattr(shard, count) for shard in self.shards)


def content_hash(files: Sequence[Path]) -> str:
    """Returns a SHA-256 over the bytes of ``files`` in order, and of their annotations.

    It depends on the endings of their names, which decide their layout, but not on the rest of their paths.
    """
    paths = expand(files)
    with ThreadPoolExecutor(workers.cores()) as threads:
        sums = list(threads.map(file_hash, paths))
    digest = hashlib.sha256(b"%d" % VERSION)
    for path, found in zip(paths, sums, strict=True):
        found += b"".join(map(file_hash, companions(path)))
        suffixes = path.suffixes[-3:]
        digest.update("".join(suffixes if ".pairs" in suffixes else suffixes[-2:]).encode() + found)
    return digest.hexdigest()


def read(files: Sequence[Path]) -> Iterator[list[str]]:
    """Yields documents as lists of sentences, in file order.

    Raises `CorpusError` for a file that is missing, empty or not UTF-8.
    """
    return chain.from_iterable(map(encoding.documents, pieces(files)))


def tokenise(files: Sequence[Path], tokenizer: Tokenizer, cache: Path | None = None, **options: Any) -> Corpus:
    """Tokenises ``files`` in memory or, with ``cache``, once in a folder there.

    ``options`` are the options of `store`.
    """
    if cache is None:
        with tempfile.TemporaryDirectory(prefix="ptmbench-corpus-") as folder:
            corpus = tokenise(files, tokenizer, Path(folder), **options)
            arrays = {name: _in_full(getattr(corpus, name)) for name in ("ids", "sentences", "documents", "heads")}
            layers = {name: _in_full(values) for name, values in corpus.layers.items()}
            pictures = corpus.media and replace(
                corpus.media,
                offsets=_in_full(corpus.media.offsets),
                arrays={name: _in_full(values) for name, values in corpus.media.arrays.items()},
            )
        rest = {"vectors": corpus.vectors, "fingerprint": corpus.fingerprint, "media": pictures}
        return Corpus(**arrays, layers=layers, **rest)
    folder = Path(cache) / f"corpus-{_fingerprint(files, tokenizer, options.get('deduplicate'))[:32]}"
    return open_corpora([store(files, tokenizer, folder, **options)])


def store(
    files: Sequence[Path],
    tokenizer: Tokenizer,
    folder: Path,
    *,
    deduplicate: str | None = None,
    processes: int | None = None,
    about: Mapping[str, Any] | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
    made: Callable[[Shard], None] = lambda shard: None,
) -> Stored:
    """Tokenises ``files`` into shards in ``folder``. Checks the shards that are already there, and keeps intact ones.

    ``deduplicate``, "exact" or "near", leaves out documents that repeat an earlier one (`models.text.duplicates`).
    ``processes`` is one per core by default. ``about`` is added to the manifest. ``tell`` is called with a message for
    each damaged file, and ``made`` with each shard that is complete. Raises `CorpusError` if the folder has another
    corpus, no token is left, or ``files`` change during the work.
    """
    folder, processes = Path(folder), processes or workers.cores()
    fingerprint = _fingerprint(files, tokenizer, deduplicate)
    found, sealed = _existing_shards(folder, fingerprint)
    complete = sealed is not None
    for shard in shards.damaged(folder, list(found.values())):
        tell(f"{folder / shard.name} is damaged: it is made anew.")
        del found[shard.name]
        complete = False
    known = (sealed or {}).get("vectors")
    if tokenizer.widths and not (known and vectors.intact(folder, known)):
        if known:
            tell(f"{folder / vectors.FILE} is damaged: it is made anew.")
        if tables := annotations.tables(files, tokenizer):
            known, complete = vectors.write_tables(folder, tables), False
    for shard in found.values():
        made(shard)
    if not complete:
        repeated = _find_repeats(files, deduplicate, processes, folder, fingerprint) if deduplicate else None
        names = map("shard-{:06}.safetensors".format, count())
        jobs = (
            (piece, tokenizer, mask, folder / name, fingerprint)
            for (piece, mask), name in zip(_mask_pieces(files, repeated), names, strict=False)
            if name not in found
        )
        for shard in workers.map_in_processes(encoding.make, jobs, processes):
            found[shard.name] = shard
            made(shard)
        if _fingerprint(files, tokenizer, deduplicate) != fingerprint:
            _clear(folder)
            raise _changed(files)
    made_from = {"fingerprint": fingerprint, "tokenizer": tokenizer.fingerprint, "deduplicate": deduplicate}
    if tokenizer.symbols:
        made_from["layers"] = list(tokenizer.symbols)
    if widths := _widths(tokenizer):
        made_from["media"] = widths
    if known:
        made_from["vectors"] = known
    stored = Stored(folder, {**(about or {}), **made_from}, tuple(found[name] for name in sorted(found)))
    if not stored.total("tokens"):
        raise _nothing_left(files)
    kept = folder / TOKENIZER
    if not kept.is_file() or kept.read_bytes() != tokenizer.to_json().encode():
        tokenizer.save(kept)
    if not complete:
        shards.write_manifest(folder / MANIFEST, stored.about, stored.shards)
        _clear(folder)
    return stored


def stored_in(folder: Path) -> Stored | None:
    """Returns the tokenised corpus in ``folder``, or None without one. Raises `CorpusError` if it is damaged."""
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        return None
    manifest = shards.read_manifest(folder / MANIFEST)
    names = [shard.name for shard in shards.damaged(folder, manifest[1])] if manifest else [MANIFEST]
    if manifest and (known := manifest[0].get("vectors")) and not vectors.intact(folder, known):
        names.append(vectors.FILE)
    if names:
        raise CorpusError(
            f"The tokenised corpus {folder} is damaged: {', '.join(names)}. Give the command that made it once more: "
            "`data tokenise` makes only that anew."
        )
    return Stored(folder, manifest[0], tuple(manifest[1]))


def open_corpora(corpora: Sequence[Stored]) -> Corpus:
    """Maps the corpora into memory, concatenated. A single shard gives NumPy arrays.

    Raises `CorpusError` if they have different tokenizers or different vectors of symbols.
    """
    if len({stored.about["tokenizer"] for stored in corpora}) > 1:
        names = ", ".join(str(stored.folder) for stored in corpora)
        raise CorpusError(
            f"{names} were tokenised by different tokenizers. Tokenise them with one: `data tokenise --like FOLDER`."
        )
    layers = tuple(corpora[0].about.get("layers", ()))
    found = [(stored.folder / shard.name, shard) for stored in corpora for shard in stored.shards if shard.documents]
    mapped = lru_cache(maxsize=_MAPPED)(lambda part: shards.mapped(found[part][0]))
    arrays: dict[str, Any] = shards.join_shards(
        [shard for _, shard in found], mapped, layers, corpora[0].about.get("media")
    )
    if len(found) == 1:
        arrays |= {"ids": mapped(0)["ids"]}
        arrays["layers"] = {name: mapped(0)[shards.LAYER + name] for name in layers}
        arrays |= {name: _in_full(arrays[name]) for name in ("sentences", "documents", "openings")}
    arrays["vectors"] = _vectors(corpora)
    prints = [stored.about["fingerprint"] for stored in corpora]
    whole = prints[0] if len(prints) == 1 else hashlib.sha256(" ".join(prints).encode()).hexdigest()
    return Corpus(**arrays, fingerprint=whole)


def _widths(tokenizer: Tokenizer) -> dict[str, int]:
    """Returns the widths of all channels of the pictures or sounds that ``tokenizer`` knows."""
    known = annotations.media_of(tokenizer)
    fixed = {name: CHANNELS[name].axes[2] for width in known for name in media(width)}
    return {name: known[name] if name in known else int(axis) for name, axis in fixed.items()}


def _vectors(corpora: Sequence[Stored]) -> dict[str, np.ndarray]:
    """Returns the vectors that ``corpora`` share, or {} if none has any. Raises `CorpusError` if they differ."""
    having = {stored.about["vectors"]: stored.folder for stored in corpora if "vectors" in stored.about}
    if len(having) > 1:
        names = ", ".join(map(str, having.values()))
        raise CorpusError(f"{names} have different vectors of symbols. Annotate the texts with one folder of vectors.")
    return vectors.read_tables(*next(iter(having.items()))[::-1]) if having else {}


def train_tokenizer(
    files: Sequence[Path], kind: str, size: int, cache: Path | None = None, *, lowercase: bool = False
) -> Tokenizer:
    """Trains a tokenizer on the sentences of ``files``, or reads it from the folder ``cache`` if it is there.

    The tokenizer has the symbols of the annotation layers and the number of features of the pictures. If there are more
    than `SAMPLE` characters, it is trained on a sample of about this size, the same one every time.
    """
    key = hashlib.sha256(f"{content_hash(files)} {kind} {size} {lowercase} {FORMAT} {SAMPLE}".encode()).hexdigest()
    stored = cache and Path(cache) / f"tokenizer-{key[:32]}.json"
    if stored:
        with suppress(ValueError):  # missing or damaged: trained anew
            return Tokenizer.load(stored)
    tokenizer = Tokenizer.train(kind, _Sentences(files), size, lowercase=lowercase)
    symbols, features = annotations.symbols_of(files), annotations.widths_of(files)
    if symbols or features:
        widths = {name: vectors.width(folder) for name, folder in annotations.folders_of(files).items()}
        tokenizer = tokenizer.with_symbols(symbols, widths | features)
    if stored:
        tokenizer.save(stored)
    return tokenizer


@dataclass(frozen=True)
class _Sentences:
    """The sentences of ``files``, or of a sample of them. Each iteration reads the files again, piece by piece."""

    files: Sequence[Path]

    def __iter__(self) -> Iterator[str]:
        sizes = (path.stat().st_size * (_UNPACKED if path.suffix == ".gz" else 1) for path in expand(self.files))
        share = min(1.0, SAMPLE / max(1, sum(sizes)))
        for number, piece in enumerate(pieces(self.files, _DRAWN)):
            if hash_integers(np.uint64([number]))[0] <= share * (2**64 - 1):
                yield from chain.from_iterable(encoding.documents(piece))


def _fingerprint(files: Sequence[Path], tokenizer: Tokenizer, deduplicate: str | None) -> str:
    """Returns a SHA-256 of the text, the tokenizer, and the rule for duplicates, which decide the ids."""
    removed = f" {deduplicate} {duplicates.VERSION}" if deduplicate else ""
    return hashlib.sha256(f"{content_hash(files)} {tokenizer.fingerprint}{removed}".encode()).hexdigest()


def _existing_shards(folder: Path, fingerprint: str) -> tuple[dict[str, Shard], Mapping[str, Any] | None]:
    """Returns the shards of the corpus ``fingerprint`` in ``folder``, by name, and the ``about`` of its manifest.

    The latter is None if the corpus is not complete. Raises `CorpusError` if the folder has another corpus.
    """
    whole = shards.read_manifest(folder / MANIFEST)
    if whole and whole[0].get("fingerprint") != fingerprint:
        raise CorpusError(
            f"{folder} holds another tokenised corpus: other text, tokenizer or options. Take another folder."
        )
    manifests = [whole] if whole else filter(None, map(shards.read_manifest, sorted(folder.glob("shard-*.json"))))
    found = {one.name: one for about, parts in manifests for one in parts if about.get("fingerprint") == fingerprint}
    return found, whole[0] if whole else None


def _find_repeats(files: Sequence[Path], rule: str, processes: int, folder: Path, fingerprint: str) -> list[np.ndarray]:
    """Returns for each piece of ``files`` which documents repeat an earlier one, bool [D].

    The result is stored in ``folder`` until the corpus is complete. The signatures are in a temporary file.
    """
    path = folder / f"repeated-{fingerprint[:32]}.npz"
    with suppress(OSError, ValueError, KeyError, zipfile.BadZipFile), np.load(path, allow_pickle=False) as kept:
        return np.split(kept["repeated"], kept["ends"][:-1])
    jobs = ((piece, rule) for piece in pieces(files))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        sizes = []
        for signed in workers.map_in_processes(encoding.signatures, jobs, processes):
            file.write(signed.tobytes())
            sizes.append(len(signed))
        file.flush()
        shape = sum(sizes), duplicates.RULES[rule].numbers
        signatures = np.memmap(file, np.uint32, "r", shape=shape) if sum(sizes) else np.zeros(shape, np.uint32)
        repeated = duplicates.repeats(signatures, rule)
    content = io.BytesIO()
    np.savez(content, repeated=repeated, ends=np.cumsum(sizes))
    shards.replace(path, content.getvalue())
    return np.split(repeated, np.cumsum(sizes)[:-1])


def _mask_pieces(
    files: Sequence[Path], repeated: Sequence[np.ndarray] | None
) -> Iterator[tuple[list[Part], np.ndarray | None]]:
    """Yields the pieces of ``files``, each with its part of the result of `_find_repeats`.

    Raises `CorpusError` if their numbers differ, so that a corpus never ends early.
    """
    if repeated is None:
        yield from zip(pieces(files), repeat(None), strict=False)
        return
    for piece, mask in zip_longest(pieces(files), repeated):
        if piece is None or mask is None:
            raise _changed(files)
        yield piece, mask


def _clear(folder: Path) -> None:
    """Deletes the files that only an unfinished corpus needs. Other files in the folder stay."""
    manifests = (path for path in folder.glob("shard-*.json") if shards.read_manifest(path))
    parts = chain.from_iterable(
        folder.glob(f"{name}.*.part") for name in ("shard-*", "repeated-*", MANIFEST, TOKENIZER, vectors.FILE)
    )
    for path in (*manifests, *folder.glob("repeated-*.npz"), *parts):
        path.unlink(missing_ok=True)


def _in_full(array: np.ndarray | Joined) -> np.ndarray:
    return array.take(np.arange(len(array)), mode="wrap")


def _changed(files: Sequence[Path]) -> CorpusError:
    return CorpusError(f"{', '.join(map(str, files))} changed while it was tokenised. Give the same command again.")


def _nothing_left(files: Sequence[Path]) -> CorpusError:
    return CorpusError(f"No token is left of {', '.join(map(str, files))}. Was the tokenizer trained on other text?")
