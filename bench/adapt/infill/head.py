"""Infilling: the words that give a text its label become blanks, which are filled with pieces for the other label.

A row has the original text, the places of its blanks, and its label. The loss asks for the original pieces under that
label; predictions are made under the other one. So all splits have the same rows, and training needs no rewritten
texts. Channels are read from the text with all of its blanks, because a mention of a blank would describe only the old
word.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from ptmbench.bench.adapt import attributes, channels, heads, parts
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.infill import Own
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task


class Codec(heads.Codec):
    """Converts texts to rows with blanks, and filled blanks to texts. A blank is one piece: a word of two pieces gets
    two."""

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Own, train: Sequence[Example]):
        if not attributes.has_polarities(task):
            raise NotApplicable("no-attributes", "because its texts have no labels that could be exchanged.")
        self.task, self.tokenizer, self.settings, self.outputs = task, tokenizer, settings, 0
        self.salience = attributes.salience_of(task, train, settings.smoothing, settings.salience)

    def state(self) -> dict[str, Any]:
        return {"salience": self.salience.to_json()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.salience = attributes.Salience.from_json(state["salience"])

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        template = self.tokenizer.vocabulary.template
        room, front = self.settings.length - template.added(1), template.begins([0])[0]
        lines, rows = [example.inputs[0].split() for example in examples], []
        for i, (words, (ids, owners)) in enumerate(zip(lines, self.tokenizer.encode_words(lines), strict=True)):
            label, wanted = attributes.opposite(self.task, examples[i]), examples[i].inputs[1]
            blank = set(self.salience.places(words, label, wanted))
            places = [place for place, owner in enumerate(owners[:room]) if owner in blank]
            tokens, _ = template.lay([ids[:room]])
            text = channels.in_words(self.tokenizer, examples[i], ids, owners, 1)[:room]
            shown = text.hidden(places, self.tokenizer.vocabulary.mask)  # another word will stand there
            arrays = channels.laid([shown], template).channels() | {
                "tokens": np.array(tokens, np.int32),
                "places": np.array([front + place for place in places], np.int32),
                "targets": np.array([ids[place] for place in places], np.int32),
                "label": np.array(self.task.extra["polarities"].index(label), np.int32),
            }
            rows.append(InputRow(arrays, i, note=(words, [owners[place] for place in places])))
        return rows

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[str]:
        """The text of each example, with its blanks filled."""
        texts = []
        for row, filled in zip(rows, outputs, strict=True):
            words, owners = row.note
            written: dict[int, list[int]] = {}
            for owner, piece in zip(owners, filled, strict=False):
                written.setdefault(owner, []).append(int(piece))
            own = {owner: self.tokenizer.decode(pieces) for owner, pieces in written.items()}
            texts.append(" ".join(filter(None, (own.get(i, word) for i, word in enumerate(words)))))
        return texts


class Head(parts.Head):
    """The mean over all blanks of - ln p of the original piece. It has no weights."""

    writes = True

    def __init__(self, outputs: int):
        super().__init__()

    def loss(self, logits: Any, batch: dict[str, Any]) -> Any:
        known = ops.cast(batch["targets"] != 0, "float32")  # [B, M]
        each = keras.losses.sparse_categorical_crossentropy(batch["targets"], logits, from_logits=True)
        return ops.sum(each * known) / ops.maximum(ops.sum(known), 1.0)
