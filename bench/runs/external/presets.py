"""Text classifiers of keras-hub as external systems, from presets that ``save_to_preset`` wrote.

`bench.runs.external.evaluation` scores them, like the models of adapter files. A classifier is already trained, and
reads texts through its own preprocessor. Its classes are the labels of the task, in the same order. For a regression
task it has one class, whose output is the number. Presets of backbones are imported and adapted instead
(`bench.runs.published`).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ptmbench.bench.errors import BrokenFile, NotApplicable, UsageError
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Task

TASK = "task.json"
"""The file of a preset that describes a task: a backbone with its preprocessor and its head."""
_KIND = "TextClassifier"
_CONFIGS = (TASK, "config.json", "preprocessor.json", "tokenizer.json")
_PACKAGES = ("keras", "keras_hub", "keras_nlp")
_ACTIVATIONS = ("linear", "softmax")


def is_classifier(folder: Path) -> bool:
    """Whether ``folder`` is the preset of a text classifier. Raises `BrokenFile` if its task.json cannot be read."""
    return (folder / TASK).is_file() and str(_json(folder / TASK).get("class_name")).endswith(_KIND)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The classifier in the folder ``path``, an `ExternalModel`."""

    path: Path
    name: str
    sha256: str
    """SHA-256 of the names and contents of its files, except metadata.json, which has the time of saving."""
    made = "preset"
    fixed = True
    advice = "Save the preset again."

    def load(self, task: Task, seed: int) -> Any:
        """Returns the Keras model, from ids to logits. Raises `NotApplicable` for tagging, and for tasks with another
        number of labels."""
        import keras

        labels = 1 if task.form is Form.REGRESSION else len(task.answers or task.labels)
        classes = self._classifier.num_classes
        if task.form is Form.TAGGING or labels != classes:
            outputs = "a number" if task.form is Form.REGRESSION else f"{labels} labels"
            outputs += " for each word" if task.form is Form.TAGGING else ""
            classes = f"{classes} class{'es' * (classes > 1)}"
            raise NotApplicable(
                "not-made-for", f"because {self.name} has {classes} and {task.title} asks for {outputs}."
            )
        network = keras.Model(self._classifier.input, self._classifier.output)
        if keras.activations.serialize(self._classifier.activation) == "softmax":
            network = keras.Model(network.input, keras.ops.log(network.output))
        return network

    def encode(self, inputs: Sequence[tuple[str, ...]], task: Task) -> Any:
        """Returns the network's inputs for ``inputs``: arrays by name, with a row for each tuple of texts."""
        import tensorflow as tf

        segments = tuple(tf.constant(texts) for texts in zip(*inputs, strict=True))
        return self._preprocess(segments if len(segments) > 1 else segments[0])

    @cached_property
    def _preprocess(self) -> Any:
        """The preprocessor, called as by ``fit`` and ``predict``. In direct calls some tokenizers give other ids."""
        import tensorflow as tf

        return tf.function(lambda texts: self._classifier.preprocessor(texts, y=None), reduce_retracing=True)

    @cached_property
    def _classifier(self) -> Any:
        import keras_hub

        try:
            found = keras_hub.models.TextClassifier.from_preset(str(self.path))
        except Exception as error:  # keras-hub has no error class for damaged presets
            raise BrokenFile(
                f"{self.path} cannot be read by keras-hub: {_first_line(error)}. Save it again with `save_to_preset`, "
                "or use the version of keras-hub that metadata.json names."
            ) from error
        check_classifier(found, str(self.path))
        return found


def read(folder: Path, name: str | None = None) -> Preset:
    """Reads the preset of a classifier in ``folder``. ``name`` is its name on the board; None for the folder's name.

    Raises `BrokenFile` for a configuration that is not JSON, or that names a class outside keras and keras-hub: Keras
    would import the module of that class.
    """
    folder = folder.resolve()
    for file in (folder / one for one in _CONFIGS if (folder / one).is_file()):
        for module in _modules(_json(file)):
            if module.partition(".")[0] not in _PACKAGES:
                raise BrokenFile(
                    f"{file} names a class of the module {module!r:.60}, and presets are read with classes of keras "
                    "and keras-hub only. Load it in an adapter file (--adapter), which you write yourself."
                )
    sum_ = hashlib.sha256()
    for file in sorted(file for file in folder.rglob("*") if file.is_file() and file.name != "metadata.json"):
        sum_.update(f"{file.relative_to(folder).as_posix()}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as content:
            sum_.update(hashlib.file_digest(content, "sha256").digest())
    return Preset(path=folder, name=name or folder.name, sha256=sum_.hexdigest())


def check_classifier(task: Any, origin: str) -> None:
    """Raises `UsageError` unless ``task``, which comes from ``origin``, is a classifier of texts that can be scored."""
    import keras
    import keras_hub

    if not isinstance(task, keras_hub.models.TextClassifier):
        raise UsageError(
            f"{origin} is {type(task).__name__}, but only text classifiers of keras-hub can be scored without "
            "training. Save its backbone and its tokenizer with `save_to_preset` and evaluate that folder."
        )
    if task.preprocessor is None:
        raise UsageError(f"{origin} has no preprocessor, so it reads no texts. Give it one before it is saved.")
    if (given := keras.activations.serialize(task.activation)) not in _ACTIVATIONS:
        raise UsageError(
            f"{origin} has the activation {given!r} behind its classes; expected: {' or '.join(_ACTIVATIONS)}. "
            "Compute logits from it in an adapter file (--adapter)."
        )


def saved(task: Any, name: str | None, out: Path | None) -> dict[str, Any]:
    """Saves the classifier ``task`` of keras-hub in the run folder ``out`` (None for runs/NAME). The folder is named by
    a hash of weights and configuration. Returns "preset", "name" and "out" of `PresetOptions`.

    Raises `UsageError` as `check_classifier` does, and for a name that is not allowed on the board.
    """
    from ptmbench.bench.runs.external.evaluation import weights_sha256
    from ptmbench.bench.runs.external.records import check_name
    from ptmbench.models.published.folder import new_folder

    check_classifier(task, "The model")
    check_name(name or task.name)
    out = Path(out or Path("runs") / (name or task.name))
    config = json.dumps(task.get_config(), sort_keys=True, default=repr)
    made = out / "presets" / hashlib.sha256((weights_sha256(task) + config).encode()).hexdigest()[:12]
    if not made.exists():
        with new_folder(made) as fresh:
            task.save_to_preset(str(fresh))
    return {"preset": made, "name": name or task.name, "out": out}


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BrokenFile(f"{file} cannot be read as JSON: {_first_line(error)}. Save the preset again.") from error
    if not isinstance(found, dict):
        raise BrokenFile(f"{file} holds no object of JSON. Save the preset again.")
    return found


def _modules(value: Any) -> Iterator[str]:
    """Yields the modules of all classes that a configuration names."""
    if isinstance(value, Mapping):
        if "class_name" in value:
            registered = value.get("registered_name")
            yield str(registered).partition(">")[0] if ">" in str(registered) else "keras"
            yield str(value.get("module") or "keras")
        yield from (module for part in value.values() for module in _modules(part))
    elif isinstance(value, list):
        yield from (module for part in value for module in _modules(part))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
