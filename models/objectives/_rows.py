"""Arrays of ids: special tokens are added, tokens are moved to the left, and the right end is padded with 0."""

import numpy as np

from ptmbench.models.text.tokenizers import Vocabulary


def add_cls_and_sep(text: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """Returns [CLS] text [SEP], int32 [B, L + 2] from [B, L]; padding follows [SEP]."""
    rows = np.pad(text, [(0, 0), (1, 1)]).astype(np.int32)
    rows[:, 0] = vocabulary.cls
    rows[np.arange(len(rows)), 1 + np.count_nonzero(text, axis=1)] = vocabulary.sep
    return rows


def pack_left(ids: np.ndarray, kept: np.ndarray, width: int) -> np.ndarray:
    """Moves the ``kept`` [B, N] of ``ids`` [B, N] to the left: [B, width], truncated or padded at the right end."""
    order = np.argsort(~kept, axis=1, kind="stable")[:, :width]
    return np.take_along_axis(np.where(kept, ids, 0), order, axis=1)


def pad_to_width(rows: np.ndarray, width: int) -> np.ndarray:
    """Returns ``rows``, padded with 0 to ``width``."""
    return np.pad(rows, [(0, 0), (0, width - rows.shape[1])])
