"""Adapter files: Python files of users, by which the harness evaluates a Keras model of another project.

    NAME = "our-cnn"                          the name on the board

    def load(task, seed):                     a `keras.Model` for a `tasks.task.Task`, trained with ``seed``
        return keras.saving.load_model(f"cnn.{task.name}.{seed}.keras")

    def encode(inputs, task):                 optional: the model's inputs, an array or a dict or list of arrays
        return tokenizer(inputs)

``load(task)`` with one argument means that the model is fixed: it is not trained again for other seeds. ``load`` raises
`NotImplementedError` for a task that the model is not made for.

``inputs`` is a list of tuples of texts: the text or the texts of an example or, for tagging, its words. Without
``encode`` the model reads them as strings: [B], [B, 2] for two texts, and [B, T] for words, padded with "".

The model returns logits, in the order of the task's labels: [B, labels], and [B, T, labels] for tagging, where position
i is the i-th word. For regression it returns the number itself, [B] or [B, 1].
"""

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from ptmbench.bench.errors import BrokenFile, NotApplicable
from ptmbench.models._importing import broken, fits
from ptmbench.tasks.task import Task


class ExternalModel(Protocol):
    """A trained model of another project, as `bench.runs.external.evaluation` needs it."""

    @property
    def path(self) -> Path:
        """The file or folder that it comes from."""

    @property
    def sha256(self) -> str:
        """SHA-256 of that file or folder."""

    @property
    def name(self) -> str:
        """The name on the board."""

    @property
    def fixed(self) -> bool:
        """Whether the model is not trained again for other seeds."""

    @property
    def made(self) -> str:
        """The kind of its origin in the record: "adapter" or "preset"."""

    @property
    def advice(self) -> str:
        """Advice to the user if outputs do not fit the task."""

    def load(self, task: Task, seed: int) -> Any:
        """Returns the `keras.Model` for ``task``, from the outputs of `encode` to logits. Raises `NotApplicable` for a
        task that it is not made for."""

    def encode(self, inputs: Sequence[tuple[str, ...]], task: Task) -> Any:
        """Returns the model's inputs for ``inputs``: nested arrays, with a row for each tuple of texts."""


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """The adapter file ``path``, an `ExternalModel`."""

    path: Path
    sha256: str
    name: str
    fixed: bool
    """Whether ``load`` takes no seed."""
    module: ModuleType
    made = "adapter"
    advice = "Correct load or encode there."

    def load(self, task: Task, seed: int) -> Any:
        """Returns the Keras model for ``task``. Raises `NotApplicable` for a task that it is not made for, and
        `BrokenFile` with the line where the file fails."""
        import keras

        try:
            model = self._call(self.module.load, *([task] if self.fixed else [task, seed]))
        except NotImplementedError as error:
            raise NotApplicable("not-made-for", f"because {self.name} is not made for {task.title}.") from error
        if not isinstance(model, keras.Model):
            raise BrokenFile(
                f"{self.path}: load returned {type(model).__name__} for {task.name}, but a keras.Model was expected. "
                "Wrap the computation in a keras.Model."
            )
        return model

    def encode(self, inputs: Sequence[tuple[str, ...]], task: Task) -> Any:
        """Returns the model's inputs for ``inputs``: nested arrays, with a row for each tuple of texts."""
        encode = getattr(self.module, "encode", None)
        return strings(inputs) if encode is None else self._call(encode, list(inputs), task)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except NotImplementedError:
            raise
        except Exception as error:
            raise broken(self.path, error, BrokenFile) from error


def read(path: Path) -> Adapter:
    """Reads the adapter file ``path``. Raises `BrokenFile` with the file, and where possible the line, if it cannot be
    imported or does not define ``NAME`` and ``load`` as above."""
    path = path.resolve()
    if not path.is_file():
        raise BrokenFile(f"{path} is not a file. An adapter is a Python file with NAME and load(task, seed).")
    module = _imported(path)
    found, load, encode = [], getattr(module, "load", None), getattr(module, "encode", None)
    if not isinstance(getattr(module, "NAME", None), str):
        found.append("It has no NAME, a text.")
    if not callable(load) or not (fits(load, 1) or fits(load, 2)):
        found.append("It has no function load(task, seed) or load(task).")
    if encode is not None and not (callable(encode) and fits(encode, 2)):
        found.append("encode is a function (inputs, task).")
    if found:
        raise BrokenFile(f"{path} is not an adapter file. {' '.join(found)}")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    fixed = not fits(load, 2) or len(inspect.signature(load).parameters) == 1
    return Adapter(path=path, sha256=sha256, name=module.NAME, fixed=fixed, module=module)


def strings(inputs: Sequence[tuple[str, ...]]) -> Any:
    """Returns ``inputs`` as an array of strings: [B] if all are single texts, otherwise [B, T] padded with ""."""
    import numpy as np

    longest = max(map(len, inputs))
    rows = [[*texts, *[""] * (longest - len(texts))] for texts in inputs]
    return np.array([row[0] for row in rows] if longest == 1 else rows, dtype=object)


def _imported(path: Path) -> ModuleType:
    """Imports the file ``path``, which may import the files next to it."""
    spec = importlib.util.spec_from_file_location(f"ptmbench_adapter_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise BrokenFile(f"{path} is not a Python file. Give it the suffix .py.")
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise broken(path, error, BrokenFile) from error
    finally:
        sys.path.remove(str(path.parent))
    return module
