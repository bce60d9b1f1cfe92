"""Stores each tokenised piece as a memory-mapped safetensors file of flat arrays.

    ids         uint16 or int32 [N]   without special tokens
    heads       uint8 [N / 8]         packed bits: which tokens begin a word
    sentences   uint32 [S + 1]        offsets into the ids
    documents   uint32 [D + 1]        offsets into the sentences
    openings    uint32 [D + 1]        offsets into the ids if there were two special tokens around each document
    layer.NAME  int32 [N]             annotation, an array for each layer (`models.text.annotations`)
    media.NAME  float32 [R * W]       pictures of the documents, by channel (`models.text.media`), and their offsets

The manifest ``tokenised.json`` of a folder of shards has each shard's counts, size and SHA-256.

The files have flat arrays and not records (TFRecord, ArrayRecord), because a row may begin at any token, and an array
needs a single look-up for it. Random rows of 128 tokens, read 32 at a time on two busy cores: 28,000 a second from 12
shards and 1.2 million from one, but 5,600 from an ArrayRecord file (0.8.6) with the corpus in records of 128 tokens.
"""

import hashlib
import json
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.models.text.joined import Bits, Joined
from ptmbench.models.text.media import Media
from ptmbench.models.text.pieces import CorpusError

MANIFEST = "tokenised.json"
FORMAT = 1
LAYER = "layer."
"""Prefix of the names of annotation layers' arrays."""
MEDIA = "media."
"""Prefix of the names of the arrays of pictures or sounds."""

_TYPES = {
    "U8": np.uint8,
    "U16": np.uint16,
    "I32": np.int32,
    "U32": np.uint32,
    "F32": np.float32,
}  # by the names in safetensors files


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The manifest's entry for a shard. The names of the files have the order of the corpus."""

    name: str
    bytes: int
    sha256: str
    tokens: int
    sentences: int
    documents: int
    characters: int
    """Characters of the documents that were kept."""
    removed_documents: int = 0
    removed_characters: int = 0


def write(path: Path, arrays: Mapping[str, np.ndarray], counts: Mapping[str, int]) -> Shard:
    """Writes ``arrays`` to ``path`` in one step, and returns the manifest's entry."""
    from safetensors.numpy import save

    content = save(dict(arrays))
    shard = Shard(name=path.name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest(), **counts)
    replace(path, content)
    return shard


def replace(path: Path, content: bytes) -> None:
    """Writes ``content`` to ``path`` atomically: a reader sees the old file, none, or the whole new one.

    Raises `CorpusError` if it cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise CorpusError(f"Cannot write the tokenised corpus {path}: {error.strerror or error}.") from error


def write_manifest(path: Path, about: Any, shards: Sequence[Shard]) -> None:
    """Writes a manifest with ``about`` and ``shards``, under a seal."""
    content = {"format": FORMAT, "about": about, "shards": [asdict(shard) for shard in shards]}
    replace(path, json.dumps(content | {"seal": _seal(content)}, indent=1).encode())


def read_manifest(path: Path) -> tuple[Any, list[Shard]] | None:
    """Reads the manifest that `write_manifest` wrote to ``path``.

    Returns None if it is missing, damaged or of another format.
    """
    try:
        content = json.loads(path.read_bytes())
        seal = content.pop("seal")
        if content["format"] != FORMAT or seal != _seal(content):
            return None
        return content["about"], [Shard(**shard) for shard in content["shards"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def damaged(folder: Path, shards: Sequence[Shard]) -> list[Shard]:
    """Returns the ``shards`` whose file is missing or changed. Reads all files, at the speed of the disk."""
    with ThreadPoolExecutor() as threads:  # hashing releases the interpreter lock
        intact = list(threads.map(lambda shard: _intact(folder / shard.name, shard), shards))
    return [shard for shard, whole in zip(shards, intact, strict=True) if not whole]


def join_shards(
    shards: Sequence[Shard],
    arrays: Callable[[int], Mapping[str, Any]],
    layers: Sequence[str] = (),
    widths: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Returns the arrays of a `models.text.corpus.Corpus` over ``shards``, each of which has at least one document.

    ``arrays(p)`` returns the arrays of shard p and is called for every look-up. ``layers`` are the names of the
    annotation layers, and ``widths`` the widths of the channels of pictures.
    """
    tokens, sentences, documents = (
        np.array([getattr(shard, count) for shard in shards], np.int64)
        for count in ("tokens", "sentences", "documents")
    )

    def virtual(name: str, sizes: np.ndarray, dtype: type, values: np.ndarray | None = None) -> Joined:
        bases = None if values is None else np.concatenate([[0], np.cumsum(values)])
        return Joined(lambda part: arrays(part)[name], sizes, dtype, bases)

    found = {
        "ids": virtual("ids", tokens, np.int32),
        "heads": virtual("heads", tokens, bool),
        "sentences": virtual("sentences", sentences, np.int64, tokens),
        "documents": virtual("documents", documents, np.int64, sentences),
        "openings": virtual("openings", documents, np.int64, tokens + 2 * documents),
        "layers": {name: virtual(LAYER + name, tokens, np.int32) for name in layers},
    }
    if widths:
        rows = np.array([arrays(part)[f"{MEDIA}offsets"][-1] for part in range(len(shards))], np.int64)
        offsets = virtual(f"{MEDIA}offsets", documents, np.int64, rows)
        numbers = {name: virtual(MEDIA + name, rows * width, np.float32) for name, width in widths.items()}
        found["media"] = Media(offsets, numbers, dict(widths))
    return found


def mapped(path: Path) -> dict[str, Any]:
    """Maps the arrays of a shard's file into memory without reading them. "heads" is a `models.text.joined.Bits`."""
    try:
        with path.open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise CorpusError(f"The tokenised corpus cannot be read: {path}: {error}. Tokenise it again.") from error
    begin = 8 + int.from_bytes(view[:8], "little")
    arrays = {
        name: np.frombuffer(view, _TYPES[entry["dtype"]], entry["shape"][0], begin + entry["data_offsets"][0])
        for name, entry in json.loads(view[8:begin]).items()
    }
    return arrays | {"heads": Bits(arrays["heads"])}


def _intact(path: Path, shard: Shard) -> bool:
    try:
        if path.stat().st_size != shard.bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == shard.sha256
    except OSError:
        return False


def _seal(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
