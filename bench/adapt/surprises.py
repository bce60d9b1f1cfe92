"""Log-probabilities of tokens that are masked one at a time, from a masked language model.

For adaptations without training that score sentences or running text.
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
"""Rows are padded to a multiple of this, so that few shapes occur."""
_TOKENS = 4096
"""Tokens per batch. Rows are short: the overhead of smaller batches exceeds their computation, and larger batches do
not fit into a processor's caches."""


@dataclass(frozen=True, eq=False)
class MaskedRow:
    """A row for the network, ``tokens`` and other channels by name. The token at ``place`` is masked, and perhaps later
    tokens of its word. Rows are equal if their places and all their arrays are equal."""

    arrays: dict[str, np.ndarray]
    place: int

    @property
    def tokens(self) -> np.ndarray:
        return self.arrays["tokens"]

    @property
    def size(self) -> int:
        """The number of tokens, and of the vectors of pictures and sounds."""
        return len(self.tokens) + sum(len(self.arrays[name]) for name in WIDTHS if name in self.arrays)

    def __hash__(self) -> int:
        return hash((self.place, self.tokens.tobytes()))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MaskedRow)
            and self.place == other.place
            and all(np.array_equal(array, other.arrays[name]) for name, array in self.arrays.items())
        )


def encode(
    tokenizer: Tokenizer, examples: Sequence[Example], reads: Collection[str] = TEXT
) -> list[tuple[Text, list[int]]]:
    """All inputs of the ``examples`` in their order, with the channels that a model ``reads``. Each comes with the
    numbers of its tokens' words; words are separated by white space."""
    inputs = [(example, number) for example in examples for number in range(len(example.inputs))]
    texts, found = [example.inputs[number] for example, number in inputs], []
    for (example, number), text, (ids, offsets) in zip(
        inputs, texts, tokenizer.encode_with_offsets(texts), strict=True
    ):
        before = np.cumsum([0, *(character.isspace() for character in text)])
        read = channels.annotated(tokenizer, example, ids, [number] * len(ids), offsets, of=[number]).only(reads)
        found.append((read, [int(before[max(begin, end - 1)]) for begin, end in offsets]))
    return found


def masked(tokenizer: Tokenizer, text: Text, place: int, words: Sequence[int] | None = None) -> MaskedRow:
    """``text`` with the token at ``place`` masked. If the word numbers ``words`` of its tokens are given, the later
    tokens of the same word are masked too."""
    template, end = tokenizer.vocabulary.template, place + 1
    while words is not None and end < len(text) and words[end] == words[place]:
        end += 1
    shown = text.hidden(range(place, end), tokenizer.vocabulary.mask)
    arrays = layout(tokenizer.vocabulary, [shown], len(shown) + template.added(1))
    return MaskedRow(arrays, template.begins([len(shown)])[0] + place)


def log_probabilities(
    network: Any, rows: Mapping[MaskedRow, Sequence[tuple[int, int]]]
) -> Iterator[tuple[MaskedRow, Sequence[float]]]:
    """Yields each of ``rows`` with ln p of the tokens that it is asked for, in their order. The values of ``rows`` are
    pairs: the number of the asker, and its token at the masked place. Batches have about the same number of tokens, and
    rows of similar length."""

    def score(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        logits = tf.cast(network.fill(batch), tf.float32)  # [B, V]
        asked, of = batch["token"], batch["row"]  # [N]
        return tf.gather_nd(logits, tf.stack([of, asked], 1)) - tf.gather(tf.reduce_logsumexp(logits, 1), of)

    answer, every = traced(score), list(rows)
    for part in batches_by_length([row.size for row in every]):
        chosen = [every[i] for i in part]
        tokens = [token for row in chosen for _, token in rows[row]]
        counts = [len(rows[row]) for row in chosen]
        batch = stack(chosen, ROUND) | {"places": np.array([row.place for row in chosen], np.int32)}
        batch |= {"token": np.array(tokens, np.int32), "row": np.repeat(np.arange(len(chosen), dtype=np.int32), counts)}
        values = answer(batch).astype(np.float64)
        yield from zip(chosen, np.split(values, np.cumsum(counts)[:-1]), strict=True)


def batches_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Divides rows of these ``lengths`` into batches of about `_TOKENS` tokens, as lists of their numbers, ordered by
    length."""
    order, found = sorted(range(len(lengths)), key=lambda i: lengths[i]), []
    while order:
        longest = max(ROUND, lengths[order[min(len(order), _TOKENS // ROUND) - 1]])
        size = max(1, _TOKENS // longest)
        found.append(order[:size])
        order = order[size:]
    return found
