"""Imports the files of a registry, and tells what is wrong with one that cannot be imported.

`models` and `bench` use it; `tasks` has its own, because no room imports another.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def imported(name: str, path: Path, problem: type[Exception]) -> ModuleType:
    """The module ``name``, whose source is ``path``; ``problem`` with the file, the line and the reason where it cannot
    be imported, also where it ends the program."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise broken(path, error, problem) from error


def broken(path: Path, error: BaseException, problem: type[Exception]) -> Exception:
    """``problem`` that tells what the code of ``path`` raised, and at which line."""
    import traceback

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    line = frames[-1].lineno if frames else None
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename) == path:
        line = error.lineno
    place = f"{path}, line {line}," if line else str(path)
    reason = f"{type(error).__name__}: {error}".rstrip(": ")
    return problem(f"{place} cannot be run: {reason}. Correct the file, or move it out of its folder.")


def fits(function: Callable[..., Any], count: int) -> bool:
    """Whether ``function`` takes ``count`` arguments by position; True where Python does not know."""
    import inspect

    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        pass
    return True
