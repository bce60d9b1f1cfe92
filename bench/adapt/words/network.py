"""Vectors of single words in TensorFlow, and what is compared with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt.asking import Asked
from ptmbench.bench.adapt.heads import against
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.adapt.words import comparing_flops, words_of
from ptmbench.bench.engine.cost import Traced, phase
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Form, Rank
from ptmbench.tasks.metrics.ranks import rank
from ptmbench.tasks.task import Example

_BATCH = 8
"""Rows are filled up to a multiple of this."""
_CHUNK = 256
"""Questions whose scores of all candidates are in memory at the same time."""


@dataclass(frozen=True)
class Row:
    """A word as a network reads it, and the places of its tokens: [UNK] where the vocabulary has nothing for it."""

    tokens: list[int]
    segments: list[int]
    first: int
    count: int


def respond(asked: Asked) -> tuple[list[Any], float]:
    """What the vectors of single words say, and the FLOPs of reading and comparing them."""
    form = asked.task.form
    with phase("encode"):
        words = words_of(form, asked.report)
        found = rows(asked.tokenizer, asked.settings, words)
    with phase("evaluate"):
        answers = predictions(form, asked.report, words, vectors(asked.network, asked.settings, found))
    lengths = [len(row.tokens) for row in found]
    above = asked.settings.layers in ("top", "all")  # else nothing above the embeddings is in the graph
    read = asked.reading_flops(lengths) if above else asked.embedding_flops(lengths)
    return answers, read + comparing_flops(form, asked.report, asked.shape.width)


def rows(tokenizer: Tokenizer, settings: Settings, words: Sequence[str]) -> list[Row]:
    """A row for each word, cut off where it is longer than the ``length`` of the settings."""
    template, found = tokenizer.vocabulary.template, []
    for ids, _ in tokenizer.encode_words([[word] for word in words]):
        own = ids[: settings.length - template.added(1)]
        tokens, segments = template.lay([own])
        found.append(Row(tokens, segments, template.begins([len(own)])[0], len(own)))
    return found


def vectors(network: Any, settings: Settings, asked: Sequence[Row]) -> np.ndarray:
    """The vector of each row's word, float32 [N, D], of length 1."""

    def means(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        layers = network.encoder(batch).layers
        chosen = {"": layers[:1], "embedding": layers[:1], "top": layers[-1:], "all": layers}[settings.layers]
        inside = tf.cast(batch["inside"], tf.float32)[:, :, None]  # [B, T, 1]
        total = tf.add_n([tf.reduce_sum(inside * tf.cast(layer, tf.float32), axis=1) for layer in chosen])  # [B, D]
        return tf.math.l2_normalize(total, axis=1)  # the length of a mean does not matter

    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in ("tokens", "segments", "inside")}
    read = Traced(lambda: tf.function(means, autograph=False).get_concrete_function(spec))
    order = sorted(range(len(asked)), key=lambda i: len(asked[i].tokens))
    found: list[Any] = [None] * len(asked)
    for first in range(0, len(order), settings.batch):
        part = order[first : first + settings.batch]
        for i, vector in zip(part, read(_stacked([asked[i] for i in part])).numpy(), strict=True):
            found[i] = vector
    return np.stack(found)


def predictions(form: Form, examples: Sequence[Example], words: Sequence[str], found: np.ndarray) -> list[Any]:
    """The cosine of each pair, or the `Rank` of each question's fourth word, by the vectors ``found`` [N, D] of
    ``words``."""
    number = {word: place for place, word in enumerate(words)}
    if form is Form.SIMILARITY:
        return [float(found[number[one]] @ found[number[other]]) for one, other in (e.inputs for e in examples)]
    candidates, results = list(examples[0].gold.candidates), []
    places = {word: place for place, word in enumerate(candidates)}
    compare = against(found[[number[word] for word in candidates]])
    for first in range(0, len(examples), _CHUNK):
        asked = examples[first : first + _CHUNK]
        a, b, c = (found[[number[e.inputs[i]] for e in asked]] for i in range(3))  # [n, D]
        for example, scores in zip(asked, compare(b - a + c), strict=True):
            others = [places[word] for word in example.gold.others]
            left = scores.copy()
            left[others] = -np.inf
            best = candidates[int(np.argmax(left))]
            results.append(Rank(rank(scores, places[str(example.gold)], others), best=best))
    return results


def _stacked(part: Sequence[Row]) -> dict[str, tf.Tensor]:
    longest = -(-max(len(row.tokens) for row in part) // _BATCH) * _BATCH
    batch = {name: np.zeros((len(part), longest), np.int32) for name in ("tokens", "segments", "inside")}
    for i, row in enumerate(part):
        batch["tokens"][i, : len(row.tokens)] = row.tokens
        batch["segments"][i, : len(row.segments)] = row.segments
        batch["inside"][i, row.first : row.first + row.count] = 1
    return {name: tf.constant(array) for name, array in batch.items()}
