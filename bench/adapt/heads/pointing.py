"""Pointing: a decoder writes tuples as a sequence of choices among the sentence's words and the task's classes.

Source: Yan et al. (2021), section 3.2, after the pointer networks of Vinyals et al. (2015). A span is written as its
first and its last word, and a tuple as its parts. The tuples of a sentence follow the order of the words, and END comes
last. What the task gives beforehand (an aspect) is fed to the decoder. Words and classes compete in one softmax

    p(y_s = j | y_{<s}, x) = softmax_j q_s . k_j      k_j: a word's vector [U], or a class's own

At each place, choices that break the pattern are excluded: no class inside a span, no last word before the first, no
END within a tuple.

The paper's decoder is BART's. Here the head has its own, a gated recurrent unit with attention to the words, so that
all encoders have the same new weights. The benefit of a pre-trained decoder is not measured.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from ptmbench.bench.adapt import channels, heads, parts
from ptmbench.bench.adapt.heads import InputRow, classes, layout
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task

WIDTH = 128
"""U, the width of the decoder."""
END = 0
NOTHING, GIVEN, OPEN, FIRST, LAST, CLASS, OPEN_CLASS = range(7)
"""What may be chosen at a place, in this order: END; the given choice; a word or END; a word; a word that is not before
the last choice; a class; a class or END."""
_BARRED = -1e9


class Codec(heads.Codec):
    """Converts words to tokens, and tuples to choices and back. Choice 0 is END, followed by the classes. Choices from
    ``outputs`` on are the words whose first token fits into the longest input; tuples with other words are not
    learnt."""

    STATE = ("labels", "outputs", "slots", "most")

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        self.labels, self.tokenizer, self.settings = task.labels, tokenizer, settings
        self.outputs = classes(1 + len(self.labels))
        slots = [slot for part in task.extra["pattern"] for slot in ((FIRST, LAST) if part == "span" else (CLASS,))]
        self.most = task.extra.get("most") or max(1, settings.target_length // len(slots))
        opening = OPEN if slots[0] == FIRST else OPEN_CLASS if self.most > 1 else CLASS
        self.slots = (opening, *slots[1:])

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        vocabulary, rows = self.tokenizer.vocabulary, []
        front, room = len(vocabulary.template.front), self.settings.length - vocabulary.template.added(1)
        encoded = self.tokenizer.encode_words([e.inputs for e in examples])
        for i, (example, (ids, words)) in enumerate(zip(examples, encoded, strict=True)):
            places = np.flatnonzero(np.diff(words, prepend=-1)).astype(np.int32)
            places = places[places < room] + front
            chosen, given = self._chosen(example, len(places))
            slots = [GIVEN] * given + [*self.slots * self.most]
            if given < len(example.gold.given):  # a given word does not fit into the input
                slots, chosen = [NOTHING] * len(slots), [END]
            numbers = np.full(len(slots), -1, np.int32)
            numbers[: len(chosen)] = chosen[: len(slots)]
            arrays = layout(vocabulary, [channels.words(self.tokenizer, example, ids, words)], self.settings.length)
            arrays |= {"places": places, "slots": np.array(slots, np.int32), "chosen": numbers}
            rows.append(InputRow(arrays | {"labels": np.int32(len(self.labels))}, i, note=given))
        return rows

    def _chosen(self, example: Example, reach: int) -> tuple[list[int], int]:
        """All choices of ``example``, with END, and how many of them are given. Words from ``reach`` on do not fit into
        the input."""

        def within(one: Sequence[Any]) -> bool:
            return all(isinstance(part, str) or part < reach for part in one)

        given = [self.outputs + word for word in example.gold.given] if within(example.gold.given) else []
        tuples = sorted(one for one in example.gold if within(one))[: self.most]
        chosen = [1 + self.labels.index(x) if isinstance(x, str) else self.outputs + x for one in tuples for x in one]
        return given + chosen + [END], len(given)

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[list[tuple]]:
        found, step = [], len(self.slots)
        for row, numbers in zip(rows, outputs, strict=True):
            numbers = [int(n) for n in numbers[row.note : row.note + step * self.most]]
            numbers = numbers[: numbers.index(END)] if END in numbers else numbers
            parts = [self.labels[n - 1] if n < self.outputs else n - self.outputs for n in numbers]
            found.append(list(dict.fromkeys(tuple(parts[k : k + step]) for k in range(0, len(parts) - step + 1, step))))
        return found


class Head(parts.Head):
    """``outputs`` is C, the number of classes and END. Returns the token vectors [B, T, U] and the decoder's first
    state [B, U]."""

    def __init__(self, outputs: int):
        super().__init__()
        self.count = outputs
        self.words = keras.layers.Dense(WIDTH, name="words")
        self.start = keras.layers.Dense(WIDTH, activation="tanh", name="start")
        shapes = {"classes": (outputs, WIDTH), "input": (2 * WIDTH, 3 * WIDTH), "state": (WIDTH, 3 * WIDTH)}
        shapes |= {"bias": (3 * WIDTH,), "query": (2 * WIDTH, WIDTH)}
        self.own = {name: self.add_weight(shape=s, initializer="glorot_uniform" if len(s) > 1 else "zeros", name=name)
                    for name, s in shapes.items()}  # fmt: skip
        self.glorot = list(self.own.values())

    def call(self, reading: Any, batch: dict[str, Any]) -> tuple[Any, Any]:
        return self.words(reading.tokens), self.start(reading.pooled)

    def loss(self, numbers: tuple[Any, Any], batch: dict[str, Any]) -> Any:
        """Cross-entropy of the choices that are not given, with teacher forcing."""
        keys, present, state = self._keys(numbers, batch)
        chosen, slots = batch["chosen"], batch["slots"]  # [B, S]
        previous = tf.pad(tf.maximum(chosen, 0)[:, :-1], [[0, 0], [1, 0]])
        inputs = tf.gather(keys, previous, batch_dims=1)  # [B, S, U]
        steps = tf.transpose(inputs, [1, 0, 2])
        queries = tf.scan(
            lambda before, x: self._step(before[0], x, keys, present), steps, initializer=(state, tf.zeros_like(state))
        )[1]  # [S, B, U]
        scores = tf.einsum("sbu,bju->bsj", queries, keys) + _barred(
            slots, previous, present, batch["labels"], self.count
        )
        known = tf.cast((chosen >= 0) & (slots != GIVEN) & (slots != NOTHING), tf.float32)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(chosen, 0), scores)
        return ops.sum(each * known) / ops.maximum(ops.sum(known), 1.0)

    def predicted(self, numbers: tuple[Any, Any], batch: dict[str, Any]) -> Any:
        """The most probable choice at each place, given those before it (greedy), int32 [B, S]. All choices after END
        are END."""
        keys, present, state = self._keys(numbers, batch)

        def step(before: tuple[Any, ...], place: tuple[Any, Any]) -> tuple[Any, ...]:
            state, previous, ended = before
            slots, given = place  # [B]
            slots = tf.where(ended, NOTHING, slots)
            x = tf.gather(keys, previous[:, None], batch_dims=1)[:, 0]
            state, query = self._step(state, x, keys, present)
            barred = _barred(slots[:, None], previous[:, None], present, batch["labels"], self.count)[:, 0]
            scores = tf.einsum("bu,bju->bj", query, keys) + barred
            choice = tf.where(slots == GIVEN, given, tf.argmax(scores, axis=-1, output_type=tf.int32))
            return state, choice, ended | ((choice == END) & (slots != GIVEN))

        rows = tf.shape(state)[0]
        beginning = (state, tf.zeros([rows], tf.int32), tf.zeros([rows], tf.bool))
        places = (tf.transpose(batch["slots"]), tf.transpose(tf.maximum(batch["chosen"], 0)))  # [S, B]
        return tf.transpose(tf.scan(step, places, initializer=beginning)[1])

    def _keys(self, numbers: tuple[Any, Any], batch: dict[str, Any]) -> tuple[Any, Any, Any]:
        """The vectors of all choices [B, C + W, U], which of them are words and not padding [B, C + W], and the first
        state [B, U]."""
        tokens, state = numbers
        words = tf.gather(tokens, tf.maximum(batch["places"], 0), batch_dims=1)  # [B, W, U]
        own = tf.convert_to_tensor(self.own["classes"])
        rows = tf.shape(words)[0]
        keys = tf.concat([tf.tile(own[None], [rows, 1, 1]), words], axis=1)
        present = tf.concat([tf.zeros([rows, self.count], tf.bool), batch["places"] >= 0], axis=1)
        return keys, present, state

    def _step(self, state: Any, x: Any, keys: Any, present: Any) -> tuple[Any, Any]:
        """A step of a gated recurrent unit (Cho et al., 2014). It reads the last choice x [B, U] and the words to which
        the state [B, U] attends. Returns the new state and the query [B, U]."""
        own = {name: tf.convert_to_tensor(weight) for name, weight in self.own.items()}
        seen = tf.nn.softmax(tf.einsum("bu,bju->bj", state, keys) + tf.where(present, 0.0, _BARRED))
        read = tf.concat([x, tf.einsum("bj,bju->bu", seen, keys)], axis=-1)
        update, reset, new = tf.split(tf.matmul(read, own["input"]) + own["bias"], 3, axis=-1)
        kept_update, kept_reset, kept_new = tf.split(tf.matmul(state, own["state"]), 3, axis=-1)
        update, reset = tf.sigmoid(update + kept_update), tf.sigmoid(reset + kept_reset)
        state = update * state + (1.0 - update) * tf.tanh(new + reset * kept_new)
        return state, tf.matmul(tf.concat([state, x], axis=-1), own["query"])


def _barred(slots: Any, previous: Any, present: Any, labels: Any, count: int) -> Any:
    """-1e9 for choices that are not allowed, else 0: [B, S, C + W]. Depends on ``slots`` and the choices before them
    [B, S]."""
    number = tf.range(tf.shape(present)[1])[None, None]  # [1, 1, C + W]
    slots, previous = slots[..., None], previous[..., None]
    word = present[:, None]
    legal = tf.where(
        slots >= CLASS,
        ((number >= 1) & (number <= labels[:, None, None])) | ((slots == OPEN_CLASS) & (number == END)),
        ((slots >= OPEN) & word & ((slots != LAST) | (number >= previous))) | ((slots <= OPEN) & (number == END)),
    )
    return tf.where(legal, 0.0, _BARRED)
