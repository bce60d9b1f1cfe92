"""Tagging: a softmax over the tags at the first token of every word (Devlin et al., 2019, section 5.3).

Two settings change that. With ``crf``, whole sequences of tags are scored (`bench.adapt.heads.crf`). With ``context``,
the sentences before and after fill the window, if they are in the same document and among the same examples (the
"maximal document context" of that paper's section 5.3). Only the sentence's own words are tagged.
"""

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from ptmbench.bench.adapt import channels, heads, parts
from ptmbench.bench.adapt.channels import Text
from ptmbench.bench.adapt.heads import InputRow, classes, crf, layout
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task


class Codec(heads.Codec):
    """Converts words to token ids, and tags to numbers at first tokens and back. A sentence too long for one row
    continues in the next."""

    STATE = ("labels", "outputs", "number")

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        self.labels, self.tokenizer, self.settings = task.labels, tokenizer, settings
        self.outputs = (classes(len(self.labels)), bool(settings.crf))
        self.number = {label: i for i, label in enumerate(self.labels)}

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        template, rows = self.tokenizer.vocabulary.template, []
        room = self.settings.length - template.added(1)
        unused = np.where(np.arange(self.outputs[0]) < len(self.labels), 0.0, -1e9).astype(np.float32)
        encoded = self.tokenizer.encode_words([e.inputs for e in examples])
        texts = [channels.words(self.tokenizer, e, *one) for e, one in zip(examples, encoded, strict=True)]
        around = _documents(examples, texts) if self.settings.context else {}
        for i, (ids, (_, words)) in enumerate(zip(texts, encoded, strict=True)):
            firsts = np.flatnonzero(np.diff(words, prepend=-1))
            begin = 0
            while begin < len(firsts):
                from_token = firsts[begin]
                end = int(np.searchsorted(firsts, from_token + room, side="left"))
                end = max(end, begin + 1)
                stop = firsts[end] if end < len(firsts) else len(ids)
                if stop - from_token > room and end - begin > 1:  # the last word would be cut: it begins the next row
                    end -= 1
                    stop = firsts[end]
                before, after = _context(*around.get(i, (ids[:0], 0)), from_token, stop, room)
                text = before + ids[from_token:stop] + after
                arrays = layout(self.tokenizer.vocabulary, [text], self.settings.length)
                places = firsts[begin:end] - from_token + len(template.front) + len(before)
                tags = np.full(len(arrays["tokens"]), -1, np.int32)
                if examples[i].gold is not None:
                    tags[places] = [self.number[tag] for tag in examples[i].gold[begin:end]]
                arrays |= {"tags": tags, "places": places.astype(np.int32), "unused": unused}
                rows.append(InputRow(arrays, i, note=(begin, places)))
                begin = end
        return rows

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[list[str]]:
        tags = [["O"] * len(example.inputs) for example in examples]
        for row, logits in zip(rows, outputs, strict=True):
            begin, places = row.note
            best = np.argmax(logits[places][:, : len(self.labels)], axis=-1)
            tags[row.example][begin : begin + len(places)] = [self.labels[k] for k in best]
        return tags


class Head(parts.Head):
    """``outputs``: the number of tags, and whether a CRF scores sequences of them."""

    def __init__(self, outputs: tuple[int, bool]):
        super().__init__()
        count, self.sequences = outputs
        self.dense = keras.layers.Dense(count, name="tags")
        if self.sequences:
            shapes = {"transition": (count, count), "start": (count,), "end": (count,)}
            self.chain = tuple(self.add_weight(shape=s, initializer="zeros", name=n) for n, s in shapes.items())

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        return self.dense(reading.tokens) + batch["unused"][:, None, : self.dense.units]  # [B, T, tags]

    def loss(self, logits: Any, batch: dict[str, Any]) -> Any:
        if self.sequences:
            emissions, inside = _words(logits, batch)
            tags = tf.gather(batch["tags"], tf.maximum(batch["places"], 0), batch_dims=1)
            return -ops.sum(crf.log_likelihood(emissions, tags, inside, self._weights())) / ops.sum(inside)
        known = ops.cast(batch["tags"] >= 0, "float32")
        each = keras.losses.sparse_categorical_crossentropy(ops.maximum(batch["tags"], 0), logits, from_logits=True)
        return ops.sum(each * known) / ops.maximum(ops.sum(known), 1.0)

    def predicted(self, logits: Any, batch: dict[str, Any]) -> Any:
        """``logits`` for the codec. With a CRF, these are 1 at the tags of the best sequence."""
        if not self.sequences:
            return logits
        tags = tf.one_hot(crf.best(*_words(logits, batch), self._weights()), self.dense.units)  # [B, W, tags]
        where = tf.one_hot(batch["places"], tf.shape(logits)[1])  # [B, W, T]
        return tf.einsum("bwk,bwt->btk", tags, where)

    def _weights(self) -> tuple[Any, Any, Any]:
        return tuple(ops.convert_to_tensor(weight) for weight in self.chain)


def _words(logits: Any, batch: dict[str, Any]) -> tuple[Any, Any]:
    """Logits of the words' first tokens [B, W, tags], and which of them are words [B, W] and not padding."""
    places = batch["places"]
    return tf.gather(logits, tf.maximum(places, 0), batch_dims=1), tf.cast(places >= 0, tf.float32)


def _documents(examples: Sequence[Example], texts: Sequence[Text]) -> dict[int, tuple[Text, int]]:
    """For each example of a document: the text of the document, and the token at which the example begins."""
    found = {}
    for group, members in groupby(range(len(examples)), key=lambda i: examples[i].group):
        if group is not None:
            own = list(members)
            document = channels.joined(texts[i] for i in own)
            begins = accumulate((len(texts[i]) for i in own), initial=0)
            found |= {i: (document, begin) for i, begin in zip(own, begins, strict=False)}
    return found


def _context(document: Text, first: int, begin: int, stop: int, room: int) -> tuple[Text, Text]:
    """Tokens before and after a row that fill ``room``, equally many on both sides where there are enough.

    The sentence begins at ``first`` of ``document``; ``begin`` and ``stop`` bound the row in the sentence. The rest of
    the sentence is context, too.
    """
    if not document:
        return document, document
    left, right, free = first + begin, len(document) - first - stop, max(0, room - (stop - begin))
    before = min(left, max(free // 2, free - right))
    after = min(right, free - before)
    return document[left - before : left], document[first + stop : first + stop + after]
