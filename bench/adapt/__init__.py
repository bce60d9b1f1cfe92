"""Adaptations of pre-trained models to tasks: one folder per adaptation, and the heads of all forms.

`bench.adapt.contract` defines an adaptation, and `bench.adapt.parts` its parts in TensorFlow. The folders are the
registry. `bench.adapt.settings` has the hyper-parameters that all adaptations share, and `bench.adapt.effort` estimates
their cost.
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
"""The folder of this package, then the folders with users' adaptations."""


def check(name: str) -> None:
    """Checks the adaptation ``name`` without importing TensorFlow. Raises `bench.errors.BrokenFile` if its folder does
    not fulfil the contract."""
    load(name)


@cache
def load(name: str) -> "Adaptation":
    """Returns the adaptation ``name`` after a check. Raises `bench.errors.BrokenFile` with everything that is wrong
    with its folder."""
    from ptmbench.bench.adapt import _contract

    return _contract.check(name, imported(f"{__name__}.{name}", path(name), BrokenFile))


@cache
def names() -> tuple[str, ...]:
    """Every adaptation's name, sorted."""
    folders = (file.parent.name for place in _places for file in place.glob("[!_.]*/__init__.py"))
    return tuple(sorted(set(folders) - _MACHINERY))


def file_of(*parts: str) -> Path:
    """The file of the module ``parts`` below this package, in the first of `_places` that has it; otherwise its path in
    this package."""
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
    """Adds the adaptations in the sub-folders of ``folder``. Their names must be new."""
    _places.append(folder)
    __path__.append(str(folder))
    names.cache_clear()
    only.cache_clear()


@cache
def only() -> dict[Form, str]:
    """{form: adaptation} for forms that always use the same adaptation, whatever the user chooses. Broken folders are
    left out."""
    found = {}
    for name in names():
        with suppress(BrokenFile):
            found |= dict.fromkeys(load(name).only, name)
    return found
