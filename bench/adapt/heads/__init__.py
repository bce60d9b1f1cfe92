"""The codecs and heads of all forms, one file per form.

A file defines ``Codec``, a `Codec` in NumPy that is made once per task, and ``Head``, a `bench.adapt.parts.Head` that
all tasks of the form share. The input of a head already has dropout (``head_dropout`` of the settings), so a head has
none of its own.

All models that were trained here read the layout below. Published models read the layout of their own template
(`models.text.template`). Each model pools a row as in its paper (the first token, the last one, the mean ...):

    [CLS] first text [SEP]                     segments 0
    [CLS] first text [SEP] second text [SEP]   segments 0 ... 0 1 ... 1
"""

import importlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptmbench.bench.adapt import load
from ptmbench.bench.adapt.channels import Text, laid
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.channels import CHANNELS
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task


def of(form: Form, adaptation: str) -> Any:
    """The module with head and codec for ``form`` under ``adaptation``. Raises `bench.errors.NotApplicable` if there is
    none."""
    return importlib.import_module(f"ptmbench.bench.adapt.{load(adaptation).head(form)}")


@dataclass(frozen=True)
class InputRow:
    """One input of the network: named arrays for a batch, the index of its example, and a note for the codec."""

    arrays: dict[str, np.ndarray]
    example: int
    note: Any = None

    @property
    def tokens(self) -> int:
        """Tokens that the network reads, without padding."""
        return int(np.count_nonzero(self.arrays["tokens"]))


class Codec:
    """Converts examples to rows of arrays, and a head's outputs to predictions for metrics.

    ``train`` are the training examples of a cell. The codec reads from them, once, what all later predictions depend
    on. `state` returns this for JSON, and `restored` makes the codec from it, without ``train``.
    """

    STATE: tuple[str, ...] = ()
    """Attributes that predictions depend on and that follow from the task and its training examples."""
    outputs: Hashable
    """The argument that the head is made with."""
    prediction_batch = 64
    """Rows per batch in prediction."""
    first: tuple[str, Settings] | None = None
    """An adaptation that is trained first, from the same weights, and its settings. `follow` takes its outputs."""

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Any, train: Sequence[Example]):
        raise NotImplementedError

    def rows(self, examples: Sequence[Example]) -> list["InputRow"]:
        """The rows of ``examples``, with the targets of those that have a gold answer."""
        raise NotImplementedError

    def training_rows(self, examples: Sequence[Example]) -> list["InputRow"]:
        """The rows that training reads of ``examples``, by default the same `rows`."""
        return self.rows(examples)

    def predictions(self, examples: Sequence[Example], rows: Sequence["InputRow"], outputs: Sequence[Any]) -> list[Any]:
        """One prediction for each example, from the head's outputs for ``rows``."""
        raise NotImplementedError

    def probabilities(
        self, examples: Sequence[Example], rows: Sequence["InputRow"], outputs: Sequence[Any]
    ) -> list[dict[Any, float]] | None:
        """The probability of every answer to each example; None if the head does not define it."""
        return None

    def follow(self, examples: Sequence[Example], rows: Sequence["InputRow"], outputs: Sequence[Any]) -> None:
        """Takes the outputs of the ``first`` adaptation for ``examples``, before their rows are made."""
        raise NotImplementedError

    def join(self, tokenizers: Sequence[Tokenizer]) -> None:
        """Adds the extra encoders (`Settings.models`) with these ``tokenizers``. Rows are made for them, too, from now
        on."""
        raise NotImplementedError

    def auxiliary_rows(self, examples: Mapping[str, Sequence[Example]]) -> list["InputRow"]:
        """The training rows of the auxiliary tasks' ``examples`` (`Settings.others`), each with the number of its
        ``task``. Tasks without ``examples`` have no rows."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """The values that `restored` needs, for JSON."""
        return {name: vars(self)[name] for name in self.STATE}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Sets the attributes from a `state` that was stored as JSON. Its lists become tuples again."""
        vars(self).update({name: _tuples(state[name]) for name in self.STATE})

    @classmethod
    def restored(cls, task: Task, tokenizer: Tokenizer, settings: Any, state: Mapping[str, Any]) -> Any:
        """Makes the codec with this `state`, without the training set."""
        made = cls(task, tokenizer, settings, ())
        made.restore(state)
        return made


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value


LAYERS = "layers"
"""The name of a row's array with the vectors of its text from a frozen encoder, which then does not read the row again.
The array has all L layers that the head reads, joined: [T, L * D], or [C, T, L * D] for C texts in one row."""

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
    "alignments": -1,
}
"""Padding values of arrays by name; 0 for all other arrays."""


def stack(rows: Sequence[InputRow], multiple: int = 4) -> dict[str, np.ndarray]:
    """Makes a batch: every array is padded at its right end to the longest one, rounded up so that few different shapes
    occur.

    If a row has fewer texts side by side than another, its first one is repeated, because some networks have no output
    for a text without tokens. For pictures and sounds [R, F], the number of regions is rounded up.
    """
    batch = {}
    for name, first in rows[0].arrays.items():
        arrays = [np.asarray(row.arrays[name]) for row in rows]
        if first.ndim == 0:
            batch[name] = np.stack(arrays)
            continue
        shape = [max(a.shape[axis] for a in arrays) for axis in range(first.ndim)]
        known = name.rstrip("_0123456789")  # "tokens_1" is for the encoder of another model
        axes = 2 if known == LAYERS or (known in CHANNELS and CHANNELS[known].medium) else 1  # axes of one text
        shape[-axes] = -(-shape[-axes] // multiple) * multiple
        filled = np.full([len(rows), *shape], PADDING.get(known, 0), first.dtype)
        for target, array in zip(filled, arrays, strict=True):
            target[tuple(slice(0, n) for n in array.shape)] = array
            if array.ndim > axes:
                target[len(array) :] = target[0]
        batch[name] = filled
    return batch


def layout(vocabulary: Vocabulary, texts: Sequence[Text | list[int]], length: int) -> dict[str, np.ndarray]:
    """``tokens`` and ``segments`` of one or two texts, and the arrays of their annotation and picture. Until both fit
    into ``length``, the longer one loses its last token (the second one if they are equally long), as in BERT's
    code."""
    template = vocabulary.template
    room = max(0, length - template.added(len(texts)))
    sizes = [min(len(text), room) for text in texts]
    while sum(sizes) > room:
        sizes[max(range(len(sizes)), key=lambda i: (sizes[i], i))] -= 1
    parts = [text[:size] for text, size in zip(texts, sizes, strict=True)]
    tokens, segments = template.lay(parts)
    row = laid([part if isinstance(part, Text) else Text(part) for part in parts], template)
    if not tokens:  # an empty text, and a template without special tokens
        tokens, segments, row = [vocabulary.sep], [0], row.filled([vocabulary.sep])
    arrays = {"tokens": np.array(tokens, np.int32), "segments": np.array(segments, np.int32)}
    return arrays | row.channels()


def classes(count: int) -> int:
    """Outputs for ``count`` classes, rounded up to a power of four: tasks with 2, 3 and 4 classes share one traced
    step."""
    width = 4
    while width < count:
        width *= 4
    return width


def tie_safe_products(offered: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function from vectors [Q, D] to their products [Q, C] with the vectors ``offered`` [C, D]. Equal
    vectors in ``offered`` have equal products, so that ranks see a tie. A plain matrix product rounds them differently,
    depending on their places in it."""
    number: dict[bytes, int] = {}
    places = [number.setdefault(vector.tobytes(), len(number)) for vector in offered]
    _, first = np.unique(places, return_index=True)
    distinct = offered[first].T
    return lambda asked: (asked @ distinct)[:, places]
