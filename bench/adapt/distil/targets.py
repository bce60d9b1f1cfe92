"""Adds a teacher's outputs to training rows, in NumPy.

A row gets the array ``teacher``: the logits [C] of a text, the score [] of a text in standard units, or the logits [C,
T] of the tokens of a sentence. Tokens are the last axis because batches are padded along it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.errors import NotApplicable
from ptmbench.tasks.task import Example

_GOLD = ("label", "score", "tags")
"""Arrays with gold answers, of classification, regression and tagging. Each row has one of them."""


def taught(
    rows: Sequence[InputRow],
    read: Sequence[InputRow],
    outputs: Sequence[np.ndarray],
    examples: Sequence[Example],
    shuffle: str,
    seed: int,
) -> list[InputRow]:
    """Returns ``rows`` with the array ``teacher``. ``outputs`` are the teacher's outputs for the rows ``read``, which
    it made from the same ``examples``, perhaps with another tokenizer. Rows of examples without a gold answer get the
    teacher's prediction instead. With ``shuffle``, "examples" or "labels", the rows exchange their outputs
    (`permute_within_keys`).

    Raises `NotApplicable` if teacher and student cut the examples into different rows, or if there are no labels to
    shuffle by.
    """
    if len(rows) != len(read) or not all(map(_alike, rows, read)):
        raise NotApplicable(
            "other-rows",
            "because teacher and student see the training examples in other rows: the settings length, context or "
            "train_limit differ, or their tokenizers cut long sentences in other places. Raise --set length.",
        )
    if not rows:
        return []
    rows = [
        _labelled(row, other, output) if examples[row.example].gold is None else row
        for row, other, output in zip(rows, read, outputs, strict=True)
    ]
    if "tags" in rows[0].arrays:
        return _tags_taught(rows, read, outputs, shuffle, seed)
    if "label" in rows[0].arrays:
        said = [np.asarray(output, np.float32) for output in outputs]  # [C] each
    else:
        said = [np.float32(output[0]) for output in outputs]
    said = [said[place] for place in row_permutation(rows, shuffle, seed)]
    return [replace(row, arrays={**row.arrays, "teacher": one}) for row, one in zip(rows, said, strict=True)]


def row_permutation(rows: Sequence[InputRow], shuffle: str, seed: int) -> np.ndarray:
    """Returns int [N]: for each of ``rows``, which are texts, the index of the row whose teacher output it gets.
    Without ``shuffle``, this is its own index. Raises `NotApplicable` if there are no labels to shuffle by."""
    return permute_within_keys([_key(row, shuffle) for row in rows], seed) if shuffle else np.arange(len(rows))


def permute_within_keys(keys: Sequence[Hashable], seed: int) -> np.ndarray:
    """A random permutation int [N] of the places of ``keys`` that maps each place to one with the same key."""
    rng, order = np.random.default_rng([seed, 6]), np.arange(len(keys))
    groups: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    for places in groups.values():
        order[places] = rng.permutation(places)
    return order


def _tags_taught(
    rows: Sequence[InputRow], read: Sequence[InputRow], outputs: Sequence[np.ndarray], shuffle: str, seed: int
) -> list[InputRow]:
    """`taught` for tagging, where words are shuffled and not whole sentences. The outputs for a word are at its first
    token, both in the rows that the teacher has ``read`` and in ``rows``."""
    said = []
    for row, other, output in zip(rows, read, outputs, strict=True):
        tokens = np.zeros((len(row.arrays["tags"]), output.shape[-1]), np.float32)
        tokens[row.arrays["places"]] = output[other.arrays["places"]]
        said.append(tokens)
    if shuffle:
        words = [(number, place) for number, row in enumerate(rows) for place in row.arrays["places"]]
        keys = [int(rows[number].arrays["tags"][place]) if shuffle == "labels" else 0 for number, place in words]
        source = [said[number][place].copy() for number, place in words]
        for (number, place), chosen in zip(words, permute_within_keys(keys, seed), strict=True):
            said[number][place] = source[chosen]
    return [replace(row, arrays={**row.arrays, "teacher": one.T}) for row, one in zip(rows, said, strict=True)]


def _labelled(row: InputRow, read: InputRow, output: np.ndarray) -> InputRow:
    """Returns ``row`` with the teacher's prediction as its gold answer. ``output`` is the teacher's for the row
    ``read``."""
    if "tags" in row.arrays:
        tags = row.arrays["tags"].copy()
        tags[row.arrays["places"]] = np.argmax(output[read.arrays["places"]], axis=-1)
        return replace(row, arrays={**row.arrays, "tags": tags})
    if "label" in row.arrays:
        label = row.note[int(np.argmax(output[row.note]))]
        return replace(row, arrays={**row.arrays, "label": np.int32(label)})
    return replace(row, arrays={**row.arrays, "score": np.float32(output[0])})


def _alike(row: InputRow, other: InputRow) -> bool:
    """Whether both rows are about the same example, with the same gold answers in the same order and units."""
    names = [name for name in _GOLD if name in row.arrays]
    return row.example == other.example and all(
        name in other.arrays and np.array_equal(_gold(row, name), _gold(other, name)) for name in names
    )


def _gold(row: InputRow, name: str) -> np.ndarray:
    """The gold answers ``name`` of ``row``: the tags of its words, in their order."""
    return row.arrays["tags"][row.arrays["places"]] if name == "tags" else row.arrays[name]


def _key(row: InputRow, shuffle: str) -> Hashable:
    """The key of a row: rows with equal keys may exchange the teacher's outputs. It has the possible answers and, for
    "labels", the gold answer. The key of a row with a score is empty. With "labels", raises `NotApplicable` for it,
    because hardly two scores are equal."""
    if "score" in row.arrays:
        if shuffle == "labels":
            raise NotApplicable("no-labels", "because a regression task has no labels to shuffle by.")
        return ()
    return tuple(row.note), int(row.arrays["label"]) if shuffle == "labels" else None
