"""What ``run`` and ``evaluate`` do: options to a plan, and what its cells share prepared; `bench.execute` drives it."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptmbench import models, tasks
from ptmbench.bench import checkpoint as checkpoints
from ptmbench.bench import neighbours, plan, suites
from ptmbench.bench.baselines import beside, label
from ptmbench.bench.budget import Budget
from ptmbench.bench.checkpoint import Checkpoint, CheckpointError
from ptmbench.bench.console import say
from ptmbench.bench.data import corpora, sources
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.engine.recipe import adam_of, recipe_of
from ptmbench.bench.engine.stopping import SAVE_SECONDS
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.execute import Staff, execute
from ptmbench.bench.plan import Cell, Plan, Pretraining, Row
from ptmbench.bench.suites import Suite
from ptmbench.bench.work import Job
from ptmbench.models.card import Size
from ptmbench.tasks.task import Task


def run_suite(
    *,
    suite: str,
    data: Path | None = None,
    models: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str] | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    out: Path | None = None,
    adaptations: Sequence[str] | None = None,
    budget: Budget | None = None,
    settings: Mapping[str, Any] | None = None,
    corpus: Sequence[Path] = (),
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    recipe: Mapping[str, Any] | None = None,
    strategy: str = "one",
    baselines: bool = True,
    dry_run: bool = False,
    jobs: int | None = None,
    threads: int | None = None,
    executor: str = "local",
    ray_address: str | None = None,
    limit: int | None = None,
    keep: bool = False,
    retry: bool = False,
    cell_timeout: float | None = None,
    save_every: float = SAVE_SECONDS,
) -> int:
    """Run the suite called ``suite``, changed by the options; returns the exit status."""
    chosen = suites.load(suite)
    changes = dict(chosen.recipe) | dict(recipe or {})
    trained = recipe_of(changes).length  # what does not fit is told before anything is made
    out = out or Path("runs") / suite
    if data is None and not chosen.embedded:
        raise UsageError(
            f"The suite '{suite}' needs data: give its folder with --data. `ptmbench data ls` shows which."
        )
    found = _tasks(tasks or chosen.tasks)
    floor = beside(found) if baselines else None
    rows = plan.rows_of(models or chosen.models, sizes or chosen.sizes, floor)
    check_rows(rows)
    if data is None:
        data = sources.embedded(out)
    pretrained = [row for row in rows if row.kind == "pretrained"]
    path = fingerprint = kind = ""
    common: dict[str, Any] = {}
    if any(row.model for row in rows):
        files = corpora.files_of(corpus, chosen.corpus, data)
        kind, size = tokenizer or chosen.tokenizer, vocabulary or chosen.vocabulary
        sha256 = corpora.fingerprint(files)
        fingerprint = plan.digest({"corpus": sha256, "kind": kind, "size": size})
        if not dry_run:
            path = str(corpora.tokenizer(files, kind, size))
        common = {
            "corpus": tuple(str(file.resolve()) for file in files),  # workers stand elsewhere
            "corpus_sha256": sha256,
            "corpus_name": corpora.name_of(files),
            "vocabulary": size,
        }

    def training_of(model: str, size: str, cut: str) -> Pretraining:
        given = budget if budget and budget.unit else chosen.budgets.get(model, chosen.budget)
        own = recipe_for(model, changes)
        return Pretraining(**common, recipe=own, budget=given, model=model, size=size, tokenizer=cut)

    own = {row: training_of(row.model, row.size, kind) for row in pretrained}
    trainings = {pretraining.key: pretraining for pretraining in own.values()}

    def neighbour(row: Row, name: str, cut: str) -> str:
        """The key of what ``name`` is pre-trained as, which may be a row of the run as well."""
        pretraining = training_of(name, row.size, neighbours.kind_of(name, row.size, cut))
        return trainings.setdefault(pretraining.key, pretraining).key

    cells = plan.cells_of(
        rows,
        found,
        adaptations=adaptations or chosen.adaptations,
        seeds=[seed] if seed is not None else range(seeds or chosen.seeds),
        data_sha256=sources.Fingerprints(data),
        pretraining_of={row: pretraining.key for row, pretraining in own.items()},
        tokenizer=fingerprint,
        suite_settings=chosen.settings,
        settings=settings,
        limit=limit or 0,
        neighbour=neighbour,
    )
    check_lengths(cells, trained)
    whole = Plan(pretrainings=tuple(trainings.values()), cells=cells)
    if dry_run:
        from ptmbench.bench.estimate import table

        print(table(whole, data))
        return OK
    further = sorted({pretraining.tokenizer for pretraining in trainings.values()} - {kind})
    job = Job(
        data=str(data.resolve()),
        source=sources.source_of(data),
        command=repeatable(),
        tokenizer=path,
        tokenizers={other: str(corpora.tokenizer(files, other, size)) for other in further},
        keep=keep,
        length=trained,
        strategy=strategy,
        save_every=save_every,
    )
    if strategy != "one":
        jobs = jobs or 1  # a training that has all devices leaves none to a second one beside it
    staff = Staff(workers=jobs, threads=threads, executor=executor, address=ray_address, cell_timeout=cell_timeout)
    return execute(whole, job, out, staff, retry)


def evaluate(
    *,
    checkpoint: Path,
    beside: Sequence[Path] = (),
    suite: str | None = None,
    tasks: Sequence[str] | None = None,
    data: Path | None = None,
    out: Path | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    adaptations: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    jobs: int | None = None,
    threads: int | None = None,
    executor: str = "local",
    ray_address: str | None = None,
    limit: int | None = None,
    keep: bool = False,
    retry: bool = False,
    cell_timeout: float | None = None,
    save_every: float = SAVE_SECONDS,
) -> int:
    """Adapt the pre-trained model in ``checkpoint`` to tasks, those of ``suite`` in its ways where none are named, and
    score it; returns the exit status. Models that an adaptation reads besides are in the checkpoints ``beside``."""
    usual = suites.load(suite) if suite else Suite(summary="", models=(), tasks=())
    found, others = _pretrained(checkpoint), [_pretrained(folder) for folder in beside]
    out = out or Path("runs") / Path(checkpoint).name
    data = data or sources.embedded(out)
    division, about = found.about.get("division", "controlled"), found.about
    row = Row(
        name=about.get("name", about["model"]),
        kind="published" if division == "published" else "pretrained",
        model=about["model"],
        size=about["size"],
        division=division,
    )
    chosen = _tasks(tasks or usual.tasks)
    read: dict[str, Checkpoint] = {}

    def neighbour(row: Row, name: str, cut: str) -> str:
        one = read[name] = neighbours.given(others, name, cut)
        return f"checkpoint:{one.weights_sha256}.{one.about['tokenizer']['sha256']}"

    cells = plan.cells_of(
        [row],
        chosen,
        adaptations=adaptations or usual.adaptations,
        seeds=[seed] if seed is not None else range(seeds or usual.seeds),
        data_sha256=sources.Fingerprints(data),
        pretraining_of={row: f"checkpoint:{found.weights_sha256}"},
        tokenizer=found.about["tokenizer"]["sha256"],
        suite_settings=usual.settings,
        settings=settings,
        limit=limit or 0,
        neighbour=neighbour,
    )
    for other in others:
        if other not in read.values():
            raise UsageError(
                f"No cell reads {other.about['model']} in {other.folder} besides. `--adaptation "
                f"stacked:beside={other.about['model']}` does, for tagging tasks."
            )
    for cell in cells:
        for one in (found, *(read[name] for name in cell.neighbours)):
            longest = int(one.about["shape"]["length"])
            if cell.settings["length"] > longest:
                raise UsageError(
                    f"{one.about.get('name', one.about['model'])} in {one.folder} reads at most {longest} tokens, but "
                    f"{cell.task} asks for {cell.settings['length']:g}. Add --set length={longest}."
                )
    whole = Plan(pretrainings=(), cells=cells)
    if dry_run:
        from ptmbench.bench.estimate import table

        shapes = {name: Size(**one.about["shape"]) for name, one in read.items()}
        print(table(whole, data, Size(**about["shape"]), shapes))
        return OK
    job = Job(
        data=str(data.resolve()),
        source=sources.source_of(data),
        command=repeatable(),
        tokenizer=str(found.path("tokenizer.json").resolve()),
        keep=keep,
        length=int(about["shape"]["length"]),
        checkpoint=str(Path(checkpoint).resolve()),
        neighbours={name: str(one.folder.resolve()) for name, one in read.items()},
        save_every=save_every,
    )
    staff = Staff(workers=jobs, threads=threads, executor=executor, address=ray_address, cell_timeout=cell_timeout)
    return execute(whole, job, out, staff, retry)


def _pretrained(folder: Path) -> Checkpoint:
    found = checkpoints.read(folder)
    if found.about.get("kind") != "pretrained":
        raise CheckpointError(
            f"{folder} holds a model that is {found.about.get('kind')}, not pretrained. Use `predict` with it."
        )
    return found


def recipe_for(model: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """``changes`` to the recipe, with Adam's settings as ``model`` has them: other ones make another checkpoint."""
    return {**changes, **adam_of(recipe_of(changes), models.load(model))}


def check_rows(rows: Sequence[Row]) -> None:
    """Unknown models and sizes, and files of models and baselines that are broken, are told before anything is
    trained."""
    for row in rows:
        if row.kind == "baseline":
            label(row.name)
        if row.model:
            module = models.load(row.model)
            if row.size not in module.SIZES:
                raise models.UnknownModel(f"{row.model} has no size '{row.size}'; it has {', '.join(module.SIZES)}.")


def check_lengths(cells: Sequence[Cell], trained: int) -> None:
    """Inputs that are longer than the networks are made for, with ``trained`` tokens in pre-training, are told before
    anything is trained."""
    for cell in cells:
        for name in (cell.row.model, *cell.neighbours) if cell.row.model else ():
            longest = sized(models.load(name), cell.row.size, trained).length
            if cell.settings["length"] > longest:
                raise UsageError(
                    f"{name} reads at most {longest} tokens, but {cell.task} asks for {cell.settings['length']:g}. "
                    f"Add --set length={longest}, or --recipe length={cell.settings['length']:g} to pre-train with as "
                    "many."
                )


def _tasks(names: Sequence[str] | None) -> list[Task]:
    """The tasks called ``names``, or all there are whose files are sound."""
    return [tasks.check_headline(task) for task in (map(tasks.load, names) if names else tasks.load_all(say))]


def repeatable() -> str:
    """This process's command without the options that choose among cells: what repeats one cell begins with it."""
    drop = {"--models", "--sizes", "--size", "--tasks", "--adaptation", "--seeds", "--seed", "--jobs", "--out"}
    drop |= {"--workers", "--executor", "--ray-address", "--save-every", "--cell-timeout"}
    arguments, kept = iter(sys.argv[1:]), []
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if name in drop:
            if not equals:
                next(arguments, None)
        elif name not in ("--retry", "--no-baselines", "--debug"):
            kept.append(argument)
    import shlex

    return shlex.join(["ptmbench", *kept])
