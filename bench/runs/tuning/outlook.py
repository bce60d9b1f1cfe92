"""The estimated cost of a tuning: the table of a dry run, and the sentences before the first trial.

`bench.runs.estimate` gives the cost of one training. All trials are estimated with the model's own settings. For a
resumed tuning, only the remaining trainings count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptmbench.bench.console import duration, say
from ptmbench.bench.runs import estimate, graph
from ptmbench.bench.runs.artefacts import Artefact
from ptmbench.bench.runs.estimate import Estimate
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import settled
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.bench.runs.tuning import search
from ptmbench.bench.runs.tuning.halving import Rung

if TYPE_CHECKING:
    from ptmbench.bench.runs.tuning.adaptation import AdaptationCandidate
    from ptmbench.bench.runs.tuning.tune import RecipeCandidate

PRETRAININGS = ("model", "size", "rung", "trials", "budget of each", "FLOPs", "time")
ADAPTATIONS = ("model", "size", "task", "adaptation", "trainings", "FLOPs", "time")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A line of the table, for one or several trainings."""

    cells: tuple[str, ...]
    """The line, without FLOPs and time."""
    name: str
    """What is trained, as part of a sentence."""
    flops: float = 0.0
    seconds: float = 0.0
    note: str = ""
    """Why it is not applicable."""


def pretrainings(
    candidates: Sequence["RecipeCandidate"],
    ladder: Sequence[Rung],
    others: Sequence[Artefact],
    data: Path,
    out: Path | None = None,
) -> Iterator[Part]:
    """Yields the artefacts among ``others`` that the trials need, then the rungs of each of ``candidates``. With
    ``out``, only what is not done in this folder."""
    rate = estimate.training_rate()
    seen: dict[str, Any] = {}
    wanted = [candidate.trial(0, rung) for candidate in candidates for rung in ladder]
    for before in _needed(wanted, others, data, rate, out):
        one = before.piece
        yield Part(
            cells=(one.model, one.size, "pre-training", "1", one.budget.flag()),
            name=f"the pre-training of {one.model}-{one.size}",
            flops=before.flops,
            seconds=before.seconds,
        )
    for candidate in candidates:
        for number, rung in enumerate(ladder, 1):
            one = candidate.trial(0, rung).pretraining
            tokens, flops, seconds = estimate.pretraining_cost(one, rate)
            measuring = candidate.held_out * flops / tokens / 3  # a forward pass over the held-out tokens
            probing = [estimate.cell_cost(cell, data, seen, None)[1] for cell in candidate.probes]
            measuring += sum(probing)
            trials = [candidate.trial(trial, rung) for trial in range(len(candidate.tried))]
            count = _left(rung.trials, trials, out)
            yield Part(
                cells=(one.model, one.size, str(number), str(count), one.budget.flag()),
                name=f"rung {number} of {one.model}-{one.size}",
                flops=count * (flops + measuring),
                seconds=count * (seconds + measuring / rate + (1 + len(probing)) * estimate.FIXED),
            )


def adaptations(
    candidates: Sequence["AdaptationCandidate"],
    ladder: Sequence[Rung],
    others: Sequence[Artefact],
    data: Path,
    out: Path | None = None,
) -> Iterator[Part]:
    """As `pretrainings`, with one part for all rungs of a candidate."""
    rate = estimate.training_rate()
    wanted = [trial for candidate in candidates for trial in candidate.trials(0, ladder[-1])]
    for one in _needed(wanted, others, data, rate, out):
        row = one.piece if isinstance(one.piece, Pretraining) else one.piece.cell.row
        model, (_, _, task, adaptation, _) = f"{row.model}-{row.size}", one.names
        yield Part(
            cells=(row.model, row.size, task or "pre-training", adaptation, "1"),
            name=f"{model} adapted to {task}" if task else f"the pre-training of {model}",
            flops=one.flops,
            seconds=one.seconds,
        )
    seen: dict[str, Any] = {}
    for candidate in candidates:
        cell, before, count = candidate.cells[0], 0, 0
        for rung in ladder:  # seeds of an earlier rung are not trained again
            seeds = candidate.seeds(rung)
            trials = [one for number in range(len(candidate.tried)) for one in candidate.trials(number, rung)[before:]]
            count += _left(rung.trials * (seeds - before), trials, out)
            before = seeds
        _, flops, note = estimate.cell_cost(cell, data, seen, None)
        about = (cell.row.name, cell.row.size, cell.task, cell.adaptation)
        yield Part(
            cells=about if note else (*about, str(count)),
            name=" ".join(about),
            flops=count * flops,
            seconds=0.0 if note else count * (flops / rate + estimate.FIXED),
            note=note,
        )


def table(heads: Sequence[str], parts: Sequence[Part]) -> str:
    """Returns ``parts`` as tab-separated lines below ``heads``, and a total as the last line."""
    lines = ["\t".join(heads)]
    for part in parts:
        cost = f"not applicable, because {part.note}" if part.note else f"{part.flops:.2g}\t{duration(part.seconds)}"
        lines.append("\t".join((*part.cells, cost)))
    blank = "\t" * (len(heads) - 2)
    flops, seconds = sum(part.flops for part in parts), sum(part.seconds for part in parts)
    return "\n".join([*lines, f"total{blank}{flops:.3g}\tabout {duration(seconds)} of one core"])


def sentences(parts: Sequence[Part]) -> list[str]:
    """Returns sentences about the time of ``parts`` and the longest part; [] if nothing is left to do."""
    work = sorted((part for part in parts if part.seconds), key=lambda part: -part.seconds)
    if not work:
        return []
    total, speed = sum(part.seconds for part in work), estimate.training_rate() / 1e9
    told = f"Estimated work: about {duration(total)} of one core at {speed:.0f} GFLOP/s."
    if len(work) > 1:
        told += f" The longest part is {work[0].name} with {duration(work[0].seconds)}."
    return [told]


def dry_run(heads: Sequence[str], parts: Sequence[Part]) -> None:
    """Prints the table on stdout, and the sentences on stderr."""
    print(table(heads, parts))
    for sentence in sentences(parts):
        say(sentence)


def _needed(
    wanted: Sequence[Artefact], others: Sequence[Artefact], data: Path, rate: float, out: Path | None
) -> list[Estimate]:
    """Estimates the pre-trainings and adapted models among ``others`` that the trials ``wanted`` need and that are
    still to be made in ``out``."""
    plan = Plan(tuple(search.needed(wanted, others)))
    left = graph.required(plan.artefacts, settled(out, plan) if out else ())
    return [one for one in estimate.estimates(plan, data, rate) if one.piece.key in left]


def _left(count: int, trials: Sequence[Artefact], out: Path | None) -> int:
    """Returns how many of ``count`` trainings have no record in ``out``. ``trials`` are all that may be among them,
    because it is not known which ones reach a later rung."""
    return max(0, count - sum(trial.place(out).exists() for trial in trials)) if out else count
