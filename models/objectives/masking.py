"""Which tokens masked language modelling hides, and for how long: the variants beside `models.objectives.mlm.noise`.

    dynamic     a new mask whenever a text is seen (Liu et al., 2019, section 4.1): what every sampler here gives
    static      masks made once, for some copies of the text (BERT as released, and Liu et al., 2019, section 4.1)
    whole words all pieces of a word together (Devlin et al., release of May 2019)
    n-grams     1 to 3 words together, p(n) proportional to 1/n (Lan et al., 2020, section 4.1)
    spans       geometrically many words together (Joshi et al., 2020, section 3.1)

All hide 15 % of the text and turn 80 % of that into [MASK], 10 % into random pieces and leave 10 %. Words are never
cut: `choose` draws one run of words after the other, and a run that does not fit into what is left of the 15 % loses
words at its end, or is passed over. No TensorFlow is needed for any of it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from models.objectives import mlm
from models.pretrainable import Batches
from models.tokenizers import Vocabulary

COPIES = 10
"""Masks per text under static masking (Liu et al., 2019, section 4.1)."""
NGRAMS = tuple(1 / n / sum(1 / k for k in (1, 2, 3)) for n in (1, 2, 3))
"""p(n), Lan et al. (2020), section 4.1: 6/11, 3/11, 2/11."""
SPANS = tuple(0.2 * 0.8 ** (n - 1) / (1 - 0.8**10) for n in range(1, 11))
"""p(n), Joshi et al. (2020), section 3.1: Geo(0.2) given that n <= 10, which has the mean 3.8 that they state; moving
longer ones to 10 would have 4.5."""


class Chosen(NamedTuple):
    """M slots per row: the ``positions`` to hide, whether each is ``used``, and the run of words that it is part of,
    from ``begins`` up to and without ``ends``; all [B, M], slots of one run side by side."""

    positions: np.ndarray
    used: np.ndarray
    begins: np.ndarray
    ends: np.ndarray


def static(batches: Batches, rows: int, batch: int, copies: int = COPIES) -> Batches:
    """``batches`` of ``batch`` rows that begin again after ``copies`` epochs of ``rows`` rows: as if the text had been
    masked ``copies`` times before training, and every mask were seen again and again."""
    period = math.ceil(copies * rows / batch)
    return lambda step, seed: batches(step % period, seed)


def whole_words(
    rows: dict[str, np.ndarray], heads: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """What `mlm.noise` gives, with all pieces of a word hidden or none; each piece draws its 80/10/10 for itself.

    ``heads`` bool [B, T] says which tokens begin a word (`models.objectives.sampling.heads`).
    """
    return ngrams(rows, heads, rng, vocabulary, (1.0,))


def ngrams(
    rows: dict[str, np.ndarray],
    heads: np.ndarray,
    rng: np.random.Generator,
    vocabulary: Vocabulary,
    chances: Sequence[float] = NGRAMS,
) -> dict[str, np.ndarray]:
    """`whole_words` by runs of words, of n words with probability ``chances[n - 1]``."""
    chosen = choose(rows["tokens"], heads, rng, vocabulary, chances)
    draw = rng.random(chosen.positions.shape, dtype=np.float32)
    return mlm.hide(rows, chosen.positions, chosen.used, draw, rng, vocabulary)


def spans(
    rows: dict[str, np.ndarray], heads: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary
) -> tuple[dict[str, np.ndarray], Chosen]:
    """What `mlm.noise` gives, by spans of words, and which; no two spans touch.

    80/10/10 is drawn once per span: all of its tokens become [MASK], or random pieces, or stay.
    """
    chosen = choose(rows["tokens"], heads, rng, vocabulary, SPANS, apart=1)
    draw = rng.random(chosen.positions.shape, dtype=np.float32)
    first = np.arange(draw.shape[1]) - (chosen.positions - chosen.begins)  # the slot of its span's first token
    draw = np.take_along_axis(draw, np.where(chosen.used, first, 0), axis=1)
    return mlm.hide(rows, chosen.positions, chosen.used, draw, rng, vocabulary), chosen


def choose(
    tokens: np.ndarray,
    heads: np.ndarray,
    rng: np.random.Generator,
    vocabulary: Vocabulary,
    chances: Sequence[float],
    *,
    apart: int = 0,
    rate: float = mlm.RATE,
) -> Chosen:
    """Runs of words that make up a share ``rate`` of each row's text, or as much of it as whole words can.

    Places are tried in random order, each word as the first of a run of n words with probability ``chances[n - 1]``. A
    run ends with its text, and runs have at least ``apart`` words between them.
    """
    rows, length = tokens.shape
    mark = (tokens == vocabulary.pad) | (tokens == vocabulary.cls) | (tokens == vocabulary.sep)
    heads = heads & ~mark
    row, longest = np.arange(rows), len(chances)
    words = heads.sum(axis=1)  # [B]
    most = max(1, int(words.max()))
    # Where words begin [B, W + n], the end of the row for those that are not there.
    begins = np.full((rows, most + longest), length)
    found, place = np.nonzero(heads)
    begins[found, (np.cumsum(heads, axis=1) - 1)[found, place]] = place
    # The next mark from each place on [B, T + 1], and with it the ends of the runs of 1 ... n words from each word on.
    stop = np.full((rows, length + 1), length)
    stop[:, :-1] = np.minimum.accumulate(np.where(mark, np.arange(length), length)[:, ::-1], axis=1)[:, ::-1]
    stop = np.take_along_axis(stop, begins[:, :most], axis=1)  # [B, W]
    ends = np.stack([np.minimum(begins[:, n : n + most], stop) for n in range(1, longest + 1)], axis=2)  # [B, W, n]
    order = rng.random((rows, most), dtype=np.float32)
    order = np.argsort(np.where(np.arange(most) < words[:, None], order, 2.0), axis=1)
    drawn = 1 + np.searchsorted(np.cumsum(chances)[:-1], rng.random((rows, most)), side="right")
    text = (~mark).sum(axis=1)
    slots = mlm.slots(length, rate)
    left = np.minimum(np.minimum(np.maximum(np.rint(rate * text), 1), text), slots).astype(np.int64)
    reach = np.arange(-apart, longest + apart)  # the words that have to be free, counted from the first
    taken = np.zeros((rows, most + longest + 2 * apart), bool)  # [B, words before and after included]
    spans, count = np.zeros((2, rows, slots), np.int64), np.zeros(rows, np.int64)
    for turn in range(most):
        if not left.any():
            break
        word = order[:, turn]
        begin, end = begins[row, word], ends[row, word]  # [B], [B, n]
        size = np.minimum(drawn[:, turn], (end - begin[:, None] <= left[:, None]).sum(axis=1))
        size = np.minimum(size, (end < stop[row, word][:, None]).sum(axis=1) + 1)  # words that are there
        near = taken[row[:, None], word[:, None] + apart + reach] & (reach < size[:, None] + apart)
        free = (turn < words) & (size > 0) & ~near.any(axis=1)
        end = end[row, np.maximum(size, 1) - 1]
        inside = (reach >= 0) & (reach < size[:, None]) & free[:, None]
        taken[row[:, None], word[:, None] + apart + reach] |= inside
        spans[:, row[free], count[free]] = begin[free], end[free]
        count += free
        left -= (end - begin) * free
    return _slots(spans[0], spans[1])


def _slots(begins: np.ndarray, ends: np.ndarray) -> Chosen:
    """One slot per token of the spans [B, K] that ``begins`` and ``ends`` name, an empty one where they are equal."""
    sizes = ends - begins
    after = np.cumsum(sizes, axis=1)  # [B, K]
    slot = np.arange(begins.shape[1])
    span = np.minimum((after[:, None, :] <= slot[:, None]).sum(axis=2), len(slot) - 1)  # [B, M]
    used = slot < after[:, -1:]
    begins, ends, before = (np.take_along_axis(a, span, axis=1) * used for a in (begins, ends, after - sizes))
    return Chosen((begins + slot - before) * used, used, begins, ends)
