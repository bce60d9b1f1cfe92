"""Checks an objective (`models.objective`) before training: its batches, and the outputs of its loss.

`bench.engine.networks.build` and `bench.runs.pretrain` call it. Errors are `models.BrokenModel` with the file of the
objective.
"""

import dis
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ptmbench.models import BrokenModel, objective_names
from ptmbench.models._importing import broken
from ptmbench.models.objective import Batch, Batches, Objective, Part, Sampler
from ptmbench.models.objectives._joint import Joint
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.corpus import Corpus

_MISTAKES = (TypeError, AttributeError, LookupError, NameError, NotImplementedError, ArithmeticError, AssertionError)
"""Exceptions of bugs in the code of a model or an objective. A `ValueError` is one too, unless it comes from a
``raise`` statement: objectives raise it for input that does not fit."""
_KERAS = "Exception encountered when calling"
"""Prefix of the errors in which Keras wraps the error of a layer."""
_TYPES = (np.int32, np.float32)


def check(network: Pretrainable, path: Path, named: tuple[str, ...]) -> None:
    """Raises `BrokenModel` if the sampler or the loss of ``network``, built by the file ``path``, breaks the contract
    in `models.objective`, or if a part of the loss is not among the objectives ``named`` on the card."""
    loss, batches = network.loss, network.batches
    if not isinstance(loss, Objective) or not isinstance(loss, keras.layers.Layer):
        raise BrokenModel(
            f"{_file(type(loss), path)}: the loss of {path.name} is {type(loss).__name__}, where a Keras layer that "
            "is a models.objective.Objective belongs: class Mine(Objective, keras.layers.Layer)."
        )
    if not isinstance(batches, Sampler):
        raise BrokenModel(
            f"{path}: the batches that build gives are {batches!r:.80}, where a models.objective.Sampler belongs: "
            "objective.batches.of(vocabulary), with @sampled() before the function, or Sampler(function)."
        )
    for part in (one for one in loss._flatten_layers() if isinstance(one, Objective | Part)):
        kind, base = type(part), Part if isinstance(part, Part) else Objective
        for name, missing in (("totals", (base.totals,)), ("call", (base.call, keras.layers.Layer.call))):
            if getattr(kind, name) in missing:
                raise BrokenModel(
                    f"{_file(kind, path)}: {kind.__name__} has no method {name}. Its arguments and result "
                    f"are described at models.objective.{base.__name__}.{name}."
                )
        if not isinstance(part.reports, tuple) or not all(isinstance(name, str) for name in part.reports):
            raise BrokenModel(
                f"{_file(kind, path)}: {kind.__name__}.reports is {part.reports!r}, where a tuple of the names of "
                "scalars belongs."
            )

    for part in loss.heads if isinstance(loss, Joint) else ():
        if (name := _objective(type(part))) not in ("", *named):
            raise BrokenModel(
                f"{path}: CARD.objectives is {named}, but the loss has a {type(part).__name__} of the objective "
                f"{name!r}. Add {name!r} to the card, or leave this part out of the loss."
            )


def _objective(kind: type) -> str:
    """The objective whose file defines the class ``kind`` or the nearest of its bases; "" for none."""
    files = (Path(one.__module__.replace(".", "/")) for one in kind.__mro__)
    names = objective_names()
    return next((file.name for file in files if file.parent.name == "objectives" and file.name in names), "")


def batches_of(
    network: Pretrainable, corpus: Corpus, rows: int, length: int, steps: Callable[[], int | None] | None = None
) -> Batches:
    """``network.batches(corpus, rows, length)``, after checks of the first batch and the totals of its loss. ``steps``
    returns the number of steps of a training, or None while it is unknown (`Sampler.scheduled`).

    Raises `BrokenModel` if they break the contract in `models.objective`, and `CorpusUnfit` if the corpus lacks
    annotations that the objective needs.
    """
    path = Path(inspect.unwrap(network.batches.make).__code__.co_filename)
    with mistakes_in(path):
        batches = network.batches(corpus, rows, length)
        first, again = batches(0, 0), batches(0, 0)
    for wrong in _batch_mistakes(first, again, rows):
        raise BrokenModel(f"{path}: {wrong}")
    kind = type(network.loss)
    with mistakes_in(_file(kind, path)), missing_from(first):
        totals = network.loss.totals(first)
    for name, value in totals.items():
        if tuple(value.shape) != () or value.dtype != "int32":
            raise BrokenModel(
                f"{_file(kind, path)}: {kind.__name__}.totals gives {name!r} as {value.dtype} {list(value.shape)}, "
                "where a count, int32 [], belongs."
            )
    return _scheduled(batches, rows, steps) if network.batches.scheduled and steps is not None else batches


def _scheduled(batches: Batches, rows: int, steps: Callable[[], int | None]) -> Batches:
    """``batches`` with "progress", the share of ``steps`` that are done."""

    def make(step: int, seed: int) -> Batch:
        share = min(1.0, step / count) if (count := steps()) else 0.0
        return batches(step, seed) | {"progress": np.full(rows, share, np.float32)}

    return make


def checked(loss: Objective) -> Callable[..., dict[str, Any]]:
    """``loss`` with a check of the names of its outputs, once, while a step is traced."""

    def scalars(*inputs: Any) -> dict[str, Any]:
        kind = type(loss)
        path = _file(kind, Path(kind.__module__))
        with mistakes_in(path), missing_from(inputs[0]):
            found = loss(*inputs)
        expected = {"loss", *loss.reports}
        if not isinstance(found, dict) or found.keys() != expected:
            given = ", ".join(found) if isinstance(found, dict) else f"{found!r:.80}"
            raise BrokenModel(
                f"{path}: {kind.__name__} gives {given}, where {', '.join(('loss', *loss.reports))} belong. List all "
                "outputs except the loss in its reports."
            )
        return found

    return scalars


def _batch_mistakes(first: Batch, again: Batch, rows: int) -> Iterator[str]:
    """Sentences about the mistakes in a batch of ``rows`` rows; ``again`` is the same batch, sampled a second time."""
    if not isinstance(first, dict) or not all(isinstance(array, np.ndarray) for array in first.values()):
        yield f"a batch is {first!r:.80}, where a dict of named NumPy arrays belongs."
        return
    if "tokens" not in first:
        yield f"a batch has {', '.join(first) or 'nothing'}, but no tokens, int32 [B, T]."
    for name, array in first.items():
        if array.dtype not in _TYPES:
            yield f"{name!r} of a batch is {array.dtype}, where int32 or float32 belongs."
        if array.shape[:1] != (rows,):
            yield f"{name!r} of a batch has the shape {list(array.shape)}, where the first axis has the {rows} rows."
        if not np.array_equal(array, again[name]):
            draw = "models.objectives.sampling.generator(seed, step)"
            yield f"{name!r} of step 0 is another array each time. Take random numbers from {draw}."


def _file(kind: type, otherwise: Path) -> Path:
    """The file that defines the class ``kind``."""
    try:
        return Path(inspect.getfile(kind))
    except (OSError, TypeError):
        return otherwise


@contextmanager
def missing_from(batch: Batch) -> Iterator[None]:
    """Converts the error of a loss that reads an array missing in ``batch`` to a `BrokenModel`."""
    try:
        yield
    except KeyError as error:
        error = _first(error)
        name = error.args[0] if error.args else None
        if not isinstance(name, str) or name in batch:
            raise
        raise BrokenModel(
            f"{_files(error)[-1]} reads {name!r}, which the batches of this model do not have. They have "
            f"{', '.join(batch)}. Add it where build samples them, or leave out the part of the loss that reads it."
        ) from error


def _first(error: Exception) -> Exception:
    """The original error inside the errors of Keras."""
    while _KERAS in str(error) and error.__context__ is not None:
        error = error.__context__
    return error


def _raised_explicitly(error: Exception) -> bool:
    """Whether a ``raise`` statement in the innermost frame raised ``error``, so that its message is meant for users."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and dis.opname[frame.tb_frame.f_code.co_code[frame.tb_lasti]] == "RAISE_VARARGS"


def _files(error: Exception) -> list[Path]:
    """The files of the frames of ``error``, from the outermost to the innermost."""
    return [Path(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)]


@contextmanager
def mistakes_in(path: Path) -> Iterator[None]:
    """Converts the error of a bug in the file ``path`` to a `BrokenModel` with its line. Leaves other errors."""
    try:
        yield
    except (*_MISTAKES, ValueError) as error:
        error = _first(error)
        if isinstance(error, ValueError) and _raised_explicitly(error):
            raise
        files = _files(error)
        if [file for file in files if path.parents[1] in file.parents][-1:] != [path]:
            raise
        raise broken(path, error, BrokenModel) from error
