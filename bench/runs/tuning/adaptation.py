"""The command ``ptmbench tune --adaptation``: searches the settings of adaptations, for each model and each task.

Random twins are tuned separately, with as many trials as the models. `bench.runs.tuning.tuned_settings` reads the
result for a run.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ptmbench import tasks
from ptmbench.bench.adapt import neighbours
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.console import say
from ptmbench.bench.data import sources
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.errors import CELLS_FAILED, OK, UsageError
from ptmbench.bench.options import TuneOptions
from ptmbench.bench.runs import plan, suites
from ptmbench.bench.runs.artefacts import COST, AdaptationTrial, AdaptedModel, Artefact, Cell, Row
from ptmbench.bench.runs.combinations import Combinations
from ptmbench.bench.runs.execute import locked_folder
from ptmbench.bench.runs.outlook import announce
from ptmbench.bench.runs.run import AdaptedModels, check_lengths, tasks_of, within
from ptmbench.bench.runs.stages import Trainings
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.bench.runs.tuning import halving, outlook, sealed, search, space, tables, tuned_settings
from ptmbench.bench.runs.tuning.halving import Rung
from ptmbench.bench.runs.tuning.search import Search
from ptmbench.tasks.task import Task

SEEDS = 5
"""Default of `TuneOptions.seeds`: seeds of a trial on the last rung."""
FIRST_SEED = 1000
"""The first seed of trials. ``--seeds`` of a run counts from 0 to 999 at most, so it repeats no seed of a trial."""
HELD_OUT = 1000
"""Default of `TuneOptions.held_out`, in examples; at most a fifth of the training set is held out."""


@dataclass(frozen=True)
class AdaptationCandidate:
    """An adaptation of one model to one task."""

    cells: Sequence[Cell]
    """Its untuned cells: one for each seed of the last rung, or a single one if the seed changes nothing."""
    own: adaptation_settings.Settings
    tried: Sequence[Mapping[str, Any]]
    """The changes of each trial, by number; the first is {}."""
    held_out: int

    def trials(self, number: int, rung: Rung) -> list[AdaptationTrial]:
        """Returns the trials with this ``number`` on ``rung``, one for each seed."""
        settings = adaptation_settings.recorded(adaptation_settings.changed(self.own, self.tried[number]))
        cells = (replace(cell, settings=settings) for cell in self.cells[: self.seeds(rung)])
        return [AdaptationTrial(cell=cell, held_out=self.held_out) for cell in cells]

    def seeds(self, rung: Rung) -> int:
        """Returns the number of seeds of a trial on ``rung``, which is the rung's budget."""
        return max(1, round(len(self.cells) * rung.share))

    def search(self) -> Search:
        cell = self.cells[0]
        own = {name: getattr(self.own, name) for name in self.tried[1]}
        return Search(name=f"{cell.who} {cell.task} {cell.adaptation}", own=own, tried=self.tried, trials=self.trials)


def tune(options: TuneOptions) -> int:
    """Tunes the adaptations of ``options``, writes the result and prints it. Returns the exit status. An adaptation
    that is not applicable does not count as a failure."""
    suite, out, training = suites.load(options.suite), options.out, options.training
    length, data = recipe_of(dict(suite.recipe) | dict(training.recipe)).length, options.data
    if data is None and not suite.embedded:
        raise UsageError(f"The suite '{options.suite}' needs data: give its folder with --data.")
    twins = () if options.baselines else None
    rows = plan.rows_of(options.models or suite.models, options.sizes or suite.sizes, twins)
    if options.models and (other := next((row.name for row in rows if not row.model), "")):
        raise UsageError(f"{other} is a baseline, so there is nothing to tune. Leave it out of --models.")
    rows = [row for row in rows if row.model]
    plan.check_rows(rows)
    asked = tasks_of(options.tasks or suite.tasks)
    if data is None:
        data = sources.embedded(out)
        asked = asked if options.tasks else within(data, asked)
    found = list({task.name: task for task in map(tuned_settings.trained_on, asked)}.values())
    trainings, models = Trainings(suite, training, data), AdaptedModels()
    cells = _cells(options, suite, rows, found, trainings, models, sources.Fingerprints(data))
    check_lengths(cells, length)
    ladder, candidates = halving.rungs(options.trials, options.factor), candidates_of(cells, options)
    if not candidates:
        raise UsageError(
            "There is nothing to tune: no adaptation of these tasks trains weights. Choose others with --tasks or "
            "--adaptation."
        )
    others = (*trainings.artefacts, *models.models)
    trainings.check()
    if options.dry_run:
        outlook.dry_run(outlook.ADAPTATIONS, list(outlook.adaptations(candidates, ladder, others, data)))
        return OK
    announce("tuning", lambda: outlook.sentences(list(outlook.adaptations(candidates, ladder, others, data, out))))
    job = search.job_of(options, data, length)
    with locked_folder(out):
        searches = [one.search() for one in candidates]
        search.climb(searches, ladder, others, job, options)
        body = _result(options, candidates, searches, ladder, trainings, others)
        sealed.write(out / tuned_settings.FILE, tuned_settings.KIND, body)
    print(tables.adaptation_result(body))
    for one in body["untuned"]:
        say(f"{_name(one)} was not tuned, {one['reason']}")
    return CELLS_FAILED if any(one["status"] != "not_applicable" for one in body["untuned"]) else OK


def _cells(
    options: TuneOptions,
    suite: suites.Suite,
    rows: Sequence[Row],
    found: Sequence[Task],
    trainings: Trainings,
    models: AdaptedModels,
    data_sha256: Mapping[str, str],
) -> tuple[Cell, ...]:
    """Returns the untuned cells with the seeds of trials."""

    def neighbour(row: Row, name: str, cut: str) -> str:
        return trainings.other(name, row.size, neighbours.kind_of(name, row.size, cut)).key

    return Combinations(
        adaptations=options.adaptations,
        seeds=range(FIRST_SEED, FIRST_SEED + (options.seeds or SEEDS)),
        data_sha256=data_sha256,
        pretraining_of={row: trainings(row.model, row.size).key for row in rows if row.kind == "pretrained"},
        tokenizer=trainings.tokenizer().key,
        own_tokenizers=trainings.own_tokenizers([row.model for row in rows]),
        suite_settings=suite.settings,
        settings=options.settings,
        limit=options.limit or 0,
        neighbour=neighbour,
        adapted=models,
    ).cells(rows, found)


def candidates_of(cells: Iterable[Cell], options: TuneOptions) -> list[AdaptationCandidate]:
    """Returns the adaptations of ``cells`` that train weights with Adam, each with the changes to try."""
    groups: dict[tuple, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.row, cell.task, cell.adaptation), []).append(cell)
    found = []
    for group in groups.values():
        if own := tuned_settings.own_settings(group[0]):
            tried = space.of_settings(own).tried(options.trials, options.seed)
            found.append(AdaptationCandidate(group, own, tried, options.held_out or HELD_OUT))
    return found


def _result(
    options: TuneOptions,
    candidates: Sequence[AdaptationCandidate],
    searches: Sequence[Search],
    ladder: Sequence[Rung],
    trainings: Trainings,
    others: Sequence[Artefact],
) -> dict[str, Any]:
    """Returns the content of the result."""
    both = list(zip(candidates, searches, strict=True))
    ended = [(candidate, one) for candidate, one in both if not one.reason]
    found = [_result_entry(candidate, one, ladder, trainings) for candidate, one in ended]
    wanted = [trial for candidate, _ in ended for trial in candidate.trials(0, ladder[-1])]
    before = [one.place(options.out) for one in search.needed(wanted, others) if isinstance(one, Pretraining)]
    adapting = [one for one in search.needed(wanted, others) if isinstance(one, AdaptedModel)]
    return {
        "suite": options.suite,
        "tokenizer": trainings.tokenizer().key,
        "trials": options.trials,
        "factor": options.factor,
        "seeds": options.seeds or SEEDS,
        "held_out": candidates[0].held_out,
        "seed": options.seed,
        "adaptations": found,
        "untuned": [
            {**_about(candidate.cells[0]), "status": one.status, "reason": one.reason}
            for candidate, one in both
            if one.reason
        ],
        "flops": sum(one["flops"] for one in found) + sum(_spent(one, options) for one in adapting),
        "pretraining_flops": sum(checkpoint.read(place).about["flops"] for place in before),
        "seconds": search.seconds_of(searches),
    }


def _about(cell: Cell) -> dict[str, Any]:
    """Returns the fields that identify the adaptation of ``cell`` in the result."""
    return {"row": cell.row.name, "size": cell.row.size, "task": cell.task, "adaptation": cell.adaptation}


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['row']} {one['size']} {one['task']} {one['adaptation']}"


def _spent(model: AdaptedModel, options: TuneOptions) -> float:
    """Returns the FLOPs of ``model``, which was adapted to the intermediate task of trials."""
    return json.loads((model.place(options.out) / COST).read_text())["flops"]


def _result_entry(
    candidate: AdaptationCandidate, ended: Search, ladder: Sequence[Rung], trainings: Trainings
) -> dict[str, Any]:
    """Returns the entry of one adaptation to one task in the result."""
    cell = candidate.cells[0]
    made = next((one for one in trainings.artefacts if one.key == cell.pretraining), None)
    about = {
        **_about(cell),
        "metric": tasks.load(cell.task).headline,
        "higher_is_better": tasks.load(cell.task).higher_is_better,
        "pretraining": made.design if isinstance(made, Pretraining) else "",
        "fits": tuned_settings.identity(cell),
    }
    return about | search.entry(ended, ladder, lambda rung: {"seeds": candidate.seeds(rung)})
