"""Prints the estimated time of a run before it starts, its longest part, and warnings.

A warning names a long pre-training that is mostly overhead or takes far longer than the rest, and suggests a change.
`bench.runs.estimate` makes the estimates. If an estimate fails, the run starts without it.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ptmbench.bench.console import duration, say
from ptmbench.bench.engine.budget import written
from ptmbench.bench.runs import estimate, graph
from ptmbench.bench.runs.estimate import Estimate
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import settled
from ptmbench.bench.runs.trainings import Pretraining

PATIENCE = 30.0
"""Seconds after which a run starts without an estimate."""
LONG = 1800.0
"""Minimum duration of a pre-training for a warning, in seconds."""
FAR = 5
"""A pre-training gets a warning if it takes this many times as long as every pre-training of another model."""


def dry_run(plan: Plan, data: Path, out: Path) -> None:
    """Prints the table of estimates on stdout. Prints on stderr how long the artefacts will take that the run folder
    ``out`` still needs, the longest of them, and warnings."""
    rate, left = estimate.training_rate(), _left(plan, out)
    found = [replace(one, done=one.piece.key not in left) for one in estimate.estimates(plan, data, rate)]
    print(estimate.table(found, rate))
    for sentence in sentences([one for one in found if not one.done], rate):
        say(sentence)


def tell(plan: Plan, data: Path, out: Path) -> None:
    """Prints the estimated time of the artefacts of ``plan`` that the run folder ``out`` still needs."""

    def told() -> list[str]:
        rate, left = estimate.training_rate(), _left(plan, out)
        return sentences([one for one in estimate.estimates(plan, data, rate) if one.piece.key in left], rate)

    announce("run", told)


def _left(plan: Plan, out: Path) -> set[str]:
    """Keys of the artefacts that remain to be made in ``out``: cells without a record, and what they need."""
    return graph.required(plan.artefacts, settled(out, plan))


def announce(what: str, sentences: Callable[[], Sequence[str]]) -> None:
    """Prints ``sentences()`` before a run or a tuning; ``what`` is its name in messages. If ``sentences`` raises an
    error or takes longer than `PATIENCE`, prints a message about that instead."""
    told: list[str] = []

    def estimated() -> None:
        try:
            told.extend(sentences())
        except Exception as error:  # the cell that has the problem reports it
            told.append(f"The time of this {what} cannot be estimated: {type(error).__name__}.")

    thread = threading.Thread(target=estimated, daemon=True)  # it reads data, and may hang
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        told = [f"The time of this {what} was not estimated within {duration(PATIENCE)}: its data take long to read."]
    for sentence in told:
        say(sentence)


def sentences(found: Sequence[Estimate], rate: float) -> list[str]:
    """Describes the estimated time, the longest part, and warnings; [] if nothing is left to do."""
    work = sorted((one for one in found if not one.note), key=lambda one: -one.seconds)
    if not work:
        return []
    total, first = sum(one.seconds for one in work), work[0]
    told = f"Estimated work: about {duration(total)} of one core at {rate / 1e9:.0f} GFLOP/s."
    if len(work) > 1 and first.seconds >= total / 4:
        told += f" The longest part is {_named(first)} with {duration(first.seconds)}."
    return [told, *_warnings(work, rate)]


def _warnings(work: Sequence[Estimate], rate: float) -> list[str]:
    """A warning for each long pre-training that is mostly overhead, or that takes far longer than those of other models
    with the same budget."""
    made = [one for one in work if isinstance(one.piece, Pretraining) and one.piece.budget.unit != "minutes"]
    found = []
    for one in made:
        others = [
            other.seconds for other in made if other.piece.budget == one.piece.budget and not _same_model(one, other)
        ]
        rest, overhead = max(others, default=0.0), one.seconds - one.flops / rate
        if one.seconds < LONG or not (overhead > one.seconds / 2 or 0 < FAR * rest <= one.seconds):
            continue
        told = f"Warning: {_named(one)} takes about {duration(one.seconds)}"
        told += f", the longest one of another model {duration(rest)}. " if rest else ". "
        if overhead > one.seconds / 2:
            steps = overhead / estimate.STEP
            told += f"It has {steps:,.0f} steps of {one.flops / steps / 1e6:.2g} MFLOP each, so most of the time is "
            told += "overhead. `--recipe batch=N` makes fewer and larger steps. "
        budget = one.piece.budget
        smaller = float(f"{budget.amount * LONG / 2 / one.seconds:.1g}")
        if smaller >= 1:
            told += f"`--{budget.unit} {written(smaller)}` takes about {duration(LONG / 2)}."
        found.append(told.rstrip())
    return found


def _same_model(one: Estimate, other: Estimate) -> bool:
    """Whether both are pre-trainings of the same model and size."""
    return (one.piece.model, one.piece.size) == (other.piece.model, other.piece.size)


def _named(one: Estimate) -> str:
    what, who, task, treatment, seed = one.names
    if what == "pre-train":
        return f"the pre-training of {who}, seed {seed},"
    kind = "cell" if what == "cell" else "adapted model"
    return f"the {kind} {' '.join((who, task, treatment))}, seed {seed},"
