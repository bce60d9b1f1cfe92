"""fastText as a classifier: the mean of the vectors of a text's words and word pairs under a softmax. No TensorFlow.

Joulin, Grave, Bojanowski and Mikolov (2017), Bag of Tricks for Efficient Text Classification, section 2: the vectors
are learnt with the classifier, by plain SGD whose rate falls linearly to 0. Pairs of neighbouring words keep some of
the order; they share a fixed number of vectors by the hash of the authors' program.

    L = - ln softmax(B h)[answer],        h = mean over the words and bigrams g of the text of a_g

Words are what is between blanks, in lower case, and the end of the text is one. Of two texts, the second one's words
are words of their own, and no bigram crosses from one to the other. What differs: the softmax is a plain one (the
paper's hierarchical one serves hundreds of thousands of classes); the program's threads walk from example to example
side by side and overwrite each other's weights, here the examples of a batch are steps that do not see each other; and
small training sets are walked through more often.
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
"""The highest of the paper's rates; examples that do not see each other."""
EPOCHS, MOST_EPOCHS, STEPS = 5, 25, 250_000
"""The paper's 5 epochs, and up to 25 where 5 would be fewer examples than ``STEPS``."""
_END = "</s>"


def _of_questions(answers: Sequence[str], train: Sequence[Question], asked: Sequence[Question]) -> np.ndarray:
    """Probabilities of ``answers`` to each of ``asked``, [N, C]; all alike where there is nothing to learn from."""
    if not train:
        return np.full((len(asked), len(answers)), 1 / len(answers))
    gold = [answers.index(str(question.gold)) for question in train]
    return shares([q.inputs for q in train], gold, [q.inputs for q in asked], len(answers))


def shares(
    train: Sequence[Sequence[str]], gold: Sequence[int], asked: Sequence[Sequence[str]], classes: int
) -> np.ndarray:
    """Probabilities of the ``classes`` for ``asked``, [N, C], after training on ``train``, whose classes ``gold`` are
    numbers from 0; both are lists of the texts (one or two) of each example."""
    ids, ends, occurring = features([*train, *asked], len(train))
    epochs = min(MOST_EPOCHS, max(EPOCHS, STEPS // len(train)))
    tables = fit(*initial(len(occurring), classes), ids, ends[: len(train) + 1], np.asarray(gold), epochs=epochs)
    edges = ends[len(train) :]
    return probabilities(*tables, ids, edges[:-1], edges[1:])


def features(
    examples: Sequence[Sequence[str]], known: int, buckets: int = BUCKETS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features of each example's texts: ids int [M], where the ids of each example begin and end, int [N + 1], and
    what the ids stand for, int [F].

    A feature is the number of a word in the order of the first ``known`` examples, which have V, or V and the bucket of
    a bigram; words that only occur later are none. Ids number those that occur: most of the buckets' vectors are never
    asked for.
    """
    number: dict[tuple[int, str], int] = {}
    words: list[int] = []
    lengths: list[int] = []  # of texts
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
    text = np.repeat(np.arange(len(lengths)), lengths)  # of each word
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
    """The program's first weights: a uniform within 1 / D, float32 [F, D], and B zeros, [C, D]."""
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
    """``a`` [F, D] and ``b`` [C, D], which are changed in place, after ``epochs`` over the examples whose features
    ``ids`` [M] ``ends`` [N + 1] tells apart. Their order is drawn from ``seed``; None keeps the order of the list."""
    size, done = len(ends) - 1, 0
    rng = np.random.default_rng(seed)
    columns, entries = np.arange(a.shape[1]), a.reshape(-1)
    for _ in range(epochs):
        order = np.arange(size) if seed is None else rng.permutation(size)
        for first in range(0, size, batch):
            part = order[first : first + batch]
            h, which, counts = _mean(a, ids, ends[part], ends[part + 1])
            slope = _softmax(h @ b.T)  # of the loss by the scores, [B, C]
            slope[np.arange(len(part)), gold[part]] -= 1.0
            slope *= np.float32(rate * (1 - done / (epochs * size)))
            back = slope @ b / counts[:, None].astype(np.float32)  # [B, D]
            b -= slope.T @ h
            # Entry by entry: it takes NumPy half the time of row by row.
            places = which[:, None] * len(columns) + columns
            np.subtract.at(entries, places.ravel(), np.repeat(back, counts, axis=0).ravel())
            done += len(part)
    return a, b


def probabilities(a: np.ndarray, b: np.ndarray, ids: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Of the classes, [N, C], for the examples whose features stand in ``ids`` from ``begin`` to ``end`` [N]."""
    slices = [slice(first, first + 1024) for first in range(0, len(begin), 1024)]
    return np.concatenate([_softmax(_mean(a, ids, begin[part], end[part])[0] @ b.T) for part in slices])


def _mean(
    a: np.ndarray, ids: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean of the vectors of each example, [B, D], its features, [M], and how many each has, [B]."""
    counts = end - begin
    starts = np.cumsum(counts) - counts
    which = ids[np.repeat(begin - starts, counts) + np.arange(counts.sum())]
    return np.add.reduceat(a[which], starts) / counts[:, None].astype(np.float32), which, counts


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


PREDICTORS = {Form.CLASSIFICATION: partial(classified, _of_questions)}
