"""Finds the results of artefacts in a run folder. `bench.runs.work` makes them, and `bench.runs.execute` uses this
module to find out what is missing."""

from functools import lru_cache
from pathlib import Path

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.runs.artefacts import COST, AdaptationTrial, AdaptedModel, Artefact, Cell
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.trainings import Pretraining, TokenizerTraining
from ptmbench.bench.runs.tuning import records
from ptmbench.bench.runs.tuning.trials import Trial
from ptmbench.leaderboard.records.record import RecordError
from ptmbench.models.text.tokenizers import Tokenizer, TokenizerError

FAILED = ".failed.json"
"""Suffix of the file with the reason why an artefact failed, after the name of its result."""


def unfinished_of(out: Path, cell: Cell) -> Path:
    """Folder of the training states of a cell, until it has a record."""
    return out / "unfinished" / cell.key[:12]


def failure_of(out: Path, artefact: Artefact) -> Path:
    """File with the reason why an artefact failed. The record of a cell has the reason instead."""
    place = artefact.place(out)
    return place.with_name(place.name + FAILED)


def intact(out: Path, artefact: Artefact) -> bool:
    """Whether the result of ``artefact`` exists and can be read. If not, it is made again."""
    place = artefact.place(out)
    try:
        if isinstance(artefact, TokenizerTraining):
            return bool(tokenizer_in(place))
        if isinstance(artefact, Pretraining):
            return bool(checkpoint.read(place))
        if isinstance(artefact, AdaptedModel):
            return bool(checkpoint.read(artefact.checkpoint(out))) and (place / COST).exists()
        if isinstance(artefact, Trial | AdaptationTrial):
            return bool(records.read(place))
    except (checkpoint.CheckpointError, TokenizerError, RecordError, OSError):
        return False
    return place.exists()


def settled(out: Path, plan: Plan) -> set[str]:
    """Keys of the artefacts of ``plan`` that are made or have failed."""
    cells = recorded(out)
    return {
        one.key
        for one in plan.artefacts
        if (one.key[:12] in cells if isinstance(one, Cell) else failure_of(out, one).exists() or intact(out, one))
    }


def recorded(out: Path) -> set[str]:
    """The first twelve hexadecimal digits of the keys of all cells that have a record."""
    return {path.name.split(".")[-2] for path in (out / "records").glob("*.json")}


@lru_cache(maxsize=8)
def tokenizer_in(path: Path) -> Tokenizer:
    """The tokenizer in the file ``path``, read once per process."""
    return Tokenizer.load(path)
