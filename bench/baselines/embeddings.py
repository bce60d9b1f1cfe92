"""Ranks candidates by a vector for every name, which is learnt from the training examples only.

This is ComplEx (Trouillon et al., 2016, equation 9), trained as by Lacroix et al. (2018):

    score(h, r, t) = Re sum_d  h_d r_d conj(t_d)

Each question about a fact is a relation of its own. The loss is a softmax over candidates: here the answers of the
batch and a sample, in the paper all candidates. The cube of the modulus of the weights is penalised (section 4). The
optimizer is Adagrad.

The first text of an example is used by its name (`tasks.forms.Piece`), and the others as the relation. Names and
relations that do not occur in training keep their random vectors.
"""

from collections.abc import Sequence

import numpy as np

from ptmbench.tasks.forms import Form, Rank
from ptmbench.tasks.metrics.ranks import rank
from ptmbench.tasks.task import Example, Task

LABEL = "embeddings of names"
WIDTH = 64
"""Complex numbers per vector."""
EPOCHS, BATCH, SAMPLED = 12, 512, 512
RATE, WEIGHT = 0.1, 0.15
"""Adagrad's learning rate; the weight of the penalty per example."""


def ranks(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Rank]:
    """The rank of the target of each of ``examples``, after training on ``train``."""
    names = {name: place for place, name in enumerate(examples[0].gold.candidates)}
    for example in (*train, *examples):
        names.setdefault(_name(example), len(names))
    relations = {key: place for place, key in enumerate(dict.fromkeys(e.inputs[1:] for e in (*train, *examples)))}
    known = [(names[_name(e)], relations[e.inputs[1:]], names[str(e.gold)]) for e in train]
    entities, turns = fit(np.array(known, np.int64), len(names), len(relations))
    candidates, found = list(examples[0].gold.candidates), []
    for example in examples:
        asked = entities[names[_name(example)]] * turns[relations[example.inputs[1:]]]  # [D]
        scores = _real(asked[None], entities[: len(candidates)])[0]  # [C]
        others = [names[other] for other in example.gold.others]
        best = candidates[int(np.argmax(scores))]
        found.append(Rank(rank(scores, names[str(example.gold)], others), best=best))
    return found


def fit(
    triples: np.ndarray, entities: int, relations: int, epochs: int = EPOCHS, width: int = WIDTH
) -> tuple[np.ndarray, np.ndarray]:
    """Trains vectors of the entities, complex64 [N, D], and of the relations, [R, D]. ``triples`` int [M, 3] have
    questions (entity, relation) and their answers."""
    rng = np.random.default_rng(0)
    tables = [
        (1e-1 * (rng.normal(size=(n, width)) + 1j * rng.normal(size=(n, width)))).astype(np.complex64)
        for n in (entities, relations)
    ]
    sums = [np.full(table.shape, 1e-10, np.float32) for table in tables]
    for _ in range(epochs):
        order = rng.permutation(len(triples))
        for first in range(0, len(order), BATCH):
            part = triples[order[first : first + BATCH]]
            sample = rng.integers(0, entities, SAMPLED)
            _step(tables, sums, part, np.concatenate([part[:, 2], sample]))
    return tables[0], tables[1]


def _step(tables: list[np.ndarray], sums: list[np.ndarray], part: np.ndarray, offered: np.ndarray) -> None:
    """One step of Adagrad on ``part`` int [B, 3], against the candidates ``offered`` int [K], whose first B are the
    answers."""
    count = len(part)
    h, r, t = tables[0][part[:, 0]], tables[1][part[:, 1]], tables[0][offered]
    asked = h * r  # [B, D]
    scores = _real(asked, t)  # [B, K]
    scores[(offered[None] == part[:, 2:]) & (np.arange(len(offered)) != np.arange(count)[:, None])] = -np.inf
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(count), np.arange(count)] -= 1.0  # gradient with respect to the scores, [B, K]
    slope = shares.astype(np.complex64) @ t  # [B, D]; by the conjugate, so that a step goes against it
    back = shares.T.astype(np.complex64) @ asked  # [K, D]
    h_slope, r_slope = slope * np.conj(r), slope * np.conj(h)
    back[:count] += _penalty(t[:count])
    _descend(tables[0], sums[0], np.concatenate([part[:, 0], offered]), np.concatenate([h_slope + _penalty(h), back]))
    _descend(tables[1], sums[1], part[:, 1], r_slope + _penalty(r))


def _penalty(x: np.ndarray) -> np.ndarray:
    """Gradient of the penalty, `WEIGHT` times the cube of the modulus |x|."""
    return 3.0 * WEIGHT * np.abs(x) * x


def _descend(table: np.ndarray, sums: np.ndarray, rows: np.ndarray, slopes: np.ndarray) -> None:
    """Adagrad with one rate for both parts of a complex number. First adds the gradients of the same row."""
    which, place = np.unique(rows, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(which)))
    total = np.add.reduceat(slopes[order], starts, axis=0)
    sums[which] += np.abs(total) ** 2
    table[which] -= (RATE * total / np.sqrt(sums[which])).astype(np.complex64)


def _real(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Re a conj(b), float [A, B], as one product of real matrices."""
    left = np.concatenate([a.real, a.imag], axis=1)
    return left @ np.concatenate([b.real, b.imag], axis=1).T


def _name(example: Example) -> str:
    return getattr(example.inputs[0], "name", str(example.inputs[0]))


PREDICTORS = {Form.RANKING: ranks}
