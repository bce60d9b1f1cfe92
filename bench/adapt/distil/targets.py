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

_GOLD = ("label", "score")
"""Arrays with the gold answer of a text, in classification and regression. Each row of a text has one of them."""
_OTHER_EXAMPLES = (
    "because teacher and student see different training examples, or the same ones with different gold answers. Give "
    "both the same settings context and train_limit with --set."
)


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

    Raises `NotApplicable` if teacher and student see different examples, or if there are no labels to shuffle by.
    """
    if rows and all("tags" in row.arrays for row in (*rows, *read)):
        return _tags_taught(rows, read, outputs, shuffle, seed)
    if len(rows) != len(read) or not all(map(_alike, rows, read)):
        raise NotApplicable("other-examples", _OTHER_EXAMPLES)
    if not rows:
        return []
    rows = [
        _labelled(row, output) if examples[row.example].gold is None else row
        for row, output in zip(rows, outputs, strict=True)
    ]
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
    """`taught` for tagging, where words are matched and shuffled. The output for a word is at its first token. A long
    sentence has several rows, and student and teacher may begin these at different words."""
    words = [word for row in rows for word in _words(row)]
    theirs = {word: number for number, word in enumerate(word for row in read for word in _words(row))}
    order = [theirs.get(word, -1) for word in words]
    tags, their_tags = (
        np.concatenate([row.arrays["tags"][row.arrays["places"]] for row in some]) for some in (rows, read)
    )
    if len(words) != len(theirs) or -1 in order or not np.array_equal(tags, their_tags[order]):
        raise NotApplicable("other-examples", _OTHER_EXAMPLES)
    said = np.concatenate([output[row.arrays["places"]] for row, output in zip(read, outputs, strict=True)])[order]
    tags = np.where(tags < 0, np.argmax(said, axis=-1), tags)  # words without a gold tag
    if shuffle:
        said = said[permute_within_keys(tags.tolist() if shuffle == "labels" else [0] * len(tags), seed)]
    found, begin = [], 0
    for row in rows:
        places = row.arrays["places"]
        end = begin + len(places)
        row_tags, tokens = row.arrays["tags"].copy(), np.zeros((len(row.arrays["tags"]), said.shape[-1]), np.float32)
        row_tags[places], tokens[places] = tags[begin:end], said[begin:end]
        found.append(replace(row, arrays={**row.arrays, "tags": row_tags, "teacher": tokens.T}))
        begin = end
    return found


def _words(row: InputRow) -> list[tuple[int, int]]:
    """The words of a row of tags: the numbers of their example, and of the word in it."""
    first, _ = row.note
    return [(row.example, first + number) for number in range(len(row.arrays["places"]))]


def _labelled(row: InputRow, output: np.ndarray) -> InputRow:
    """Returns the ``row`` of a text with the teacher's prediction as its gold answer. ``output`` is the teacher's."""
    if "label" in row.arrays:
        label = row.note[int(np.argmax(output[row.note]))]
        return replace(row, arrays={**row.arrays, "label": np.int32(label)})
    return replace(row, arrays={**row.arrays, "score": np.float32(output[0])})


def _alike(row: InputRow, other: InputRow) -> bool:
    """Whether both rows are about the same text, with the same gold answer in the same units."""
    names = [name for name in _GOLD if name in row.arrays]
    return row.example == other.example and all(
        name in other.arrays and np.array_equal(row.arrays[name], other.arrays[name]) for name in names
    )


def _key(row: InputRow, shuffle: str) -> Hashable:
    """The key of a row: rows with equal keys may exchange the teacher's outputs. It has the possible answers and, for
    "labels", the gold answer. The key of a row with a score is empty. With "labels", raises `NotApplicable` for it,
    because hardly two scores are equal."""
    if "score" in row.arrays:
        if shuffle == "labels":
            raise NotApplicable("no-labels", "because a regression task has no labels to shuffle by.")
        return ()
    return tuple(row.note), int(row.arrays["label"]) if shuffle == "labels" else None
