"""BLiMP by phenomenon: the rows of the board, and published figures of other models.

The published models used other corpora and far larger budgets. Their figures show how hard a phenomenon is. They are
not rows of the board.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ptmbench.leaderboard.scores.grid import Grid, Row
from ptmbench.leaderboard.stats import mean_of

PHENOMENA = {
    "anaphor_agreement": "anaphor agreement",
    "argument_structure": "argument structure",
    "binding": "binding",
    "control_raising": "control and raising",
    "determiner_noun_agreement": "determiner-noun agreement",
    "ellipsis": "ellipsis",
    "filler_gap_dependency": "filler-gap",
    "irregular_forms": "irregular forms",
    "island_effects": "islands",
    "npi_licensing": "NPI licensing",
    "quantifiers": "quantifiers",
    "subject_verb_agreement": "subject-verb agreement",
}
"""The twelve phenomena of the paper: {name in the files: title}."""

SPLIT_OFF = {"argument_structure": ("s-selection", 2, 7)}
"""The files give two of the nine paradigms of argument structure a separate name. The values are that name, the number
of paradigms under it, and the number under the phenomenon's name. All paradigms have the same length."""

WARSTADT = "Warstadt et al. (2020), models_summary.jsonl of the released data; means over paradigms"
BABYLM = "Baselines of the BabyLM challenge of 2023, strict-small (10M words), its evaluation pipeline's README; BLiMP "
BABYLM += "without sentences of rare words, means over phenomena"


class Published(NamedTuple):
    """A published model: name, source, and accuracy in percent, overall and by phenomenon in the order of
    `PHENOMENA`."""

    name: str
    source: str
    overall: float
    values: tuple[float, ...]


PUBLISHED = (
    Published("5-gram", WARSTADT, 61.2, (47.9, 71.9, 64.4, 68.5, 70.1, 36.9, 60.2, 79.5, 57.2, 45.5, 53.5, 60.3)),
    Published("LSTM", WARSTADT, 69.8, (91.7, 73.2, 73.5, 67.0, 85.4, 67.6, 73.9, 89.1, 46.6, 51.7, 64.5, 80.1)),
    Published(
        "Transformer-XL", WARSTADT, 69.6, (94.1, 72.2, 74.7, 71.5, 83.0, 77.2, 66.6, 78.2, 48.3, 55.2, 69.3, 75.9)
    ),
    Published("GPT-2 large", WARSTADT, 83.0, (99.3, 81.8, 80.9, 81.9, 95.8, 89.3, 81.3, 91.9, 72.7, 76.8, 79.0, 86.4)),
    Published("OPT-125M", BABYLM, 62.6, (63.8, 70.6, 67.1, 66.5, 78.5, 62.0, 63.8, 67.5, 48.6, 46.7, 59.6, 56.9)),
    Published("RoBERTa-base", BABYLM, 69.5, (81.5, 67.1, 67.3, 67.9, 90.8, 76.4, 63.5, 87.4, 39.9, 55.9, 70.5, 65.4)),
    Published("T5-base", BABYLM, 58.8, (68.9, 63.8, 60.4, 60.9, 72.2, 34.4, 48.2, 77.6, 45.6, 47.8, 61.2, 65.0)),
)


class PhenomenaScores(NamedTuple):
    """A line of the table. ``values`` are in the order of `PHENOMENA`, None if a record lacks the phenomenon."""

    row: Row | None
    name: str
    task: str
    seeds: int
    overall: float
    values: tuple[float | None, ...]
    source: str = ""


def lines(grid: Grid) -> list[PhenomenaScores]:
    """Returns our rows by overall accuracy, then the published ones; [] if no record on official data has phenomena."""
    found = []
    for column in grid.columns:
        if not (column.official and column.task["name"].partition("-")[0] == "blimp"):
            continue
        for row in grid.rows:
            cell = grid.cells.get((row, column))
            ok = [record for record in cell.ok if any(name in record.scores for name in PHENOMENA)] if cell else []
            if ok:
                overall = mean_of([record.headline["value"] for record in ok])
                values = tuple(_value(ok, name) for name in PHENOMENA)
                found.append(PhenomenaScores(row, row.label, column.title, len(ok), overall, values))
    found.sort(key=lambda line: -line.overall)
    others = [PhenomenaScores(None, one.name, "BLiMP", 0, one.overall, one.values, one.source) for one in PUBLISHED]
    return [*found, *others] if found else []


def _value(records: Sequence[Any], name: str) -> float | None:
    """Returns the mean accuracy of the phenomenon ``name``, including paradigms that the files list under another
    name."""
    other, few, many = SPLIT_OFF.get(name, ("", 0, 1))
    found = []
    for record in records:
        if name not in record.scores or (few and other not in record.scores):
            return None
        value = record.scores[name]["value"]
        found.append((many * value + few * record.scores[other]["value"]) / (many + few) if few else value)
    return mean_of(found)
