"""The command ``ptmbench tune`` without ``--adaptation``: searches the recipe of each pre-training of a suite.

`bench.runs.tuning.adaptation` searches the settings of adaptations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ptmbench import models
from ptmbench.bench.console import say
from ptmbench.bench.data import sources
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import steps_of
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.engine.recipe import Recipe, recipe_of, resolved
from ptmbench.bench.errors import CELLS_FAILED, OK, UsageError
from ptmbench.bench.options import TuneOptions
from ptmbench.bench.runs import plan, suites
from ptmbench.bench.runs.artefacts import Cell, Row
from ptmbench.bench.runs.combinations import Combinations
from ptmbench.bench.runs.execute import locked_folder
from ptmbench.bench.runs.outlook import announce
from ptmbench.bench.runs.run import check_lengths, tasks_of
from ptmbench.bench.runs.stages import Trainings
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.bench.runs.tuning import adaptation, halving, outlook, sealed, search, space, tables, trials, tuned
from ptmbench.bench.runs.tuning.halving import Rung
from ptmbench.bench.runs.tuning.search import Search
from ptmbench.bench.runs.tuning.trials import Trial

PROBING = "features"
"""The adaptation of probes: the encoder stays frozen, and a head learns the task."""
PROBE_SEEDS = 3
"""Default of `TuneOptions.seeds` for probes."""
LEAST_STEPS = 10
"""Minimum number of steps on the first rung with the largest batch."""
SHARE = 0.25
"""Default of `TuneOptions.share`."""
HELD_OUT = 2**15
"""Default of `TuneOptions.held_out`, in tokens; at most a twentieth of the corpus is held out."""


@dataclass(frozen=True)
class RecipeCandidate:
    """A pre-training to tune, with the changes to try."""

    planned: Pretraining
    own: Recipe
    """The recipe of ``planned``, with the model's own learning rate."""
    tried: Sequence[Mapping[str, Any]]
    """The changes of each trial, by number; the first is {}."""
    held_out: int
    probes: Sequence[Cell] = ()
    """As in `Trial`, for the pre-training ``planned``."""

    def trial(self, number: int, rung: Rung) -> Trial:
        """Returns the trial ``number`` with the budget of ``rung``."""
        budget, recipe = self.budget(rung), {**self.planned.recipe, **self.tried[number]}
        tried = replace(self.planned, recipe=recipe, budget=budget, held_out=self.held_out)
        return Trial(pretraining=tried, probes=tuple(replace(cell, pretraining=tried.key) for cell in self.probes))

    def budget(self, rung: Rung) -> Any:
        """Returns the budget of a trial on ``rung``."""
        return halving.part(self.planned.budget, rung.share)

    def search(self) -> Search:
        return Search(
            name=f"{self.planned.model} {self.planned.size}",
            own={name: getattr(self.own, name) for name in tuned.TUNED},
            tried=self.tried,
            trials=lambda number, rung: [self.trial(number, rung)],
        )


def tune(options: TuneOptions) -> int:
    """Runs the tuning of ``options``, writes the result and prints it. Returns the exit status."""
    if options.adaptations is not None:
        return adaptation.tune(options)
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
    plan.check_rows(rows)
    if data is None and suite.embedded and not training.corpus:
        data = sources.embedded(out)
    trainings = Trainings(suite, training, data or out)
    probes = _probes(options, suite, rows, trainings, data)
    share, rungs = options.share or SHARE, halving.rungs(options.trials, options.factor)
    ladder = [replace(rung, share=rung.share * share) for rung in rungs]
    candidates = [
        replace(candidate_of(trainings(row.model, row.size), options, ladder[0]), probes=probes.get(row, ()))
        for row in rows
    ]
    around = candidates, ladder, trainings.artefacts, data or out
    trainings.check()
    if options.dry_run:
        outlook.dry_run(outlook.PRETRAININGS, list(outlook.pretrainings(*around)))
        return OK
    announce("tuning", lambda: outlook.sentences(list(outlook.pretrainings(*around, out))))
    job = search.job_of(options, data, length)
    with locked_folder(out):
        searches = [one.search() for one in candidates]
        search.climb(searches, ladder, trainings.artefacts, job, options)
        body = _result(options, candidates, searches, ladder, trainings) | {"recipe": changes, "share": share}
        sealed.write(out / tuned.FILE, tuned.KIND, body)
    print(tables.result(body))
    for one in body["untuned"]:
        say(f"{one['model']} {one['size']} could not be tuned: {one['reason']}")
    return CELLS_FAILED if body["untuned"] else OK


def _probes(
    options: TuneOptions, suite: suites.Suite, rows: Sequence[Row], trainings: Trainings, data: Path | None
) -> dict[Row, list[Cell]]:
    """Returns the cells that compare the trials of each row; {} without probes. Raises `UsageError` for a task that
    cannot compare them."""
    if not options.probe:
        return {}
    if data is None:
        raise UsageError(f"The probe {options.probe[0]} needs its data. Give the data folder with --data.")
    asked = tasks_of(options.probe)
    for task in asked:
        if "train" not in task.files or not task.higher_is_better:
            reason = "has no training examples" if "train" not in task.files else f"is measured by {task.headline}"
            raise UsageError(
                f"{task.title} cannot compare pre-trainings, because it {reason}. Give --probe tasks with a training "
                "set and a score that is better when it is higher."
            )
    cells = Combinations(
        adaptations=(PROBING,),
        seeds=range(adaptation.FIRST_SEED, adaptation.FIRST_SEED + (options.seeds or PROBE_SEEDS)),
        data_sha256=sources.Fingerprints(data),
        pretraining_of={row: trainings(row.model, row.size).key for row in rows},
        tokenizer=trainings.tokenizer().key,
        own_tokenizers=trainings.own_tokenizers([row.model for row in rows]),
        suite_settings=suite.settings,
        settings=options.settings,
        limit=options.limit or 0,
    ).cells(rows, asked)
    check_lengths(cells, recipe_of(dict(suite.recipe) | dict(options.training.recipe)).length)
    return {row: [cell for cell in cells if cell.row == row] for row in rows}


def candidate_of(planned: Pretraining, options: TuneOptions, first: Rung) -> RecipeCandidate:
    """Returns the candidate of ``planned``. ``first`` is the first rung. Raises `UsageError` if the budget is not in
    tokens or FLOPs, or pays for too few steps on this rung."""
    name = f"{planned.model} {planned.size}"
    if planned.budget.unit not in ("tokens", "flops"):
        raise UsageError(
            f"{name} has the budget {planned.budget.flag()}. Trials have other batches, whose steps cost more or less, "
            "so the budget must be in FLOPs or tokens. Give --flops or --tokens."
        )
    module, recipe = models.load(planned.model), recipe_of(planned.recipe)
    shape = sized(module, planned.size, recipe.length)
    vocabulary = planned.words
    own = resolved(recipe, module, shape, planned.budget, vocabulary)
    tried = space.of_recipe(own).tried(options.trials, options.seed)
    largest = max(own.batch, *(one["batch"] for one in tried[1:]))
    each = module.describe(shape, vocabulary).step_flops(largest, recipe.length)
    budget = halving.part(planned.budget, first.share)
    steps = steps_of(budget, largest * recipe.length, each)
    if steps < LEAST_STEPS:
        raise UsageError(
            f"{name}: {budget.flag()}, the budget of the first rung, pays for {steps} steps with a batch of {largest}, "
            f"and at least {LEAST_STEPS} are needed. Give fewer --trials, a larger --share, a smaller --recipe batch "
            "or a larger budget."
        )
    return RecipeCandidate(planned, own, tried, options.held_out or HELD_OUT)


def _result(
    options: TuneOptions,
    candidates: Sequence[RecipeCandidate],
    searches: Sequence[Search],
    ladder: Sequence[Rung],
    trainings: Trainings,
) -> dict[str, Any]:
    """Returns the content of the result, without the recipe and the share."""
    both = list(zip(candidates, searches, strict=True))
    ended = [(candidate, one) for candidate, one in both if not one.reason]
    found = [_result_entry(candidate, one, ladder) for candidate, one in ended]
    wanted = [candidate.trial(0, rung) for candidate, _ in ended for rung in ladder]
    before = [one for one in search.needed(wanted, trainings.artefacts) if isinstance(one, Pretraining)]
    needed = sum(checkpoint.read(one.place(options.out)).about["flops"] for one in before)
    first = candidates[0].planned
    return {
        "suite": options.suite,
        "corpus": first.corpus_name,
        "corpus_sha256": first.corpus_sha256,
        "tokenizer": {"key": trainings.tokenizer().key, "kind": first.tokenizer, "vocabulary": first.vocabulary},
        "trials": options.trials,
        "factor": options.factor,
        "held_out": candidates[0].held_out,
        "seed": options.seed,
        "probe": list(options.probe or ()),
        "space": space.of_recipe(candidates[0].own).about,
        "models": found,
        "untuned": [
            {"model": candidate.planned.model, "size": candidate.planned.size, "reason": one.reason}
            for candidate, one in both
            if one.reason
        ],
        "flops": sum(one["flops"] for one in found) + needed,
        "needed_flops": needed,
        "seconds": search.seconds_of(searches),
    }


def _result_entry(candidate: RecipeCandidate, ended: Search, ladder: Sequence[Rung]) -> dict[str, Any]:
    """Returns the entry of one model in the result."""
    one = candidate.planned
    about = {"model": one.model, "size": one.size, "base": one.base, "budget": trials.amount_of(one.budget)}
    return about | search.entry(ended, ladder, lambda rung: trials.amount_of(candidate.budget(rung)))
