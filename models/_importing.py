"""Imports the files of a registry, and reports why a file cannot be imported.

`models` and `bench` use it. `tasks` has its own version, because `tasks` and `models` do not import each other.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def imported(name: str, path: Path, problem: type[Exception]) -> ModuleType:
    """Returns the module ``name``, whose source is ``path``. Raises ``problem`` with the file, the line and the reason
    if it cannot be imported, or if it exits the program."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise broken(path, error, problem) from error


def broken(path: Path, error: BaseException, problem: type[Exception]) -> Exception:
    """Returns ``problem`` with the error that the code of ``path`` raised, and its line."""
    import traceback

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    line = frames[-1].lineno if frames else None
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename) == path:
        line = error.lineno
    place = f"{path}, line {line}," if line else str(path)
    reason = f"{type(error).__name__}: {error}".rstrip(": ")
    return problem(f"{place} cannot be run: {reason}. Correct the file, or move it out of its folder.")


def fits(function: Callable[..., Any], count: int) -> bool:
    """Returns whether ``function`` takes ``count`` positional arguments; True if its signature is unknown."""
    import inspect

    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        pass
    return True
