"""Successive halving (Jamieson and Talwalkar, 2016; Li et al., 2018, algorithm 1, one bracket), as pure functions.

All trials of a rung have the same budget. The best ones go on to the next rung, which has several times that budget.
Trial 0, which has the model's own settings, always goes on, so that the last rung compares it with the winner.

The budget of a pre-training is in tokens or FLOPs. Every rung trains from the beginning, because the learning rate
falls to zero at the end of each budget: a shorter training is not the beginning of a longer one. The budget of an
adaptation is a number of seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ptmbench.bench.engine.budget import Budget

DEFAULT = 0
"""Number of the trial with the model's own settings."""


@dataclass(frozen=True, kw_only=True)
class Rung:
    """``trials`` trials, including the default one, each with a ``share`` of the last rung's budget."""

    trials: int
    share: float


def rungs(trials: int, factor: int) -> tuple[Rung, ...]:
    """Returns the rungs of a search with ``trials`` trials (at least 2).

    Each rung keeps one in ``factor`` of the trials that are not the default, until one is left, and has ``factor``
    times the budget of the rung before it.
    """
    counts = [trials - 1]
    while counts[-1] > 1:
        counts.append(max(1, counts[-1] // factor))
    last = len(counts) - 1
    return tuple(Rung(trials=count + 1, share=factor ** (place - last)) for place, count in enumerate(counts))


def survivors(losses: Mapping[int, float], trials: int) -> tuple[int, ...]:
    """Returns the sorted numbers of the ``trials`` trials that go on: the default one, and those with the smallest
    ``losses``. Ties go to the smaller number. The loss of a trial that diverged is infinity."""
    others = sorted((loss, number) for number, loss in losses.items() if number != DEFAULT)
    return tuple(sorted((DEFAULT, *(number for _, number in others[: trials - 1]))))


def winner(losses: Mapping[int, float]) -> int:
    """Returns the number of the best trial of the last rung: the default one unless another has a smaller loss."""
    return min(losses, key=lambda number: (losses[number], number))


def part(budget: Budget, share: float) -> Budget:
    """Returns ``share`` of ``budget``, which is in tokens or FLOPs."""
    if budget.tokens is not None:
        return Budget(tokens=max(1, int(budget.tokens * share)))
    return Budget(flops=float(f"{budget.flops * share:.6g}"))
