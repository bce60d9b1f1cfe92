"""fastText as a classifier: a softmax over the mean of the vectors of a text's words and word bigrams.

Joulin, Grave, Bojanowski and Mikolov (2017), Bag of Tricks for Efficient Text Classification, section 2: the vectors
are learnt with the classifier, by plain SGD with a learning rate that falls linearly to 0. Bigrams keep some of the
word order. They share a fixed number of vectors, by the hash function of the authors' program.

    L = - ln softmax(B h)[answer],        h = mean over the words and bigrams g of the text of a_g

Words are separated by blanks and in lower case, and the end of the text is a word too. If an example has two texts, the
words of the second text have vectors of their own, and no bigram crosses from one text to the other.

Differences from the paper and its program:

- The softmax is not hierarchical. The hierarchical one is for hundreds of thousands of classes.
- The program's threads process examples in parallel and overwrite each other's weights. Here, the examples of a batch
  are steps that start from the same weights.
- Small training sets are trained on for more epochs.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from ptmbench.bench.baselines._shared import classified
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Question

LABEL = "fastText classifier"
WIDTH = 10
"""The paper's number of hidden units."""
BUCKETS = 2_000_000
"""Vectors that bigrams share: the default of the authors' program."""
RATE, BATCH = 0.5, 32
"""The highest of the paper's learning rates; examples per batch."""
EPOCHS, MOST_EPOCHS, STEPS = 5, 25, 250_000
"""The paper's 5 epochs, or up to 25 if 5 epochs would be fewer examples than ``STEPS``."""
_END = "</s>"


def _of_questions(answers: Sequence[str], train: Sequence[Question], asked: Sequence[Question]) -> np.ndarray:
    """Probabilities of ``answers`` to each of ``asked``, [N, C]. They are equal if there are no training examples."""
    if not train:
        return np.full((len(asked), len(answers)), 1 / len(answers))
    gold = [answers.index(str(question.gold)) for question in train]
    return shares([q.inputs for q in train], gold, [q.inputs for q in asked], len(answers))


def shares(
    train: Sequence[Sequence[str]], gold: Sequence[int], asked: Sequence[Sequence[str]], classes: int
) -> np.ndarray:
    """Probabilities of the ``classes`` for ``asked``, [N, C], after training on ``train``. Both are lists of the texts
    (one or two) of each example. ``gold`` has the classes of ``train`` as numbers from 0."""
    ids, ends, occurring = features([*train, *asked], len(train))
    epochs = min(MOST_EPOCHS, max(EPOCHS, STEPS // len(train)))
    tables = fit(*initial(len(occurring), classes), ids, ends[: len(train) + 1], np.asarray(gold), epochs=epochs)
    edges = ends[len(train) :]
    return probabilities(*tables, ids, edges[:-1], edges[1:])


def features(
    examples: Sequence[Sequence[str]], known: int, buckets: int = BUCKETS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features of each example's texts: their ids int [M], the offsets of the examples in these ids, int [N + 1],
    and the feature of each id, int [F].

    A feature is the number of a word, or V plus the bucket of a bigram. Words are numbered in the order of the first
    ``known`` examples, which have V words. Words that occur only later are no features. Only features that occur have
    ids, because most buckets are never used.
    """
    number: dict[tuple[int, str], int] = {}
    words: list[int] = []
    lengths: list[int] = []  # words of each text
    owner: list[int] = []  # the example of each text
    vocabulary = 0
    for i, texts in enumerate(examples):
        for place, text in enumerate(texts):
            found = [number.setdefault((place, word), len(number)) for word in (*text.lower().split(), _END)]
            words += found
            lengths.append(len(found))
            owner.append(i)
        if i == known - 1:
            vocabulary = len(number)
    flat = np.array(words, np.int64)
    text = np.repeat(np.arange(len(lengths)), lengths)  # the text of each word
    hashes = np.array([hashed(f"{place}:{word}" if place else word) for place, word in number], np.uint32)
    wide = hashes.view(np.int32).astype(np.int64).view(np.uint64)[flat]  # the program keeps them as signed numbers
    bigrams = (wide[:-1] * np.uint64(116049371) + wide[1:]) % np.uint64(buckets)
    inside, learnt = text[:-1] == text[1:], flat < vocabulary
    ids = np.concatenate([flat[learnt], vocabulary + bigrams[inside].astype(np.int64)])
    of = np.asarray(owner)[np.concatenate([text[learnt], text[:-1][inside]])]
    ids = ids[np.argsort(of, kind="stable")]
    occurring, ids = np.unique(ids, return_inverse=True)
    ends = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(examples)))])
    return ids, ends, occurring


def hashed(word: str) -> int:
    """The program's 32-bit FNV-1a hash, which reads the bytes of UTF-8 as signed numbers."""
    value = 2166136261
    for byte in word.encode():
        value = (value ^ (byte | 0xFFFFFF00 if byte > 127 else byte)) * 16777619 % 2**32
    return value


def initial(count: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The program's initial weights, float32: A [F, D], uniform between -1 / D and 1 / D, and B [C, D], zeros."""
    drawn = np.random.default_rng(seed).random((count, WIDTH), np.float32)
    return (2 * drawn - 1) / np.float32(WIDTH), np.zeros((classes, WIDTH), np.float32)


def fit(
    a: np.ndarray,
    b: np.ndarray,
    ids: np.ndarray,
    ends: np.ndarray,
    gold: np.ndarray,
    *,
    epochs: int,
    rate: float = RATE,
    batch: int = BATCH,
    seed: int | None = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Trains ``a`` [F, D] and ``b`` [C, D] in place for ``epochs``, and returns them. ``ends`` [N + 1] has the offsets
    of the examples in their features ``ids`` [M]. ``seed`` draws the order of the examples; None keeps it."""
    size, done = len(ends) - 1, 0
    rng = np.random.default_rng(seed)
    columns, entries = np.arange(a.shape[1]), a.reshape(-1)
    for _ in range(epochs):
        order = np.arange(size) if seed is None else rng.permutation(size)
        for first in range(0, size, batch):
            part = order[first : first + batch]
            h, which, counts = _mean(a, ids, ends[part], ends[part + 1])
            slope = _softmax(h @ b.T)  # gradient with respect to the scores, [B, C]
            slope[np.arange(len(part)), gold[part]] -= 1.0
            slope *= np.float32(rate * (1 - done / (epochs * size)))
            back = slope @ b / counts[:, None].astype(np.float32)  # [B, D]
            b -= slope.T @ h
            # Entry by entry, because NumPy takes half the time that it takes row by row.
            places = which[:, None] * len(columns) + columns
            np.subtract.at(entries, places.ravel(), np.repeat(back, counts, axis=0).ravel())
            done += len(part)
    return a, b


def probabilities(a: np.ndarray, b: np.ndarray, ids: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Probabilities of the classes, [N, C], for examples with the features ``ids`` from ``begin`` to ``end`` [N]."""
    slices = [slice(first, first + 1024) for first in range(0, len(begin), 1024)]
    return np.concatenate([_softmax(_mean(a, ids, begin[part], end[part])[0] @ b.T) for part in slices])


def _mean(
    a: np.ndarray, ids: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean of the vectors of each example, [B, D], the features, [M], and their number per example, [B]."""
    counts = end - begin
    starts = np.cumsum(counts) - counts
    which = ids[np.repeat(begin - starts, counts) + np.arange(counts.sum())]
    return np.add.reduceat(a[which], starts) / counts[:, None].astype(np.float32), which, counts


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


PREDICTORS = {Form.CLASSIFICATION: partial(classified, _of_questions)}
