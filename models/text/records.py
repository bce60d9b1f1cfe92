"""Reads files of records as the lines of a JSONL file.

`models.text.pieces` reads these formats, which TensorFlow Datasets writes:

tfrecord      each record is its length, a checksum of the length, the bytes and a checksum of the bytes
              (https://www.tensorflow.org/tutorials/load_data/tfrecord). Only the first checksum is verified: the second
              would be slow in Python, and plain text files have no checksum either
array_record  read by the package of this name, an optional dependency

A record is a serialized `tf.train.Example` with the feature "text", or the text itself in UTF-8.
"""

import io
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

FORMATS = ("tfrecord", "array_record")
_NAME = re.compile(rf"(?:-(?P<split>[\w+]+))?\.(?P<format>{'|'.join(FORMATS)})(?:-\d{{5}}-of-\d{{5}})?\Z")
"""The end of a file's name: ``wiki-train.tfrecord-00000-of-00008`` in TensorFlow Datasets, or ``wiki.array_record``."""
_POLYNOMIAL = 0x82F63B78  # CRC-32C, Castagnoli's, with the bits reversed
_BLOCK = 1024
"""Number of records that are read from an ArrayRecord file at a time."""


def is_records(name: str) -> bool:
    """Whether a file called ``name`` holds records."""
    return _format(name) is not None


def is_training(name: str) -> bool:
    """Whether the file called ``name`` holds records of a training split, or its name has no split."""
    found = _NAME.search(name)
    return found is not None and found["split"] in (None, "train")


def open_records(file: IO[bytes], path: Path) -> IO[bytes]:
    """Returns the records of ``file``, which is at ``path``, as lines of JSON with the key "text".

    Reading raises `ValueError` for a damaged file and for records without text.
    """
    records = _tfrecords(file) if _format(path.name) == "tfrecord" else _array_records(path)
    return io.BufferedReader(_Lines(records), 2**16)


def _format(name: str) -> str | None:
    found = _NAME.search(name)
    return found["format"] if found else None


class _Lines(io.RawIOBase):
    """A stream with one line of JSON for each of the ``records``."""

    def __init__(self, records: Iterator[bytes]):
        self._lines = (
            json.dumps({"text": _text(record, number)}, ensure_ascii=False).encode() + b"\n"
            for number, record in enumerate(records, 1)
        )
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        if not self._rest:
            self._rest = memoryview(next(self._lines, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _text(record: bytes, number: int) -> str:
    """Returns the text of ``record``. ``number`` is its place in the file, from 1. Raises `ValueError` without text."""
    features = _example(record)
    if features is not None:
        if len(features.get("text", ())) != 1:
            known = ", ".join(sorted(features)) or "none"
            raise ValueError(f'record {number}: expected one text as the feature "text"; its features are: {known}.')
        (record,) = features["text"]
    try:
        return record.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"record {number}: it is neither a tf.train.Example nor UTF-8 text (byte 0x{record[error.start]:02x})."
        ) from error


def _example(record: bytes) -> dict[str, list[bytes]] | None:
    """Returns the byte strings of each feature of a serialized `tf.train.Example`, or None for other bytes.

    A feature of numbers has [].

    Field 1 of an Example is its Features. Field 1 of Features are the entries of a map: 1 the name, 2 the Feature.
    Field 1 of a Feature is its BytesList, whose field 1 are the strings (tensorflow/core/example/feature.proto).
    """
    try:
        found = {}
        for features in _fields(record, (1,))[1]:
            for entry in _fields(features, (1,))[1]:
                parts = _fields(entry, (1, 2))
                feature = _fields(parts[2][0], (1, 2, 3)) if 2 in parts else {}
                found[parts[1][0].decode()] = [text for texts in feature.get(1, ()) for text in _fields(texts, (1,))[1]]
        return found
    except (ValueError, IndexError, KeyError):
        return None


def _fields(message: bytes, known: tuple[int, ...]) -> dict[int, list[bytes]]:
    """Returns the length-delimited fields of a message, by number.

    Raises `ValueError` for other fields, for numbers that are not ``known``, and for a message that is cut short.
    """
    found: dict[int, list[bytes]] = {}
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        size, place = _varint(message, place)
        if tag & 7 != 2 or tag >> 3 not in known or place + size > len(message):
            raise ValueError(tag)
        found.setdefault(tag >> 3, []).append(message[place : place + size])
        place += size
    return found


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        byte = message[place]
        value, place = value | (byte & 0x7F) << shift, place + 1
        if byte < 0x80:
            return value, place
    raise ValueError(value)


def _tfrecords(file: IO[bytes]) -> Iterator[bytes]:
    number = 0
    while head := file.read(12):
        number += 1
        if len(head) < 12 or _masked(head[:8]) != struct.unpack("<I", head[8:])[0]:
            raise ValueError(f"record {number} is damaged or cut short, or this is no TFRecord file. Fetch it again.")
        size = struct.unpack("<Q", head[:8])[0]
        record = file.read(size)
        if len(record) < size or len(file.read(4)) < 4:
            raise ValueError(f"record {number} is cut short. Fetch the file again.")
        yield record


def _masked(content: bytes) -> int:
    """Returns the CRC-32C of ``content``, masked as in TFRecord files: rotated, and a constant added."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _array_records(path: Path) -> Iterator[bytes]:
    try:
        from array_record.python.array_record_module import ArrayRecordReader
    except ImportError as error:
        raise ValueError(
            "is an ArrayRecord file, which the package array_record reads: `pip install ptmbench[records]`."
        ) from error
    reader = ArrayRecordReader(str(path))
    count = reader.num_records() if reader.ok() else 0
    if not count:
        raise ValueError("is no whole ArrayRecord file, or an empty one. Fetch it again.")
    for begin in range(0, count, _BLOCK):
        end = min(begin + _BLOCK, count)
        try:
            found = reader.read(begin, end)
        except (IndexError, RuntimeError):
            found = []
        if len(found) != end - begin:
            raise ValueError(f"the records from {begin + 1} on are damaged. Fetch the file again.")
        yield from found
    reader.close()
