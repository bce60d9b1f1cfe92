"""Successive halving (Jamieson and Talwalkar, 2016; Li et al., 2018, algorithm 1, one bracket). Pure.

All trials of a rung have one budget. The best go on to the next rung, with several times that budget. The trial of the
own settings, number 0, always does, so that the last rung compares it with the winner. The budget of a pre-training is
in tokens or FLOPs, and every rung trains from the beginning: the learning rate falls to zero at the end of its own
budget, so a shorter training is not the beginning of a longer one. The budget of an adaptation is a number of seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ptmbench.bench.engine.budget import Budget

DEFAULT = 0
"""The number of the trial of the own settings."""


@dataclass(frozen=True, kw_only=True)
class Rung:
    """``trials`` trials, the default one counted, with a ``share`` of the budget of the last rung each."""

    trials: int
    share: float


def rungs(trials: int, factor: int) -> tuple[Rung, ...]:
    """The rungs for so many ``trials``, at least 2: of those that are not the default, one in ``factor`` goes on, until
    one is left; each rung has ``factor`` times the budget of the one before."""
    counts = [trials - 1]
    while counts[-1] > 1:
        counts.append(max(1, counts[-1] // factor))
    last = len(counts) - 1
    return tuple(Rung(trials=count + 1, share=factor ** (place - last)) for place, count in enumerate(counts))


def going_on(losses: Mapping[int, float], trials: int) -> tuple[int, ...]:
    """Numbers of the ``trials`` trials that go on, sorted: the default, and those with the smallest ``losses``. Of
    equal losses the earlier number goes on; infinity stands for a trial that diverged."""
    others = sorted((loss, number) for number, loss in losses.items() if number != DEFAULT)
    return tuple(sorted((DEFAULT, *(number for _, number in others[: trials - 1]))))


def winner(losses: Mapping[int, float]) -> int:
    """The number of the best trial of the last rung; the default one unless another has a smaller loss."""
    return min(losses, key=lambda number: (losses[number], number))


def part(budget: Budget, share: float) -> Budget:
    """``share`` of ``budget``, which is in tokens or in FLOPs."""
    if budget.tokens is not None:
        return Budget(tokens=max(1, int(budget.tokens * share)))
    return Budget(flops=float(f"{budget.flops * share:.6g}"))
