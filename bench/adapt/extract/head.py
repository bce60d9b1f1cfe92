"""Extraction: a probability for each sentence of a text, from Transformer layers over the vectors of its sentences.

Liu & Lapata (2019), section 3.1, BERTSUM. Each sentence has a [CLS] before it and a [SEP] after it, and segments
alternate, 0 1 0 1 ... The vectors of the sentences pass through Transformer layers and a sigmoid,

    h~ = LN(h + MHAtt(h)),    h' = LN(h~ + FFN(h~)),    p_i = sigmoid(w h_i + b),

where h starts as the sentence's vector plus a sinusoidal encoding of its position. The targets are the oracle's choice
(`bench.adapt.summaries`), and the loss is binary cross-entropy. The summary consists of the best sentences, without
repeated trigrams. Sentences that do not fit into ``length`` are ignored.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import channels, heads, parts, summaries
from ptmbench.bench.adapt.extract import Own
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.operations import HIDDEN, waves
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task


class Codec(heads.Codec):
    """Converts texts to rows of sentences side by side, and their scores to summaries."""

    STATE = ("outputs", "most")

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Own, train: Sequence[Example]):
        if not summaries.wanted(task):
            raise NotApplicable("no-sentences", "because the target text is not part of the source.")
        self.tokenizer, self.settings = tokenizer, settings
        self.most = settings.sentences or task.extra["lead"]
        self.outputs = settings.inter_layers

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        vocabulary, rows = self.tokenizer.vocabulary, []
        texts = [summaries.sentences(example.inputs[0]) or ("",) for example in examples]
        encoded = iter(self.tokenizer.encode([piece for pieces in texts for piece in pieces]))
        for i, (example, pieces) in enumerate(zip(examples, texts, strict=True)):
            own = channels.texts(self.tokenizer, example, [next(encoded) for _ in pieces], pieces)
            laid = [one.filled([vocabulary.cls]) + one + one.filled([vocabulary.sep]) for one in own]
            starts = [0, *accumulate(map(len, laid))][:-1]
            fit = max(1, sum(start + 2 < self.settings.length for start in starts))  # at least one token of the last
            pieces = pieces[:fit]
            ends = [
                min(start + len(ids), self.settings.length) - 1 for start, ids in zip(starts, laid[:fit], strict=False)
            ]
            row = channels.joined(laid[:fit])[: self.settings.length]
            tokens = [*row.ids[:-1], vocabulary.sep]
            segments = [place % 2 for place, ids in enumerate(laid[:fit]) for _ in ids][: self.settings.length]
            gold = summaries.oracle(pieces, example.gold[0], self.most) if example.gold else []
            numbers = {
                "tokens": tokens,
                "segments": segments,
                "starts": starts[:fit],
                "ends": ends,
                "tags": [int(place in gold) for place in range(fit)],
            }
            arrays = {name: np.array(value, np.int32) for name, value in numbers.items()}
            rows.append(InputRow(arrays | row.channels(), i, note=pieces))
        return rows

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[str]:
        block = bool(self.settings.blocking)
        return [
            summaries.joined(row.note, summaries.choose_sentences(row.note, scores, self.most, block))
            for row, scores in zip(rows, outputs, strict=True)
        ]


class Head(parts.Head):
    """``outputs`` is the number of Transformer layers over the sentences."""

    def __init__(self, outputs: int):
        super().__init__()
        self.count, self.blocks = outputs, []

    def build(self, shapes: Any) -> None:
        width = shapes[0][-1]  # of the sentences' vectors, the first part of an `Encoding`
        heads = next(heads for heads in (8, 4, 2, 1) if width % heads == 0)
        for number in range(self.count):
            block = {
                "attention": keras.layers.MultiHeadAttention(heads, width // heads, name=f"attention_{number}"),
                "attention_norm": keras.layers.LayerNormalization(epsilon=1e-6, name=f"attention_norm_{number}"),
                "inner": keras.layers.Dense(4 * width, activation="gelu", name=f"inner_{number}"),
                "outer": keras.layers.Dense(width, name=f"outer_{number}"),
                "norm": keras.layers.LayerNormalization(epsilon=1e-6, name=f"norm_{number}"),
            }
            self.blocks.append(block)
        self.score = keras.layers.Dense(1, name="score")

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        h = tf.cast(reading.tokens, tf.float32)  # [B, N, D]
        if self.count:
            places = tf.range(tf.shape(h)[1])
            h += waves(tf.cast(places, tf.float32), h.shape[-1] + h.shape[-1] % 2)[:, : h.shape[-1]]
        present = batch["starts"] >= 0  # [B, N]
        for block in self.blocks:
            seen = block["attention"](h, h, attention_mask=present[:, None, :])
            h = block["attention_norm"](h + seen)
            h = block["norm"](h + block["outer"](block["inner"](h)))
        return tf.where(present, self.score(h)[..., 0], HIDDEN)  # [B, N]

    def loss(self, logits: Any, batch: dict[str, Any]) -> Any:
        known = tf.cast(batch["tags"] >= 0, tf.float32)
        gold = tf.cast(tf.maximum(batch["tags"], 0), tf.float32)
        each = tf.nn.sigmoid_cross_entropy_with_logits(gold, tf.where(known > 0, logits, 0.0))
        return tf.reduce_sum(each * known) / tf.maximum(tf.reduce_sum(known), 1.0)
