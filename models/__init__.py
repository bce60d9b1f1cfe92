"""The survey's pre-trained models, one file each, named after the paper's model.

The folders are the registry, named after the survey's sections. Each file in one of them is a model with the name of
the file, and defines ``CARD``, ``SIZES``, ``describe`` and ``build``. Listing imports nothing, and loading imports one
module. TensorFlow is not imported until ``build`` is called.
"""

import difflib
from functools import cache
from pathlib import Path
from types import ModuleType

from ptmbench.models.card import Teacher

_ROOT = Path(__file__).parent
_SHARED = {"architectures", "layers", "objectives", "published", "text"}
"""Folders with code that models share."""
_added: list[Path] = []
"""Folders with users' models."""
_sound: set[ModuleType] = set()
"""Modules that have passed the checks in this process."""


class UnknownModel(LookupError):
    """There is no model or size with that name; the message suggests the nearest ones."""


class BrokenModel(ValueError):
    """A model's file cannot be imported or lacks a required definition; the message names the file."""


@cache
def paths() -> dict[str, Path]:
    """Returns the file of every model by name, sorted. Reads the folders and imports nothing."""
    files = [path for path in _ROOT.glob("*/[!_.]*.py") if path.parent.name not in _SHARED]
    files += [path for folder in _added for path in folder.glob("[!_.]*.py")]
    return {path.stem: path for path in sorted(files, key=lambda path: path.stem)}


def extend(folder: Path) -> None:
    """Adds the models of ``folder``, one file each. Their names must be new."""
    _added.append(folder)
    __path__.append(str(folder))
    paths.cache_clear()


def names() -> tuple[str, ...]:
    """Every model's name, sorted."""
    return tuple(paths())


def load(name: str) -> ModuleType:
    """Returns the module of the model called ``name``.

    Raises `UnknownModel` with the nearest names if there is no such model, and `BrokenModel` if its file cannot be
    imported or breaks the contract in `models._contract`.
    """
    if name not in names():
        near = ", ".join(difflib.get_close_matches(name.lower(), names(), n=3))
        nearest = f" Nearest: {near}." if near else ""
        raise UnknownModel(f"There is no model '{name}'.{nearest} `ptmbench ls models` shows all.")
    from ptmbench.models import _contract, _importing

    path = paths()[name]
    package = "ptmbench.models" if path.parent in _added else f"ptmbench.models.{path.parent.name}"
    module = _importing.imported(f"{package}.{name}", path, BrokenModel)
    if module not in _sound:
        if found := _contract.mistakes(module, objective_names(), names()):
            raise BrokenModel(f"{path} is no model's file. {' '.join(found)}")
        _sound.add(module)
    return module


def teacher(name: str) -> Teacher | None:
    """Returns the ``TEACHER`` of the model called ``name``, or None for a model without one. Raises `BrokenModel` if
    the chain of teachers is circular."""
    first = found = getattr(load(name), "TEACHER", None)
    chain = [name]
    while found is not None:
        chain.append(found.model)
        if found.model in chain[:-1]:
            raise BrokenModel(
                f"{paths()[name]}: TEACHER leads in a circle: {name} learns from "
                f"{', which learns from '.join(chain[1:])}. Name another teacher in one of their files."
            )
        found = getattr(load(found.model), "TEACHER", None)
    return first


def objective_names() -> tuple[str, ...]:
    """Every objective's name (the survey's "pre-training task"), sorted."""
    from ptmbench.models import objectives

    return objectives.names()
