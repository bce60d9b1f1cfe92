"""Many records in one file: the JSON files of accepted records, one after the other, compressed.

``records.json.gz`` is an ordinary gzip file. `gzip -dc` shows a manifest and then the records in the order of their
file names, each exactly as `leaderboard.records.record.write` lays it out. So `diff`, `jq` and git's textconv read it
line by line. The manifest names every record with the SHA-256 of its text. A record is taken from the pack only if its
hash matches, and a missing or damaged record is known by its name. The same manifest and records give the same bytes
(with the same zlib).

`leaderboard.records.baseline` writes packs, and `leaderboard.records.store` reads them. This module does not interpret
the manifest beyond its file hashes.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptmbench.leaderboard.records.record import FOLDER, RecordError

PACK = "records.json.gz"
_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"  # gzip, deflate, no name, no time, any system
_END = b"\n}\n"  # the end of a text from `laid_out`: no other line is a brace alone
_LARGEST = 256 * 2**20  # bytes unpacked, some fifty thousand records
_STEP = 512  # compressed bytes per step, so that little is lost before a damaged place


class PackError(RecordError):
    """Raised for a pack whose manifest cannot be read, so that its records are unknown."""


@dataclass(frozen=True, kw_only=True)
class Pack:
    manifest: Mapping[str, Any]
    records: Mapping[str, bytes]
    """{file name: text} of the records whose hash matches, in the order of the names."""
    lost: tuple[str, ...] = ()
    """File names of the records that are missing or damaged."""
    fault: str = ""
    """Another error in the file: unknown content, or an end that does not match."""


def laid_out(content: bytes) -> bytes:
    """Returns the JSON text of a record or manifest in the layout that packs need."""
    return (json.dumps(json.loads(content), indent=1, allow_nan=False) + "\n").encode("ascii")


def hashes(records: Mapping[str, bytes]) -> dict[str, str]:
    """Returns {"records/NAME": SHA-256}, as a manifest has to name the ``records``."""
    return {f"{FOLDER}/{name}": hashlib.sha256(content).hexdigest() for name, content in sorted(records.items())}


def packed(manifest: Mapping[str, Any], records: Mapping[str, bytes]) -> bytes:
    """Returns the content of a pack of ``records``, {file name: text from `laid_out`}. ``manifest["files"]`` must
    contain their `hashes`."""
    texts = [laid_out(json.dumps(manifest).encode()), *(records[name] for name in sorted(records))]
    plain = b"".join(texts)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return _HEAD + deflate.compress(plain) + deflate.flush() + _tail(plain)


def read(path: Path) -> Pack:
    """Reads the pack in ``path`` and checks every text against its hash. Raises `PackError` if the file or its manifest
    cannot be read."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise PackError(f"{path} cannot be read: {error.strerror or error}.") from error
    return unpacked(content, path)


def unpacked(content: bytes, path: Path | str) -> Pack:
    """Returns the pack with this ``content``, checked as in `read`. ``path`` is its name in errors."""
    plain, fault = _plain(content)
    first, *texts = plain.split(_END)
    try:
        manifest = json.loads(first + _END)
        named: dict[str, list[str]] = {}
        for name, sha256 in sorted(manifest["files"].items()):
            if name.startswith(f"{FOLDER}/"):
                named.setdefault(sha256, []).append(name.removeprefix(f"{FOLDER}/"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PackError(f"{path} is damaged: its manifest cannot be read. {AGAIN}") from error
    found, unknown = {}, texts.pop() != b""  # nothing may follow the last end
    for text in (text + _END for text in texts):
        names = named.get(hashlib.sha256(text).hexdigest())
        unknown |= not names
        if names:
            found[names.pop(0)] = text
    lost = tuple(sorted(name for names in named.values() for name in names))
    if unknown:
        fault = fault or "it holds what its manifest does not name"
    return Pack(manifest=manifest, records=dict(sorted(found.items())), lost=lost, fault=fault)


AGAIN = "Restore it from version control, or replace it with `ptmbench accept`."


def _plain(content: bytes) -> tuple[bytes, str]:
    """Returns the content that can be unpacked, and the error in the rest."""
    if not content.startswith(_HEAD):
        return b"", "it does not begin as a pack does"
    inflate, parts, size = zlib.decompressobj(-zlib.MAX_WBITS), [], 0
    for start in range(len(_HEAD), len(content), _STEP):
        try:
            parts.append(inflate.decompress(content[start : start + _STEP]))
        except zlib.error:
            return b"".join(parts), "it cannot be unpacked to its end"
        size += len(parts[-1])
        if size > _LARGEST:
            return b"".join(parts), f"it is larger than {_LARGEST >> 20} MiB unpacked"
        if inflate.eof:
            plain, rest = b"".join(parts), inflate.unused_data + content[start + _STEP :]
            return plain, "" if rest == _tail(plain) else "its checksum does not match its content"
    return b"".join(parts), "it was cut short"


def _tail(plain: bytes) -> bytes:
    return struct.pack("<II", zlib.crc32(plain), len(plain) & 0xFFFFFFFF)
