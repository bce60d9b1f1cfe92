"""The only training loop for objectives: a model, a corpus and a budget become a checkpoint.

Which documents a step sees, how they are masked and what dropout removes follow from (seed, step) alone. So a run that
was killed and goes on from its newest training state ends with the same weights as one that was never interrupted.
"""

import contextlib
import math
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import models
from bench import checkpoint
from bench.budget import Budget
from bench.checkpoint import Checkpoint
from bench.console import progress, say
from bench.errors import OK, UsageError
from models.card import Size
from models.corpus import Corpus
from models.tokenizers import Tokenizer

_SAVE_SECONDS = 120
_CALIBRATION_STEPS = 20


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How pre-training runs. A model's file may name its own peak rate as ``LEARNING_RATE``; the rest is the same for
    all.

    No dropout: at these budgets no document is seen often enough to overfit (Geiping & Goldstein, 2023).
    """

    batch: int = 32
    length: int = 128
    learning_rate: float | None = None
    warmup: float = 0.06
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.0


def recipe_of(changes: Mapping[str, Any]) -> Recipe:
    """The default `Recipe` with ``changes``; `UsageError` names a field that does not exist or a value that does not
    fit."""
    kinds = {"batch": int, "length": int}
    for name, value in changes.items():
        if name not in Recipe.__dataclass_fields__:
            raise UsageError(f"Pre-training has no setting '{name}'; it has {', '.join(Recipe.__dataclass_fields__)}.")
        if not isinstance(value, kinds.get(name, (int, float))) or isinstance(value, bool) or value < 0:
            raise UsageError(f"{name} takes a number of at least 0, not '{value}'.")
    return replace(Recipe(), **changes)


class Diverged(ArithmeticError):
    """The loss became NaN or infinite."""

    def __init__(self, step: int, seed: int):
        super().__init__(f"The loss is not finite at step {step} with seed {seed}. Try a smaller learning_rate.")
        self.step, self.seed = step, seed


def build(model: str, size: Size, tokenizer: Tokenizer, seed: int) -> Any:
    """The model's `Pretrainable` with fresh weights that follow from ``seed``."""
    import keras

    keras.utils.set_random_seed(seed)
    return models.load(model).build(size, tokenizer.vocabulary)


def weights(variables: list) -> dict[str, np.ndarray]:
    """Arrays by variable path."""
    return {v.path: v.numpy() for v in variables}


def assign(variables: list, arrays: Mapping[str, np.ndarray]) -> None:
    """Set every variable from ``arrays``; a missing one or another shape is a `CheckpointError`, never left as it
    is."""
    for variable in variables:
        array = arrays.get(variable.path)
        if array is None or tuple(array.shape) != tuple(variable.shape):
            found = "is missing" if array is None else f"has shape {array.shape}"
            raise checkpoint.CheckpointError(
                f"The weights of {variable.path} {tuple(variable.shape)}: the array {found} in the checkpoint."
            )
        variable.assign(array)


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
    about: Mapping[str, Any] | None = None,
    strategy: Any = None,
    warn: Callable[[str], None] = print,
) -> Checkpoint:
    """Train ``model`` at ``size`` on ``corpus`` until ``budget`` is spent; the checkpoint at ``out`` is written when
    it is.

    While it runs, training states lie in ``<out>.training/``; the newest intact one is where an interrupted run goes
    on. ``about`` is added to the manifest. Raises `Diverged` when the loss is not finite.
    """
    from bench.step import TrainStep, warm_up_then_linear

    module, recipe = models.load(model), recipe or Recipe()
    shape = sized(module, size, recipe.length)
    recipe = replace(recipe, learning_rate=recipe.learning_rate or peak_rate(module, shape))
    tokens_per_step = recipe.batch * recipe.length
    flops_per_step = tokens_per_step * module.flops_per_token(shape, tokenizer.vocabulary, recipe.length)
    began = time.perf_counter()
    with _scope(strategy):
        network = build(model, shape, tokenizer, seed)
        network.encoder.dropout = recipe.dropout
        variables = list(network.loss.trainable_variables)
        step_function = TrainStep(
            network.loss, variables, weight_decay=recipe.weight_decay, clip=recipe.clip, strategy=strategy
        )
    make = network.batches(corpus, recipe.batch, recipe.length)

    states = out.with_name(out.name + ".training")
    identity = {
        "model": model,
        "size": size,
        "shape": asdict(shape),
        "recipe": asdict(recipe),
        "seed": seed,
        "budget": asdict(budget),
        "corpus_sha256": corpus.fingerprint,
        "tokenizer_sha256": tokenizer.fingerprint,
    }
    resumed = checkpoint.newest_intact(states, warn)
    first, curve, spent = 0, [], {"trace": 0.0, "train": 0.0, "wait": 0.0}
    steps = steps_of(budget, tokens_per_step, flops_per_step)
    if resumed is not None and resumed[0].about["identity"] == identity:
        state, arrays = resumed
        first, curve, spent, steps = (state.about[name] for name in ("step", "curve", "spent", "steps"))
        assign(network.loss.variables, arrays["weights"])
        step_function.restore(arrays["optimizer"])

    def save() -> None:
        # Steps are counted by the optimizer, inside the step: a signal may come between it and our own count.
        step = int(step_function.optimizer.iterations.numpy())
        checkpoint.write(
            states / f"step-{step:09d}",
            about={"identity": identity, "step": step, "steps": steps, "curve": curve, "spent": spent},
            arrays={"weights": weights(network.loss.variables), "optimizer": step_function.state()},
            texts={},
        )
        checkpoint.keep_newest(states, 2)

    title = f"pre-train {model}-{size}"
    scalars: dict[str, Any] = {}
    spent["build"] = time.perf_counter() - began
    saved = started = time.perf_counter()
    step, batches = first, prefetch(lambda s: make(s, seed), first)
    with progress(title, steps, "steps") as bar, contextlib.closing(batches), _saving(save):
        bar.advance(first)
        while steps is None or step < steps:
            waited = time.perf_counter()
            batch = next(batches)
            spent["wait"] += time.perf_counter() - waited
            # A budget in minutes has no last step yet while the first steps are timed: hold the warm-up's rate.
            rate = warm_up_then_linear(step, steps or 10_000, recipe.learning_rate, recipe.warmup)
            scalars = step_function(batch, (seed, step), rate)
            if step == first:
                scalars["loss"].numpy()
                spent["trace"] += time.perf_counter() - started
                started = time.perf_counter()
            step += 1
            if steps is None and step - first == _CALIBRATION_STEPS:
                scalars["loss"].numpy()
                per_step = (time.perf_counter() - started) / (_CALIBRATION_STEPS - 1)
                steps = max(step, math.floor(budget.minutes * 60 / per_step))
                bar.total = steps
            if step % max(1, (steps or 1000) // 100) == 0 or step == steps:
                values = {name: float(value) for name, value in scalars.items()}
                if not math.isfinite(values["loss"]):
                    raise Diverged(step, seed)
                curve.append({"step": step, **{k: round(v, 6) for k, v in values.items()}})
                bar.advance(0, loss=values["loss"])
            bar.advance(1)
            if time.perf_counter() - saved > _SAVE_SECONDS and step != steps:
                spent["train"] += time.perf_counter() - started
                save()
                saved = started = time.perf_counter()
    spent["train"] += time.perf_counter() - started

    total, embedding = module.parameters(shape, tokenizer.vocabulary)
    result = dict(about or {}) | {
        "kind": "pretrained",
        "model": model,
        "size": size,
        "shape": asdict(shape),
        "seed": seed,
        "recipe": asdict(recipe),
        "corpus_sha256": corpus.fingerprint,
        "steps": steps,
        "tokens": steps * tokens_per_step,
        "flops": steps * flops_per_step,
        "seconds": round(spent["train"] + spent["trace"], 3),
        "spent": {k: round(v, 3) for k, v in spent.items()},
        "parameters": total,
        "parameters_embedding": embedding,
        "loss": curve[-1]["loss"] if curve else None,
        "curve": curve,
        "tokenizer": {"kind": tokenizer.kind, "size": tokenizer.vocabulary.size, "sha256": tokenizer.fingerprint},
    }
    finished = checkpoint.write(
        out,
        about=result,
        arrays={"weights": weights(network.loss.variables)},
        texts={"tokenizer.json": tokenizer.to_json()},
    )
    shutil.rmtree(states, ignore_errors=True)
    return finished


def steps_of(budget: Budget, tokens_per_step: int, flops_per_step: float) -> int | None:
    """Whole optimizer steps that ``budget`` pays for, at least one; None for minutes, which only a clock can tell."""
    if budget.unit == "minutes":
        return None
    per_step = {"steps": 1, "tokens": tokens_per_step, "flops": flops_per_step}[budget.unit]
    return max(1, math.floor(budget.amount / per_step))


def peak_rate(module: Any, shape: Size) -> float:
    """The peak learning rate at ``shape``: 1e-3 at width 128, falling with the width (Yang et al., 2022, table 3).

    Measured here: at 1e-3, GPT learns at width 128 and stays at unigram loss at width 256; at 3e-4 it learns there
    too. A model's file may name its own rate at width 128 as ``LEARNING_RATE``.
    """
    return getattr(module, "LEARNING_RATE", 1e-3) * 128 / shape.width


def sized(module: Any, size: str, length: int) -> Size:
    """The model's `Size` called ``size``, long enough for inputs of ``length`` tokens."""
    if size not in module.SIZES:
        raise models.UnknownModel(f"{module.CARD.title} has no size '{size}'; it has {', '.join(module.SIZES)}.")
    shape = module.SIZES[size]
    return replace(shape, length=max(shape.length, length))


def prefetch(make: Callable[[int], Any], first: int, ahead: int = 4) -> Iterator[Any]:
    """``make(first)``, ``make(first + 1)``, ... made by a thread that stays ``ahead`` of the reader; its exceptions
    arrive here."""
    made: queue.Queue = queue.Queue(maxsize=ahead)
    stop = threading.Event()

    def work() -> None:
        step = first
        while not stop.is_set():
            try:
                item = (make(step), None)
            except BaseException as error:  # handed over to the reader, whatever it is
                item = (None, error)
            while not stop.is_set():
                try:
                    made.put(item, timeout=0.2)
                    break
                except queue.Full:
                    continue
            if item[1] is not None:
                return
            step += 1

    threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            yield item
    finally:
        stop.set()


@contextlib.contextmanager
def _saving(save: Callable[[], None]) -> Iterator[None]:
    """Save the training state when a signal ends the block (Ctrl-C, SIGTERM), then let it end."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        save()
        raise


def _scope(strategy: Any) -> Any:
    return strategy.scope() if strategy is not None else contextlib.nullcontext()


def pretrain_command(
    *,
    model: str,
    size: str,
    corpus: tuple[Path, ...],
    budget: Budget,
    out: Path,
    seed: int = 0,
    batch: int | None = None,
    length: int | None = None,
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    settings: Mapping[str, Any] | None = None,
    strategy: str = "default",
) -> int:
    """What ``python -m bench pretrain`` does; returns the exit status."""
    from bench import corpora, environment

    sized(models.load(model), size, 8)
    if not corpus:
        raise UsageError("`pretrain` needs text: give files or folders with --corpus.")
    if budget.unit is None:
        raise UsageError("`pretrain` needs a budget: give one of --steps, --tokens, --flops, --minutes.")
    changes = {name: value for name, value in {"batch": batch, "length": length}.items() if value} | dict(
        settings or {}
    )
    recipe = recipe_of(changes)
    if (out / checkpoint.MANIFEST).exists():
        raise UsageError(f"{out} holds a finished checkpoint already. Give another --out, or delete it.")
    environment.prepare()
    files = corpora.files_of(corpus, (), None)
    trained = Tokenizer.load(corpora.tokenizer(files, tokenizer or "wordpiece", vocabulary or 8000))
    finished = pretrain(
        model,
        size,
        corpus=corpora.load(tuple(map(str, files)), trained),
        tokenizer=trained,
        budget=budget,
        out=out,
        recipe=recipe,
        seed=seed,
        about={"corpus": corpora.name_of(files)},
        strategy=strategy_of(strategy),
        warn=say,
    )
    about = finished.about
    say(f"{about['steps']} steps, {about['tokens']} tokens, {about['flops']:.3g} FLOPs, loss {about['loss']:.3f}.")
    print(out)
    return OK


def strategy_of(name: str) -> Any:
    """The tf.distribute strategy called ``name``; None for the default, one device."""
    if name == "default":
        return None
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU")
    if devices:
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    # Ring reductions between CPU devices mix up the order of two reductions of one step; adding on one device does not.
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())
