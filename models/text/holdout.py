"""Splits a corpus into documents to train on and held-out documents to measure a loss on.

`bench.runs.work` splits the corpus of tuning trials with `split`, and takes a `sample` of text that is held out from
the start. The parts are not copies: they read their values from the whole corpus, which may be in shards on disk.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptmbench.models.text.corpus import Corpus, CorpusError
from ptmbench.models.text.joined import Joined
from ptmbench.models.text.media import Media

VERSION = 1
"""Incremented whenever the same corpus would be split in another way."""
SHARE = 20
"""At most one token in `SHARE` is held out."""
PLACES = 8
"""Number of places that held-out documents come from. They are evenly spaced, because the kind of text may change
from one part of a corpus to the next."""

_NEAR = 4096
"""Number of documents that are considered at each place."""

DocumentRanges = Sequence[tuple[int, int]]
"""Runs of consecutive documents: (first, last + 1)."""


def split(corpus: Corpus, tokens: int) -> tuple[Corpus, Corpus]:
    """Splits ``corpus`` into a training part and a held-out part of whole documents.

    The held-out part has about ``tokens`` tokens, but at most a twentieth of the corpus. A document that is longer than
    this stays in the training part. The same corpus and number of tokens always give the same split.

    Raises `CorpusError` if no document is short enough.
    """
    held = _choose(corpus, min(tokens, corpus.tokens // SHARE))
    if not held:
        raise CorpusError(
            f"No document can be held out of this corpus: none of its {len(corpus.documents) - 1} documents has at "
            f"most {corpus.tokens // SHARE} tokens, a twentieth of all. Give more text, or mark where documents begin."
        )
    ends = [0, *(bound for run in held for bound in run), len(corpus.documents) - 1]
    kept = [(begin, end) for begin, end in zip(ends[::2], ends[1::2], strict=True) if begin < end]
    return _part(corpus, kept, f"without {tokens}"), _part(corpus, held, f"held out {tokens}")


def sample(corpus: Corpus, tokens: int) -> Corpus:
    """Returns documents of ``corpus`` with at most ``tokens`` tokens in all, the same ones each time.

    Returns the whole corpus if it is not longer, or if no document is short enough.
    """
    chosen = _choose(corpus, tokens) if corpus.tokens > tokens else []
    return _part(corpus, chosen, f"sample {tokens}") if chosen else corpus


def _choose(corpus: Corpus, tokens: int) -> list[tuple[int, int]]:
    """Chooses the held-out documents, at most ``tokens`` tokens in all, and returns their runs in order.

    At each of the `PLACES`, the run begins with the first document that is short enough. It has as many documents as
    fit into the place's share of ``tokens``, and at least one.
    """
    count = len(corpus.documents) - 1
    found: list[tuple[int, int]] = []
    left = tokens
    for place in range(PLACES):
        middle = np.array([corpus.tokens * (2 * place + 1) // (2 * PLACES)])
        sentence = corpus.sentences.searchsorted(middle, side="right") - 1
        first = int(corpus.documents.searchsorted(sentence, side="right")[0]) - 1
        first = max(first, found[-1][1] if found else 0)
        near = np.arange(first, min(first + _NEAR, count) + 1)
        sizes = np.diff(corpus.sentences.take(corpus.documents.take(near)))
        if not (fitting := sizes <= left).any():
            continue
        skipped = int(fitting.argmax())
        sums = np.cumsum(sizes[skipped:])
        taken = max(1, int(sums.searchsorted(left // (PLACES - place), side="right")))
        left -= int(sums[taken - 1])
        found.append((first + skipped, first + skipped + taken))
    return found


@dataclass(frozen=True)
class _Stretch:
    """The entries of ``whole`` from index ``first`` on, with ``base`` subtracted: a piece of a `Joined`."""

    whole: Any
    first: int
    base: int = 0

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int64) if self.base else self.whole.dtype

    def __getitem__(self, where: np.ndarray) -> np.ndarray:
        found = self.whole.take(where + self.first, mode="wrap")
        return found.astype(np.int64) - self.base if self.base else found

    def searchsorted(self, values: np.ndarray, side: str) -> np.ndarray:
        wanted = (values.astype(np.int64) + self.base).astype(self.whole.dtype)
        return self.whole.searchsorted(wanted, side=side) - self.first


def _part(corpus: Corpus, runs: DocumentRanges, name: str) -> Corpus:
    """Returns a corpus of the documents in ``runs``. Its fingerprint follows from the whole corpus and ``name``."""
    documents = np.array(runs, np.int64)  # [P, 2]
    sentences = corpus.documents.take(documents)
    tokens = corpus.sentences.take(sentences)
    found: dict[str, Any] = {
        "ids": _values(corpus.ids, tokens),
        "heads": _values(corpus.heads, tokens),
        "sentences": _offsets(corpus.sentences, sentences),
        "documents": _offsets(corpus.documents, documents),
        "openings": _offsets(corpus.openings, documents),
        "layers": {layer: _values(values, tokens) for layer, values in corpus.layers.items()},
        "vectors": corpus.vectors,
    }
    if corpus.media is not None:
        rows, widths = corpus.media.offsets.take(documents).astype(np.int64), corpus.media.widths
        numbers = {name: _values(values, rows * widths[name]) for name, values in corpus.media.arrays.items()}
        found["media"] = Media(_offsets(corpus.media.offsets, documents), numbers, widths)
    seal = hashlib.sha256(f"{corpus.fingerprint} {name} {VERSION} {SHARE} {PLACES}".encode()).hexdigest()
    return Corpus(**found, fingerprint=seal)


def _values(whole: Any, bounds: np.ndarray) -> Joined:
    """Joins the entries of ``whole`` between each pair of ``bounds`` [P, 2]. Skips empty pairs."""
    bounds = bounds[bounds[:, 0] < bounds[:, 1]]
    pieces = [_Stretch(whole, int(begin)) for begin in bounds[:, 0]]
    return Joined(pieces.__getitem__, np.diff(bounds)[:, 0], whole.dtype)


def _offsets(whole: Any, bounds: np.ndarray) -> Joined:
    """Joins the offsets in ``whole`` between each pair of ``bounds`` [P, 2], counted in the new corpus."""
    begins, ends = (whole.take(bounds[:, side]).astype(np.int64) for side in (0, 1))
    pieces = [_Stretch(whole, int(first), int(base)) for first, base in zip(bounds[:, 0], begins, strict=True)]
    bases = np.concatenate([[0], np.cumsum(ends - begins)])
    return Joined(pieces.__getitem__, np.diff(bounds)[:, 0], np.int64, bases)
