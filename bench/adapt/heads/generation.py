"""Generation: the model's own decoder writes the target, token by token; no new weights."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from ptmbench.bench.adapt import channels, heads, parts, summaries
from ptmbench.bench.adapt.heads import InputRow, layout
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task

_BARRED = -1e8
"""Logits of ids that a model cannot write are below this (see `models.objectives._absent`)."""


class Codec(heads.Codec):
    """Converts source and target to token ids, and generated ids to text. Targets are [CLS] text [SEP]."""

    STATE = ("outputs", "by_line")

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        if train and not any(example.gold for example in train):
            raise NotApplicable("no-targets", "because its training set has no target texts.")
        self.tokenizer, self.settings, self.outputs = tokenizer, settings, settings.label_smoothing
        self.by_line = task.headline == "rougeLsum"
        """Whether the metric needs one sentence per line. Not every tokenizer can write line breaks."""

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        vocabulary, room = self.tokenizer.vocabulary, self.settings.target_length - 2
        sources = self.tokenizer.encode([e.inputs[0] for e in examples])
        targets = self.tokenizer.encode([e.gold[0] if e.gold else "" for e in examples])
        rows = []
        for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
            texts = channels.texts(self.tokenizer, examples[i], [source])
            arrays = layout(vocabulary, texts, self.settings.length)
            arrays["targets"] = np.array([vocabulary.cls, *target[:room], vocabulary.sep], np.int32)
            del arrays["segments"]  # decoders read one text
            rows.append(InputRow(arrays, i))
        return rows

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[str]:
        texts = []
        for ids in outputs:
            ends = np.flatnonzero(ids == self.tokenizer.vocabulary.sep)
            text = self.tokenizer.decode(ids[: ends[0]] if len(ends) else ids)
            texts.append("\n".join(summaries.sentences(text)) if self.by_line else text)
        return texts


class Head(parts.Head):
    """The loss of the next-token logits from `Pretrainable.decode`. It has no weights.

    ``outputs`` is the label smoothing: the share of the target probability that is spread evenly over the vocabulary
    (Szegedy et al., 2016, section 7; Vaswani et al., 2017, section 5.4).
    """

    writes = True

    def __init__(self, outputs: float):
        super().__init__()
        self.smoothing = outputs

    def loss(self, logits: Any, batch: dict[str, Any]) -> Any:
        each, known = self.losses(logits, batch)
        return ops.sum(each * known) / ops.maximum(ops.sum(known), 1.0)

    def losses(self, logits: Any, batch: dict[str, Any]) -> tuple[Any, Any]:
        """The loss of each token after the first, and which of them are not padding: float [B, S - 1] each."""
        following = batch["targets"][:, 1:]  # [B, S - 1]
        known = ops.cast(following != 0, "float32")
        each = keras.losses.sparse_categorical_crossentropy(following, logits[:, :-1], from_logits=True)
        if self.smoothing:  # - mean over the vocabulary of ln p, from logits: their logsumexp less their mean
            there = ops.cast(logits[:, :-1] > _BARRED, logits.dtype)  # ids without a token are excluded
            mean = ops.sum(logits[:, :-1] * there, axis=-1) / ops.sum(there, axis=-1)
            even = ops.logsumexp(logits[:, :-1], axis=-1) - mean
            each = (1.0 - self.smoothing) * each + self.smoothing * even
        return each, known
