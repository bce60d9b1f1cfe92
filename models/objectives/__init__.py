"""The pre-training objectives, one file each. The survey calls them "pre-training tasks".

The folder is the registry, and plugins can add files. Listing imports nothing.
"""

from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parent
_SAMPLING = {"masking", "sampling"}
"""Files that are not objectives: code that their samplers share."""
_added: list[Path] = []
"""Folders with users' objectives."""


@cache
def paths() -> dict[str, Path]:
    """Returns the file of every objective by name, sorted."""
    files = [path for folder in (_ROOT, *_added) for path in folder.glob("[!_.]*.py") if path.stem not in _SAMPLING]
    return {path.stem: path for path in sorted(files, key=lambda path: path.stem)}


def extend(folder: Path) -> None:
    """Adds the objectives of ``folder``, one file each. Their names must be new."""
    _added.append(folder)
    __path__.append(str(folder))
    paths.cache_clear()


def names() -> tuple[str, ...]:
    """Every objective's name (the survey's "pre-training task"), sorted."""
    return tuple(paths())
