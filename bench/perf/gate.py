"""Simulates the error rates of the gate: false alarms without a change, and the share of real drops that it detects.

    ptmbench perf gate [--records RUN] [--gates 400] [--trials 400]

Prints four tables:

*A/A gates* have no change. They compare two sets of seeds of one recipe. Predictions are drawn from the same
distribution as in the cells of RUN, and 2 % of the seeds diverge. The row "real" assigns the real seeds of RUN to both
sides at random, if a cell has at least twice --seeds of them (10 by default). Such gates share seeds, so they are not
independent. In the row "seeds in pairs" both sides have the same seeds of the same weights, and the gate compares them
one by one.

*A/A gates with other weights* pre-train each model anew for each side. A pre-training changes the scores of all cells
of a model by the same amount. Some rows also have a planted drop in every cell.

*Whole gates* have a planted drop in one cell or in all cells.

*Drops* are single cells with a planted drop. The table has the share of intervals that contain the true drop.

A simulated seed predicts an example correctly if easiness (shared by all seeds) + skill of the seed + noise is above a
threshold. All three are normal. The threshold follows from the accuracy of RUN, easiness from how often two seeds are
right on the same examples, and skill from the spread between seeds beyond what the examples explain.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy import optimize, special, stats

from ptmbench.bench.commands.options import COUNT, SEED, Existing
from ptmbench.bench.errors import OK, EnvironmentProblem
from ptmbench.bench.perf.table import Table
from ptmbench.bench.scoring import rescore
from ptmbench.leaderboard.gate import gate, margins, sides
from ptmbench.leaderboard.gate.comparison import Drop, mixed_t, over_pretrainings, with_pretraining
from ptmbench.leaderboard.gate.cost import Time
from ptmbench.leaderboard.gate.resampling import Scored
from ptmbench.leaderboard.gate.verdicts import (
    INCONCLUSIVE,
    ON_AVERAGE,
    PASS,
    REGRESSION,
    Verdict,
    fisher,
    guards,
    mean_drop,
)
from ptmbench.leaderboard.records.record import Record

OWN = Path(__file__).parents[2] / "tests" / "regress"
DIVERGING = 0.02
SIZES, DROPS = (300, 1000, 5000), (0.0, 1.0, 2.0, 5.0)
PLANTED_DROPS = ("one", 1.0), ("one", 2.0), ("one", 3.0), ("one", 5.0), ("every", 0.5), ("every", 1.0), ("every", 2.0)
"""Planted drops of whole gates: in one cell or in every cell, and their size in points."""
_SHARES = {
    "pass": ("pass", "{:.1%}"),
    "pass on average": ("pass on average", "{:.1%}"),
    "inconclusive": ("inconclusive", "{:.1%}"),
}
GATES = {
    "kind": ("A/A gates", "{}"),
    "cells": ("cells", "{}"),
    "seeds": ("seeds per side", "{}"),
    "gates": ("gates", "{}"),
    "regression": ("false regressions", "{:.1%}"),
    **_SHARES,
}
WEIGHTS = {
    "cells": ("cells", "{}"),
    "pretraining": ("pre-training SD", "{:.1f}"),
    "stated": ("stated SD", "{:.1f}"),
    "pretrainings": ("pre-trainings a side", "{}"),
    "every": ("drop in every cell", "{:.0f}"),
    "gates": ("gates", "{}"),
    "regression": ("regressions", "{:.1%}"),
    **_SHARES,
}
WHOLE = {
    "cells": ("cells", "{}"),
    "examples": ("n", "{}"),
    "sd": ("seed SD", "{:.2f}"),
    "where": ("dropped", "{}"),
    "drop": ("true drop", "{:.1f}"),
    "gates": ("gates", "{}"),
    "regression": ("regression", "{:.1%}"),
    **_SHARES,
}
POWER = {
    "accuracy": ("accuracy", "{:.1f}"),
    "sd": ("seed SD", "{:.2f}"),
    "examples": ("n", "{}"),
    "drop": ("true drop", "{:.0f}"),
    "regression": ("regression", "{:.1%}"),
    "pass": ("pass", "{:.1%}"),
    "inconclusive": ("inconclusive", "{:.1%}"),
    "significant": ("drop seen, margin 0", "{:.1%}"),
    "coverage": ("coverage of 95 %", "{:.1%}"),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The distribution of the simulated predictions of one cell."""

    accuracy: float
    """Expected accuracy, 0 to 1."""
    sd: float
    """Standard deviation between seeds in points, without the part that is due to the finite number of examples."""
    shared: float
    """Share of the latent variance that is due to the easiness of the examples."""
    examples: int
    task: str = ""
    model: str = ""

    def draw(self, rng: np.random.Generator, seeds: int, easiness: np.ndarray, drop: float = 0.0) -> np.ndarray:
        """Draws the scores of predictions, 100 (right) or 0 (wrong), [seeds, N]. ``drop`` in points is subtracted from
        the expected accuracy. ``easiness`` is that of the examples, [N]."""
        level = special.ndtri(self.accuracy)
        skill = self.sd / (100 * stats.norm.pdf(level))  # delta method: points of accuracy to latent units
        noise = math.sqrt(max(1 - self.shared - skill**2, 1e-3))
        scale = math.sqrt(self.shared + skill**2 + noise**2)
        level = special.ndtri(self.accuracy - drop / 100) * scale
        latent = level + math.sqrt(self.shared) * easiness + skill * rng.standard_normal((seeds, 1))
        return 100.0 * (rng.random((seeds, len(easiness))) < special.ndtr(latent / noise))


@click.command("gate")
@click.option(
    "--records", type=Existing("run folder", folder=True), default=OWN, show_default="tests/regress of this project",
    help="Run whose predictions the simulation imitates.",
)  # fmt: skip
@click.option("--gates", type=COUNT, default=400, show_default=True, help="Number of simulated gates of each kind.")
@click.option("--trials", type=COUNT, default=400, show_default=True, help="Number of cells for each planted drop.")
@click.option("--seeds", type=click.IntRange(min=2, max=1000), default=5, show_default=True, help="Seeds on each side.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the simulation.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(records: Path, gates: int, trials: int, seeds: int, seed: int, as_json: bool) -> int:
    """Simulate the gate's false alarms and the drops it detects.

    Prints Markdown tables.
    """
    side = sides.read(records)
    cells = calibrate(side)
    if not cells:
        raise EnvironmentProblem(f"{records} has no cell with right-or-wrong predictions of two or more seeds.")
    rng = np.random.default_rng([seed, 0])  # one generator per table, so that no table depends on the ones before it
    table = Table(GATES, as_json)
    table.add({"kind": "simulated", "cells": len(cells), **simulated(rng, cells, gates, seeds)})
    many = [replace(cell, task=f"{cell.task} {i}") for i in range(math.ceil(12 / len(cells))) for cell in cells][:12]
    table.add({"kind": "simulated", "cells": len(many), **simulated(rng, many, gates, seeds)})
    if found := real(rng, side, gates, seeds):
        table.add({"kind": "real", **found})
    paired = simulated(rng, many, gates, seeds, paired=True)
    table.add({"kind": "simulated, seeds in pairs", "cells": len(many), **paired})
    _print_blank_line(as_json)
    rng, table = np.random.default_rng([seed, 1]), Table(WEIGHTS, as_json)
    for number in (3, 10):
        same = alike(number)
        for case in _other_weights():
            table.add({"cells": number, **case, **simulated(rng, same, gates, seeds, **case)})
    _print_blank_line(as_json)
    rng, table = np.random.default_rng([seed, 2]), Table(WHOLE, as_json)
    for same in (alike(3, 300), alike(10, 872)):
        about = {"cells": len(same), "examples": same[0].examples, "sd": same[0].sd}
        for where, drop in (("none", 0.0), *PLANTED_DROPS):
            planted = {where: drop} if drop else {}
            found = simulated(rng, same, gates, seeds, diverging=0.0, **planted)
            table.add(about | {"where": where, "drop": drop} | found)
    _print_blank_line(as_json)
    rng, table = np.random.default_rng([seed, 3]), Table(POWER, as_json)
    typical = cells[len(cells) // 2]
    for cell in (typical, replace(typical, accuracy=0.89, sd=1.0, shared=0.5)):
        for row in power(rng, cell, trials, seeds):
            table.add(row)
    return OK


def calibrate(side: sides.Side) -> list[Cell]:
    """The cells of ``side`` whose per-example scores are right or wrong, those with the largest spread between seeds
    first. Leaves out cells without training, with a single seed, or with an accuracy below 2 % or above 98 %."""
    cells = []
    for group in side.groups:
        scored = [rescore.scored(r, side.roots) for r in group.records.values() if r.status == "ok"]
        if len(scored) > 1 and group.trained and all(one and one.each is not None for one in scored):
            right = np.stack([one.each for one in scored])
            if set(np.unique(right)) <= {0.0, 100.0} and 0.02 < right.mean() / 100 < 0.98:
                cells.append(imitate(right > 50, group.identity[0]))
    return sorted(cells, key=lambda cell: -cell.sd)


def imitate(right: np.ndarray, task: str = "") -> Cell:
    """Estimates the `Cell` whose predictions are distributed like ``right``, bool [seeds, N]."""
    seeds, n = right.shape
    p = float(right.mean())
    level = special.ndtri(p)
    pairs = [float((right[i] & right[j]).mean()) for i in range(seeds) for j in range(i)]
    together = min(max(float(np.mean(pairs)), p * p + 1e-4), p - 1e-4)
    both = stats.multivariate_normal

    def gap(shared: float) -> float:
        return both.cdf([level, level], cov=[[1, shared], [shared, 1]]) - together

    shared = optimize.brentq(gap, 0.0, 0.99, xtol=1e-3) if gap(0.99) > 0 else 0.99
    binomial = 100**2 * (p - together) / n  # variance of the score of a seed that is due to its noise
    sd = math.sqrt(max(float(np.var(100 * right.mean(axis=1), ddof=1)) - binomial, 0.05**2))
    most = 100 * stats.norm.pdf(level) * math.sqrt(max(0.98 - shared, 0.01))
    return Cell(accuracy=p, sd=float(min(sd, most)), shared=float(shared), examples=n, task=task)


def _print_blank_line(as_json: bool) -> None:
    """Prints an empty line between two Markdown tables."""
    if not as_json:
        click.echo()


def alike(count: int = 10, examples: int = 872) -> list[Cell]:
    """Returns ``count`` cells, two per model. The accuracy is 89 % and the standard deviation between seeds 1 point;
    872 is the number of examples in the dev split of SST-2."""
    return [
        Cell(accuracy=0.89, sd=1.0, shared=0.5, examples=examples, task=f"task {i}", model=f"model {i // 2}")
        for i in range(count)
    ]


def _other_weights() -> Iterator[dict[str, Any]]:
    """Yields the cases of "A/A gates with other weights". The gate does not know the spread between pre-trainings, is
    told the right one or one that is too large, or measures it."""
    for sd in (0.5, 1.0):
        yield {"pretraining": sd, "stated": None, "pretrainings": 1, "every": 0.0}
        yield {"pretraining": sd, "stated": sd, "pretrainings": 1, "every": 0.0}
        yield {"pretraining": sd, "stated": 2.0, "pretrainings": 1, "every": 0.0}
        yield {"pretraining": sd, "stated": None, "pretrainings": 3, "every": 0.0}
    for drop in (2.0, 5.0):
        yield {"pretraining": 1.0, "stated": 1.0, "pretrainings": 1, "every": drop}
        yield {"pretraining": 1.0, "stated": None, "pretrainings": 3, "every": drop}


def simulated(
    rng: np.random.Generator,
    cells: Sequence[Cell],
    gates: int,
    seeds: int,
    *,
    one: float = 0.0,
    every: float = 0.0,
    pretraining: float = 0.0,
    stated: float | None = None,
    pretrainings: int = 1,
    diverging: float = DIVERGING,
    paired: bool = False,
) -> dict[str, Any]:
    """Returns the shares of the verdicts over ``gates`` gates. The cells of a task share its examples.

    ``one`` and ``every`` are drops in points, planted in the first cell and in all cells. ``pretraining`` is the true
    standard deviation between pre-trainings, and ``stated`` the one that the gate is told. ``pretrainings`` is their
    number on each side; the gate measures the standard deviation if there are two or more. ``diverging`` is the share
    of seeds that diverge. If ``paired``, seeds are compared one by one, unless the sides have different numbers of them
    left.
    """
    verdicts = []
    for _ in range(gates):
        easiness = {cell.task: rng.standard_normal(cell.examples) for cell in cells}
        moved = {cell.model: rng.normal(0, pretraining, (2, pretrainings)) for cell in cells}
        found = []
        for number, cell in enumerate(cells):
            lost = moved[cell.model] + np.array([[0.0], [every + (one if number == 0 else 0.0)]])
            gone = [int(n) for n in rng.binomial(seeds - 2, diverging, 2)]
            sides_ = [
                [cell.draw(rng, seeds - away, easiness[cell.task], drop) for drop in own]
                for away, own in zip(gone, lost, strict=True)
            ]
            found.append(_with_diverged(_cell_verdict(cell, _drop(sides_, stated, paired)), gone, seeds))
        verdicts.append(_verdict(found))
    return {"seeds": seeds, **_shares(verdicts)}


def _drop(sides_: Sequence[Sequence[np.ndarray]], stated: float | None, paired: bool) -> Drop:
    """The drop between two sides, as `leaderboard.gate.drops` estimates it. A side is a list of pre-trainings, each
    with scores [seeds, N]."""
    if len(sides_[0]) > 1:
        means = [np.stack([scores.mean(axis=0) for scores in own]) for own in sides_]
        return over_pretrainings(mixed_t(means[0], means[1], paired=False, pooled=True))
    drop = mixed_t(sides_[0][0], sides_[1][0], paired=paired and len(sides_[0][0]) == len(sides_[1][0]))
    return drop if stated is None else with_pretraining(drop, stated)


def real(rng: np.random.Generator, side: sides.Side, gates: int, seeds: int) -> dict[str, Any]:
    """Like `simulated`, but with the real seeds of ``side``, which are assigned to both sides at random for each gate.

    Returns {} if no cell has enough seeds.
    """
    groups = [group for group in side.groups if group.trained and len(group.records) >= 2 * seeds]
    if not groups:
        return {}
    known: dict[str, Scored | None] = {}

    def scorer(record: Record, roots: Sequence[Path]) -> Scored | None:
        if record.seal not in known:
            known[record.seal] = rescore.scored(record, roots)
        return known[record.seal]

    verdicts = []
    for _ in range(gates):
        dealt: tuple[list[sides.Group], list[sides.Group]] = ([], [])
        for group in groups:
            order = [list(group.records)[i] for i in rng.permutation(len(group.records))]
            for own, chosen in zip(dealt, (order[:seeds], order[seeds : 2 * seeds]), strict=True):
                own.append(replace(group, records={s: group.records[s] for s in sorted(chosen)}))
        ours, theirs = (replace(side, groups=tuple(own)) for own in dealt)
        verdicts.append(gate.between(ours, theirs, scorer, {}).verdict)
    return {"cells": len(groups), "seeds": seeds, **_shares(verdicts)}


def power(rng: np.random.Generator, cell: Cell, trials: int, seeds: int) -> Iterator[Mapping[str, Any]]:
    """Yields a row for each number of examples and each planted drop."""
    for examples in SIZES:
        for true in DROPS:
            verdicts, held, seen = [], 0, 0
            for _ in range(trials):
                easiness = rng.standard_normal(examples)
                sides_ = [cell.draw(rng, seeds, easiness, planted) for planted in (0.0, true)]
                found = _cell_verdict(cell, mixed_t(*sides_, paired=False))
                (one,) = guards([found])
                low, high = one.drop.interval()
                verdicts.append(one.verdict)
                held += low <= true <= high
                seen += low > 0
            yield {
                "accuracy": 100 * cell.accuracy, "sd": cell.sd, "examples": examples, "drop": true,
                **_shares(verdicts), "significant": seen / trials, "coverage": held / trials,
            }  # fmt: skip


def _with_diverged(found: Verdict, gone: Sequence[int], seeds: int) -> Verdict:
    if not any(gone):
        return found
    p = fisher(*((away, seeds) for away in gone))
    return replace(found, diverged=(gone[0], gone[1]), diverged_p=p)


def _cell_verdict(cell: Cell, drop: Any) -> Verdict:
    return Verdict(
        task=cell.task, row="", verdict="", reason="", drop=drop, margin=margins.DEFAULT, base=0.0, head=0.0,
        counted=True, data=cell.task, weights=frozenset({cell.model}),
    )  # fmt: skip


def _verdict(found: Sequence[Verdict]) -> str:
    """The verdict of a whole gate."""
    cells = guards(found)
    return gate.overall(cells, mean_drop(cells, margins.MACRO), Time())[0]


def _shares(verdicts: Sequence[str]) -> dict[str, Any]:
    shares = {name: verdicts.count(name) / len(verdicts) for name in (REGRESSION, PASS, ON_AVERAGE, INCONCLUSIVE)}
    return {"gates": len(verdicts), **shares}
