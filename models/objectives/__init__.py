"""What pre-training minimises: one file per term of the survey.

The folder is the registry, and a plugin adds files of its own. Listing imports nothing.
"""

from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parent
_SAMPLING = {"masking", "sampling"}
"""Files that are no objectives: what the samplers of objectives share."""
_added: list[Path] = []
"""Folders with objectives of users."""


@cache
def paths() -> dict[str, Path]:
    """The file of every objective by its name, sorted."""
    files = [path for folder in (_ROOT, *_added) for path in folder.glob("[!_.]*.py") if path.stem not in _SAMPLING]
    return {path.stem: path for path in sorted(files, key=lambda path: path.stem)}


def extend(folder: Path) -> None:
    """Adds the objectives of ``folder``, one file each, whose names are new."""
    _added.append(folder)
    __path__.append(str(folder))
    paths.cache_clear()


def names() -> tuple[str, ...]:
    """Every objective's name (the survey's "pre-training task"), sorted."""
    return tuple(paths())
