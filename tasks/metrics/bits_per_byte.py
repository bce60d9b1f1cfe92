"""Bits per byte of raw text, whatever a model's tokenizer is.

A prediction is (nats, words, characters) as for `tasks.metrics.perplexity`; gold is the number of bytes of the text in
UTF-8. Dividing by bytes, which no tokenizer changes, is what makes figures of different vocabularies comparable (Gao et
al., 2020, "The Pile", section 3.1).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive

UNIFORM = 8.0
"""Bits per byte if all bytes have the same probability."""


def spelled(text: str) -> float:
    """Nats of ``text`` spelled in bytes, where all bytes and the end of the text have the same probability. This is
    added to an unknown token, so that the text can be restored."""
    return (len(text.encode()) + 1) * math.log(257)


def _statistics(gold: Sequence[Any], predictions: Sequence[tuple[float, float, float]]) -> np.ndarray:
    return np.array([(nats, size) for size, (nats, *_) in zip(gold, predictions, strict=True)]).reshape(-1, 2)


def _value(sums: np.ndarray) -> dict[str, float]:
    nats, size = map(float, sums)
    return {"bits_per_byte": nats / math.log(2) / size if size else math.inf}


bits_per_byte = Additive(_statistics, _value)
"""{"bits_per_byte"}; lower is better."""
