"""Fills blanks in TensorFlow: makes the rows, scores the candidates and ranks them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import channels
from ptmbench.bench.adapt.asking import AnsweringInput, traced
from ptmbench.bench.adapt.cloze import no_blanks
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import BLANK, Rank
from ptmbench.tasks.metrics.ranks import rank
from ptmbench.tasks.task import Example

_WORD = "it"
"""Replaces the blank while a text is tokenized, so that the tokens around it do not depend on the answer."""
_MULTIPLE = 8
"""Rows are padded to a multiple of this many tokens."""


@dataclass(frozen=True)
class ClozeRow:
    """A text as a network reads it, ``tokens`` and other channels by name, and the place of its blank."""

    arrays: dict[str, np.ndarray]
    place: int

    @property
    def tokens(self) -> np.ndarray:
        return self.arrays["tokens"]


def respond(asked: AnsweringInput) -> tuple[list[Any], float]:
    """Returns the rank of each missing word among the candidates, and the FLOPs of scoring them."""
    with phase("encode"):
        found = rows(asked.tokenizer, asked.settings, asked.report, asked.network.encoder.causal)
    with phase("evaluate"):
        ranks = predictions(asked.network, asked.title, asked.tokenizer, asked.settings, asked.report, found)
    return ranks, asked.filling_flops([len(row.tokens) for row in found]) + asked.media_flops(found)


def rows(tokenizer: Tokenizer, settings: Settings, examples: Sequence[Example], causal: bool) -> list[ClozeRow]:
    """Makes a row for each example. A text that is too long loses the tokens that are farthest from the blank."""
    texts = [example.inputs[0] for example in examples]
    starts = [text.index(BLANK) for text in texts]
    encoded = tokenizer.encode_with_offsets([text.replace(BLANK, _WORD, 1) for text in texts])
    template, found = tokenizer.vocabulary.template, []
    for example, start, (ids, offsets) in zip(examples, starts, encoded, strict=True):
        begin, end = _touching(offsets, start, start + len(_WORD))
        read = channels.annotated(tokenizer, example, ids, [0] * len(ids), _given(offsets, start), of=[0])
        if causal:
            row = read.filled(template.start)
            row += read[max(0, begin - settings.length + len(row) + 1) : begin]
            found.append(ClozeRow(_arrays(row, [0] * len(row)), len(row)))
            continue
        room = settings.length - template.added(1)
        text = read[:begin] + read.filled([tokenizer.vocabulary.mask]) + read[end:]
        cut = max(0, min(begin - room // 2, len(text) - room))
        shown = text[cut : cut + room]
        arrays = _arrays(channels.laid([shown], template), template.lay([shown])[1])
        found.append(ClozeRow(arrays, template.begins([room])[0] + begin - cut))
    return found


def _arrays(row: channels.Text, segments: Sequence[int]) -> dict[str, np.ndarray]:
    return {"tokens": np.array(row.ids, np.int32), "segments": np.array(segments, np.int32), **row.channels()}


def _given(offsets: Sequence[tuple[int, int]], start: int) -> list[tuple[int, int]]:
    """Converts ``offsets`` in a text with `_WORD` at ``start`` to offsets in the text with the blank there."""
    longer = len(BLANK) - len(_WORD)
    return [(begin + longer * (begin > start), end + longer * (end >= start + len(_WORD))) for begin, end in offsets]


def spellings(tokenizer: Tokenizer, words: Sequence[str]) -> list[int | None]:
    """The token of each word inside a text; None for words of several tokens and for unknown words."""
    found: list[int | None] = []
    first = len(_WORD) + 1
    for word, (ids, offsets) in zip(words, tokenizer.encode_with_offsets([f"{_WORD} {w}" for w in words]), strict=True):
        begin, end = _touching(offsets, first, first + len(word))
        whole = end - begin == 1 and end == len(ids) and ids[begin] >= tokenizer.vocabulary.first
        found.append(ids[begin] if whole else None)
    return found


def predictions(
    network: Any,
    label: str,
    tokenizer: Tokenizer,
    settings: Settings,
    examples: Sequence[Example],
    asked: Sequence[ClozeRow],
) -> list[Rank]:
    """The rank of each example's word. Raises `NotApplicable` for a model that fills no blanks or that knows no
    candidate."""
    if network.fill is None:
        raise no_blanks(label)
    words = list(examples[0].gold.candidates)
    known = spellings(tokenizer, words)
    pieces = sorted({piece for piece in known if piece is not None})
    if not pieces:
        raise NotApplicable("no-words", "because its vocabulary has none of the candidate words.")
    unknown = [i for i, piece in enumerate(known) if piece is None]
    number = {piece: place for place, piece in enumerate(pieces)}
    place_of = {word: number[piece] for word, piece in zip(words, known, strict=True) if piece is not None}
    place_of |= {words[i]: len(pieces) + k for k, i in enumerate(unknown)}
    named = {place: word for word, place in reversed(place_of.items())}
    score = traced(lambda batch: tf.gather(network.fill(batch), tf.constant(pieces), axis=1))
    scores, found = np.full(len(pieces) + len(unknown), -np.inf), [Rank(1.0)] * len(examples)
    order = sorted(range(len(asked)), key=lambda i: len(asked[i].tokens))
    for first in range(0, len(order), settings.batch):
        part = order[first : first + settings.batch]
        for i, values in zip(part, score(_stacked([asked[i] for i in part])), strict=True):
            scores[: len(pieces)] = values
            gold = examples[i].gold
            others = {place_of[word] for word in gold.others}
            best = named[int(np.argmax(values))]
            found[i] = Rank(rank(scores, place_of[str(gold)], sorted(others)), best=best)
    return found


def _stacked(part: Sequence[ClozeRow]) -> dict[str, np.ndarray]:
    return stack(part, _MULTIPLE) | {"places": np.array([row.place for row in part], np.int32)}


def _touching(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """First and past-the-last token of the characters from ``start`` to ``end``."""
    inside = [i for i, (first, last) in enumerate(offsets) if last > start and first < end]
    if inside:
        return inside[0], inside[-1] + 1
    after = next((i for i, (first, _) in enumerate(offsets) if first >= end), len(offsets))
    return after, after
