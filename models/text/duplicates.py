"""Finds documents that repeat an earlier one: exact copies, and near copies with MinHash.

The signature of a document is a row of 32-bit numbers. For exact copies it is the BLAKE2b hash of the document's words.
For near copies it has the minimum of each of 128 hash functions over the runs of five words (Broder, 1997). The share
of numbers on which two signatures agree estimates the Jaccard similarity of their sets of runs.

Candidates agree on a whole band of 8 numbers (Indyk & Motwani, 1998): 95 in 100 pairs do at a similarity of 0.8, and 6
in 100 at 0.5. A candidate is a near copy if it agrees with the earliest document of its bucket on 0.8 of the signature.
Words are those of `models.text.runs`. A document without a word is compared as it is.

Memory holds about 40 bytes a document; the signatures may be in a file. One core signs 6 MB of text a second for near
copies, and 18 MB for exact ones.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from ptmbench.models.text.mixing import hash_integers
from ptmbench.models.text.runs import WordRuns, fold_words

VERSION = 3
"""Incremented whenever the same corpus would have other repeats."""

_SHINGLE = 5  # words
_BLOCK = 1 << 16  # rows of signatures that are compared at a time
_FUNCTIONS = np.random.Generator(np.random.Philox(key=[2, 5])).integers(1, 2**64, (2, 128), np.uint64)
_FUNCTIONS[0] |= np.uint64(1)


@dataclass(frozen=True)
class Rule:
    """The numbers of a signature, its bands, and the share on which the signatures of copies agree."""

    numbers: int
    bands: int
    agreement: float


RULES = {"exact": Rule(4, 1, 1.0), "near": Rule(128, 16, 0.8)}


def signature(document: list[str], rule: str) -> np.ndarray:
    """Returns the signature of ``document``, a list of sentences: uint32 [K], with the K numbers of ``rule``."""
    text = fold_words("\n".join(document))
    if rule == "exact":
        return np.frombuffer(hashlib.blake2b(text[:-1].replace(b"\0", b" "), digest_size=16).digest(), np.uint32)
    runs = WordRuns(text or b"\0")
    shingles = np.unique(runs.of(min(_SHINGLE, len(runs))))
    factors, terms = _FUNCTIONS
    least = np.full(factors.shape, np.iinfo(np.uint64).max)
    for begin in range(0, len(shingles), 1024):  # blocks that fit into a core's cache
        block = shingles[begin : begin + 1024, None]
        least = np.minimum(least, (block * factors + terms).min(axis=0))
    return (least >> np.uint64(32)).astype(np.uint32)


def repeats(signatures: np.ndarray, rule: str) -> np.ndarray:
    """Returns which of the documents with these ``signatures``, uint32 [D, K], repeat an earlier one: bool [D]."""
    bands, agreement = RULES[rule].bands, RULES[rule].agreement
    repeated = np.zeros(len(signatures), bool)
    for band in np.split(np.arange(RULES[rule].numbers), bands):
        buckets = _hash_columns(signatures, band)
        order = np.argsort(buckets, kind="stable")  # the earliest document is the first of its bucket
        ranked = buckets[order]
        opens = np.concatenate([[True], ranked[1:] != ranked[:-1]])[: len(order)]
        heads = order[np.flatnonzero(opens)[np.cumsum(opens) - 1]] if len(order) else order
        candidates = np.flatnonzero(~opens & ~repeated[order])
        for begin in range(0, len(candidates), _BLOCK):
            here = candidates[begin : begin + _BLOCK]
            agreed = (signatures[order[here]] == signatures[heads[here]]).mean(axis=1)
            repeated[order[here[agreed >= agreement]]] = True
    return repeated


def _hash_columns(signatures: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Hashes the ``columns`` of each row to one number: uint64 [D]."""
    hashed = np.zeros(len(signatures), np.uint64)
    for begin in range(0, len(signatures), _BLOCK):
        rows = signatures[begin : begin + _BLOCK]
        for column in columns:
            hashed[begin : begin + _BLOCK] = hash_integers(
                hashed[begin : begin + _BLOCK] + rows[:, column] + np.uint64(1)
            )
    return hashed
