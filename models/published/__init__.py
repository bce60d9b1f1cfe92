"""Published weights: how each model's variables are named and laid out in Hugging Face folders, one file per model.

`models.published.folder` reads and writes such folders, `models.published.presets` writes presets of keras-hub, and
`models.published.vectors` reads and writes files of word vectors.

A file ``models/published/NAME.py`` belongs to ``models/NAME.py`` and defines

    MODEL_TYPES   the ``model_type`` words of config.json that it reads
    PREFIX        what may stand before every name of the checkpoint ("bert."), and may be missing
    size          (config.json as a dict) to `models.card.Size`; `Unsupported` for what our network does not do
    config        (size, `models.text.tokenizers.Vocabulary`) to the dict that config.json holds when our weights are
                  written out; ids of special tokens are added by `models.published.folder`
    weights       (size) to a list of `models.published.weight.Weight`, one for each variable of ``loss``
    fixed         (size) to the arrays by name that our network computes or lacks: a checkpoint that holds one has to
                  have this value there, or else its network is another one (optional)
"""

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType


class PublishedError(ValueError):
    """A published folder that cannot be read or written; the message names the file and the next step."""


class Unsupported(PublishedError):
    """A published checkpoint that no network here computes as its authors do; the message names the setting."""


@cache
def names() -> tuple[str, ...]:
    """The models that can be read from and written to Hugging Face folders, sorted; imports nothing."""
    files = Path(__file__).parent.glob("[!_]*.py")
    return tuple(sorted(file.stem for file in files if file.stem not in ("folder", "presets", "vectors", "weight")))


def load(name: str) -> ModuleType:
    """The file of the model called ``name``, one of `names`."""
    return importlib.import_module(f"ptmbench.models.published.{name}")
