"""The chance level of a task: what the task states, or else the score of the majority baseline on the same board."""

import math

from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.scores.grid import Column, Grid

_FLOOR = "majority"


def chance(grid: Grid, column: Column) -> float:
    """Returns the score of guessing on ``column``, which is taken as exact; NaN if it is not known."""
    if is_number(stated := column.task.get("chance")):
        return float(stated)
    floors = (row for row in grid.rows if (row.kind, row.name) == ("baseline", _FLOOR))
    cells = (grid.cells.get((row, column)) for row in floors)
    return next((cell.summary.mean for cell in cells if cell and cell.ok), math.nan)
