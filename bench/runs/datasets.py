"""The batches of a pre-training as a `tf.data.Dataset`, for users with their own training loop.

`ptmbench.dataset` calls this module. `bench.runs.pretrain` trains on the same batches. A batch depends on the seed and
the number of the step only, so the position in the data is one number, and resuming does not read the data again.
"""

import atexit
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench import models
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import networks
from ptmbench.bench.engine.checkpoint import MANIFEST
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs.stages import pretrained_in
from ptmbench.models.card import Size
from ptmbench.models.objective import Batches
from ptmbench.models.text.tokenizers import Tokenizer


def dataset(
    model: str | Path,
    corpus: Sequence[Path],
    *,
    size: str,
    tokenizer: str | None,
    vocabulary: int | None,
    batch: int,
    length: int | None,
    seed: int,
    start: int,
) -> Any:
    """Returns the batches of the objective of ``model`` over ``corpus``, an infinite dataset from step ``start`` on.

    ``model`` is the name of a model, or a pre-trained checkpoint, which sets the model, size and tokenizer. ``batch``
    is the number of rows of a batch, and ``length`` the number of tokens of a row.

    Raises `UsageError` for numbers out of range, for options that contradict a checkpoint, and for students, because
    their objective needs the network of a teacher. Raises `CorpusError` or `CorpusUnfit` for a corpus that cannot be
    read.
    """
    recipe = recipe_of({"batch": batch} | ({} if length is None else {"length": length}))
    if start < 0 or type(start) is not int:
        raise UsageError(f"start is the number of the first step, a whole number from 0 on, not {start!r}.")
    files = corpora.files_of(corpus, (), None)
    if (Path(model) / MANIFEST).exists():
        if tokenizer or vocabulary:
            raise UsageError(f"{model} is a checkpoint, and its own tokenizer is taken. Leave the other one out.")
        found = pretrained_in(Path(model))
        name, shape = found.about["model"], Size(**found.about["shape"])
        cut = Tokenizer.load(found.path("tokenizer.json"))
        if recipe.length > shape.length:
            raise UsageError(f"{model} reads at most {shape.length} tokens. Give length={shape.length} or less.")
    else:
        name = str(model)
        shape = sized(models.load(name), size, recipe.length)
        cut = Tokenizer.load(corpora.tokenizer(files, tokenizer or "wordpiece", vocabulary or 8000))
    if teacher := models.teacher(name):
        raise UsageError(
            f"{name} learns from the network of a teacher, {teacher.model}, and data alone do not hold it. Take the "
            f"dataset of {teacher.model}."
        )
    from ptmbench.bench.engine import objectives

    network = networks.build(name, shape, cut, seed)
    text = corpora.load(tuple(map(str, files)), cut)
    return from_batches(objectives.batches_of(network, text, recipe.batch, recipe.length), seed, start)


def from_batches(make: Batches, seed: int, start: int = 0) -> Any:
    """Returns ``make(start, seed)``, ``make(start + 1, seed)``, ... as a `tf.data.Dataset` of dicts of tensors.

    `tf.train.Checkpoint` can save its iterators. Their state is the number of the next step.
    """
    import tensorflow as tf

    first: Mapping[str, np.ndarray] = make(start, seed)
    names = sorted(first)
    calls = _calls()

    def arrays(step: np.ndarray) -> list[np.ndarray]:
        with calls:
            batch = first if calls.ending else make(int(step), seed)  # any batch fills the buffers at exit
        return [batch[name] for name in names]

    def tensors(step: Any) -> dict[str, Any]:
        kinds = [tf.as_dtype(first[name].dtype) for name in names]
        # Stateless, because the batch depends on the step only. tf.data saves no iterator over a stateful function.
        made = tf.numpy_function(arrays, [step], kinds, stateful=False)
        return {name: tf.ensure_shape(one, first[name].shape) for name, one in zip(names, made, strict=True)}

    options = tf.data.Options()  # otherwise autotuning may add parallel calls at any time, also at exit
    options.experimental_optimization.map_parallelization = False
    options.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.range(start, np.iinfo(np.int64).max).map(tensors).with_options(options)


class _Calls:
    """Counts the calls from tf.data's prefetching threads, so that a script can exit.

    A thread that calls Python after the interpreter has ended is stopped and does not return. tf.data waits for it, and
    the process hangs. Therefore the interpreter first waits until the buffers are full and no more calls arrive.
    """

    IDLE = 0.1  # seconds without a call, after which no more are expected

    def __init__(self) -> None:
        self.ending = False
        self._lock = threading.Lock()
        self._running = 0
        self._last = 0.0  # when the last call ended

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            self._last = time.monotonic()

    def wait_until_idle(self) -> None:
        self.ending = True
        while self._running or time.monotonic() - self._last < self.IDLE:
            time.sleep(self.IDLE / 10)


@cache
def _calls() -> _Calls:
    calls = _Calls()
    atexit.register(calls.wait_until_idle)
    return calls
