"""Pairs rows of the same network with and without pre-training."""

from typing import Any

from ptmbench.leaderboard.scores.grid import Grid, Row


def twin_rows(grid: Grid) -> list[tuple[Row, Row]]:
    """Returns each row with pre-trained weights, from here or published, with the random row of the same network, size
    and adaptation. Twins have the same extra encoders, the same trials of tuning, and the same tokenizer if it is
    known."""
    random: dict[tuple, dict[tuple[Any, Any], Row]] = {}
    for row in grid.rows:
        if row.kind == "random":
            random.setdefault(_network(row), {})[row.tokenizer, row.extra_encoders] = row
    pairs = []
    for row in grid.rows:
        if row.kind in ("pretrained", "published") and (twins := random.get(_network(row))):
            pairs.append((row, twins.get((row.tokenizer, row.extra_encoders)) or twins.get((None, row.extra_encoders))))
    return [(row, twin) for row, twin in pairs if twin]


def _network(row: Row) -> tuple:
    name = row.name.removeprefix("random-")  # the twin of bert is called bert or random-bert
    return (name, row.size, row.adaptation, row.tuning.get("trials"))
