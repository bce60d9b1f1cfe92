"""Adaptations of pre-trained models to tasks: one folder per adaptation, and the heads that forms put on encoders.

`bench.adapt.contract` says what an adaptation is, `bench.adapt.parts` what it is made of in TensorFlow. The folder is
the registry. `bench.adapt.settings` holds the hyper-parameters that all have, `bench.adapt.effort` what they cost.
"""

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ptmbench.bench.errors import BrokenFile
from ptmbench.models._importing import imported
from ptmbench.tasks.forms import Form

if TYPE_CHECKING:
    from ptmbench.bench.adapt.contract import Adaptation

_MACHINERY = {"conditions", "heads", "transforms"}
_places = [Path(__file__).parent]
"""The folder of this package, and those with adaptations of users."""


def check(name: str) -> None:
    """Raises `bench.errors.BrokenFile` where the folder of the adaptation ``name`` does not keep the contract. Imports
    no TensorFlow."""
    load(name)


@cache
def load(name: str) -> "Adaptation":
    """The adaptation ``name``, checked; `bench.errors.BrokenFile` says what is wrong with its folder."""
    from ptmbench.bench.adapt import _contract

    return _contract.check(name, imported(f"{__name__}.{name}", path(name), BrokenFile))


@cache
def names() -> tuple[str, ...]:
    """Every adaptation's name, sorted."""
    folders = (file.parent.name for place in _places for file in place.glob("[!_.]*/__init__.py"))
    return tuple(sorted(set(folders) - _MACHINERY))


def file_of(*parts: str) -> Path:
    """The file of the module that is called ``parts`` below this package: in the first of its places that has it."""
    files = []
    for place in _places:
        file = place.joinpath(*parts)
        files.append(file / "__init__.py" if file.is_dir() else file.with_suffix(".py"))
    return next((file for file in files if file.is_file()), files[0])


def path(name: str) -> Path:
    """The file that defines the adaptation ``name``."""
    files = [place / name / "__init__.py" for place in _places]
    return next((file for file in files if file.exists()), files[0])


def extend(folder: Path) -> None:
    """Adds the adaptations in the folders of ``folder``, whose names are new."""
    _places.append(folder)
    __path__.append(str(folder))
    names.cache_clear()
    only.cache_clear()


@cache
def only() -> dict[Form, str]:
    """{form: adaptation} of forms that are met in one way, whatever a user asks for. Broken folders are left out."""
    found = {}
    for name in names():
        with suppress(BrokenFile):
            found |= dict.fromkeys(load(name).only, name)
    return found
