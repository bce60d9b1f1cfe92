"""Plans ``run`` and ``evaluate`` from their options. `bench.runs.execute` executes the plan."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ptmbench import models, tasks
from ptmbench.bench.adapt import neighbours
from ptmbench.bench.baselines import by_default
from ptmbench.bench.console import say
from ptmbench.bench.data import sources
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.options import EvaluateOptions, OutputOptions, RunOptions
from ptmbench.bench.runs import graph, plan, published, suites
from ptmbench.bench.runs.artefacts import AdaptedModel, Cell, Given, Row, TransformedModel
from ptmbench.bench.runs.combinations import Combinations, check_transforms
from ptmbench.bench.runs.drawn import DrawnCells
from ptmbench.bench.runs.execute import execute
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan, Teaching
from ptmbench.bench.runs.stages import Trainings, pretrained_in
from ptmbench.bench.runs.suites import Suite
from ptmbench.bench.runs.task_teachers import TaskTeachers, row_of
from ptmbench.bench.runs.trainings import GIVEN
from ptmbench.tasks.task import MissingData, Task


def run_suite(options: RunOptions) -> int:
    """Runs the suite of ``options`` with their changes and returns the exit status."""
    suite, asked, training, output = options.suite, options.cells, options.training, options.output
    chosen, data = suites.load(suite), options.data
    changes = dict(chosen.recipe) | dict(training.recipe)
    trained = recipe_of(changes).length  # raises errors of the recipe before anything is made
    out = output.out or Path("runs") / suite
    if data is None and not chosen.embedded:
        raise UsageError(
            f"The suite '{suite}' needs data: give its folder with --data. `ptmbench data ls` shows which."
        )
    found = tasks_of(asked.tasks or chosen.tasks)
    floor = by_default(found) if options.baselines else None
    rows = plan.rows_of(options.models or chosen.models, options.sizes or chosen.sizes, floor)
    plan.check_rows(rows)
    if data is None:
        data = sources.embedded(out)
        found = found if asked.tasks else within(data, found)
    training_of = Trainings(chosen, training, data) if any(row.model for row in rows) else None
    adapted, data_sha256 = AdaptedModels(), sources.Fingerprints(data)
    given = TaskTeachers(asked.task_teachers)
    cells = DrawnCells(
        chosen, asked, rows, trainings=training_of, given=given, adapted=adapted, data_sha256=data_sha256
    )(found)
    check_transforms(asked.transforms or (), cells)
    made = (*(training_of.artefacts if training_of else ()), *given.artefacts, *adapted.models)
    needed = graph.dependency_keys(made, cells)
    made = [one for one in made if one.key in needed]
    learning = [*cells, *(one.cell for one in made if isinstance(one, AdaptedModel))]
    given.check(learning)
    check_lengths([cell for cell in learning if not given.teaches(cell)], trained)
    whole = Plan((*made, *cells))
    from ptmbench.bench.runs import outlook

    if training_of:
        training_of.check()
    if options.dry_run:
        outlook.dry_run(whole, data, out)
        return OK
    workers = options.workers
    job = Job(
        data=str(data.resolve()),
        source=sources.source_of(data),
        command=options.command(),
        keep=output.keep,
        length=trained,
        strategy=workers.strategy,
        model_parallel=workers.model_parallel,
        runtime=workers.runtime,
        save_every=output.save_every,
        log=options.log.given(),
        **_measurements(chosen, output),
    )
    if options.carry:
        from ptmbench.bench.runs.away import carry

        return carry(whole, job, out, options.carry)
    if workers.strategy != "one":  # a pre-training uses all devices, so a second worker would have none
        workers = replace(workers, jobs=workers.jobs or 1)
    outlook.tell(whole, data, out)
    return execute(whole, job, out, workers, output.retry)


def evaluate(options: EvaluateOptions) -> int:
    """Adapts the checkpoint of ``options`` to tasks, scores it, and returns the exit status."""
    asked, output = options.cells, options.output
    usual = suites.load(options.suite) if options.suite else Suite(summary="", models=(), tasks=())
    out = output.out or Path("runs") / options.checkpoint.name
    found = published.opened(options.checkpoint, out, options.name)
    others = [pretrained_in(folder) for folder in options.extra_encoders]
    data = options.data or sources.embedded(out)
    row, about = row_of(found), found.about
    given = TaskTeachers(asked.task_teachers)
    chosen = tasks_of(asked.tasks or usual.tasks)
    read: dict[str, Checkpoint] = {}
    adapted = AdaptedModels()

    def neighbour(row: Row, name: str, cut: str) -> str:
        one = read[name] = neighbours.find_checkpoint(others, name, cut)
        return _key(one)

    def teacher(named: str) -> Teaching:
        if (one := given(named)) is None:
            raise given.unknown(named)
        return one

    cells = Combinations(
        adaptations=asked.adaptations or usual.adaptations,
        seeds=[asked.seed] if asked.seed is not None else range(asked.seeds or usual.seeds),
        data_sha256=sources.Fingerprints(data),
        pretraining_of={row: f"{GIVEN}{found.weights_sha256}"},
        tokenizer=found.about["tokenizer"]["sha256"],
        suite_settings=usual.settings,
        settings=asked.settings,
        limit=asked.limit or 0,
        neighbour=neighbour,
        teacher=teacher,
        adapted=adapted,
        conditions=asked.conditions or usual.conditions,
        transforms=asked.transforms or usual.transforms,
        keeps=usual.keeps,
    ).cells([row], chosen)
    check_transforms(asked.transforms or (), cells)
    for other in others:
        if other not in read.values():
            raise UsageError(
                f"No cell uses the extra encoder {other.about['model']} in {other.folder}. Add `--adaptation "
                f"stacked:encoders={other.about['model']}` and a tagging task, or leave --extra-encoder out."
            )
    learning = [*cells, *(one.cell for one in adapted.models)]
    given.check(learning)
    for cell in (one for one in learning if not given.teaches(one)):
        for one in (found, *(read[name] for name in cell.neighbours)):
            longest = int(one.about["shape"]["length"])
            if cell.settings["length"] > longest:
                raise UsageError(
                    f"{one.about.get('name', one.about['model'])} in {one.folder} reads at most {longest} tokens, but "
                    f"{cell.task} asks for {cell.settings['length']:g}. Add --set length={longest}."
                )
    cut = found.about["tokenizer"]["sha256"]
    whole = Plan(
        (
            Given(key=f"{GIVEN}{found.weights_sha256}", path=str(found.folder.resolve())),
            Given(key=cut, path=str(found.path("tokenizer.json").resolve())),
            *(Given(key=_key(one), path=str(one.folder.resolve())) for one in read.values()),
            *given.artefacts,
            *adapted.models,
            *cells,
        )
    )
    from ptmbench.bench.runs import outlook

    if options.dry_run:
        outlook.dry_run(whole, data, out)
        return OK
    job = Job(
        data=str(data.resolve()),
        source=sources.source_of(data),
        command=options.command(),
        keep=output.keep,
        length=int(about["shape"]["length"]),
        model_options=False,
        save_every=output.save_every,
        **_measurements(usual, output),
    )
    outlook.tell(whole, data, out)
    return execute(whole, job, out, options.workers, output.retry)


class AdaptedModels:
    """Plans adapted and transformed models, each once for all cells that need it."""

    def __init__(self) -> None:
        self._planned: dict[str, AdaptedModel] = {}

    @property
    def models(self) -> tuple[AdaptedModel, ...]:
        return tuple(self._planned.values())

    def __call__(self, cell: Cell) -> str:
        """Returns the key of the adapted model of ``cell``, or of its transformed model if it has transforms. Each
        transform of a chain makes a separate model."""
        planned = AdaptedModel(cell=cell)
        if cell.transforms:
            source = self(replace(cell, transforms=cell.transforms[:-1]))
            planned = TransformedModel(cell=replace(cell, predictor=source))
        self._planned[planned.key] = planned
        return planned.key


def _measurements(suite: Suite, output: OutputOptions) -> dict[str, bool]:
    """What the cells of a run of ``suite`` measure: "profile" and "compared" of their `Job`."""
    profile = suite.profile if output.profile is None else output.profile
    return {"profile": profile, "compared": profile or suite.profile}


def _key(extra: Checkpoint) -> str:
    """The key of a given checkpoint of an ``extra`` encoder; includes its tokenizer."""
    return f"{GIVEN}{extra.weights_sha256}.{extra.about['tokenizer']['sha256']}"


def check_lengths(cells: Sequence[Cell], trained: int) -> None:
    """Raises `UsageError` for inputs that are longer than a network reads. ``trained`` is the length of the inputs in
    pre-training, in tokens."""
    for cell in cells:
        for name in (cell.row.model, *cell.neighbours) if cell.row.model else ():
            longest = sized(models.load(name), cell.row.size, trained).length
            if cell.settings["length"] > longest:
                raise UsageError(
                    f"{name} reads at most {longest} tokens, but {cell.task} asks for {cell.settings['length']:g}. "
                    f"Add --set length={longest}, or --recipe length={cell.settings['length']:g} to pre-train with as "
                    "many."
                )


def within(data: Path, found: Sequence[Task]) -> list[Task]:
    """The tasks of ``found`` that the microworld in ``data`` has. Prints a message for each other task."""
    there = []
    for task in found:
        try:
            task.paths(data, task.report)
            there.append(task)
        except MissingData:
            say(f"The microworld has no {task.title}: left out. Give a data folder with --data to run it.")
    return there


def tasks_of(names: Sequence[str] | None) -> list[Task]:
    """The tasks ``names``, or all tasks without errors in their files if ``names`` is None."""
    return [tasks.check_headline(task) for task in (map(tasks.load, names) if names else tasks.load_all(say))]
