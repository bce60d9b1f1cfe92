"""Compares the cost of a cell in HEAD and in BASE. Counters are compared exactly, time only if it is comparable.

Parameters and FLOPs follow from the network and the data, so any rise is real. The FLOPs of a seed are compared if it
took as many steps on both sides, because early stopping is not a change of cost. The peak memory of a process is shown
to the byte but decides nothing, since it includes whatever the process did before. The seconds of two jobs depend more
on the machines than on the code. So they count only if BASE's and HEAD's runs of a cell took turns on one device.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptmbench.leaderboard.records.record import Draw, Record
from ptmbench.leaderboard.stats import CONFIDENCE, Interval

SLOWER = 0.10
"""Margin of the time: HEAD may take this share longer than BASE."""
_FEWEST = 3  # pairs per cell; two can take turns by accident
_REPLICATES = 2000


@dataclass(frozen=True, kw_only=True)
class Cost:
    name: str
    base: float
    head: float
    verdict: str = ""
    """ "regression" if a counter that decides has risen."""


@dataclass(frozen=True, kw_only=True)
class Time:
    """HEAD's seconds per training step divided by BASE's: the median over pairs of runs that took turns."""

    pairs: int = 0
    ratio: float | None = None
    interval: Interval | None = None
    verdict: str = ""
    reason: str = "BASE and HEAD did not take turns on one device, so their seconds are not compared."


def compare_costs(base: Mapping[Draw, Record], head: Mapping[Draw, Record]) -> tuple[Cost, ...]:
    """Returns the counters of one cell that both sides have."""
    shared = sorted(set(base) & set(head))
    same = [seed for seed in shared if _get(base[seed], "steps") == _get(head[seed], "steps")]
    found = []
    for name, decides, seeds in (
        ("parameters", True, shared),
        ("flops", True, same),
        ("peak_memory_bytes", False, shared),
    ):
        counts = [[_get(side[seed], name) for seed in seeds] for side in (base, head)]
        if seeds and None not in (*counts[0], *counts[1]):
            ours, theirs = max(counts[0]), max(counts[1])
            more = decides and any(
                b > a * (1 + 1e-12) for a, b in zip(*counts, strict=True)
            )  # FLOPs are sums of floats
            found.append(Cost(name=name, base=ours, head=theirs, verdict="regression" if more else ""))
    return tuple(found)


def compare_time(pairs: Sequence[tuple[Any, Any]]) -> Time:
    """Compares the times of all cells of ``pairs`` whose runs took turns: the median of log ratios with a bootstrap
    interval over pairs."""
    logs: list[float] = []
    for base, head in pairs:
        logs += _log_ratios(base.records, head.records)
    if not logs:
        return Time()
    x = np.array(logs)
    drawn = np.random.default_rng(0).choice(x, (_REPLICATES, len(x)))
    low, high = np.exp(np.quantile(np.median(drawn, axis=1), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    ratio = float(np.exp(np.median(x)))
    if low > 1 and ratio > 1 + SLOWER:
        verdict, words = "regression", f"HEAD takes {100 * (ratio - 1):.0f} % longer per step."
    elif high < 1 + SLOWER:
        verdict, words = "pass", f"HEAD is not slower by {100 * SLOWER:.0f} % or more."
    else:
        verdict, words = "inconclusive", f"{len(x)} pairs of runs cannot tell whether HEAD is slower."
    return Time(pairs=len(x), ratio=ratio, interval=Interval(float(low), float(high)), verdict=verdict, reason=words)


def _log_ratios(base: Mapping[Draw, Record], head: Mapping[Draw, Record]) -> list[float]:
    """Returns a log ratio for each pair of runs, in the order in which they ended; [] if they did not take turns."""
    same = {record.seal for record in base.values()} & {record.seal for record in head.values()}  # copies of one run
    timed = [
        [r for r in side.values() if _step(r) and r.finished and r.device and r.seal not in same]
        for side in (base, head)
    ]
    count = min(map(len, timed))
    if count < _FEWEST or len({(r.device, _get(r, "threads")) for side in timed for r in side}) != 1:
        return []
    order = sorted((record.finished, number) for number, side in enumerate(timed) for record in side)
    turns = sum(one[1] != other[1] for one, other in zip(order, order[1:], strict=False))
    if turns < count:  # A B B A A B has as many turns as pairs; one side after the other has one turn
        return []
    ours, theirs = (sorted(side, key=lambda record: (record.finished, record.seed)) for side in timed)
    return [math.log(_step(b) / _step(a)) for a, b in zip(ours, theirs, strict=False)]


def _step(record: Record) -> float:
    """Returns the seconds per training step, without tracing and compiling; 0 if nothing was trained."""
    seconds = record.cost.get("seconds")
    train = seconds.get("train") if isinstance(seconds, Mapping) else None
    steps = _get(record, "steps")
    return float(train) / steps if isinstance(train, int | float) and train > 0 and steps else 0.0


def _get(record: Record, name: str) -> float | None:
    value = record.cost.get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if known else None
