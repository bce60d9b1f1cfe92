"""The survey's pre-trained models, one file each, named like the paper.

The folders are the registry, and carry the names of the survey's sections: a file in one of them that defines ``CARD``,
``SIZES`` and ``build`` is a model under its own name. Listing imports nothing, loading imports one module, and
TensorFlow waits until ``build`` is called.
"""

import difflib
from functools import cache
from pathlib import Path
from types import ModuleType

from ptmbench.models.card import Teacher

_ROOT = Path(__file__).parent
_SHARED = {"architectures", "layers", "objectives", "published", "text"}
"""Folders with what models share."""
_added: list[Path] = []
"""Folders with models of users."""
_sound: set[ModuleType] = set()
"""Modules that were checked in this process."""


class UnknownModel(LookupError):
    """No model or size of that name; the message offers the nearest ones."""


class BrokenModel(ValueError):
    """A model's file that cannot be imported or lacks what it has to define; the message names the file."""


@cache
def paths() -> dict[str, Path]:
    """The file of every model by its name, sorted; reads the folders and imports nothing."""
    files = [path for path in _ROOT.glob("*/[!_.]*.py") if path.parent.name not in _SHARED]
    files += [path for folder in _added for path in folder.glob("[!_.]*.py")]
    return {path.stem: path for path in sorted(files, key=lambda path: path.stem)}


def extend(folder: Path) -> None:
    """Adds the models of ``folder``, one file each, whose names are new."""
    _added.append(folder)
    __path__.append(str(folder))
    paths.cache_clear()


def names() -> tuple[str, ...]:
    """Every model's name, sorted."""
    return tuple(paths())


def load(name: str) -> ModuleType:
    """The module of the model called ``name``; `UnknownModel` with the nearest names when there is none, `BrokenModel`
    when its file cannot be imported or breaks the contract that `models._contract` checks."""
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
    """The ``TEACHER`` of the model called ``name``; None for a model that learns without one. `BrokenModel` where the
    chain of teachers is a circle."""
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
