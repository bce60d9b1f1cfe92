"""Perplexity per word and bits per character of a language model, for any tokenizer.

A prediction is (nats, words, characters): -ln p of the text, and the number of its words and characters. `size` gives
the official counts. The sum is divided by the words of the data set, not by a model's tokens, so values of different
vocabularies can be compared (Merity et al., 2017).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive


def size(text: str) -> tuple[int, int]:
    """The official counts (words, characters) of ``text``. Each line end counts as one more word, <eos>."""
    return len(text.split()) + text.count("\n"), len(text)


def _statistics(gold: Sequence[Any], predictions: Sequence[tuple[float, float, float]]) -> np.ndarray:
    del gold  # language modelling needs no gold
    return np.array(predictions, np.float64).reshape(-1, 3)  # [N, 3] nats, words, characters


def _value(sums: np.ndarray) -> dict[str, float]:
    nats, words, characters = map(float, sums)
    if not words or not characters:
        return {"perplexity": math.inf, "bits_per_character": math.inf}
    try:
        perplexity = math.exp(nats / words)
    except OverflowError:  # more than 709 nats per word: the model diverged, which is a valid result
        perplexity = math.inf
    return {"perplexity": perplexity, "bits_per_character": nats / math.log(2) / characters}


perplexity = Additive(_statistics, _value)
"""{"perplexity", "bits_per_character"}. Lower is better; infinite if the model diverged."""
