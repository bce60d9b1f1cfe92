"""The pre-training loop: trains a model on a corpus for a budget, and writes a checkpoint.

The documents of a step, their masks and the dropout depend on (seed, step) only. So a killed run that resumes from its
newest training state ends with the same weights as an uninterrupted run.
"""

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ptmbench import models
from ptmbench.bench import environment
from ptmbench.bench.console import Bar, progress, say
from ptmbench.bench.engine import checkpoint, distribute, place
from ptmbench.bench.engine.budget import Budget, steps_of
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.engine.cost import Meter, phase
from ptmbench.bench.engine.course import Course, Losses, TrainingStates
from ptmbench.bench.engine.monitoring import Log, LogOptions
from ptmbench.bench.engine.networks import build, sized, without_scaffold
from ptmbench.bench.engine.prefetch import prefetch
from ptmbench.bench.engine.rates import rate_at
from ptmbench.bench.engine.recipe import Recipe, adam_of, recipe_of
from ptmbench.bench.engine.stopping import SAVE_SECONDS, Stop, check_finished
from ptmbench.bench.engine.tensor_parallel import layouts
from ptmbench.bench.errors import OK, ContinuedElsewhere, Diverged, UsageError
from ptmbench.bench.options import PretrainOptions
from ptmbench.bench.runs import given, teachers
from ptmbench.bench.runs.specification import Specification
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Tokenizer

_CALIBRATION_STEPS = 20
_CHECK_STEPS = 50
"""Maximum number of steps between two checks of the losses."""


def pretrain(
    model: str,
    size: str,
    *,
    corpus: Corpus,
    tokenizer: Tokenizer,
    budget: Budget,
    out: Path,
    recipe: Recipe | None = None,
    seed: int = 0,
    base: Checkpoint | None = None,
    teacher: Checkpoint | None = None,
    held_out: Corpus | None = None,
    about: Mapping[str, Any] | None = None,
    strategy: Any = None,
    save_every: float = SAVE_SECONDS,
    runtime: str = "tensorflow",
    carry: Path | None = None,
    log: LogOptions = LogOptions(),  # noqa: B008  frozen
    warn: Callable[[str], None] = print,
) -> Checkpoint:
    """Trains ``model`` at ``size`` on ``corpus`` until ``budget`` is spent, then writes the checkpoint ``out``.

    A training state is written to ``<out>.training/`` every ``save_every`` seconds. An interrupted run resumes from the
    newest intact one. Training states are deleted after the checkpoint is written.

    - ``base``: the network begins with its weights, and the optimizer begins anew.
    - ``teacher``: the network that a student learns from.
    - ``held_out``: the corpus of the manifest's entry "held_out": the loss (`bench.engine.held_out.measured`) and its
      FLOPs, which are not part of the budget. No entry if the objective cannot read this corpus.
    - ``about``: further entries for the manifest.
    - ``strategy``: a `tf.distribute` strategy, or a `TensorParallel`. Of several workers, only the chief writes.
    - ``runtime``: "tensorflow", or "pjrt" for JAX's (`bench.engine.portable`). Each resumes the states of the other.
    - ``carry``: a folder to train in on another machine (`bench.engine.portable.carry`). Written if it does not exist.
    - ``log``: logs for TensorBoard, named after ``out``. They do not change the weights.
    - ``warn``: receives messages for the user.

    Raises `CheckpointError` for a ``base`` with other variables, for a teacher that is missing or does not fit, and for
    a base or teacher with another tokenizer; `Diverged` if the loss, the gradient or a weight is not finite;
    `distribute.WorkerLost` if a worker is lost; `ContinuedElsewhere` if training must continue in ``carry``; and
    `bench.engine.stopping.Unfinished` if training stops before the last step.
    """
    tokenizer = teachers.with_teacher_vocabulary(tokenizer, teacher, model)
    spec = Specification(
        model,
        size,
        recipe=recipe or Recipe(),
        seed=seed,
        budget=budget,
        corpus=corpus,
        tokenizer=tokenizer,
        base=base,
        teacher=teacher,
    )
    recipe, shape = spec.recipe, spec.shape
    distribute.check_split(recipe.batch, recipe.accumulate, strategy)
    if distribute.splits_weights(strategy):
        if runtime != "tensorflow" or carry is not None:
            raise UsageError("--strategy tensor is for TensorFlow on this machine. Leave --runtime and --carry out.")
        layouts.check(spec.described, strategy.model_parallel, f"{spec.module.CARD.title} {size}")
        layouts.check_recipe(recipe)
    with Meter() as meter, distribute.peers(strategy):
        with phase("build"):
            from ptmbench.bench.engine import objectives

            steps = steps_of(budget, spec.tokens_per_step, spec.flops_per_step)
            flops = steps * spec.flops_per_step if steps else math.inf
            network, step_function = _step_of(model, shape, tokenizer, recipe, seed, strategy, flops, teacher)
            if runtime == "pjrt":
                from ptmbench.bench.engine.portable.step import PjrtStep

                step_function = PjrtStep(step_function, network.loss.variables)
            writes = distribute.is_chief(strategy)
            states = TrainingStates(place.states_of(out), spec.identity, network, step_function, writes)
            course = states.resume(warn)
            if course is None:
                course = Course(steps=steps)
                if base is not None:
                    given.load_base(network, base, f"{model} {size}", tokenizer)
            distribute.check_same_step(course.step, strategy)
            meter.earlier = course.spent
            make = objectives.batches_of(network, corpus, recipe.batch, recipe.length, lambda: course.steps)

        def rate(step: int) -> float:
            # A budget in minutes has no known last step until the first steps are timed. They stay in the warm-up.
            steps = course.steps or 10_000
            schedule, warmup = recipe.schedule, recipe.warmup
            return rate_at(step, steps, peak=recipe.learning_rate, warmup=warmup, schedule=schedule)

        elsewhere = {}
        if carry is not None:
            from ptmbench.bench.engine.portable import carry as carrying

            title = f"{model}-{size}"
            parts = (network, step_function, make, rate, spec.flops_per_step)
            course, elsewhere = carrying.exchange_folder(carry, title, states, course, *parts, warn)
            meter.earlier = course.spent
        batches = prefetch(lambda step: make(step, seed), course.step)

        def one_step() -> Mapping[str, Any]:
            with phase("wait"):
                batch = next(batches)
            return step_function(batch, (seed, course.step), rate(course.step))

        def save() -> None:
            with phase("save"):
                course.spent = meter.spent()
                states.save(course)

        with (
            _progress(f"pre-train {model}-{size}", course, shown=writes) as bar,
            contextlib.closing(batches),
            phase("train"),
            Stop() as stop,
            Log(
                log if writes else LogOptions(),
                out.name,
                tokens=spec.tokens_per_step,
                flops=spec.flops_per_step,
                rate=rate,
            ) as logged,
        ):
            logged.begin(course)
            _train(course, one_step, Losses(states.diverged), bar, logged, stop, save, save_every, budget.minutes)
        check_finished(course.step, course.steps)
        if runtime == "pjrt" and not elsewhere:
            elsewhere = {"device": step_function.device}
        arrays = without_scaffold(network.loss, states.finite_weights(course.step))
        measured = _held_out(network, held_out, spec, warn) if held_out else {}
    course.spent = meter.spent()
    result = spec.manifest(course, meter, strategy, about or {}, {**elsewhere, **measured})
    if not writes:
        return Checkpoint(out, result, {})
    texts = {"tokenizer.json": tokenizer.to_json()}
    finished = checkpoint.write(out, about=result, arrays={"weights": arrays}, texts=texts)
    shutil.rmtree(states.folder, ignore_errors=True)
    return finished


def _held_out(network: Any, corpus: Corpus, spec: Specification, warn: Callable[[str], None]) -> dict[str, Any]:
    """Returns the manifest's entry for the loss on the held-out ``corpus``; {} if the objective cannot read it, for
    example because it lacks annotations. A forward pass is a third of a training step."""
    from ptmbench.bench.engine import held_out

    try:
        with phase("evaluate"):
            found = held_out.measured(network, corpus, spec.recipe.length)
    except CorpusUnfit as error:
        warn(f"No loss was measured on the held-out text. {error}")
        return {}
    flops = found["rows"] * spec.flops_per_step / spec.recipe.batch / 3
    return {"held_out": {**found, "corpus_sha256": corpus.fingerprint, "flops": flops}}


def _step_of(
    model: str,
    shape: Any,
    tokenizer: Tokenizer,
    recipe: Recipe,
    seed: int,
    strategy: Any,
    flops: float,
    teacher: Checkpoint | None,
) -> tuple[Any, Any]:
    """Returns the initialised network and the training step of ``recipe``. Whether XLA compiles the step may depend on
    ``flops``, the FLOPs of the training."""
    from ptmbench.bench.engine import numerics, objectives
    from ptmbench.bench.engine.step import TrainStep

    split = distribute.splits_weights(strategy)
    with distribute.scope(strategy), numerics.computing_in(recipe.precision):
        taught = teachers.build_network(teacher, seed) if teacher is not None else None
        network = build(model, shape, tokenizer, seed, teacher=taught)
        network.encoder.dropout = recipe.dropout
        variables, loss = list(network.loss.trainable_variables), objectives.checked(network.loss)
        step = TrainStep(
            numerics.rematerialised(loss) if recipe.rematerialise else loss,
            variables,
            totals=network.loss.totals,
            optimizer=recipe.optimizer,
            adam=adam_of(recipe, models.load(model)),
            weight_decay=recipe.weight_decay,
            clip=recipe.clip,
            accumulate=recipe.accumulate,
            strategy=None if split else strategy,
            jit=not split and numerics.compiles(recipe.xla, network.encoder, flops),
        )
        if split:
            from ptmbench.bench.engine.tensor_parallel.step import TensorStep

            step = TensorStep(step, network.loss, strategy)
        return network, step


def _train(
    course: Course,
    one_step: Callable[[], Mapping[str, Any]],
    losses: Losses,
    bar: Bar,
    log: Log,
    stop: Stop,
    save: Callable[[], None],
    save_every: float,
    minutes: float | None,
) -> None:
    """Trains from the course's current step to its last one, or saves and returns after a signal to stop."""
    first, saved, timed = course.step, time.monotonic(), 0.0
    bar.skip(first)
    while course.steps is None or course.step < course.steps:
        scalars = one_step()
        course.step += 1
        losses.add(course.step, scalars)
        log.after(course.step - first, losses.settle)
        if course.steps is None and course.step - first == 1:  # timing starts after the traced step
            losses.settle()
            timed = time.perf_counter()
        elif course.steps is None and course.step - first == 1 + _CALIBRATION_STEPS:
            losses.settle()
            per_step = (time.perf_counter() - timed) / _CALIBRATION_STEPS
            bar.total = course.steps = max(course.step, math.floor(minutes * 60 / per_step))
        last = course.step == course.steps
        if last or course.step % max(1, (course.steps or 1000) // 100) == 0:
            if values := losses.settle():
                course.curve.append({"step": course.step, **{name: round(value, 6) for name, value in values.items()}})
                log.add(course.curve[-1])
                bar.advance(0, loss=values["loss"])
        elif course.step % _CHECK_STEPS == 0:
            losses.settle()
        bar.advance(1)
        if stop.signal or (time.monotonic() - saved > save_every and not last):
            losses.settle()
            save()
            saved = time.monotonic()
        if stop.signal:
            return


def _progress(title: str, course: Course, shown: bool) -> Any:
    """A progress bar on stderr, or a hidden one."""
    return progress(title, course.steps) if shown else contextlib.nullcontext(Bar(title, course.steps, "steps"))


def pretrain_command(options: PretrainOptions) -> int:
    """Runs ``ptmbench pretrain`` and returns the exit status."""
    from ptmbench.bench.data import corpora
    from ptmbench.bench.runs import stages

    model, size, out, training = options.model, options.size, options.out, options.training
    sized(models.load(model), size, 8)
    if not training.corpus:
        raise UsageError("`pretrain` needs text: give files or folders with --corpus.")
    if not training.budgets:
        raise UsageError("`pretrain` needs a budget: give one of --steps, --tokens, --flops, --minutes.")
    budget, *others = training.budgets
    if others:
        asked = " and ".join(one.flag() for one in training.budgets)
        raise UsageError(f"A pre-training has one budget, not {asked}. Give one; `run` takes several.")
    if training.pretraining_seeds is not None or training.pretraining_seed is not None:
        raise UsageError("`pretrain` makes one pre-training. Give its seed as `seed`, not as an option of a run.")
    changes = dict(training.recipe)
    recipe = recipe_of(changes)
    place.check_unfinished(out)
    environment.prepare()
    devices = distribute.strategy_of(options.strategy, options.model_parallel)
    if budget.minutes and distribute.workers(devices) > 1:
        raise UsageError(
            "A budget in --minutes would end at a different step on each worker. Give --steps, --tokens or --flops."
        )
    writes = distribute.is_chief(devices)
    tell = say if writes else lambda text: None
    files = corpora.files_of(training.corpus, (), None)
    base = stages.base_of(training, model, size, recipe.length)
    teacher = stages.teacher_of(training, model, size, recipe.length)
    given = base or (None if teachers.has_own_vocabulary(model) else teacher)
    if given is not None:
        path = given.path("tokenizer.json")
    else:
        kind, words = stages.words_of(training, model, teacher)
        path = corpora.tokenizer(files, kind, words)
    trained = Tokenizer.load(path)
    try:
        with place.locked(out) if writes else contextlib.nullcontext():
            finished = pretrain(
                model,
                size,
                corpus=corpora.load(tuple(map(str, files)), trained),
                held_out=corpora.measured_on(tuple(map(str, files)), trained),
                tokenizer=trained,
                budget=budget,
                out=out,
                recipe=recipe,
                seed=options.seed,
                base=base,
                teacher=teacher,
                about={"corpus": corpora.name_of(files)},
                strategy=devices,
                save_every=options.save_every,
                runtime=options.runtime,
                carry=options.carry,
                log=options.log,
                warn=tell,
            )
            if writes:
                place.divergence_of(out).unlink(missing_ok=True)  # from earlier settings
    except ContinuedElsewhere as carried:
        tell(str(carried))
        return OK
    except Diverged as error:
        if writes:
            place.record_divergence(
                error, out, {"model": model, "size": size, "settings": changes, "budget": budget.flag()}
            )
        raise
    about = finished.about
    held_out = f", held-out loss {about['held_out']['loss']:.3f}" if "held_out" in about else ""
    loss = f"loss {about['loss']:.3f}{held_out}"
    if split := about.get("tensor_parallel"):
        tell(layouts.sentence(split))
    tell(f"{about['steps']} steps, {about['tokens']} tokens, {about['flops']:.3g} FLOPs, {loss}.")
    print(out)
    return OK
