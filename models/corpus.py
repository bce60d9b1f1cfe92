"""Unlabelled text as token ids. No TensorFlow."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Corpus:
    """A tokenised corpus: all ids in one flat array, with sentence and document boundaries beside it.

    ``ids`` int32 [N] without special tokens; ``sentences`` int64 [S + 1] offsets into ``ids``; ``documents`` int64 [D + 1] offsets into
    ``sentences``; ``heads`` bool [N] marks tokens that begin a word.
    """

    ids: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    heads: np.ndarray
    fingerprint: str = ""
    """SHA-256 of the text and the tokenizer."""
