"""Pre-training on another machine: writes the folder to copy there, and reads the states that come back.

`bench.engine.portable.driver` documents the folder. The driver does the training as it would be done here, with the
same initial weights, batches, seeds and learning rates. So its states are training states, and the last one becomes the
checkpoint.
"""

import gzip
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.bench.console import progress
from ptmbench.bench.engine.course import Course, TrainingStates, differences
from ptmbench.bench.engine.networks import assign
from ptmbench.bench.engine.portable import driver
from ptmbench.bench.engine.portable.program import lowered
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.errors import ContinuedElsewhere, UsageError
from ptmbench.models.layers.products import for_accelerators

_BYTES_PER_FILE = 16 * 2**20
"""Bytes of the batches in one file, before compression."""
_COURSE = ("step", "curve", "spent")
"""The fields of a `Course` that a state has."""
DRIVER = "driver.py"


def exchange_folder(
    folder: Path,
    title: str,
    states: TrainingStates,
    course: Course,
    network: Any,
    step: TrainStep,
    make: Callable[[int, int], Mapping[str, np.ndarray]],
    rate: Callable[[int], float],
    flops_per_step: float,
    warn: Callable[[str], None],
) -> tuple[Course, dict[str, Any]]:
    """Returns the `Course` after all steps that the driver did in ``folder``, and the manifest's entries about its
    machine. The network then has the weights of the last state. If ``folder`` does not exist, it is written.

    ``make`` (step, seed) samples batches, and ``rate`` returns the learning rate of a step. Raises `ContinuedElsewhere`
    if the driver has not done the last step. Its newest state is then saved as a training state here too, so that the
    training can go on without the driver. Raises `UsageError` for a budget in minutes, and for a folder of another
    pre-training.
    """
    if course.steps is None:
        raise UsageError(
            "--carry takes no budget in --minutes, because the speed of the other machine is not known. Give "
            "--steps, --tokens or --flops."
        )
    run = f"`python {folder / DRIVER}`"
    if not folder.exists():
        _write(folder, title, states.identity, course, step, network.loss.variables, make, rate, flops_per_step)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
        raise ContinuedElsewhere(
            f"{folder} holds {title}, {course.steps - course.step} steps, {size:.1f} MiB. Copy it to a machine with "
            f"JAX, run {run} there, copy it back, and give this command again."
        )
    found = _newest(folder, states.identity, warn)
    if found is None:
        raise ContinuedElsewhere(
            f"{folder} has no states yet. Run {run} on a machine with JAX, and give this command again."
        )
    about, arrays = found
    if about["step"] > course.step:
        assign(network.loss.variables, arrays["weights"])
        course = Course(steps=course.steps, **{name: about[name] for name in _COURSE})
        if course.step < course.steps:
            step.restore(arrays["optimizer"])
            states.save(course)
    if course.step < course.steps:
        raise ContinuedElsewhere(
            f"{folder} has finished {course.step} of {course.steps} steps. Run {run} again where it ran, or leave out "
            "--carry to do the other steps here."
        )
    return course, {name: about[name] for name in ("device", "peak_memory_bytes")}


def _write(
    folder: Path,
    title: str,
    identity: Mapping[str, Any],
    course: Course,
    step: TrainStep,
    weights: list[Any],
    make: Callable[[int, int], Mapping[str, np.ndarray]],
    rate: Callable[[int], float],
    flops_per_step: float,
) -> None:
    """Writes the rest of the pre-training ``identity`` after ``course`` to ``folder``, whole or not at all."""
    fresh = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / driver.BATCHES).mkdir(parents=True)
    seed, first = identity["seed"], make(course.step, identity["seed"])
    with for_accelerators():
        found = lowered(step, weights, first)
    (fresh / driver.PROGRAM).write_bytes(gzip.compress(found.text.encode(), mtime=0))
    driver.write_state(fresh / driver.FIRST, {name: getattr(course, name) for name in _COURSE}, found.state)
    per_file = max(1, min(1024, _BYTES_PER_FILE // sum(array.nbytes for array in first.values())))
    with progress(f"batches of {title}", course.steps - course.step) as bar:
        for number, begin in enumerate(range(course.step, course.steps, per_file)):
            several = [make(index, seed) for index in range(begin, min(begin + per_file, course.steps))]
            packed = {name: _packed(np.stack([one[name] for one in several])) for name in first}
            np.savez_compressed(fresh / driver.BATCHES / driver.Batches.name(number), **packed)
            bar.advance(len(several))
    plan = {
        "title": title,
        "identity": identity,
        "seed": seed,
        "first_step": course.step,
        "steps": course.steps,
        "steps_per_file": per_file,
        "batch": {name: str(array.dtype) for name, array in first.items()},
        "rates": [rate(index) for index in range(course.step, course.steps)],
        "flops_per_step": flops_per_step,
        "state": [[name, str(array.dtype), list(array.shape)] for name, array in found.state.items()],
        **found.about,
    }
    (fresh / driver.PLAN).write_text(json.dumps(plan))
    shutil.copy(driver.__file__, fresh / DRIVER)
    fresh.rename(folder)


def _packed(array: np.ndarray) -> np.ndarray:
    """``array`` in the smallest type that holds its values; the driver converts it back."""
    kinds = (np.uint8, np.uint16, np.int16)
    return next((small for kind in kinds if np.array_equal(small := array.astype(kind), array)), array)


def _newest(folder: Path, identity: Mapping[str, Any], warn: Callable[[str], None]) -> tuple[dict, dict] | None:
    """The description of the newest state in ``folder``, and its arrays {"weights", "optimizer"}. None if the driver
    has not written any. The last state has no "optimizer".

    Raises `UsageError` if the folder is not a carried pre-training, or if it belongs to another one.
    """
    try:
        plan = driver.read_plan(folder)
    except driver.Damaged as error:
        raise UsageError(f"{error} Or give a folder that does not exist yet.") from error
    if found := differences(plan["identity"], json.loads(json.dumps(identity))):
        raise UsageError(f"{folder} holds another pre-training: {'; '.join(found)}. Give another folder to --carry.")
    state = driver.newest_state(folder / driver.STATES, warn)
    if state is None:
        return None
    about, arrays = state
    named: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        kind, _, path = name.partition("/")
        named.setdefault(kind, {})[path] = array
    return about, named
