"""What each form puts on an encoder, one file per form.

A file defines two things. ``Codec(task, tokenizer, settings, train)`` works in numpy, one per task: ``rows(examples)``
makes the arrays that batches are stacked from, ``predictions(examples, rows, outputs)`` turns a head's numbers into
what metrics compare. ``Head(outputs)`` is a Keras layer, shared by every task of the form: ``head(reading, batch)``
gives numbers, ``head.loss(numbers, batch)`` what fine-tuning minimises. Dropout has fallen on what a head reads
(``head_dropout`` of the settings); a head has none of its own.

A codec may begin where another adaptation ends: its ``first`` names that one and its settings, and ``follow(examples,
rows, outputs)`` is told what it says of the same examples. Where other models are read besides, ``join(tokenizers)``
tells it what those read. ``together`` is how many rows are answered at once. Where rows have a ``task``, a batch to
learn from has those of one. A head names in ``glorot`` those of its matrices that begin by the variance of Glorot and
Bengio; all others begin as BERT's heads.

Every model that was trained here reads the same layout, published ones that of their own template
(`models._template`); each makes of it what its paper did (the first token, the last one, the mean ...):

    [CLS] first text [SEP]                     segments 0
    [CLS] first text [SEP] second text [SEP]   segments 0 ... 0 1 ... 1
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptmbench.bench.adapt import NotApplicable, load
from ptmbench.models.tokenizers import Vocabulary
from ptmbench.tasks.forms import Form


def of(form: Form, adaptation: str) -> Any:
    """The file of heads that serves ``form`` under ``adaptation``: the form's, or the adaptation's own."""
    own = getattr(load(adaptation), "HEADS", {form: str(form)})
    if form not in own:
        raise NotApplicable("no-head", f"because the adaptation {adaptation} is for {', '.join(own)} tasks.")
    return importlib.import_module(f"ptmbench.bench.adapt.heads.{own[form]}")


@dataclass(frozen=True)
class Row:
    """One input of the network: named arrays for a batch, the index of its example, and what only the codec needs
    again."""

    arrays: dict[str, np.ndarray]
    example: int
    note: Any = None

    @property
    def tokens(self) -> int:
        """Tokens that the network reads, without padding."""
        return int(np.count_nonzero(self.arrays["tokens"]))


PADDING = {
    "tags": -1,
    "facts": -1,
    "starts": -1,
    "ends": -1,
    "places": -1,
    "unused": -1e9,
    "chosen": -1,
    "classes": -1,
    "others": -1,
}
"""What fills an array up to the longest of its batch, where that is not 0."""


def stack(rows: Sequence[Row], multiple: int = 4) -> dict[str, np.ndarray]:
    """A batch: every array filled up at its right end to the longest, rounded up so that few different shapes occur.

    Where a row has fewer texts side by side than another, its first one is repeated: not every network has an answer to
    a text without a token.
    """
    batch = {}
    for name, first in rows[0].arrays.items():
        arrays = [np.asarray(row.arrays[name]) for row in rows]
        if first.ndim == 0:
            batch[name] = np.stack(arrays)
            continue
        shape = [max(a.shape[axis] for a in arrays) for axis in range(first.ndim)]
        shape[-1] = -(-shape[-1] // multiple) * multiple
        filled = np.full([len(rows), *shape], PADDING.get(name, 0), first.dtype)
        for target, array in zip(filled, arrays, strict=True):
            target[tuple(slice(0, n) for n in array.shape)] = array
            if array.ndim > 1:
                target[len(array) :] = target[0]
        batch[name] = filled
    return batch


def layout(vocabulary: Vocabulary, texts: Sequence[Sequence[int]], length: int) -> dict[str, np.ndarray]:
    """``tokens`` and ``segments`` of one or two texts. The longer one loses its last token, of equals the second, until
    both fit into ``length``, as in BERT's code."""
    template = vocabulary.template
    room = max(0, length - template.added(len(texts)))
    sizes = [min(len(text), room) for text in texts]
    while sum(sizes) > room:
        sizes[max(range(len(sizes)), key=lambda i: (sizes[i], i))] -= 1
    tokens, segments = template.lay([text[:size] for text, size in zip(texts, sizes, strict=True)])
    if not tokens:  # no text in a template without special tokens
        tokens, segments = [vocabulary.sep], [0]
    return {"tokens": np.array(tokens, np.int32), "segments": np.array(segments, np.int32)}


def classes(count: int) -> int:
    """Outputs for ``count`` classes, rounded up to a power of four: tasks with 2, 3 and 4 classes share one traced
    step."""
    width = 4
    while width < count:
        width *= 4
    return width


def against(offered: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Vectors [Q, D] to their products [Q, C] with those ``offered`` [C, D]. Equal ones of these have equal products,
    so that ranks see a tie: a matrix product rounds them apart, by where they stand in it."""
    number: dict[bytes, int] = {}
    places = [number.setdefault(vector.tobytes(), len(number)) for vector in offered]
    _, first = np.unique(places, return_index=True)
    distinct = offered[first].T
    return lambda asked: (asked @ distinct)[:, places]
