"""Registries that are folders: each sub-folder of a package defines one object of a kind. Imports no TensorFlow."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ptmbench.bench.errors import BrokenFile, UsageError
from ptmbench.models._importing import imported


def names(package: Path) -> tuple[str, ...]:
    """The names of the folders of ``package`` that are packages themselves, sorted."""
    return tuple(sorted(file.parent.name for file in package.glob("[!_.]*/__init__.py")))


def load(package: Path, name: str, constant: str, kind: type) -> Any:
    """Returns the object ``constant`` that the sub-folder ``name`` of ``package``, a folder of bench/adapt, defines.

    Raises `BrokenFile` if the sub-folder is missing or cannot be imported, or if the object is not of this ``kind``, a
    runtime-checkable protocol.
    """
    path = package / name / "__init__.py"
    if name not in names(package):
        raise BrokenFile(f"There is no folder {path.parent}. Choices: {', '.join(names(package)) or 'none'}.")
    module = imported(f"ptmbench.bench.adapt.{package.name}.{name}", path, BrokenFile)
    found = vars(module).get(constant)
    if not isinstance(found, kind):
        raise BrokenFile(f"{path} has no {constant} that fulfils the contract {kind.__module__}.{kind.__name__}.")
    return found


def parse_choice(
    kind: str, asked: str, known: Sequence[str], load: Callable[[str], Any], example: str
) -> tuple[str, Any, Any]:
    """Returns the object of this ``kind`` ("condition") that a user ``asked`` for by name and settings, such as
    ``example``: its title (the name with the settings that differ from their defaults), the object, and its settings.

    Raises `UsageError` if the name is not ``known`` or a setting is malformed, `SettingError` for settings that the
    object does not take.
    """
    from ptmbench.bench.adapt.settings import SettingError, recorded, replaced, split

    name, pairs = split(asked)
    if name not in known:
        raise UsageError(f"There is no {kind} '{name}'. Choices: {', '.join(known)}.")
    if any(len(pair) != 2 for pair in pairs):
        raise UsageError(f"'{asked}' is not a {kind} with settings; one is {example}.")
    one = load(name)
    usual = one.settings()
    try:
        settings = replaced(usual, dict(pairs))
    except SettingError as error:
        raise SettingError(f"--{kind} {asked}: {error}") from error
    before = recorded(usual)
    own = [f"{key}={value}" for key, value in recorded(settings).items() if value != before.get(key)]
    return f"{name}:{'+'.join(own)}" if own else name, one, settings
