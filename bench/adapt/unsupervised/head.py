"""Generation without pairs: training uses one side of each example, and evaluation is as in translation.

A source is a text for the encoder, followed by a symbol for the language to write. The decoder starts with this symbol,
and the encoder reads padding in its place (`bench.adapt.unsupervised`). Encoders that read languages and pictures get
those of each text. Mentions are omitted, because texts that the network writes have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from keras import ops

from ptmbench.bench.adapt import channels
from ptmbench.bench.adapt.heads import InputRow, generation, layout
from ptmbench.bench.adapt.unsupervised import Own
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.channels import CHANNELS
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks.task import Example, Task


@dataclass(frozen=True)
class Text:
    """One text of one language. ``ids`` int32 [T] are its pieces, and ``heads`` bool [T] marks the beginnings of its
    words. ``language`` is 0 for the task's source language, 1 for its target language."""

    ids: np.ndarray
    heads: np.ndarray
    language: int
    empty_texts: tuple[channels.Text, channels.Text] = (channels.Text([]), channels.Text([]))
    """Empty texts of both languages, with their symbols and the picture of the example."""

    def in_language(self, language: int, ids: Sequence[int]) -> channels.Text:
        """The pieces ``ids`` as a text of the same example in ``language``."""
        return self.empty_texts[language].filled(ids)


def symbols(vocabulary: Vocabulary) -> tuple[int, int]:
    """The ids of the symbols for the languages 0 and 1: two sentinels that few objectives use."""
    return vocabulary.sentinels[-2], vocabulary.sentinels[-1]


def row(
    vocabulary: Vocabulary,
    settings: Own,
    source: channels.Text,
    target: Sequence[int],
    language: int,
    example: int,
    denoising: float = 0.0,
    note: Text | None = None,
) -> InputRow:
    """The row for reading ``source`` and writing ``target`` in ``language``. ``denoising`` is the weight of a row whose
    source is the target with noise; it is 0 for a translation."""
    arrays = layout(vocabulary, [source], settings.length - 1)
    del arrays["segments"]  # decoders read one text
    behind = {name: 0 for name in arrays if CHANNELS[name].axes == "BT"} | {"tokens": symbols(vocabulary)[language]}
    arrays |= {name: np.append(arrays[name], np.int32(number)) for name, number in behind.items()}
    text = target[: settings.target_length - 2]
    arrays |= {
        "targets": np.array([vocabulary.cls, *text, vocabulary.sep], np.int32),
        "denoising": np.array(denoising, np.float32),
    }
    return InputRow(arrays, example, note)


def sides(examples: Sequence[Example]) -> list[int]:
    """The language of the side that is used of each example: 0 and 1 in turn, and always the same for equal pairs."""
    seen: dict[tuple[str, str], int] = {}
    return [seen.setdefault((e.inputs[0], e.gold[0]), len(seen) % 2) for e in examples]


class Codec(generation.Codec):
    """Like `generation.Codec` for pairs to translate, but the rows of training examples are single texts."""

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Own, train: Sequence[Example]):
        if "languages" not in task.extra:
            raise NotApplicable("no-languages", "because the task is not to translate one language into another.")
        super().__init__(task, tokenizer, settings, train)
        self.languages = task.extra["languages"]

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        sources = self.tokenizer.encode([e.inputs[0] for e in examples])
        targets = self.tokenizer.encode([e.gold[0] if e.gold else "" for e in examples])
        read = [self._empty_texts(e)[0].filled(source) for e, source in zip(examples, sources, strict=True)]
        pairs = enumerate(zip(read, targets, strict=True))
        return [row(self.tokenizer.vocabulary, self.settings, source, target, 1, i) for i, (source, target) in pairs]

    def training_rows(self, examples: Sequence[Example]) -> list[InputRow]:
        vocabulary, settings = self.tokenizer.vocabulary, self.settings
        found, room = [], min(settings.length - 1 - vocabulary.template.added(1), settings.target_length - 2)
        taken = sides(examples)
        texts = [e.gold[0] if side else e.inputs[0] for e, side in zip(examples, taken, strict=True)]
        for i, (ids, side) in enumerate(zip(self.tokenizer.encode(texts), taken, strict=True)):
            if ids := ids[: max(1, room)]:
                own = np.array(ids, np.int32)
                text = Text(own, self.tokenizer.heads(own), side, self._empty_texts(examples[i]))
                found.append(row(vocabulary, settings, text.in_language(side, ids), ids, side, i, note=text))
        if {text.note.language for text in found} != {0, 1}:
            raise NotApplicable("one-language", "because the training set has no text of one of the languages.")
        return found

    def _empty_texts(self, example: Example) -> tuple[channels.Text, channels.Text]:
        """`Text.empty_texts` for the sides of ``example``."""
        each = ({**example.channels, "languages": (name,)} for name in self.languages)
        source, target = (channels.whole_of(self.tokenizer, replace(example, channels=given)) for given in each)
        return source, target


class Head(generation.Head):
    """The loss is the mean over the tokens of translations, plus lambda times the mean over the tokens of denoised
    texts."""

    def loss(self, logits: Any, batch: dict[str, Any]) -> Any:
        each, known = self.losses(logits, batch)  # [B, S - 1]
        weights = batch["denoising"][:, None]  # [B, 1]
        translates = known * ops.cast(weights == 0, "float32")
        denoises = known * ops.cast(weights > 0, "float32")
        translation = ops.sum(each * translates) / ops.maximum(ops.sum(translates), 1.0)
        return translation + ops.sum(each * denoises * weights) / ops.maximum(ops.sum(denoises), 1.0)
