"""What a model that fills blanks says of tokens that are masked one at a time: rows, and ln p of what stood there.

For adaptations that learn nothing: scores of sentences and of running text.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import channels
from ptmbench.bench.adapt.asking import traced
from ptmbench.bench.adapt.channels import Text
from ptmbench.bench.adapt.heads import layout, stack
from ptmbench.models.channels import TEXT, WIDTHS
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example

ROUND = 4
"""Rows are filled up to a multiple of this, so that few shapes occur."""
_TOKENS = 4096
"""Tokens that are read at once. Rows are short, so smaller batches cost more than the reading; larger ones leave a
processor's caches."""


@dataclass(frozen=True, eq=False)
class Masked:
    """A text as a network reads it, ``tokens`` and other channels by name, with the token at ``place`` masked, or
    several of its word. Rows are equal if all that the network reads is."""

    arrays: dict[str, np.ndarray]
    place: int

    @property
    def tokens(self) -> np.ndarray:
        return self.arrays["tokens"]

    @property
    def size(self) -> int:
        """Tokens, and vectors of a picture or a sound."""
        return len(self.tokens) + sum(len(self.arrays[name]) for name in WIDTHS if name in self.arrays)

    def __hash__(self) -> int:
        return hash((self.place, self.tokens.tobytes()))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Masked)
            and self.place == other.place
            and all(np.array_equal(array, other.arrays[name]) for name, array in self.arrays.items())
        )


def encode(
    tokenizer: Tokenizer, examples: Sequence[Example], reads: Collection[str] = TEXT
) -> list[tuple[Text, list[int]]]:
    """All inputs of the ``examples``, one after the other, with the channels that a model ``reads``. Each comes
    with the number of every token's word; words are divided by spaces."""
    inputs = [(example, number) for example in examples for number in range(len(example.inputs))]
    texts, found = [example.inputs[number] for example, number in inputs], []
    for (example, number), text, (ids, offsets) in zip(
        inputs, texts, tokenizer.encode_with_offsets(texts), strict=True
    ):
        before = np.cumsum([0, *(character.isspace() for character in text)])
        read = channels.annotated(tokenizer, example, ids, [number] * len(ids), offsets, of=[number]).only(reads)
        found.append((read, [int(before[max(begin, end - 1)]) for begin, end in offsets]))
    return found


def masked(tokenizer: Tokenizer, text: Text, place: int, words: Sequence[int] | None = None) -> Masked:
    """``text`` with the token at ``place`` masked, and with ``words`` the later tokens of its word, too."""
    template, end = tokenizer.vocabulary.template, place + 1
    while words is not None and end < len(text) and words[end] == words[place]:
        end += 1
    shown = text.hidden(range(place, end), tokenizer.vocabulary.mask)
    arrays = layout(tokenizer.vocabulary, [shown], len(shown) + template.added(1))
    return Masked(arrays, template.begins([len(shown)])[0] + place)


def surprises(
    network: Any, rows: Mapping[Masked, Sequence[tuple[int, int]]]
) -> Iterator[tuple[Masked, Sequence[float]]]:
    """Each of ``rows`` with ln p of the tokens that it is asked for, in their order: ``rows`` has for each its askers
    and the tokens that they have in its place. Rows are read in batches of about as many tokens, by length."""

    def score(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        logits = tf.cast(network.fill(batch), tf.float32)  # [B, V]
        asked, of = batch["token"], batch["row"]  # [N]
        return tf.gather_nd(logits, tf.stack([of, asked], 1)) - tf.gather(tf.reduce_logsumexp(logits, 1), of)

    answer, every = traced(score), list(rows)
    for part in parts([row.size for row in every]):
        chosen = [every[i] for i in part]
        tokens = [token for row in chosen for _, token in rows[row]]
        counts = [len(rows[row]) for row in chosen]
        batch = stack(chosen, ROUND) | {"places": np.array([row.place for row in chosen], np.int32)}
        batch |= {"token": np.array(tokens, np.int32), "row": np.repeat(np.arange(len(chosen), dtype=np.int32), counts)}
        values = answer(batch).astype(np.float64)
        yield from zip(chosen, np.split(values, np.cumsum(counts)[:-1]), strict=True)


def parts(lengths: Sequence[int]) -> list[list[int]]:
    """Rows to read at once, by length: so many that they have about `_TOKENS` tokens."""
    order, found = sorted(range(len(lengths)), key=lambda i: lengths[i]), []
    while order:
        longest = max(ROUND, lengths[order[min(len(order), _TOKENS // ROUND) - 1]])
        size = max(1, _TOKENS // longest)
        found.append(order[:size])
        order = order[size:]
    return found
