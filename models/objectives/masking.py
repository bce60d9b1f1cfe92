"""Variants of `models.objectives.mlm.noise`: which tokens are masked, and how long a mask is kept.

    dynamic     a new mask whenever a text is seen (Liu et al., 2019, section 4.1); the default of all samplers here
    static      masks made once, for some copies of the text (BERT as released, and Liu et al., 2019, section 4.1)
    whole words all pieces of a word together (Devlin et al., release of May 2019)
    n-grams     1 to 3 words together, p(n) proportional to 1/n (Lan et al., 2020, section 4.1)
    spans       a geometrically distributed number of words together (Joshi et al., 2020, section 3.1)

All mask 15 % of the text and turn 80 % of that into [MASK], 10 % into random pieces and leave 10 %. Words are never
split; SpanBERT's code splits the last one where the 15 % are reached. `choose` describes how runs are placed. The 15 %
truncate the last run of each row, so runs are shorter than drawn. Where spans touch they are longer. Measured in rows
of 128 tokens of WikiText-2 with 1.1 pieces per word, 10,000 to 20,000 runs each:

    words per run               drawn               hidden here         hidden by the authors' code, rewritten
    SpanBERT, mean              3.80                3.49                3.46
    ALBERT, 1 / 2 / 3 words     .545 / .273 / .182  .571 / .269 / .160  .594 / .262 / .144, longer ones lose on overlap
    UniLM, mean after merging                       1.44                1.45
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ptmbench.models.objective import Batches
from ptmbench.models.objectives import mlm
from ptmbench.models.text.tokenizers import Vocabulary

COPIES = 10
"""Masks per text under static masking (Liu et al., 2019, section 4.1)."""
NGRAMS = tuple(1 / n / sum(1 / k for k in (1, 2, 3)) for n in (1, 2, 3))
"""p(n), Lan et al. (2020), section 4.1: 6/11, 3/11, 2/11."""
SPANS = tuple(0.2 * 0.8 ** (n - 1) / (1 - 0.8**10) for n in range(1, 11))
"""p(n), Joshi et al. (2020), section 3.1: Geo(0.2) given that n <= 10, which has the mean 3.8 that they state. Clipping
longer ones to 10 would give 4.5. Spans that touch are merged and can be longer."""


class Chosen(NamedTuple):
    """M slots per row, [B, M] each: the ``positions`` to mask, whether each slot is ``used``, and the run of words that
    it belongs to, from ``begins`` to ``ends`` (exclusive). The slots of one run are adjacent."""

    positions: np.ndarray
    used: np.ndarray
    begins: np.ndarray
    ends: np.ndarray


def static(batches: Batches, rows: int, batch: int, copies: int = COPIES) -> Batches:
    """Returns ``batches`` of ``batch`` rows that repeat after ``copies`` epochs of ``rows`` rows, as if the text had
    been masked ``copies`` times before training."""
    period = math.ceil(copies * rows / batch)
    return lambda step, seed: batches(step % period, seed)


def whole_words(
    rows: dict[str, np.ndarray], heads: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Returns the arrays of `mlm.noise`, with all pieces of a word masked or none. Each piece draws its 80/10/10
    independently.

    ``heads`` bool [B, T] marks the first tokens of words (`models.objectives.sampling.heads`).
    """
    return ngrams(rows, heads, rng, vocabulary, (1.0,))


def ngrams(
    rows: dict[str, np.ndarray],
    heads: np.ndarray,
    rng: np.random.Generator,
    vocabulary: Vocabulary,
    chances: Sequence[float] = NGRAMS,
    *,
    merge: bool = False,
) -> dict[str, np.ndarray]:
    """Like `whole_words`, but masks runs of n words with probability ``chances[n - 1]``. Runs that overlap or touch are
    merged if ``merge``; otherwise they do not overlap."""
    chosen = choose(rows["tokens"], heads, rng, vocabulary, chances, merge=merge)
    draw = rng.random(chosen.positions.shape, dtype=np.float32)
    return mlm.hide(rows, chosen.positions, chosen.used, draw, rng, vocabulary)


def spans(
    rows: dict[str, np.ndarray], heads: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary
) -> tuple[dict[str, np.ndarray], Chosen]:
    """Returns the arrays of `mlm.noise` for spans of words, and the spans. Spans that overlap or touch are merged, as
    in the authors' code.

    80/10/10 is drawn once per span: all of its tokens become [MASK], or random pieces, or stay.
    """
    chosen = choose(rows["tokens"], heads, rng, vocabulary, SPANS, merge=True)
    draw = rng.random(chosen.positions.shape, dtype=np.float32)
    first = np.arange(draw.shape[1]) - (chosen.positions - chosen.begins)  # the slot of the span's first token
    draw = np.take_along_axis(draw, np.where(chosen.used, first, 0), axis=1)
    return mlm.hide(rows, chosen.positions, chosen.used, draw, rng, vocabulary), chosen


def choose(
    tokens: np.ndarray,
    heads: np.ndarray,
    rng: np.random.Generator,
    vocabulary: Vocabulary,
    chances: Sequence[float],
    *,
    merge: bool = False,
    rate: float = mlm.RATE,
) -> Chosen:
    """Chooses runs of words that make up a share ``rate`` of each row's text, or as much of it as whole words can.

    Words are tried in random order, each as the first of a run of n words with probability ``chances[n - 1]``. Without
    ``merge``, runs do not overlap, and a drawn length is kept until a run of that length fits. If it were drawn again
    for each word, long runs would be too rare. With ``merge``, any word that is not masked yet can be the first (with a
    probability proportional to its number of pieces), a run ends with its text, and runs that overlap or touch are
    merged. The run that reaches ``rate`` is truncated and is the last one, so the remainder is not filled with short
    runs.
    """
    rows, length = tokens.shape
    mark = (tokens == vocabulary.pad) | (tokens == vocabulary.cls) | (tokens == vocabulary.sep)
    heads = heads & ~mark
    row, longest = np.arange(rows), len(chances)
    words = heads.sum(axis=1)  # [B]
    most = max(1, int(words.max()))
    begins, ends, room = _words(heads, mark, most, longest)
    pieces = ends - begins  # [B, W + n], 0 for missing words
    order = rng.random((rows, most), dtype=np.float32)
    if merge:  # exponential times over weights: weighted sampling without replacement
        order = -np.log1p(-order) / np.maximum(pieces[:, :most], 1)
    order = np.argsort(np.where(np.arange(most) < words[:, None], order, np.inf), axis=1)
    drawn = 1 + np.searchsorted(np.cumsum(chances)[:-1], rng.random((rows, most)), side="right")
    if not merge:
        drawn = np.minimum(drawn, np.maximum(room.max(axis=1), 1)[:, None])  # at most the longest text of the row
    text = (~mark).sum(axis=1)
    slots = mlm.slots(length, rate)
    left = np.minimum(np.minimum(np.maximum(np.rint(rate * text), 1), text), slots).astype(np.int64)
    taken = np.zeros((rows, most + longest), bool)
    spans, count, reach = np.zeros((2, rows, slots), np.int64), np.zeros(rows, np.int64), np.arange(longest)
    for turn in range(most):
        if not left.any():
            break
        word = order[:, turn]
        run = row[:, None], word[:, None] + reach
        near = taken[run]  # [B, n]
        size = np.minimum(drawn[:, turn], room[row, word]) if merge else drawn[row, count]
        cost = pieces[run] * (reach < size[:, None]) * ~(near & merge)
        fits = (reach < size[:, None]) & (np.cumsum(cost, axis=1) <= left[:, None])
        free = ~near[:, 0] if merge else (size <= room[row, word]) & ~(near & fits).any(axis=1)
        free &= (turn < words) & fits[:, 0]
        fits &= free[:, None]
        taken[run] |= fits
        got = fits.sum(axis=1)
        last = ends[row, word + np.maximum(got, 1) - 1]
        spans[:, row[free], count[free]] = begins[row, word][free], last[free]
        count = np.minimum(count + free, most - 1)
        left = np.where(free & (got < size), 0, left - (cost * fits).sum(axis=1))
    return _slots(*(_merged(begins, ends, taken, length, slots) if merge else spans))


def _words(heads: np.ndarray, mark: np.ndarray, most: int, longest: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the beginnings and ends of the words of each row, [B, W + n], with the end of the row for missing words;
    and the number of words from each one to the end of its text, at most n, [B, W]. ``heads`` and ``mark`` [B, T] tell
    which tokens begin a word and which are special."""
    rows, length = heads.shape
    begins = np.full((rows, most + longest), length)
    found, place = np.nonzero(heads)
    begins[found, (np.cumsum(heads, axis=1) - 1)[found, place]] = place
    stop = np.full((rows, length + 1), length)  # the next special token from each position on
    stop[:, :-1] = np.minimum.accumulate(np.where(mark, np.arange(length), length)[:, ::-1], axis=1)[:, ::-1]
    stop = np.take_along_axis(stop, begins, axis=1)  # [B, W + n]
    ends = np.minimum(np.pad(begins[:, 1:], [(0, 0), (0, 1)], constant_values=length), stop)
    inside = [begins[:, n : n + most] < stop[:, :most] for n in range(longest)]
    return begins, ends, np.sum(inside, axis=0)


def _merged(
    begins: np.ndarray, ends: np.ndarray, taken: np.ndarray, length: int, slots: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the beginnings and ends of the runs of adjacent ``taken`` words [B, W + n], [B, ``slots``]. Special
    tokens separate runs."""
    rows = len(taken)
    steps = np.zeros((rows, length + 1), np.int64)
    row, word = np.nonzero(taken)
    np.add.at(steps, (row, begins[row, word]), 1)
    np.add.at(steps, (row, ends[row, word]), -1)
    hidden = np.pad(np.cumsum(steps, axis=1) > 0, [(0, 0), (1, 0)])  # [B, T + 2], the last one is never hidden
    edges = np.zeros((2, rows, slots), np.int64)
    for edge, place in zip(edges, (~hidden[:, :-1] & hidden[:, 1:], hidden[:, :-1] & ~hidden[:, 1:]), strict=True):
        row, where = np.nonzero(place)
        edge[row, (np.cumsum(place, axis=1) - 1)[row, where]] = where
    return edges[0], edges[1]


def _slots(begins: np.ndarray, ends: np.ndarray) -> Chosen:
    """Returns one slot per token of the spans [B, K] from ``begins`` to ``ends``. A span is empty if the two are
    equal."""
    sizes = ends - begins
    after = np.cumsum(sizes, axis=1)  # [B, K]
    slot = np.arange(begins.shape[1])
    span = np.minimum((after[:, None, :] <= slot[:, None]).sum(axis=2), len(slot) - 1)  # [B, M]
    used = slot < after[:, -1:]
    begins, ends, before = (np.take_along_axis(a, span, axis=1) * used for a in (begins, ends, after - sizes))
    return Chosen((begins + slot - before) * used, used, begins, ends)
