"""Makes trials of adaptations, and their sealed records. The artefact is `bench.runs.artefacts.AdaptationTrial`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptmbench import models, tasks
from ptmbench.bench.errors import Diverged
from ptmbench.bench.runs.artefacts import AdaptationTrial, Cell
from ptmbench.bench.runs.tuning import records

if TYPE_CHECKING:
    from ptmbench.bench.runs.answers import Context


def make(trial: AdaptationTrial, out: Path, context: "Context") -> None:
    """Adapts the model of ``trial`` in ``context`` and writes the record below ``out``.

    A trial that diverges, or whose score is not a number, has a record too. The loss is the score, negated if a higher
    score is better.
    """
    from ptmbench.bench.runs import cell as cells

    cell, diverged = trial.cell, None
    cost: dict[str, Any] = {}
    score, examples = math.nan, 0
    try:
        score, examples, cost = cells.score_on_held_out(cell, context, trial.held_out)
        if not math.isfinite(score):
            diverged = "The score on the held-out examples is not a number."
    except Diverged as error:
        diverged, cost = str(error), _spent_until(cell, context, error.step)
    task = tasks.load(cell.task)
    loss = 0.0 - score if task.higher_is_better else score  # 0.0, not -0.0, for a score of 0
    tried = {
        "key": trial.key,
        "row": cell.row.name,
        "size": cell.row.size,
        "task": cell.task,
        "task_version": cell.task_version,
        "data_sha256": cell.data_sha256,
        "adaptation": cell.adaptation,
        "adaptation_version": cell.adaptation_version,
        "settings": dict(cell.settings),
        "seed": cell.seed,
        "limit": cell.limit,
        "metric": task.headline,
        "score": None if diverged else score,
        "loss": None if diverged else loss,
        "held_out": {"examples": examples, "flops": cost.get("flops_evaluate", 0.0)},
        "seconds": cost.get("seconds", {}).get("total"),
        "flops": cost.get("flops", 0.0),
        **{name: cost.get(name) for name in ("steps", "tokens", "energy", "threads", "parameters")},
    }
    records.write(trial.place(out), tried, diverged)


def outcome(trial: AdaptationTrial, out: Path) -> str:
    """Describes the result of ``trial`` in the folder ``out``."""
    record = records.read(trial.place(out))
    return f"held-out score {record['score']:.2f}" if record["status"] == "ok" else f"diverged: {record['reason']}"


def _spent_until(cell: Cell, context: "Context", step: int) -> dict[str, Any]:
    """Returns an upper bound of the cost of a training of ``cell`` that diverged at ``step``, as if all texts had the
    length of the longest input."""
    described = models.load(cell.row.model).describe(context.shape, context.tokenizer.vocabulary)
    rows, length = step * cell.settings["batch"], cell.settings["length"]
    return {"steps": step, "tokens": rows * length, "flops": rows * described.training_flops(length)}
