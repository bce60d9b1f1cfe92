"""Commands that train: ``run``, ``tune``, ``pretrain``, ``evaluate``. `bench.runs` does the work."""

from typing import Any

import click

from ptmbench.bench import environment
from ptmbench.bench.commands.options import (
    BATCH,
    EXAMPLES,
    LENGTH,
    PRETRAINING_SEEDS,
    SEED,
    SEEDS,
    SIZES,
    CorpusFilesCommand,
    Existing,
    Location,
    Name,
    Number,
    budget,
    carry_option,
    cell_options,
    log_options,
    model_parallel_option,
    named,
    pretraining_options,
    save_option,
    set_option,
    settings,
    worker_options,
)
from ptmbench.bench.errors import UsageError
from ptmbench.bench.keywords import built, names_of
from ptmbench.bench.options import (
    BOUNDS,
    RUNTIMES,
    STRATEGIES,
    EvaluateOptions,
    PretrainOptions,
    RunOptions,
    TuneOptions,
)

runtime_option = click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    default="tensorflow",
    show_default=True,
    help="Library that computes the steps of a pre-training: TensorFlow, or the PJRT runtime of JAX.",
)


@click.command(cls=CorpusFilesCommand)
@click.argument("suite", type=Name("suites"))
@named("--models", help="Models, random twins (random-MODEL) or baselines; `ls models` lists all models.")
@named("--sizes", "--size", help=f"Sizes: {SIZES}")
@click.option(
    "--no-baselines", "baselines", flag_value=False, default=True, help="Leave out random twins and baselines."
)
@click.option(
    "--strategy",
    type=click.Choice(("one", "mirrored", "tpu", "tensor")),
    default="one",
    show_default=True,
    help="Devices of each pre-training: one, or all devices of this machine with a single worker.",
)
@model_parallel_option
@runtime_option
@click.option(
    "--recipe",
    multiple=True,
    metavar="KEY=VALUE",
    callback=settings,
    help="Change a setting of pre-training, such as batch=256; may be repeated.",
)
@click.option(
    "--pretraining-seeds",
    type=PRETRAINING_SEEDS,
    help="Number of pre-trainings per model and budget; their seeds count from 0.",
)
@click.option("--pretraining-seed", type=SEED, help="Single seed of pre-training, instead of --pretraining-seeds.")
@click.option(
    "--tuned",
    type=Existing("result of a tuning"),
    metavar="FOLDER",
    help="Folder that `ptmbench tune` wrote: use its recipes and adaptation settings.",
)
@carry_option
@log_options
@cell_options
@pretraining_options
def run(**options: Any) -> int:
    """Run SUITE: every combination of model, size, task, adaptation and seed is one cell, recorded once.

    Options narrow or replace the values of the suite. Several budgets, such as --flops 1e12,1e13,1e14, pre-train each
    model once with each. An interrupted run resumes when it is started again with the same options. A failed cell is
    recorded with the reason; the other cells run, and the exit status is 1.
    """
    options["budget"] = budget(options)
    environment.prepare()
    from ptmbench.bench.runs.run import run_suite

    return run_suite(built(RunOptions, options))


@click.command(cls=CorpusFilesCommand)
@click.argument("suite", type=Name("suites"))
@named("--models", help="Models to tune (default: the models of the suite).")
@named("--sizes", "--size", help=f"Sizes: {SIZES}")
@click.option(
    "--data", type=Existing("data folder", folder=True), help="Data folder (default: the embedded microworld)."
)
@named("--adaptation", "adaptations", help="Tune these adaptations on each task, instead of the pre-trainings.")
@named("--tasks", help="Tasks that adaptations are tuned on (default: the tasks of the suite).")
@named(
    "--probe",
    help="Pre-trainings: compare the trials by their scores on these tasks, with the encoder frozen, instead of by "
    "their loss.",
)
@set_option
@click.option("--limit", type=EXAMPLES, help="Use only the first N examples of each split of a task.")
@click.option("--no-baselines", "baselines", flag_value=False, default=True, help="Leave out random twins.")
@click.option(
    "--seeds",
    type=SEEDS,
    help="Seeds of each trial of an adaptation on the last rung (default: 5), or of each probe (default: 3).",
)
@click.option(
    "--trials",
    type=click.IntRange(*BOUNDS["trials"]),
    default=TuneOptions.trials,
    show_default=True,
    help="Number of trials of each model; the first one has the model's own settings.",
)
@click.option(
    "--factor",
    type=click.IntRange(*BOUNDS["factor"]),
    default=TuneOptions.factor,
    show_default=True,
    help="Factor N of successive halving: one trial in N goes on to the next rung, with N times the budget or the "
    "seeds.",
)
@click.option(
    "--share",
    type=Number(min=0, max=1, min_open=True),
    help="Pre-trainings: budget of the last rung, as a share of the budget that is tuned for (default: 0.25).",
)
@click.option(
    "--held-out",
    type=click.IntRange(*BOUNDS["held_out"]),
    metavar="N",
    help="Size of the held-out part that compares the trials: tokens of the corpus (default: 32,768, at most a "
    "twentieth), or training examples of each task (default: 1,000, at most a fifth).",
)
@click.option("--seed", type=SEED, default=TuneOptions.seed, show_default=True, help="Seed of the choice of settings.")
@click.option(
    "--recipe",
    multiple=True,
    metavar="KEY=VALUE",
    callback=settings,
    help="Change a setting of all pre-trainings, such as length=64; may be repeated.",
)
@click.option(
    "--tuned",
    type=Existing("result of a tuning"),
    metavar="FOLDER",
    help="With --adaptation: pre-train each model with the recipe in this folder.",
)
@runtime_option
@worker_options
@pretraining_options
def tune(**options: Any) -> int:
    """Tune the pre-trainings or adaptations of SUITE, with the same number of trials for each model.

    Searches learning rate, batch and warm-up by successive halving on held-out text, or with --probe on held-out
    training examples of tasks. With --adaptation NAME, searches learning rate, batch and epochs of this adaptation for
    each model, random twin and task. These trials are compared on held-out training examples. `ptmbench run SUITE
    --tuned OUT` uses the result. An interrupted tuning resumes when it is started again with the same options.
    """
    options["budget"] = budget(options)
    environment.prepare()
    from ptmbench.bench.runs.tuning.tune import tune as work

    return work(built(TuneOptions, options))


@click.command(cls=CorpusFilesCommand)
@click.argument("model", type=Name("models"))
@click.option("--size", default="tiny", show_default=True, help=f"Size of the network: {SIZES}")
@click.option("--out", type=Location("folder"), required=True, help="Folder of the checkpoint.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of initial weights, data order and noise.")
@click.option("--batch", type=BATCH, help="Sequences per step (default: follows from the budget).")
@click.option("--length", type=LENGTH, help="Tokens per sequence (default: 128).")
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default="auto",
    show_default=True,
    help="Devices to train on; auto follows the GPUs and TF_CONFIG.",
)
@model_parallel_option
@runtime_option
@carry_option
@log_options
@save_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=settings,
    help="Change a setting of the recipe, such as dropout=0.1; may be repeated.",
)
@pretraining_options
def pretrain(**options: Any) -> int:
    """Pre-train MODEL and save a checkpoint. An interrupted pre-training resumes from its last training state."""
    options["budget"], chosen = budget(options), options.pop("settings")
    lengths = {name: value for name in ("batch", "length") if (value := options.pop(name))}
    if twice := next((name for name in lengths if name in chosen), None):
        raise UsageError(f"--{twice} and --set {twice} set the same value. Give one of them.")
    environment.prepare()
    from ptmbench.bench.runs.pretrain import pretrain_command

    return pretrain_command(built(PretrainOptions, options | {"recipe": lengths | chosen}))


@click.command()
@click.argument("checkpoint", type=Existing("checkpoint"), required=False)
@click.option("--name", help="Name of the row of a published folder (default: the name of the folder).")
@click.option(
    "--adapter",
    type=Existing("adapter file"),
    help="Python file with a Keras model of another project, in place of CHECKPOINT; see docs/foreign.md.",
)
@click.option(
    "--extra-encoder",
    "extra_encoders",
    type=Existing("checkpoint"),
    multiple=True,
    help="Checkpoint of an extra encoder for --adaptation stacked, or of word vectors for distil:augment=N; may be "
    "repeated.",
)
@click.option(
    "--suite",
    type=Name("suites"),
    metavar="NAME",
    help="Suite that sets the tasks, adaptations, seeds and settings; other options override them.",
)
@cell_options
def evaluate(**options: Any) -> int:
    """Adapt CHECKPOINT to tasks, with several seeds, and record the scores.

    CHECKPOINT may also be a folder that `import` reads, such as a preset of keras-hub. Without --tasks and --suite, all
    tasks are run.

    Models that are already trained are only scored, and their records belong to the external division. There are two
    kinds: a keras-hub preset of a text classifier, given as CHECKPOINT, and a model that your own Python file loads,
    given with --adapter.
    """
    environment.prepare()
    adapter, given = options.pop("adapter"), options["checkpoint"]
    if (adapter is None) == (given is None):
        raise UsageError("Give either CHECKPOINT, the folder of a checkpoint, or --adapter FILE.")
    from ptmbench.bench.runs.external import presets
    from ptmbench.bench.runs.external.options import AdapterOptions, PresetOptions

    if adapter is not None:
        if options["name"]:
            raise UsageError(f"The name is the NAME in {adapter}. Change it there, and leave --name out.")
        return _evaluate_trained(AdapterOptions, options | {"adapter": adapter})
    if presets.is_classifier(given):
        return _evaluate_trained(PresetOptions, options | {"preset": given})
    from ptmbench.bench.runs.run import evaluate as work

    return work(built(EvaluateOptions, options))


def _evaluate_trained(kind: type, options: dict[str, Any]) -> int:
    """Scores a trained model. ``kind`` is the class of its options, which are taken from those of `evaluate`."""
    from ptmbench.bench.runs.external.evaluation import check_alone, evaluate

    flags = {
        "task_teachers": "task-teacher",
        "conditions": "condition",
        "transforms": "transform",
        "adaptations": "adaptation",
        "settings": "set",
    }
    unused = ("extra_encoders", "task_teachers", "suite", *flags, "keep", "profile", "dry_run", "retry", "ray_address")
    check_alone(**{flags.get(name, name).replace("_", "-"): options[name] for name in unused})
    if not options["tasks"]:
        raise UsageError("A trained model needs the tasks that it was made for: name them with --tasks.")
    return evaluate(kind(**{name: options[name] for name in names_of(kind)}))[0]
