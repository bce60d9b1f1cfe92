"""Measures the drop of one cell by the method that its records require; called by `leaderboard.gate.gate`.

The records show whether the two sides have the same weights, the same seeds and the same predictions, so the method is
not a choice of the user. The statistics themselves are in `leaderboard.gate.comparison` and
`leaderboard.gate.resampling`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ptmbench.leaderboard.gate import comparison, margins, resampling
from ptmbench.leaderboard.gate.comparison import Drop
from ptmbench.leaderboard.gate.resampling import Scored
from ptmbench.leaderboard.gate.sides import Group, Side
from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.records.record import Draw, Record
from ptmbench.leaderboard.stats import Interval, from_examples

Scorer = Callable[[Record, Sequence[Path]], Scored | None]
"""Maps a record and the folders with its predictions to its `Scored`; None if they cannot be scored again."""
IDENTICAL = "identical predictions"
_SAME_SCORE = 1e-6
"""Difference, relative or absolute, up to which two scores count as equal: the rounding of sums depends on library
versions."""
_NO_PREDICTIONS = "The predictions are not there or give other scores now, so both sides' own intervals were used."


def measure(
    one: Group,
    other: Group,
    scored: Sequence[Mapping[Draw, Record]],
    of: Sequence[Side],
    scorer: Scorer,
    stated: Mapping[str, float],
) -> tuple[Drop, tuple[str, ...]]:
    """Returns the drop from ``one`` in BASE to ``other`` in HEAD, and notes for the reader.

    ``scored`` are the records of both groups that have a score, and ``of`` are the sides that they come from.
    ``stated`` replaces the standard deviations between pre-trainings (see `leaderboard.gate.margins.pretraining_sd`).
    """
    task = one.first.task
    shared = sorted(set(scored[0]) & set(scored[1]))
    same = one.has_same_weights(other)
    alike = same and set(one.records) == set(other.records) and bool(shared)
    examples = int(task["examples"]) if is_number(task.get("examples")) else 0
    if alike and set(scored[0]) == set(scored[1]) and _identical(scored):
        seeds = (len(shared), len(shared))
        return Drop(value=0.0, variance=0.0, freedom=math.inf, method=IDENTICAL, seeds=seeds, examples=examples), ()
    if alike and (not one.trained or len(shared) > 1):
        units = [[[side[draw]] for draw in shared] for side in scored]
    else:
        alike = False
        units = [[[record] for record in side.values()] for side in scored]
    pretrainings = [_by_pretraining(side) for side in scored]
    several = not same and max(map(len, pretrainings)) > 1
    if several:
        units = pretrainings
    if not task["higher_is_better"]:  # a rise is a drop in quality
        units.reverse()
        of = of[::-1]
    untrained = not one.trained and not several and (alike or [len(side) for side in units] == [1, 1])
    drop, notes = _estimate(units, of, scorer, alike, untrained, several, examples)
    if several:
        drop = comparison.over_pretrainings(drop)
        counts = " and ".join(str(len(side)) for side in pretrainings)
        notes += (f"Pre-training gave other weights; its spread was measured over {counts} pre-trainings.",)
    elif not same:
        base = float(np.mean([record.headline["value"] for record in scored[0].values()]))
        sd = margins.pretraining_sd(task, base, stated)
        drop = comparison.with_pretraining(drop, sd)
        notes += (
            f"Pre-training gave other weights; scores are taken to differ by an SD of {sd:.3g} between pre-trainings.",
        )
    return drop, notes


def _estimate(
    units: Sequence[Sequence[Sequence[Record]]],
    of: Sequence[Side],
    scorer: Scorer,
    alike: bool,
    untrained: bool,
    pooled: bool,
    examples: int,
) -> tuple[Drop, tuple[str, ...]]:
    """Estimates the drop. ``units`` are the independent draws of each side: the records of a seed, or all records of a
    pre-training."""
    rescored = [
        [[scorer(record, side.roots) for record in unit] for unit in own] for own, side in zip(units, of, strict=True)
    ]
    flat = [found for own in rescored for unit in own for found in unit]
    if not all(flat) or len({found.ids for found in flat}) != 1:
        values = [[float(np.mean([r.headline["value"] for r in unit])) for unit in own] for own in units]
        errors = [_error([record for unit in own for record in unit]) for own in units]
        return comparison.from_scores(values[0], values[1], errors, examples, pooled), (_NO_PREDICTIONS,)
    ours, theirs = ([resampling.averaged(unit) for unit in own] for own in rescored)
    if untrained:
        return resampling.untrained_drop(ours, theirs), ()
    if all(found.each is not None for found in flat):
        tables = [np.stack([found.each for found in own]) for own in (ours, theirs)]
        return comparison.mixed_t(tables[0], tables[1], alike, ours[0].groups, pooled), ()
    return resampling.multi_bootstrap(ours, theirs, alike, pooled=pooled), ()


def _by_pretraining(records: Mapping[Draw, Record]) -> list[list[Record]]:
    found: dict[tuple[str, ...], list[Record]] = {}
    for (pretraining, _), record in records.items():
        found.setdefault(pretraining, []).append(record)
    return list(found.values())


def scoring_change(base: Mapping[Draw, Record], head: Mapping[Draw, Record]) -> str:
    """Returns a sentence if a seed has the same predictions but different scores on the two sides; "" otherwise.

    The cells have the same task version, metric and data, so equal predictions must have equal scores. A difference in
    either direction is a change of the scorer. Every metric that both records have is compared, not only the headline.
    """
    for draw in sorted(set(base) & set(head)):
        one, other = base[draw], head[draw]
        if _predictions_sha256(one) is None or _predictions_sha256(one) != _predictions_sha256(other):
            continue
        for name in sorted(set(one.scores) & set(other.scores), key=lambda name: (name == "headline", name)):
            ours, theirs = float(one.scores[name]["value"]), float(other.scores[name]["value"])
            both_undefined = math.isnan(ours) and math.isnan(theirs)
            if not both_undefined and not math.isclose(ours, theirs, rel_tol=_SAME_SCORE, abs_tol=_SAME_SCORE):
                return (
                    f"The scoring changed: the predictions of seed {one.seed} are the same, but their {name} is "
                    f"{ours:.4g} in BASE and {theirs:.4g} in HEAD. If this is intended, raise the task's version."
                )
    return ""


def _predictions_sha256(record: Record) -> str | None:
    return (record.predictions or {}).get("sha256")


def _identical(scored: Sequence[Mapping[Draw, Record]]) -> bool:
    hashes = [[_predictions_sha256(record) for record in side.values()] for side in scored]
    return hashes[0] == hashes[1] and None not in hashes[0]


def _error(records: Sequence[Record]) -> float:
    """Returns the standard error over examples of a side's mean, from its records' own 95 % intervals; NaN if none has
    one."""
    ends = [(r.headline["low"], r.headline["high"]) for r in records]
    known = [Interval(*map(float, pair)) for pair in ends if None not in pair and all(map(math.isfinite, pair))]
    return math.sqrt(from_examples(known))
