"""Official scores of benchmarks made of several tasks, with their definitions.

`BENCHMARKS` uses the names of tasks in records. The score is a mean over parts. A part is a task, or several tasks
whose headlines are averaged first. A task's headline is already the mean of its metrics if the benchmark uses that
mean. If the benchmark uses another metric than the headline, `Benchmark.metrics` names it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptmbench.leaderboard.records.record import Draw, draw_of
from ptmbench.leaderboard.scores.grid import Cell, Column, Grid, Row
from ptmbench.leaderboard.stats import Interval, Summary, mean_of, summarise, units


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    title: str
    parts: tuple[tuple[str, ...], ...]
    """Names of tasks. The score is the mean over the parts, and a part is the mean over its tasks."""
    definition: str
    metrics: Mapping[str, str] = field(default_factory=dict)
    """{task: metric} for tasks that do not count with their headline."""

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part)

    def columns(self, grid: Grid) -> dict[str, Column]:
        """Returns the column of each task, on official data only. If a task has several versions, it is the averaged
        one."""
        wanted = self.tasks
        return {one.task["name"]: one for one in grid.averaged if one.task["name"] in wanted and one.official}

    def complete(self, grid: Grid) -> bool:
        """Whether the grid has a column for every task."""
        return len(self.columns(grid)) == len(self.tasks)

    def missing(self, grid: Grid, row: Row) -> list[str]:
        """Returns the titles of the tasks without a score in ``row``."""
        found = self.columns(grid).values()
        return [c.title for c in found if not self.values(grid.cells.get((row, c)))]

    def values(self, cell: Cell | None) -> dict[Draw, float]:
        """Returns the scores of one task that count, by draw."""
        if cell is None:
            return {}
        metric = self.metrics.get(cell.records[0].task["name"], "headline")
        return {draw_of(one): float(one.scores[metric]["value"]) for one in cell.ok if metric in one.scores}

    def scores(self, grid: Grid, row: Row) -> dict[Draw, float]:
        """Returns the score for each draw of seeds that has every task; {} if a task has no column."""
        columns = self.columns(grid)
        values = {name: self.values(grid.cells.get((row, column))) for name, column in columns.items()}
        if len(values) < len(self.tasks):
            return {}
        seeds = set.intersection(*(set(one) for one in values.values()))
        return {seed: self._mean({name: one[seed] for name, one in values.items()}) for seed in seeds}

    def summary(self, grid: Grid, row: Row) -> tuple[Summary, Interval]:
        """Returns the score over seeds, and its t interval within the bounds of the mean."""
        found = summarise(units(self.scores(grid, row)))
        if not found.n:
            return found, found.interval
        bounds = {name: column.bounds for name, column in self.columns(grid).items()}
        low, high = (self._mean({name: one[end] for name, one in bounds.items()}) for end in (0, 1))
        return found, found.interval.within(Interval(low, high))

    def _mean(self, values: Mapping[str, float]) -> float:
        return mean_of([mean_of([values[name] for name in part]) for part in self.parts])


BENCHMARKS = (
    Benchmark(
        title="GLUE",
        parts=(
            ("cola",), ("sst2",), ("mrpc",), ("stsb",), ("qqp",), ("mnli", "mnli_mm"), ("qnli",), ("rte",), ("wnli",),
        ),
        definition=(
            "GLUE: mean over nine tasks, including WNLI. MRPC and QQP count with the mean of accuracy and F1, STS-B "
            "with the mean of both correlations, and MNLI with the mean of matched and mismatched accuracy. AX is not "
            "included. The server scores test sets; this table has the splits that are reported here."
        ),
    ),
    Benchmark(
        title="GLUE, survey's table 3",
        parts=(("cola",), ("sst2",), ("mrpc",), ("stsb",), ("qqp",), ("mnli",), ("mnli_mm",), ("qnli",), ("rte",)),
        metrics={"mrpc": "f1", "qqp": "f1", "stsb": "spearman"},
        definition=(
            "GLUE as in the survey's table 3: mean over nine scores of eight tasks, without WNLI, and with matched and "
            "mismatched MNLI apart. MRPC and QQP count with F1 alone and STS-B with Spearman's correlation, as in the "
            "papers whose averages that table prints. AX is not included."
        ),
    ),
    Benchmark(
        title="SuperGLUE",
        parts=(("boolq",), ("cb",), ("copa",), ("multirc",), ("record",), ("rte_superglue",), ("wic",), ("wsc",)),
        definition=(
            "SuperGLUE: mean over eight tasks. CB counts with the mean of accuracy and macro F1, MultiRC with the mean "
            "of F1a and exact match, and ReCoRD with the mean of F1 and exact match. AX-b and AX-g are not included. "
            "The server scores test sets; this table has the splits that are reported here."
        ),
    ),
)  # fmt: skip
