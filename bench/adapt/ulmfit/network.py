"""ULMFiT's training in TensorFlow: concat pooling, learning rates by layer, and the language model's training."""

import math
import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.course import Bookmark, Course
from ptmbench.bench.adapt.first import FirstStage
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.rated import RatedStep
from ptmbench.bench.adapt.ulmfit import Own
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.operations import HIDDEN
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary
from ptmbench.tasks.forms import Form

CUT, RATIO = 0.1, 32
"""Share of the steps in which rates rise, and the ratio of the highest rate to the lowest (section 3.2)."""


class Reading(parts.Reading):
    """Concat pooling and a hidden layer on top of it."""

    def __init__(self, encoder: Any, settings: Own):
        super().__init__(name="reading")
        self.hidden = keras.layers.Dense(encoder.width, activation="relu", name="hidden") if settings.concat else None

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        if self.hidden is None:
            return encoding
        real = ops.cast(ops.not_equal(batch["tokens"], 0), encoding.tokens.dtype)[..., None]  # [B, T, 1]
        highest = ops.max(encoding.tokens + (1.0 - real) * HIDDEN, axis=1)  # [B, D]
        mean = ops.sum(encoding.tokens * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)
        return encoding._replace(pooled=self.hidden(ops.concatenate([encoding.pooled, highest, mean], axis=-1)))


def groups(paths: Sequence[str], output: str = "") -> list[int]:
    """The number of the layer of each weight: 0 for the encoder's weights outside of layers (embeddings), 1 and up for
    its layers, and the highest number for the head. The encoder's weight ``output`` counts as part of the head."""
    found = [re.search(r"(?:^|[/_])layer_(\d+)", path) for path in paths]
    layers = [int(match[1]) + 1 if match else 0 for match in found]
    head = max(layers) + 1
    inside = [path.startswith("encoder/") and path != output for path in paths]
    return [layer if own else head for layer, own in zip(layers, inside, strict=True)]


def slanted(step: int, steps: int) -> float:
    """The share of the peak rate at ``step`` (from 0) of ``steps``: equation 3."""
    cut = max(1, math.floor(steps * CUT))
    rising = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / CUT - 1))
    return (1 + max(0.0, rising) * (RATIO - 1)) / RATIO


def rate(step: RatedStep, number: int, steps: int, settings: Own, output: str | None = None) -> float:
    """Returns the head's rate at step ``number`` of ``steps``, and sets the rates of the layers as shares of it.
    ``output`` is for the training of the language model: the path of the embedding table that is also the output layer,
    "" for none. All layers learn from the beginning then."""
    layers = groups([variable.path for variable in step.variables], output or "")
    head = max(layers)
    lowest = head - number * settings.epochs // steps if settings.unfreeze and output is None else 0
    step.shares.assign([settings.discriminative ** (g - head) if g >= lowest else 0.0 for g in layers])
    return settings.learning_rate * (slanted(number, steps) if settings.slanted else 1.0)


class First(FirstStage):
    """Trains all weights of the language model by its own objective on the texts of the training set. The step is
    traced once."""

    def __init__(self, network: Any, vocabulary: Vocabulary, form: Form, **options: Any):
        if network.log_likelihood is None:
            raise NotApplicable("not-a-language-model", "because only a language model is fine-tuned this way.")
        if form is Form.GENERATION:
            raise NotApplicable("no-head", "because generation has no new head that could be trained first.")
        self.network, self.vocabulary = network, vocabulary
        self.step = RatedStep(network.loss, network.loss.trainable_variables, **options)
        self.output = table.path if (table := parts.token_table(network.encoder)) is not None else ""

    def __call__(
        self,
        adapted: Any,
        rows: Sequence[InputRow],
        settings: Own,
        seed: int,
        bookmark: Bookmark,
        teacher: Any = None,
    ) -> Course:
        self.step.reset()
        (course, _), corpus = bookmark.begin(self), corpus_of(rows, self.vocabulary)
        per_step = settings.batch * settings.length
        whole = corpus.tokens + 2 * (len(corpus.documents) - 1)  # with special tokens around each text
        steps = math.ceil(whole * settings.lm_epochs / per_step)
        steps = min(steps, settings.max_steps or steps)
        make = self.network.batches(corpus, settings.batch, settings.length)

        def one_step(number: int) -> float:
            now = rate(self.step, number, steps, settings, self.output)
            course.tokens += per_step
            return float(self.step(make(number, seed), (seed, number), now)["loss"])

        return self.train(course, steps, seed, bookmark, one_step)


def corpus_of(rows: Sequence[InputRow], vocabulary: Vocabulary) -> Corpus:
    """The texts of ``rows`` without special tokens, but with [UNK]. Each text is a document of one sentence, and every
    token counts as the beginning of a word."""
    texts = [np.ravel(row.arrays["tokens"]) for row in rows]
    texts = [text[(text >= vocabulary.first) | (text == vocabulary.unk)] for text in texts]
    sizes = [len(text) for text in texts if len(text)]
    ids = np.concatenate([*texts, np.zeros(0, np.int32)]).astype(np.int32)
    return Corpus(ids, np.cumsum([0, *sizes]), np.arange(len(sizes) + 1), np.ones(len(ids), bool))
