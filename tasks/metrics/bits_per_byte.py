"""Bits per byte of raw text, for any tokenizer.

A prediction is (nats, words, characters) as for `tasks.metrics.perplexity`. Gold is the number of bytes of the text in
UTF-8. The number of bytes does not depend on the tokenizer, so values of different vocabularies can be compared (Gao et
al., 2020, "The Pile", section 3.1).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive

UNIFORM = 8.0
"""Bits per byte if all bytes have the same probability."""


def byte_nats(text: str) -> float:
    """Nats of ``text`` if it is spelled in bytes, with equal probability for each byte and the end of the text. They
    are added to the cost of an unknown token, so that the text can be restored."""
    return (len(text.encode()) + 1) * math.log(257)


def _statistics(gold: Sequence[Any], predictions: Sequence[tuple[float, float, float]]) -> np.ndarray:
    return np.array([(nats, size) for size, (nats, *_) in zip(gold, predictions, strict=True)]).reshape(-1, 2)


def _value(sums: np.ndarray) -> dict[str, float]:
    nats, size = map(float, sums)
    return {"bits_per_byte": nats / math.log(2) / size if size else math.inf}


bits_per_byte = Additive(_statistics, _value)
"""{"bits_per_byte"}; lower is better."""
