"""Extractive summaries: the first sentences of a text, the best ones, or those that a model chose.

A summary has its sentences in the order of the text, one per line, as ``rougeLsum`` expects. Sources: the greedy oracle
and trigram blocking follow Liu & Lapata (2019), sections 3.2 and 5, and the authors' code.
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
    """The sentences of ``text``. A line break always ends a sentence."""
    return tuple(sentence for line in text.splitlines() for sentence in layouts.sentences(line))


def joined(pieces: Sequence[str], chosen: Iterable[int]) -> str:
    """The summary of those ``pieces`` whose indices are ``chosen``."""
    return "\n".join(pieces[i] for i in sorted(chosen))


def oracle(pieces: Sequence[str], reference: str, most: int) -> list[int]:
    """Returns sorted indices of at most ``most`` of ``pieces``, chosen greedily. Each choice raises the sum of ROUGE-1
    and ROUGE-2 F1 against ``reference`` most; the first piece wins a tie. The choice ends when no piece raises the sum.

    As in the authors' code, a text is the set of its n-grams. Here no n-gram crosses a sentence boundary; in their code
    those of the reference do.
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


def choose_sentences(pieces: Sequence[str], scores: Sequence[float], most: int, block: bool = True) -> list[int]:
    """Returns sorted indices of the ``most`` pieces with the highest ``scores``. With ``block``, a piece is skipped if
    it shares a trigram with a piece that was already chosen."""
    taken: list[int] = []
    seen: set[tuple[str, ...]] = set()
    for i in sorted(range(len(pieces)), key=lambda i: -scores[i]):
        grams = _grams([pieces[i]], 3)
        if len(taken) < most and not (block and grams & seen):
            taken.append(i)
            seen |= grams
    return sorted(taken)


def candidates(scores: Sequence[float], best: int, sizes: Iterable[int]) -> list[tuple[int, ...]]:
    """All combinations, of each of the ``sizes``, of the ``best`` pieces with the highest ``scores`` (Zhong et al.,
    2020, section 4.2), as sorted indices. If there are fewer pieces than every size, the only choice has them all."""
    ranked = sorted(sorted(range(len(scores)), key=lambda i: -scores[i])[:best])
    return [choice for size in sizes for choice in combinations(ranked, size)] or [tuple(ranked)]


def lead(text: str, most: int) -> str:
    """The first ``most`` sentences of ``text``."""
    return joined(sentences(text), range(min(most, len(sentences(text)))))


def best(text: str, reference: str, most: int) -> str:
    """The `oracle`'s sentences of ``text``: a reference for what extractive models can reach."""
    return joined(sentences(text), oracle(sentences(text), reference, most))


def wanted(task: Task) -> bool:
    """Whether ``task`` is summarisation: only such tasks give the number of sentences of a summary."""
    return "lead" in task.extra


def most(task: Task, row: str) -> int:
    """The maximum number of sentences in a summary of ``task``. Raises `NotApplicable`, with the baseline ``row`` in
    its message, for tasks other than summarisation."""
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
    """F1 of two sets; 0 if they have no common element."""
    shared = len(found & wanted)
    return 2 * shared / (len(found) + len(wanted)) if shared else 0.0
