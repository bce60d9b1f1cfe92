"""Registries that are folders: each sub-folder of a package defines one object of a kind. Imports no TensorFlow."""

from pathlib import Path
from typing import Any

from ptmbench.bench.errors import BrokenFile
from ptmbench.models._importing import imported


def names(package: Path) -> tuple[str, ...]:
    """The names of the folders of ``package`` that are packages themselves, sorted."""
    return tuple(sorted(file.parent.name for file in package.glob("[!_.]*/__init__.py")))


def load(package: Path, name: str, constant: str, kind: type) -> Any:
    """What the folder ``name`` of ``package``, a folder of bench/adapt, defines as ``constant``.

    Raises `BrokenFile` if it cannot be imported or is not of this ``kind``, a protocol that can be checked at run time.
    """
    path = package / name / "__init__.py"
    if name not in names(package):
        raise BrokenFile(f"There is no folder {path.parent}. Choices: {', '.join(names(package)) or 'none'}.")
    module = imported(f"ptmbench.bench.adapt.{package.name}.{name}", path, BrokenFile)
    found = vars(module).get(constant)
    if not isinstance(found, kind):
        raise BrokenFile(f"{path} has no {constant} that keeps the contract {kind.__module__}.{kind.__name__}.")
    return found
