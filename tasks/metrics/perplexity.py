"""Perplexity per word and bits per character of a language model, whatever its tokenizer is.

A prediction is (nats, words, characters): -ln p of the text, and how many words and characters that is the
probability of; `size` gives the official counts. Dividing by
words of the data set instead of by a model's tokens is what makes figures of different vocabularies comparable
(Merity et al., 2017).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive


def size(text: str) -> tuple[int, int]:
    """(words, characters) of ``text`` as the official counts go: every line end is one more word, <eos>."""
    return len(text.split()) + text.count("\n"), len(text)


def _statistics(gold: Sequence[Any], predictions: Sequence[tuple[float, float, float]]) -> np.ndarray:
    del gold  # the text is its own gold
    return np.array(predictions, np.float64).reshape(-1, 3)  # [N, 3] nats, words, characters


def _value(sums: np.ndarray) -> dict[str, float]:
    nats, words, characters = map(float, sums)
    if not words or not characters:
        return {"perplexity": math.inf, "bits_per_character": math.inf}
    try:
        perplexity = math.exp(nats / words)
    except OverflowError:  # more than 709 nats per word: a diverged model, which is a result and not an error
        perplexity = math.inf
    return {"perplexity": perplexity, "bits_per_character": nats / math.log(2) / characters}


perplexity = Additive(_statistics, _value)
"""{"perplexity", "bits_per_character"}; lower is better, infinite when the model diverged."""
