"""Published weights: the names and layouts of each model's variables in Hugging Face folders, one file per model.

`models.published.folder` reads and writes such folders, `models.published.presets` writes presets of keras-hub, and
`models.published.vectors` reads and writes files of word vectors.

A file ``models/published/NAME.py`` belongs to the model NAME and defines

    MODEL_TYPES   the values of ``model_type`` in config.json that it reads
    PREFIX        an optional prefix of all names in a checkpoint, such as "bert."
    size          (config.json as a dict) to `models.card.Size`; raises `Unsupported` for settings that our network does
                  not compute
    config        (size, `models.text.tokenizers.Vocabulary`) to the content of config.json for our weights;
                  `models.published.folder` adds the ids of special tokens
    weights       (size) to a list of `models.published.weight.Weight`, one for each variable of ``loss``
    fixed         (size) to arrays, by name, that our network computes or lacks (optional). If a checkpoint has such an
                  array with another value, its network is not ours
"""

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType


class PublishedError(ValueError):
    """A published folder cannot be read or written. The message names the file and the next step."""


class Unsupported(PublishedError):
    """No network here computes a published checkpoint as its authors do. The message names the setting."""


@cache
def names() -> tuple[str, ...]:
    """Returns the models with a Hugging Face layout, sorted. Imports nothing."""
    files = Path(__file__).parent.glob("[!_]*.py")
    return tuple(sorted(file.stem for file in files if file.stem not in ("folder", "presets", "vectors", "weight")))


def load(name: str) -> ModuleType:
    """Imports the file of the model ``name``, one of `names`."""
    return importlib.import_module(f"ptmbench.models.published.{name}")
