"""What ``ptmbench tune`` does: rung after rung of trials, done by the workers of any run, and then the result.

A rung is a plan like that of a run. So what is interrupted goes on where it was: trials that have their records are
not trained again, and others go on from their last save.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ptmbench import models
from ptmbench.bench.console import say
from ptmbench.bench.data import sources
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import steps_of
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.engine.recipe import Recipe, recipe_of, resolved
from ptmbench.bench.errors import CELLS_FAILED, OK, EnvironmentProblem, UsageError
from ptmbench.bench.options import TuneOptions
from ptmbench.bench.runs import plan, suites
from ptmbench.bench.runs.artefacts import Artefact
from ptmbench.bench.runs.execute import alone, set_failures_aside, work, write_plan
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import failure_of, settled
from ptmbench.bench.runs.run import check_rows
from ptmbench.bench.runs.stages import Trainings
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.bench.runs.tuning import halving, sealed, space, tables, trials, tuned
from ptmbench.bench.runs.tuning.halving import Rung
from ptmbench.bench.runs.tuning.trials import Trial
from ptmbench.bench.runs.work import Job
from ptmbench.leaderboard.record import RecordError
from ptmbench.models.text.tokenizers import Vocabulary

LEAST_STEPS = 10
"""Steps that the budget of the first rung must pay for with the largest batch."""


@dataclass
class Search:
    """The tuning of one model at one size."""

    planned: Pretraining
    """What it is tuned for."""
    own: Recipe
    """The recipe of that, with the model's own learning rate."""
    tried: Sequence[Mapping[str, Any]]
    """The changes of each trial, by number; the first is {}."""
    held_out: int
    done: list[dict[int, dict[str, Any]]] = field(default_factory=list)
    """The records of each rung, by the number of the trial."""
    reason: str = ""
    """Why it cannot be tuned."""

    @property
    def name(self) -> str:
        return f"{self.planned.model} {self.planned.size}"

    def losses(self) -> dict[int, float]:
        """The losses of the last rung that is done."""
        return {number: trials.loss_of(record) for number, record in self.done[-1].items()}

    def trials(self, rung: Rung) -> dict[int, Trial]:
        """The trials of ``rung``, which is the next one, by number."""
        numbers = halving.going_on(self.losses(), rung.trials) if self.done else range(rung.trials)
        return {number: self.trial(number, rung.share) for number in numbers}

    def trial(self, number: int, share: float) -> Trial:
        """A trial with ``share`` of the budget of the last rung."""
        budget, recipe = halving.part(self.planned.budget, share), {**self.planned.recipe, **self.tried[number]}
        return Trial(pretraining=replace(self.planned, recipe=recipe, budget=budget, held_out=self.held_out))


def tune(options: TuneOptions) -> int:
    """Tune the models of ``options``, write the result and print it; returns the exit status."""
    suite, out, training = suites.load(options.suite), options.out, options.training
    changes = dict(suite.recipe) | dict(training.recipe)
    length, data = recipe_of(changes).length, options.data
    if data is None and not suite.embedded and not training.corpus:
        raise UsageError(
            f"The suite '{options.suite}' needs text: give its data folder with --data, or files with --corpus."
        )
    rows = plan.rows_of(options.models or suite.models, options.sizes or suite.sizes, None)
    if options.models and (other := next((row.name for row in rows if row.kind != "pretrained"), "")):
        raise UsageError(f"{other} is not pre-trained, so there is nothing to tune. Leave it out of --models.")
    rows = [row for row in rows if row.kind == "pretrained"]
    check_rows(rows)
    if data is None and suite.embedded and not training.corpus:
        data = sources.embedded(out)
    trainings = Trainings(suite, training, data or out)
    ladder = [replace(rung, share=rung.share * options.share) for rung in halving.rungs(options.trials, options.factor)]
    searches = [search_of(trainings(row.model, row.size), options, ladder[0]) for row in rows]
    if options.dry_run:
        print(tables.estimate(searches, ladder))
        return OK
    trainings.check()
    job = Job(
        data=str((data or out).resolve()),
        source=sources.source_of(data) if data else {},
        command="",
        keep=False,
        length=length,
        strategy=options.workers.strategy,
        save_every=options.output.save_every,
    )
    with alone(out):
        if options.output.retry:
            set_failures_aside(out)
        for number, rung in enumerate(ladder, 1):
            say(f"Rung {number} of {len(ladder)}: {rung.trials} trials of each model.")
            _climb([one for one in searches if not one.reason], rung, trainings.artefacts, job, options)
        body = _result(options, searches, ladder, trainings, changes)
        sealed.write(out / tuned.FILE, tuned.KIND, body)
    print(tables.result(body))
    for one in body["untuned"]:
        say(f"{one['model']} {one['size']} could not be tuned: {one['reason']}")
    return CELLS_FAILED if body["untuned"] else OK


def search_of(planned: Pretraining, options: TuneOptions, first: Rung) -> Search:
    """The search for the recipe of ``planned``, whose cheapest trials are those of the rung ``first``. `UsageError`
    for a budget that cannot be shared out."""
    name = f"{planned.model} {planned.size}"
    if planned.budget.unit not in ("tokens", "flops"):
        raise UsageError(
            f"{name} has the budget {planned.budget.flag()}, and with another batch a step costs more or less. Give "
            "--flops or --tokens."
        )
    module, recipe = models.load(planned.model), recipe_of(planned.recipe)
    shape = sized(module, planned.size, recipe.length)
    vocabulary = Vocabulary(size=planned.vocabulary)
    own = resolved(recipe, module, shape, planned.budget, vocabulary)
    tried = [{}, *(draw.changes(own) for draw in space.draws(options.trials - 1, options.seed, own))]
    largest = max(own.batch, *(one["batch"] for one in tried[1:]))
    each = largest * module.describe(shape, vocabulary).training_flops(recipe.length)
    budget = halving.part(planned.budget, first.share)
    steps = steps_of(budget, largest * recipe.length, each)
    if steps < LEAST_STEPS:
        raise UsageError(
            f"{name}: {budget.flag()}, the budget of the first rung, pays for {steps} steps with a batch of {largest}, "
            f"and at least {LEAST_STEPS} are needed. Give fewer --trials, a larger --share, a smaller --recipe batch "
            "or a larger budget."
        )
    return Search(planned=planned, own=own, tried=tried, held_out=options.held_out)


def _climb(searches: Sequence[Search], rung: Rung, others: Iterable[Artefact], job: Job, options: TuneOptions) -> None:
    """Have the trials of one ``rung`` done, and note their records in ``searches``."""
    asked, out = [(search, search.trials(rung)) for search in searches], options.out
    found = [trial for _, wanted in asked for trial in wanted.values()]
    whole = Plan((*_needed(found, others), *found))
    for trial in found:
        if (path := trial.place(out)).exists():
            try:
                trials.read(path)
            except RecordError as error:
                say(str(error).replace(trials.AGAIN, "This trial is trained anew."))
    write_plan(whole, job, out)
    if {one.key for one in whole.ends} - settled(out, whole):
        work("Trials", whole, job, out, options.workers)
    for search, wanted in asked:
        if reason := next(filter(None, (_failure(out, trial) for trial in wanted.values())), ""):
            search.reason = reason
            continue
        if any(not trial.place(out).exists() for trial in wanted.values()):
            raise EnvironmentProblem(
                f"Not all trials of {search.name} could be trained. `ptmbench doctor` looks for the reason; the same "
                "command goes on with what is left."
            )
        search.done.append({number: trials.read(trial.place(out)) for number, trial in wanted.items()})


def _failure(out: Path, trial: Trial) -> str:
    """Why ``trial`` failed, in a sentence; "" where it did not."""
    note = failure_of(out, trial)
    return json.loads(note.read_text())["text"] if note.exists() and not trial.place(out).exists() else ""


def _needed(wanted: Sequence[Artefact], others: Iterable[Artefact]) -> list[Artefact]:
    """Those of ``others`` that ``wanted`` depend on: tokenizers, bases, teachers."""
    known, found = {one.key: one for one in others}, {}
    waiting = [key for one in wanted for key in one.needs]
    while waiting:
        key = waiting.pop()
        if key not in found:
            found[key] = known[key]
            waiting += known[key].needs
    return list(found.values())


def _result(
    options: TuneOptions, searches: Sequence[Search], ladder: Sequence[Rung], trainings: Trainings, changes: Any
) -> dict[str, Any]:
    """What the file of the result holds."""
    ended = [one for one in searches if not one.reason]
    found = [_found(one, ladder) for one in ended]
    wanted = [one.trial(0, rung.share) for one in ended for rung in ladder]
    before = [one for one in _needed(wanted, trainings.artefacts) if isinstance(one, Pretraining)]
    needed = sum(checkpoint.read(one.place(options.out)).about["flops"] for one in before)
    cut = trainings.tokenizer()
    first = searches[0].planned
    seconds = sum(record["seconds"] or 0.0 for one in searches for rung in one.done for record in rung.values())
    return {
        "suite": options.suite,
        "corpus": first.corpus_name,
        "corpus_sha256": first.corpus_sha256,
        "tokenizer": {"key": cut.key, "kind": first.tokenizer, "vocabulary": first.vocabulary},
        "recipe": changes,
        "trials": options.trials,
        "factor": options.factor,
        "share": options.share,
        "held_out": options.held_out,
        "seed": options.seed,
        "space": space.about(searches[0].own),
        "models": found,
        "untuned": [
            {"model": one.planned.model, "size": one.planned.size, "reason": one.reason}
            for one in searches
            if one.reason
        ],
        "flops": sum(one["flops"] for one in found) + needed,
        "needed_flops": needed,
        "seconds": round(seconds, 3),
    }


def _found(search: Search, ladder: Sequence[Rung]) -> dict[str, Any]:
    """What the result says of one model."""
    last, losses = search.done[-1], search.losses()
    best = halving.winner(losses)
    spent = {record["key"]: trials.flops_of(record) for rung in search.done for record in rung.values()}
    return {
        "model": search.planned.model,
        "size": search.planned.size,
        "base": search.planned.base,
        "budget": trials.asked(search.planned.budget),
        "own": {name: getattr(search.own, name) for name in tuned.TUNED},
        "changes": dict(search.tried[best]),
        "winner": best,
        "loss": {"own": last[halving.DEFAULT]["loss"], "tuned": last[best]["loss"]},
        "trials": len(search.tried),
        "flops": sum(spent.values()),
        "tried": [dict(one) for one in search.tried],
        "rungs": [
            {
                "budget": trials.asked(halving.part(search.planned.budget, rung.share)),
                "trials": [
                    {"number": number, **{name: record[name] for name in ("key", "status", "loss", "steps", "flops")}}
                    for number, record in done.items()
                ],
            }
            for rung, done in zip(ladder, search.done, strict=True)
        ],
    }
