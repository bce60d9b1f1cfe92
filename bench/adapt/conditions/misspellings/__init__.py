"""Misspellings: letters of some words are inserted, deleted, swapped, or replaced by their neighbours on the keyboard.

The four kinds are those of Pruthi, Dhingra and Lipton (2019): "swap", "drop", "add" and "keyboard". Only words with
four letters or more are misspelt, and only inside, because people read such words without effort. A share ``share`` of
these words in an example, and at least one if there is any, gets one misspelling. Its kind is drawn uniformly from
``kinds``. Keyboard neighbours follow the QWERTY layout, and case is kept. A letter without neighbours is swapped.

It fits forms whose gold is not a piece of the text: classification, regression and choice.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptmbench.bench.adapt.settings import setting
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
KINDS = ("insert", "delete", "swap", "mistype")
_WORD = re.compile(r"[^\W\d_]{4,}")


def _known(kinds: str) -> bool:
    parts = kinds.split("+")
    return set(parts) <= set(KINDS) and len(set(parts)) == len(parts)


@dataclass(frozen=True, kw_only=True)
class Settings:
    share: float = setting(0.1, "from 0 to 1", lambda value: 0 <= value <= 1)
    """Share of the words with four letters or more that are misspelt."""
    kinds: str = setting("+".join(KINDS), f"some of {', '.join(KINDS)} with a + between them, each once", _known)
    """The kinds of misspellings that are drawn from."""


def neighbours() -> dict[str, str]:
    """The neighbours of each letter on the keyboard: those to its left and right, and those that touch it above and
    below. Each row is shifted to the right by half a key against the row above."""
    found: dict[str, str] = {}
    for y, row in enumerate(ROWS):
        for x, letter in enumerate(row):
            around = [(y, x - 1), (y, x + 1), (y - 1, x), (y - 1, x + 1), (y + 1, x - 1), (y + 1, x)]
            found[letter] = "".join(
                ROWS[j][i] for j, i in around if 0 <= j < len(ROWS) and 0 <= i < len(ROWS[j])
            )  # draws depend on this order
    return found


NEIGHBOURS = neighbours()


def misspelt(word: str, kind: str, rng: np.random.Generator) -> str:
    """``word``, of four letters or more, with one misspelling of this ``kind`` inside it."""
    place = int(rng.integers(1, len(word) - 1))  # never the first letter, never the last
    letter = word[place]
    near = NEIGHBOURS.get(letter.lower(), "")
    if kind == "delete":
        return word[:place] + word[place + 1 :]
    if kind == "swap" or not near:
        other = place + 1 if place + 1 < len(word) - 1 else place - 1
        first, second = sorted((place, other))
        return word[:first] + word[second] + word[first] + word[second + 1 :]
    typed = near[int(rng.integers(len(near)))]
    typed = typed.upper() if letter.isupper() else typed
    return word[: place + (kind == "insert")] + typed + word[place + 1 :]


class Misspellings:
    """A `bench.adapt.conditions.contract.Condition` that does not use the predictor."""

    summary = "letters inside words are inserted, deleted, swapped or mistyped"
    settings = Settings
    version = 1

    def fits(self, form: Form) -> bool:
        return form in (Form.CLASSIFICATION, Form.REGRESSION, Form.CHOICE)

    def changed(
        self, task: Task, examples: Sequence[Example], settings: Settings, seed: int, predictor: Any = None
    ) -> list[Example]:
        return [replace(one, inputs=self._inputs(one, settings, seed)) for one in examples]

    def _inputs(self, example: Example, settings: Settings, seed: int) -> tuple[str, ...]:
        digest = hashlib.sha256(f"{seed} {example.id}".encode()).digest()
        rng = np.random.default_rng(list(digest))
        words = [(n, found.span()) for n, text in enumerate(example.inputs) for found in _WORD.finditer(text)]
        if not words:
            return example.inputs
        count = max(1, round(settings.share * len(words)))
        inputs, kinds = list(example.inputs), settings.kinds.split("+")
        for i in sorted(rng.choice(len(words), count, replace=False), reverse=True):  # from the end: earlier spans stay
            n, (begin, end) = words[i]
            kind = kinds[int(rng.integers(len(kinds)))]
            inputs[n] = inputs[n][:begin] + misspelt(inputs[n][begin:end], kind, rng) + inputs[n][end:]
        return tuple(inputs)


CONDITION = Misspellings()
