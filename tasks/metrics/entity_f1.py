"""Entity F1 as the CoNLL shared tasks count it (Tjong Kim Sang & De Meulder, 2003; the script conlleval).

An entity counts if its first word, last word and type are all right. The rules below find the first words of entities
in IOB1, IOB2, IOE and IOBES tags. They also repair invalid sequences: an ``I-X`` after ``O`` or after another type
starts an entity. They have no rule for S: ``S-X S-X`` is one entity of two words, and ``B-X E-X B-X E-X`` is one of
four. Published values were counted in this way, so it is kept. The older bracket tags are not read.
"""

from collections.abc import Sequence

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import f_measure, percent
from ptmbench.tasks.task import DataError

_STARTS = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")}
"""(previous, current) prefixes between which a new entity of the same type starts."""


def entities(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """The entities of one sentence as (first word, word after the last word, type)."""
    found: list[tuple[int, int, str]] = []
    start, previous, previous_type = None, "O", ""
    for position, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        starts = (previous, prefix) in _STARTS or (prefix != "O" and kind != previous_type)
        if start is not None and (starts or prefix == "O" or kind != previous_type):
            found.append((start, position, previous_type))
            start = None
        if starts:
            start = position
        previous, previous_type = prefix, kind
    return found


def iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Converts tags of any of these schemes to IOB2: the first word of each entity is B, all others are I."""
    plain = ["O"] * len(tags)
    for start, end, kind in entities(tags):
        plain[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    return tuple(plain)


def _statistics(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> np.ndarray:
    rows = np.zeros((len(gold), 5))  # [N, 5] right, predicted, actual entities; right, all words
    for row, (right, guess) in enumerate(zip(gold, predictions, strict=True)):
        if len(right) != len(guess):
            raise DataError(
                f"Sentence {row + 1} has {len(right)} words but {len(guess)} predicted tags; give every word one tag."
            )
        actual, predicted = set(entities(right)), set(entities(guess))
        hits = sum(a == b for a, b in zip(right, guess, strict=True))
        rows[row] = len(actual & predicted), len(predicted), len(actual), hits, len(right)
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    right, predicted, actual, hits, words = sums
    return f_measure(right, predicted, actual) | {"token_accuracy": percent(hits, words)}


entity_f1 = Additive(_statistics, _value)
"""{"f1", "precision", "recall", "token_accuracy"} in percent. Token accuracy compares the tags as they are written."""
