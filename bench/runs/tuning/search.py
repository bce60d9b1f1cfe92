"""The search for one model's settings, rung after rung, and its entry in the result of a tuning.

`bench.runs.tuning.tune` and `bench.runs.tuning.adaptation` start the searches. A rung is a plan, which the same workers
execute as for a run. So an interrupted tuning resumes: trials with records are not trained again, and the others
continue from their last training state.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from ptmbench.bench.console import say
from ptmbench.bench.data import sources
from ptmbench.bench.errors import EnvironmentProblem
from ptmbench.bench.options import TuneOptions
from ptmbench.bench.runs.artefacts import Artefact
from ptmbench.bench.runs.execute import set_failures_aside, work, write_plan
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import failure_of, settled
from ptmbench.bench.runs.tuning import halving, records
from ptmbench.bench.runs.tuning.halving import Rung
from ptmbench.leaderboard.records.record import RecordError


@dataclass
class Search:
    """The tuning of one pre-training, or of one adaptation to one task."""

    name: str
    own: Mapping[str, Any]
    """The model's own values of the settings to tune, by name."""
    tried: Sequence[Mapping[str, Any]]
    """The changes of each trial, by number; the first is {}."""
    trials: Callable[[int, Rung], Sequence[Artefact]]
    """Returns the trials with a number on a rung; several if they differ in their seeds."""
    done: list[dict[int, list[dict[str, Any]]]] = field(default_factory=list)
    """The records of each finished rung, by the number of the trial."""
    reason: str = ""
    """Why it cannot be tuned."""
    status: str = "ok"
    """"failed" or "not_applicable" where there is a ``reason``."""

    def losses(self) -> dict[int, float]:
        """Returns the mean losses of the last finished rung, by the number of the trial."""
        return {number: fmean(map(records.loss_of, found)) for number, found in self.done[-1].items()}

    def wanted(self, rung: Rung) -> dict[int, Sequence[Artefact]]:
        """Returns the trials of ``rung``, the next one, by number."""
        numbers = halving.survivors(self.losses(), rung.trials) if self.done else range(rung.trials)
        return {number: self.trials(number, rung) for number in numbers}


def job_of(options: TuneOptions, data: Path | None, length: int) -> Job:
    """Returns the options that the workers of a tuning share. ``length`` is that of pre-training inputs, in tokens."""
    return Job(
        data=str((data or options.out).resolve()),
        source=sources.source_of(data) if data else {},
        command="",
        keep=False,
        length=length,
        strategy=options.workers.strategy,
        model_parallel=options.workers.model_parallel,
        runtime=options.workers.runtime,
        save_every=options.output.save_every,
    )


def climb(
    searches: Sequence[Search], ladder: Sequence[Rung], others: Sequence[Artefact], job: Job, options: TuneOptions
) -> None:
    """Runs the trials of all ``searches`` and adds the records to the searches. ``others`` are artefacts that trials
    may need."""
    if options.output.retry:
        set_failures_aside(options.out)
    for number, rung in enumerate(ladder, 1):
        say(f"Rung {number} of {len(ladder)}: {rung.trials} trials of each model.")
        _climb([one for one in searches if not one.reason], rung, others, job, options)


def _climb(searches: Sequence[Search], rung: Rung, others: Sequence[Artefact], job: Job, options: TuneOptions) -> None:
    asked, out = [(search, search.wanted(rung)) for search in searches], options.out
    found = [trial for _, wanted in asked for trials in wanted.values() for trial in trials]
    whole = Plan((*needed(found, others), *found))
    for trial in found:
        if (path := trial.place(out)).exists():
            try:
                records.read(path)
            except RecordError as error:
                say(str(error).replace(records.AGAIN, "This trial is trained anew."))
    write_plan(whole, job, out)
    if {one.key for one in whole.ends} - settled(out, whole):
        work("Trials", whole, job, out, options.workers)
    for search, wanted in asked:
        trials = [trial for several in wanted.values() for trial in several]
        if failed := next(filter(None, (_failure(out, trial) for trial in trials)), None):
            search.reason, search.status = failed["text"], failed["status"]
            continue
        if any(not trial.place(out).exists() for trial in trials):
            raise EnvironmentProblem(
                f"Not all trials of {search.name} could be trained. Run `ptmbench doctor` to find the reason, then "
                "run the same command again to resume."
            )
        read = {number: [records.read(one.place(out)) for one in several] for number, several in wanted.items()}
        search.done.append(read)


def _failure(out: Path, trial: Artefact) -> dict[str, str] | None:
    """Returns the note about the failure of ``trial`` ("status", "text"), or None if it did not fail."""
    note = failure_of(out, trial)
    return json.loads(note.read_text()) if note.exists() and not trial.place(out).exists() else None


def needed(wanted: Sequence[Artefact], others: Iterable[Artefact]) -> list[Artefact]:
    """Returns the artefacts among ``others`` that ``wanted`` depend on: tokenizers, pre-trainings, bases, teachers."""
    known, found = {one.key: one for one in others}, {}
    waiting = [key for one in wanted for key in one.needs]
    while waiting:
        key = waiting.pop()
        if key not in found:
            found[key] = known[key]
            waiting += known[key].needs
    return list(found.values())


def entry(search: Search, ladder: Sequence[Rung], budget_of: Callable[[Rung], Any]) -> dict[str, Any]:
    """Returns the entry of ``search`` in the result. ``budget_of`` returns the budget of a trial on a rung."""
    losses, last = search.losses(), search.done[-1]
    best = halving.winner(losses)
    spent = {one["key"]: records.flops_of(one) for rung in search.done for found in rung.values() for one in found}
    own, tuned = (_loss(last[number]) for number in (halving.DEFAULT, best))
    return {
        "own": dict(search.own),
        "changes": dict(search.tried[best]),
        "winner": best,
        "loss": {"own": own, "tuned": tuned},
        "trials": len(search.tried),
        "flops": sum(spent.values()),
        "tried": [dict(one) for one in search.tried],
        "rungs": [
            {"budget": budget_of(rung), "trials": [_line(number, found) for number, found in done.items()]}
            for rung, done in zip(ladder, search.done, strict=True)
        ],
    }


def seconds_of(searches: Iterable[Search]) -> float:
    """Returns the total time of all trials, in seconds."""
    every = {one["key"]: one for search in searches for rung in search.done for found in rung.values() for one in found}
    return round(sum(one["seconds"] or 0.0 for one in every.values()), 3)


def _line(number: int, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the entry of the trials with one number on one rung. Their records ``found`` differ in their seeds."""
    return {
        "number": number,
        "keys": [one["key"] for one in found],
        "status": "ok" if all(one["status"] == "ok" for one in found) else "diverged",
        "loss": _loss(found),
        "steps": sum(one["steps"] for one in found),
        "flops": sum(one["flops"] for one in found),
    }


def _loss(found: Sequence[Mapping[str, Any]]) -> float | None:
    """Returns the mean loss, or None if a trial diverged."""
    return None if any(one["status"] != "ok" for one in found) else fmean(one["loss"] for one in found)
