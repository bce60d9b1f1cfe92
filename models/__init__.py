"""The survey's pre-trained models, one flat file each, named like the paper.

The folder is the registry: a file that defines ``CARD``, ``SIZES`` and ``build`` is a model under its own name.
Listing imports nothing, loading imports one module, and TensorFlow waits until ``build`` is called.
"""

import difflib
import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

_MACHINERY = {"__init__", "card", "corpus", "pretrainable", "tokenizers"}


class UnknownModel(LookupError):
    """No model or size of that name; the message offers the nearest ones."""


@cache
def names() -> tuple[str, ...]:
    """Every model's name, sorted; reads the folder and imports nothing."""
    files = Path(__file__).parent.glob("[!_]*.py")
    return tuple(sorted(file.stem for file in files if file.stem not in _MACHINERY))


def load(name: str) -> ModuleType:
    """The module of the model called ``name``; `UnknownModel` with the nearest names when there is none."""
    if name not in names():
        near = difflib.get_close_matches(name.lower(), names(), n=3) or names()
        raise UnknownModel(
            f"There is no model '{name}'. Nearest: {', '.join(near)}. `python -m bench ls models` shows all."
        )
    return importlib.import_module(f"models.{name}")


def objective_names() -> tuple[str, ...]:
    """Every objective's name (the survey's "pre-training task"), sorted."""
    files = (Path(__file__).parent / "objectives").glob("[!_]*.py")
    return tuple(sorted(file.stem for file in files if file.stem != "sampling"))
