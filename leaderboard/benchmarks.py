"""Official scores of benchmarks made of several tasks, each with its definition beside it.

The names in `BENCHMARKS` are those of records' tasks. A task's headline is already the mean of its metrics where the
benchmark takes that mean, so a part is a task, or several tasks whose headlines are averaged first.
"""

import math
from dataclasses import dataclass

from leaderboard.grid import Column, Grid, Row


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    title: str
    parts: tuple[tuple[str, ...], ...]
    """Names of tasks; the score is the mean over the parts, a part the mean over its tasks."""
    definition: str

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part)

    def columns(self, grid: Grid) -> dict[str, Column]:
        """The column of each task, official data only; of a task in several versions the one that is averaged."""
        return {
            column.task["name"]: column
            for column in grid.averaged
            if column.official and column.task["name"] in self.tasks
        }

    def complete(self, grid: Grid) -> bool:
        """Whether the grid has a column for every task."""
        return len(self.columns(grid)) == len(self.tasks)

    def missing(self, grid: Grid, row: Row) -> list[str]:
        """Titles of the tasks without a score in ``row``."""
        found = self.columns(grid).values()
        return [c.title for c in found if not (cell := grid.cells.get((row, c))) or not cell.ok]

    def scores(self, grid: Grid, row: Row) -> dict[int, float]:
        """{seed: score} for the seeds that have every task; {} when a task lacks."""
        columns = self.columns(grid)
        cells = {name: grid.cells.get((row, column)) for name, column in columns.items()}
        if len(cells) < len(self.tasks) or any(cell is None for cell in cells.values()):
            return {}
        values = {name: cell.values for name, cell in cells.items() if cell}
        seeds = set.intersection(*(set(one) for one in values.values()))
        return {seed: _mean([_mean([values[name][seed] for name in part]) for part in self.parts]) for seed in seeds}


BENCHMARKS = (
    Benchmark(
        title="GLUE",
        parts=(
            ("cola",), ("sst2",), ("mrpc",), ("stsb",), ("qqp",), ("mnli", "mnli_mm"), ("qnli",), ("rte",), ("wnli",),
        ),
        definition=(
            "GLUE: mean over nine tasks, WNLI among them; MRPC and QQP count with the mean of accuracy and F1, STS-B "
            "with that of both correlations, MNLI with that of matched and mismatched accuracy. AX is not in it. The "
            "server takes it on the test sets, this table on the splits that are reported here."
        ),
    ),
    Benchmark(
        title="SuperGLUE",
        parts=(("boolq",), ("cb",), ("copa",), ("multirc",), ("record",), ("rte_superglue",), ("wic",), ("wsc",)),
        definition=(
            "SuperGLUE: mean over eight tasks; CB counts with the mean of accuracy and macro F1, MultiRC with that of "
            "F1a and exact match, ReCoRD with that of F1 and exact match. AX-b and AX-g are not in it. The server "
            "takes it on the test sets, this table on the splits that are reported here."
        ),
    ),
)  # fmt: skip


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
