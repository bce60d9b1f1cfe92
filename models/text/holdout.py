"""Parts of a corpus: documents to train on, and held-out documents to measure a loss on. No TensorFlow.

`bench.runs.work` splits the corpus of a tuning's trials with `split`, and takes a `sample` of text that is held out
from the start. Nothing is copied: the parts look their values up in the whole corpus, which may lie in shards on disk.
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
"""Raised whenever the same corpus would be split otherwise."""
SHARE = 20
"""One in so many tokens is held out at most."""
PLACES = 8
"""Held-out documents lie at so many places, spread evenly: a corpus may have one kind of text behind the other."""

_NEAR = 4096
"""Documents that are looked at from each place on."""

Runs = Sequence[tuple[int, int]]
"""Runs of documents: the number of the first, and the number behind the last."""


def split(corpus: Corpus, tokens: int) -> tuple[Corpus, Corpus]:
    """``corpus`` without its held-out documents, and these: whole documents of about ``tokens`` tokens together, and
    of a twentieth of the corpus at most.

    The same corpus is always split alike. Documents longer than that stay in training. `CorpusError` where no document
    is short enough.
    """
    held = _chosen(corpus, min(tokens, corpus.tokens // SHARE))
    if not held:
        raise CorpusError(
            f"No document can be held out of this corpus: none of its {len(corpus.documents) - 1} documents has at "
            f"most {corpus.tokens // SHARE} tokens, a twentieth of all. Give more text, or mark where documents begin."
        )
    ends = [0, *(bound for run in held for bound in run), len(corpus.documents) - 1]
    kept = [(begin, end) for begin, end in zip(ends[::2], ends[1::2], strict=True) if begin < end]
    return _part(corpus, kept, f"without {tokens}"), _part(corpus, held, f"held out {tokens}")


def sample(corpus: Corpus, tokens: int) -> Corpus:
    """Documents of ``corpus`` of at most ``tokens`` tokens together. All of it if it is no longer, or if no document is
    short enough.

    The same documents are taken each time.
    """
    chosen = _chosen(corpus, tokens) if corpus.tokens > tokens else []
    return _part(corpus, chosen, f"sample {tokens}") if chosen else corpus


def _chosen(corpus: Corpus, tokens: int) -> list[tuple[int, int]]:
    """Runs of documents of at most ``tokens`` tokens together, in order: at each of `PLACES`, from the first document
    on that is short enough, as many as make up that part of ``tokens``, and one at least."""
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
    """Entries of ``whole`` from ``first`` on, less ``base``: a piece of a `Joined`."""

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


def _part(corpus: Corpus, runs: Runs, name: str) -> Corpus:
    """The documents of ``runs`` as a corpus."""
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
    """The entries of ``whole`` between each pair of ``bounds`` [P, 2]; pairs without an entry are left out."""
    bounds = bounds[bounds[:, 0] < bounds[:, 1]]
    pieces = [_Stretch(whole, int(begin)) for begin in bounds[:, 0]]
    return Joined(pieces.__getitem__, np.diff(bounds)[:, 0], whole.dtype)


def _offsets(whole: Any, bounds: np.ndarray) -> Joined:
    """The offsets of ``whole`` between each pair of ``bounds`` [P, 2], as those of a corpus that has nothing else."""
    begins, ends = (whole.take(bounds[:, side]).astype(np.int64) for side in (0, 1))
    pieces = [_Stretch(whole, int(first), int(base)) for first, base in zip(bounds[:, 0], begins, strict=True)]
    bases = np.concatenate([[0], np.cumsum(ends - begins)])
    return Joined(pieces.__getitem__, np.diff(bounds)[:, 0], np.int64, bases)
