"""Summaries that are sentences of the text itself: the first ones, the best ones, and those that a model chose. No
TensorFlow.

A summary is its sentences in the order of the text, one a line, as ``rougeLsum`` takes them. Sources: the oracle by
greedy choice and trigram blocking follow Liu & Lapata (2019), sections 3.2 and 5, and the authors' code.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations

from ptmbench.bench.errors import NotApplicable
from ptmbench.models.text import layouts
from ptmbench.tasks.task import Task


@lru_cache(maxsize=1 << 12)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of ``text``; one never goes over the end of a line."""
    return tuple(sentence for line in text.splitlines() for sentence in layouts.sentences(line))


def joined(pieces: Sequence[str], chosen: Iterable[int]) -> str:
    """The summary of the ``chosen`` ones of ``pieces``."""
    return "\n".join(pieces[i] for i in sorted(chosen))


def oracle(pieces: Sequence[str], reference: str, most: int) -> list[int]:
    """Indices of at most ``most`` of ``pieces``, sorted: one after the other, the one that raises the sum of ROUGE-1
    and ROUGE-2 F1 against ``reference`` most; of equals the first, and none that does not raise it.

    As in the authors' code a text is the set of its n-grams. None goes over the end of a sentence; theirs of the
    reference do.
    """
    wanted = [_grams([*sentences(reference)], n) for n in (1, 2)]
    each = [[_grams([piece], n) for n in (1, 2)] for piece in pieces]
    taken: list[int] = []
    held, best = [set(), set()], 0.0
    while len(taken) < most:
        found, which = best, -1
        for i, grams in enumerate(each):
            if i not in taken:
                value = sum(_f1(a | b, gold) for a, b, gold in zip(held, grams, wanted, strict=True))
                if value > found:
                    found, which = value, i
        if which < 0:
            break
        taken.append(which)
        held, best = [a | b for a, b in zip(held, each[which], strict=True)], found
    return sorted(taken)


def chosen(pieces: Sequence[str], scores: Sequence[float], most: int, block: bool = True) -> list[int]:
    """Indices of the ``most`` pieces of the highest ``scores``, sorted. With ``block`` a piece is passed over that
    shares a run of three words with one of a higher score that was taken."""
    taken: list[int] = []
    seen: set[tuple[str, ...]] = set()
    for i in sorted(range(len(pieces)), key=lambda i: -scores[i]):
        grams = _grams([pieces[i]], 3)
        if len(taken) < most and not (block and grams & seen):
            taken.append(i)
            seen |= grams
    return sorted(taken)


def candidates(scores: Sequence[float], best: int, sizes: Iterable[int]) -> list[tuple[int, ...]]:
    """Every choice of so many pieces, for each of ``sizes``, out of the ``best`` ones of the highest ``scores`` (Zhong
    et al., 2020, section 4.2): indices, sorted. Where there are fewer pieces than any size, all of them are the choice.
    """
    ranked = sorted(sorted(range(len(scores)), key=lambda i: -scores[i])[:best])
    return [choice for size in sizes for choice in combinations(ranked, size)] or [tuple(ranked)]


def lead(text: str, most: int) -> str:
    """The first ``most`` sentences of ``text``."""
    return joined(sentences(text), range(min(most, len(sentences(text)))))


def best(text: str, reference: str, most: int) -> str:
    """The `oracle`'s sentences of ``text``: what an extractive model could reach."""
    return joined(sentences(text), oracle(sentences(text), reference, most))


def wanted(task: Task) -> bool:
    """Whether ``task`` is to summarise: it says how many sentences its summaries have."""
    return "lead" in task.extra


def most(task: Task, row: str) -> int:
    """How many sentences a summary of ``task`` has at most; `NotApplicable`, for the baseline ``row``, where nothing is
    to be summarised."""
    if not wanted(task):
        raise NotApplicable("no-baseline", f"because {row} applies only to summarization.")
    return task.extra["lead"]


def _grams(pieces: Sequence[str], n: int) -> set[tuple[str, ...]]:
    found = set()
    for piece in pieces:
        words = re.findall(r"\w+", piece.lower())
        found |= set(zip(*(words[i:] for i in range(n)), strict=False))
    return found


def _f1(found: set, wanted: set) -> float:
    """F1 of two sets; 0 where they share nothing."""
    shared = len(found & wanted)
    return 2 * shared / (len(found) + len(wanted)) if shared else 0.0
