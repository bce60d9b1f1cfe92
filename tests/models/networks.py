"""Small networks of every model, each built once for all tests, and the texts that they read."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models.card import Size
from ptmbench.models.objective import PAIRS
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.media import Media
from ptmbench.models.text.tokenizers import Vocabulary

every_model = pytest.mark.parametrize("name", models.names())


def _first_of_their_kind() -> tuple[list[str], list[str]]:
    """Returns, in alphabetical order, the models with an architecture or an objective that no earlier model has, and
    those of them with a new architecture."""
    seen, kinds, architectures = set(), [], []
    for name in models.names():
        card = models.load(name).CARD
        if card.architecture not in seen:
            architectures.append(name)
        if not {card.architecture, *card.objectives} <= seen:
            kinds.append(name)
        seen |= {card.architecture, *card.objectives}
    return kinds, architectures


KINDS, ARCHITECTURES = _first_of_their_kind()
swept_model = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in KINDS else pytest.mark.rest) for name in models.names()]
)
"""Every model; those that add neither an architecture nor an objective are marked ``rest``, which CI leaves out."""
VOCABULARY = Vocabulary(
    size=150,
    symbols={"languages": ("en", "xx"), "entities": ("Q1", "Q2", "Q3", "Q4", "Q5", "Q6")},
    widths={"entities": 12, "regions": 5},
)
ROWS, LENGTH = 4, 24


def small(module) -> Size:
    """Returns a size of the model's own kind that is fast to build."""
    tiny = module.SIZES["tiny"]
    return Size(layers=min(tiny.layers, 2), width=32, heads=2, inner=64, length=48)


def build(module, size: Size, vocabulary: Vocabulary = VOCABULARY):
    """Builds the network of ``module``. A student gets a teacher, whose weights are random too."""
    teacher = getattr(module, "TEACHER", None)
    if teacher is None:
        return module.build(size, vocabulary)
    return module.build(size, vocabulary, build(models.load(teacher.model), teacher.size(size), vocabulary))


@cache
def corpus() -> Corpus:
    """60 documents of 6 sentences. Every sentence counts upwards from a random word, so that there is something to
    learn. Its first two words mention an entity, which the first word determines."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(4, 12, 360)
    starts = rng.integers(0, 40, 360)
    ids = np.concatenate(
        [VOCABULARY.first + start + np.arange(size) for start, size in zip(starts, sizes, strict=True)]
    )
    begins = np.cumsum(sizes) - sizes
    entities = np.zeros(len(ids), np.int32)
    entities[begins], entities[begins + 1] = 1 + starts % 6, -1 - starts % 6
    return Corpus(
        ids=ids.astype(np.int32),
        sentences=np.concatenate([[0], np.cumsum(sizes)]),
        documents=np.arange(0, 361, 6),
        heads=np.ones(len(ids), bool),
        layers={"entities": entities},
        vectors={"entities": np.pad(rng.normal(0, 1, (6, 12)), [(1, 0), (0, 0)]).astype(np.float32)},
    )


@cache
def captions() -> Corpus:
    """`corpus` with a picture for each document. Its regions encode the first words of its first sentences."""
    text = corpus()
    starts = text.ids[text.sentences[:-1]].reshape(-1, 6)  # [D, 6]
    counts = 1 + np.arange(len(starts)) % 6
    words = np.concatenate([row[:count] for row, count in zip(starts, counts, strict=True)])
    regions = np.stack([words >> bit & 1 for bit in range(5)], axis=-1)
    boxes = np.tile([0.25, 0.25, 0.75, 0.5], len(words))
    numbers = {"regions": regions.ravel().astype(np.float32), "boxes": boxes.astype(np.float32)}
    return replace(text, media=Media(np.concatenate([[0], np.cumsum(counts)]), numbers, {"regions": 5, "boxes": 4}))


@cache
def pairs() -> Corpus:
    """180 pairs of sentences like those of `corpus`. The second sentence has the words of the first one with ids 50
    higher, without the last word if their number is odd."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(4, 12, 180)
    starts, ids, ends = VOCABULARY.first + rng.integers(0, 30, 180), [], [0]
    for start, size in zip(starts, sizes, strict=True):
        for shift, count in ((0, size), (50, size - size % 2)):
            ids.append(start + shift + np.arange(count))
            ends.append(ends[-1] + count)
    ids = np.concatenate(ids)
    return Corpus(
        ids=ids.astype(np.int32),
        sentences=np.array(ends),
        documents=np.arange(0, 361, 2),
        heads=np.ones(len(ids), bool),
        layers={"languages": np.repeat(np.arange(360) % 2 + 1, np.diff(ends)).astype(np.int32)},
    )


@cache
def network(name: str) -> Any:
    """Returns the model called ``name``, built once for all tests."""
    import keras

    module = models.load(name)
    keras.utils.set_random_seed(3)
    return build(module, small(module))


def corpus_of(name: str) -> Corpus:
    """Returns the corpus that the model called ``name`` is trained on."""
    needs = network(name).batches.needs
    return pairs() if PAIRS in needs else captions() if "regions" in needs else corpus()


@cache
def made(name: str) -> SimpleNamespace:
    """Returns the module of the model called ``name``, its network, and its batches."""
    built = network(name)
    return SimpleNamespace(module=models.load(name), built=built, batches=built.batches(corpus_of(name), ROWS, LENGTH))


def seed(*numbers: int):
    import tensorflow as tf

    return tf.constant(numbers or (1, 2), tf.int32)


def text(rows: int = 3, length: int = 12, fill: int = 0) -> dict[str, np.ndarray]:
    """[CLS] words [SEP] in rows of different lengths, with ``fill`` more columns of padding."""
    rng = np.random.default_rng(5)
    tokens = np.zeros((rows, length + fill), np.int32)
    for row in range(rows):
        size = length - 2 * row
        tokens[row, :size] = rng.integers(VOCABULARY.first, VOCABULARY.size, size)
        tokens[row, 0], tokens[row, size - 1] = VOCABULARY.cls, VOCABULARY.sep
    segments = np.zeros_like(tokens)
    segments[:, 4:] = 1
    return {"tokens": tokens, "segments": segments * (tokens > 0)}
