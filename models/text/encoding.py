"""The work of the processes on a piece of text: sign its documents, tokenise it, write its shard."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from ptmbench.models.channels import media
from ptmbench.models.text import annotations, duplicates, shards
from ptmbench.models.text.media import shard_arrays
from ptmbench.models.text.pieces import CorpusError, Part
from ptmbench.models.text.shards import Shard
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.models.text.words import Words

_BATCH = 2_000_000  # characters that are encoded together

_table: list[tuple[str, Words]] = []  # words of this process's last tokenizer: pieces share most of their words


def documents(piece: Sequence[Part]) -> Iterator[list[str]]:
    """Returns the documents of a piece as lists of sentences."""
    return chain.from_iterable(part.documents() for part in piece)


def signatures(piece: Sequence[Part], rule: str) -> np.ndarray:
    """Returns the signatures of the piece's documents, uint32 [D, K], with the K numbers of ``rule``."""
    signed = [duplicates.signature(document, rule) for document in documents(piece)]
    return np.array(signed, np.uint32).reshape(len(signed), duplicates.RULES[rule].numbers)


def make(
    piece: Sequence[Part], tokenizer: Tokenizer, repeated: np.ndarray | None, path: Path, fingerprint: str
) -> Shard:
    """Tokenises a piece into the shard at ``path``, and writes a manifest next to it with the shard and the corpus."""
    arrays, counts = encoded(piece, tokenizer, repeated)
    shard = shards.write(path, arrays, counts)
    shards.write_manifest(path.with_suffix(".json"), {"fingerprint": fingerprint}, [shard])
    return shard


def encoded(
    piece: Sequence[Part], tokenizer: Tokenizer, repeated: np.ndarray | None = None
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Returns the arrays of a piece's shard, and the counts of its `models.text.shards.Shard`.

    Leaves out the documents that ``repeated``, bool [D], marks. Also leaves out sentences without a token (such as
    control characters), and documents that have only such sentences.
    """
    kept = _Kept(documents(piece), repeated)
    ids, heads, lengths, counts, present = [], [], [], [], []
    words = _words(tokenizer)
    for batch in _batches(kept):
        flat, sizes = words.encode(list(chain.from_iterable(batch)))
        begins = np.cumsum(sizes) - sizes
        head = tokenizer.heads(flat)
        head[begins[sizes > 0]] = True
        owner = np.repeat(np.arange(len(batch)), [len(document) for document in batch])
        count = np.bincount(owner[sizes > 0], minlength=len(batch))
        ids.append(flat), heads.append(head), lengths.append(sizes[sizes > 0]), counts.append(count[count > 0])
        present.append(count > 0)
    sentences, documents_ = _offsets(lengths), _offsets(counts)
    arrays = {
        "ids": _joined(ids).astype(np.uint16 if tokenizer.vocabulary.size <= 1 << 16 else np.int32),
        "heads": np.packbits(_joined(heads).astype(bool)),
        "sentences": sentences,
        "documents": documents_,
        "openings": sentences[documents_] + 2 * np.arange(len(documents_), dtype=np.uint32),
    }
    if tokenizer.symbols:
        arrays |= _layers(piece, tokenizer, repeated, len(arrays["ids"]))
    if annotations.media_of(tokenizer):
        arrays |= _media(piece, tokenizer, repeated, _joined(present))
    return arrays, {
        "tokens": len(arrays["ids"]),
        "sentences": len(sentences) - 1,
        "documents": len(documents_) - 1,
        "characters": kept.characters,
        "removed_documents": kept.removed_documents,
        "removed_characters": kept.removed_characters,
    }


def _layers(
    piece: Sequence[Part], tokenizer: Tokenizer, repeated: np.ndarray | None, tokens: int
) -> dict[str, np.ndarray]:
    """Returns the annotation of the piece's ``tokens``, an array for each layer."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in tokenizer.symbols}
    for document, rows in enumerate(annotations.values(piece, tokenizer)):
        if repeated is None or not repeated[document]:
            for row in rows:
                for name, values in row.items():
                    found[name].append(values)
    arrays = {shards.LAYER + name: _joined(values) for name, values in found.items()}
    if any(len(values) != tokens for values in arrays.values()):
        raise CorpusError(
            f"The tokens of the annotated text {piece[0].path} differ with and without their offsets. "
            "Use a tokenizer that was trained here."
        )
    return arrays


def _media(
    piece: Sequence[Part], tokenizer: Tokenizer, repeated: np.ndarray | None, present: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the pictures of the piece's documents, except repeated ones and those not ``present``, bool [D]."""
    found = annotations.pictures(piece, tokenizer)
    kept = (one for document, one in enumerate(found) if repeated is None or not repeated[document])
    names = [name for width in annotations.media_of(tokenizer) for name in media(width)]
    for name, array in shard_arrays([one for one, there in zip(kept, present, strict=True) if there], names):
        yield shards.MEDIA + name, array


def _words(tokenizer: Tokenizer) -> Words:
    if not _table or _table[0][0] != tokenizer.fingerprint:
        _table[:] = [(tokenizer.fingerprint, Words(tokenizer))]
    return _table[0][1]


class _Kept:
    """``documents`` without the repeated ones. Iteration counts the kept and the removed text."""

    def __init__(self, documents: Iterable[list[str]], repeated: np.ndarray | None) -> None:
        self._documents, self._repeated = documents, repeated
        self.characters = self.removed_documents = self.removed_characters = 0

    def __iter__(self) -> Iterator[list[str]]:
        for number, document in enumerate(self._documents):
            size = sum(map(len, document))
            if self._repeated is not None and self._repeated[number]:
                self.removed_documents += 1
                self.removed_characters += size
            else:
                self.characters += size
                yield document


def _batches(documents: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    """Yields runs of documents with about `_BATCH` characters in all."""
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        size += sum(map(len, document))
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)


def _offsets(sizes: list[np.ndarray]) -> np.ndarray:
    """Returns the cumulative sums of all ``sizes``, uint32 [S + 1], from 0."""
    return np.concatenate([[0], np.cumsum(_joined(sizes))]).astype(np.uint32)
