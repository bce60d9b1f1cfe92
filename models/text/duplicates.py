"""Documents that say again what an earlier one said: exact copies, and near ones by MinHash. No TensorFlow.

A document is signed by 32-bit numbers: for exact copies the BLAKE2b hash of its words, for near ones the least values
of 128 hash functions over its runs of five words (Broder, 1997), of which the share that two documents agree on
estimates the share of runs that they have in common (Jaccard). Candidates agree on a whole band of 8 numbers (Indyk &
Motwani, 1998), which 95 in 100 pairs do at a Jaccard of 0.8 and 6 in 100 at 0.5; of these a document goes when it
agrees with the earliest one of its bucket on 0.8 of the signature. Words are case-folded runs of letters, the marks on
them (vowels in Hindi, tones in Thai) and digits; a document without a word is taken as it stands.
Memory holds about 40 bytes a document; the signatures may lie in a file. On one core
6 MB of text a second are signed for near copies, 18 MB for exact ones.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from unicodedata import category

import numpy as np

from models.text.mixing import mixed

VERSION = 2
"""Raised whenever other documents would be taken for repeats."""

_SHINGLE = 5  # words
_BLOCK = 1 << 16  # rows of signatures that are looked at together
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that powers of it can be divided out modulo 2^64
_INVERSE = np.uint64(pow(int(_BASE), -1, 2**64))
_FUNCTIONS = np.random.Generator(np.random.Philox(key=[2, 5])).integers(1, 2**64, (2, 128), np.uint64)
_FUNCTIONS[0] |= np.uint64(1)


@dataclass(frozen=True)
class Rule:
    """How documents are signed, and when two signatures mean the same."""

    numbers: int
    bands: int
    agreement: float


RULES = {"exact": Rule(4, 1, 1.0), "near": Rule(128, 16, 0.8)}


def signature(document: list[str], rule: str) -> np.ndarray:
    """The signature of ``document``, a list of sentences: uint32 [K] with the K numbers of ``rule``."""
    words = [word.encode() for sentence in document for word in _words(sentence.casefold())]
    words = words or [sentence.encode() for sentence in document]
    if rule == "exact":
        return np.frombuffer(hashlib.blake2b(b" ".join(words), digest_size=16).digest(), np.uint32)
    shingles = np.unique(_shingles(words))
    factors, terms = _FUNCTIONS
    least = np.full(factors.shape, np.iinfo(np.uint64).max)
    for begin in range(0, len(shingles), 1024):  # in the cache of a core
        block = shingles[begin : begin + 1024, None]
        least = np.minimum(least, (block * factors + terms).min(axis=0))
    return (least >> np.uint64(32)).astype(np.uint32)


def repeats(signatures: np.ndarray, rule: str) -> np.ndarray:
    """bool [D]: which of the documents signed in ``signatures`` uint32 [D, K] repeat an earlier one."""
    bands, agreement = RULES[rule].bands, RULES[rule].agreement
    repeated = np.zeros(len(signatures), bool)
    for band in np.split(np.arange(RULES[rule].numbers), bands):
        buckets = _hashed(signatures, band)
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


def _words(text: str) -> list[str]:
    r"""What ``\w`` takes, and the marks at which it would cut: looking for these first is four times as fast."""
    marked, plain, marks = _patterns()
    return (plain if text.isascii() or not marks.search(text) else marked).findall(text)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """A word with marks, one without, and a mark. Above U+1F000 there are none on letters."""
    marks = "".join(character for character in map(chr, range(0x300, 0x1F000)) if category(character)[0] == "M")
    return re.compile(rf"\w+(?:[{marks}]+\w*)*"), re.compile(r"\w+"), re.compile(f"[{marks}]")


def _shingles(words: list[bytes]) -> np.ndarray:
    """A hash of each run of five of ``words`` (of all where there are fewer): uint64 [W].

    Rolled over the bytes of the text (Karp & Rabin, 1987): a run's hash is the difference of two sums, divided by the
    power of the base at its begin.
    """
    text = np.frombuffer(b"\0".join(words) + b"\0", np.uint8)
    powers = np.cumprod(np.full(len(text), _BASE))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum((text.astype(np.uint64) + np.uint64(1)) * powers)])
    ends = np.cumsum([len(word) + 1 for word in words] or [1])
    begins = np.concatenate([[0], ends[:-1]])
    run = min(_SHINGLE, len(ends))
    begins, ends = begins[: len(begins) - run + 1], ends[run - 1 :]
    inverses = np.cumprod(np.full(len(text), _INVERSE))
    return mixed((sums[ends] - sums[begins]) * inverses[begins])


def _hashed(signatures: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """One number for the ``columns`` of each row: uint64 [D]."""
    hashed = np.zeros(len(signatures), np.uint64)
    for begin in range(0, len(signatures), _BLOCK):
        rows = signatures[begin : begin + _BLOCK]
        for column in columns:
            hashed[begin : begin + _BLOCK] = mixed(hashed[begin : begin + _BLOCK] + rows[:, column] + np.uint64(1))
    return hashed
