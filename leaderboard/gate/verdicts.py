"""Turns drops into verdicts: for each cell, corrected for the number of cells, and for the mean drop over all cells.

The false alarm rate of a whole gate is at most 5 % (`ALPHA`). Half is for the mean drop. The other half is shared by
all cells and all tests of divergence, with Holm's (1979) step-down procedure. A test of divergence counts only if a
seed diverged at all, since otherwise it cannot reject (Tarone, 1990).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptmbench.leaderboard.gate.comparison import MOST_SEEDS, Drop
from ptmbench.leaderboard.gate.cost import Cost

ALPHA = 0.05
REGRESSION, PASS, INCONCLUSIVE, MISSING, NOT_COMPARABLE, NEW, BLANK = (
    "regression", "pass", "inconclusive", "missing", "not comparable", "new", "no score",
)  # fmt: skip
ON_AVERAGE = "pass on average"
"""Verdict of a whole gate only: its mean passes, and some of its cells are inconclusive."""
STATUS = {PASS: 0, ON_AVERAGE: 3, REGRESSION: 1, INCONCLUSIVE: 3, MISSING: 4, NOT_COMPARABLE: 5}
"""Exit statuses; 3 becomes 0 if the caller is not strict."""
ENOUGH = 5
"""Seeds per side below which a t test detects only large drops."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on one cell, or on the mean of all cells. Missing numbers are None."""

    task: str
    row: str
    condition: str = ""
    """The condition under which the task was answered. Such a cell is not part of the mean drop."""
    adaptation: str = ""
    metric: str = ""
    verdict: str
    reason: str
    method: str = ""
    base: float | None = None
    head: float | None = None
    margin: float | None = None
    drop: Drop | None = None
    p_adjusted: float | None = None
    """p-value adjusted by Holm's procedure within this gate. The verdict depends on it."""
    q: float | None = None
    """p-value adjusted by Benjamini and Hochberg (1995): among all cells reported at q, the expected share of false
    reports is at most q. For reports that list many suspects, while the gate raises one alarm."""
    detectable: float | None = None
    seeds_needed: int | None = None
    seeds: tuple[int, int] = (0, 0)
    diverged: tuple[int, int] = (0, 0)
    lost: int = 0
    """Number of HEAD's seeds that failed. The remaining scores may be the better ones."""
    diverged_p: float | None = None
    rescored: bool = False
    """Whether HEAD gives another score than BASE to the same predictions."""
    costs: tuple[Cost, ...] = ()
    notes: tuple[str, ...] = ()
    decimals: int = 1
    """Decimals of the scores on the board; the gate shows one more."""
    counted: bool = False
    """Whether the cell is part of the mean drop."""
    weights: frozenset[str] = frozenset()
    """Hashes of the pre-trained weights behind the cell, if HEAD's differ from BASE's."""
    data: str = ""
    """Identifies the cell's examples: the hash of the data, which several tasks may share."""


def guards(found: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Returns all cells with verdicts, after correcting their p-values together."""
    tests = [(i, "drop", cell.drop.p) for i, cell in enumerate(found) if cell.drop]
    tests += [(i, "diverged", cell.diverged_p) for i, cell in enumerate(found) if cell.diverged_p is not None]
    adjusted = dict(zip([test[:2] for test in tests], holm([test[2] for test in tests]), strict=True))
    dropped = [i for i, what, _ in tests if what == "drop"]
    shares = dict(zip(dropped, false_discoveries([found[i].drop.p for i in dropped]), strict=True))
    alone = ALPHA / 2 / max(len(tests), 1)
    cells = []
    for i, cell in enumerate(found):
        more = adjusted.get((i, "diverged"), 1.0) <= ALPHA / 2
        if cell.drop:
            cell = replace(_judged(cell, adjusted[(i, "drop")], alone), q=shares[i])
        if more and cell.verdict in (PASS, INCONCLUSIVE):
            cell = replace(cell, verdict=REGRESSION, reason=f"More seeds diverge: {cell.diverged[1]} after "
                           f"{cell.diverged[0]}. {cell.reason}")  # fmt: skip
        cells.append(cell)
    return tuple(cells)


def _judged(cell: Verdict, p: float, alpha: float) -> Verdict:
    """Returns ``cell`` with the verdict on its drop. ``p`` is adjusted to its family, and ``alpha`` is the level of a
    single test of the family."""
    drop, margin = cell.drop, cell.margin
    low, high = drop.interval()
    if p <= ALPHA / 2 and low > 0 and drop.value > margin:
        return replace(cell, verdict=REGRESSION, p_adjusted=p, reason="The drop is significant and above the margin.")
    if high < margin and not cell.lost:
        return replace(cell, verdict=PASS, p_adjusted=p, reason="No drop as large as the margin.")
    if not math.isfinite(drop.variance):
        if min(drop.seeds) > 1 or math.isfinite(drop.freedom_of_pretraining):
            words = (
                "The spread over examples is not known: the records do not have it, and the predictions are missing."
            )
            return replace(cell, verdict=INCONCLUSIVE, p_adjusted=p, reason=words)
        words = f"One seed per side does not show the spread between seeds. Run at least {ENOUGH}."
        return replace(cell, verdict=INCONCLUSIVE, p_adjusted=p, reason=words, seeds_needed=ENOUGH)
    seen, needed = drop.detectable(alpha), drop.seeds_needed(margin, alpha)
    words = f"A drop below {seen:.{cell.decimals}f} could not have been seen. "
    if high < margin:
        words += "The seeds that failed might have had lower scores."
    elif drop.from_pretraining and needed is None:
        words += (
            "More fine-tuning seeds do not help, because the spread between pre-trainings is too large for a margin of "
            f"{margin:g}. Compare several pre-trainings, or state a smaller spread with --pretraining-sd."
        )
    elif needed is None and drop.from_seeds and drop.enough_examples(margin, alpha):
        words += f"A drop of {margin:g} takes more than {MOST_SEEDS} seeds per side."
    elif needed is None:
        words += f"More seeds do not help: {drop.examples} examples are too few for a margin of {margin:g}."
    else:
        words += f"A drop of {margin:g} takes {needed} seeds per side."
    return replace(cell, verdict=INCONCLUSIVE, p_adjusted=p, reason=words, detectable=seen, seeds_needed=needed)


def mean_drop(cells: Sequence[Verdict], margin: float) -> Verdict | None:
    """Returns the verdict on the mean drop over the counted cells, with equal weights; None if no cell counts."""
    counted = [cell for cell in cells if cell.counted]
    if not counted:
        return None
    share = 1 / len(counted)
    drops = [cell.drop for cell in counted]
    by_examples: dict[str, list[np.ndarray]] = {}
    for cell in counted:
        by_examples.setdefault(cell.data, []).append(cell.drop.spread * share)
    examples = sum(_variance_from_examples(vectors) for vectors in by_examples.values())
    from_seeds = sum(drop.from_seeds for drop in drops) * share**2
    residual = sum(drop.residual for drop in drops) * share**2
    pretraining, pretraining_denominator = _from_pretraining(counted, share)
    variance = max(from_seeds + pretraining + examples - residual, from_seeds + pretraining, examples)
    seeds_denominator = sum((drop.from_seeds * share**2) ** 2 / drop.freedom_of_seeds for drop in drops)
    denominator = seeds_denominator + pretraining_denominator
    total = Drop(
        value=float(np.mean([drop.value for drop in drops])), variance=variance,
        freedom=variance**2 / denominator if denominator > 0 else math.inf, from_seeds=from_seeds,
        freedom_of_seeds=from_seeds**2 / seeds_denominator if seeds_denominator > 0 else math.inf,
        shared=max(examples - residual, 0.0), from_pretraining=pretraining,
        freedom_of_pretraining=pretraining**2 / pretraining_denominator if pretraining_denominator > 0 else math.inf,
        method=f"mean of {len(drops)} cells",
        seeds=(min(drop.seeds[0] for drop in drops), min(drop.seeds[1] for drop in drops)),
        paired=all(drop.paired for drop in drops), examples=sum(drop.examples for drop in drops),
    )  # fmt: skip
    cell = Verdict(
        task="all tasks", row="all models", verdict="", reason="", drop=total, method=total.method, margin=margin,
        base=float(np.mean([cell.base for cell in counted])),
        head=float(np.mean([cell.head for cell in counted])), seeds=total.seeds,
    )  # fmt: skip
    return _judged(cell, total.p, ALPHA / 2)


def _from_pretraining(cells: Sequence[Verdict], share: float) -> tuple[float, float]:
    """Returns the variance of the mean of ``cells`` that comes from pre-training, and its part of Satterthwaite's
    denominator.

    Cells of one pre-training are taken as perfectly correlated, which is the worst case. Cells of different
    pre-trainings are independent.
    """
    groups: list[tuple[frozenset[str], list[Drop]]] = []
    for cell in cells:
        weights, drops = cell.weights, [cell.drop]
        for other in [group for group in groups if group[0] & weights]:
            groups.remove(other)
            weights, drops = weights | other[0], drops + other[1]
        groups.append((weights, drops))
    total = denominator = 0.0
    for _, drops in groups:
        variance = sum(share * math.sqrt(drop.from_pretraining) for drop in drops) ** 2
        total += variance
        denominator += variance**2 / min(drop.freedom_of_pretraining for drop in drops)
    return total, denominator


def _variance_from_examples(vectors: Sequence[np.ndarray]) -> float:
    """Returns the variance from examples for cells that share them. If their vectors differ in length and cannot be
    added, the cells are taken as perfectly correlated, which is the worst case."""
    if len({vector.shape for vector in vectors}) == 1:
        total = np.sum(vectors, axis=0)
        return float(total @ total)
    return sum(math.sqrt(float(vector @ vector)) for vector in vectors) ** 2


def holm(p: Sequence[float]) -> list[float]:
    """Returns Holm's (1979) adjusted p-values. Rejecting all that are at most alpha keeps the family-wise error rate at
    alpha."""
    order = np.argsort(p, kind="stable")
    adjusted, highest = [1.0] * len(p), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = highest
    return adjusted


def false_discoveries(p: Sequence[float]) -> list[float]:
    """Returns Benjamini and Hochberg's (1995) adjusted p-values."""
    from scipy.stats import false_discovery_control

    return [float(q) for q in false_discovery_control(p)] if len(p) else []


def fisher(base: tuple[int, int], head: tuple[int, int]) -> float:
    """Returns the one-sided p-value of Fisher's exact test that HEAD's seeds do not diverge more often. Arguments are
    (diverged, seeds) per side."""
    from scipy.stats import fisher_exact

    table = [[head[0], head[1] - head[0]], [base[0], base[1] - base[0]]]
    return float(fisher_exact(table, alternative="greater")[1])
