"""Plugins: a user's own models, objectives, tasks and adaptations, which the registries list like built-in ones.

    DIR/models/NAME.py        as a file of models/FOLDER
    DIR/objectives/NAME.py    as a file of models/objectives
    DIR/tasks/NAME.py         as a file of tasks
    DIR/adaptations/NAME/     as a folder of bench/adapt

A plugin is the folder in ``--plugin DIR``, or an installed package. Such a package has an entry point of the group
`GROUP`, whose value is the package with these folders. Workers get the folders through their job. No file of a plugin
is imported before it is used. The keys of cells include the hashes of the plugin files that the cells use.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterable
from pathlib import Path

from ptmbench import models, tasks
from ptmbench.bench import adapt, baselines
from ptmbench.bench.errors import BrokenFile, EnvironmentProblem, UsageError
from ptmbench.models import objectives

GROUP = "ptmbench.plugins"
KINDS = {"models": models, "objectives": objectives, "tasks": tasks, "adaptations": adapt}
_used: list[Path] = []


def use(folder: Path) -> None:
    """Adds the plugin ``folder`` to the registries of this process. Raises `EnvironmentProblem` for a folder that is
    not a plugin, and `UsageError` for a name that exists already. After an error nothing is added."""
    folder = Path(folder).expanduser().resolve()
    if folder in _used:
        return
    parts = {kind: folder / kind for kind in KINDS if (folder / kind).is_dir()}
    if not parts:
        raise EnvironmentProblem(
            f"{folder} is not a plugin: it has none of the folders {', '.join(KINDS)}. Give the folder that holds them."
        )
    for kind, part in parts.items():
        _check_names(kind, part)
    for kind, part in parts.items():
        KINDS[kind].extend(part)
    importlib.invalidate_caches()
    _used.append(folder)


def use_installed() -> None:
    """Adds the plugins of installed packages. Raises `BrokenFile` for an entry point that does not name a package."""
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            found = importlib.util.find_spec(entry.value)
        except (ImportError, ValueError):
            found = None
        places = list(found.submodule_search_locations or ()) if found else []
        if not places:
            raise BrokenFile(
                f"The entry point '{entry.name}' of the group {GROUP} leads to {entry.value}, which is not a package. "
                "Correct the package that declares it, or uninstall it."
            )
        use(Path(places[0]))


def used() -> list[str]:
    """The folders of the plugins in use."""
    return [str(folder) for folder in _used]


def folder_of(path: Path) -> Path | None:
    """The plugin that the file ``path`` is part of; None for files of ptmbench."""
    return next((folder for folder in _used if path.is_relative_to(folder)), None)


def sources(models_used: Iterable[str | None], task: str = "", adaptation: str = "") -> dict[str, str]:
    """Returns the SHA-256 of the plugin files of the given models, their objectives, the task and the adaptation, by
    path in the plugin. An adaptation has the path and hash of its folder."""
    if not _used:
        return {}
    used_models = [name for name in models_used if name]
    files = [models.paths()[name] for name in used_models]
    if any(map(folder_of, objectives.paths().values())):
        files += [objectives.paths()[one] for name in used_models for one in models.load(name).CARD.objectives]
    files += [tasks.path(task.partition("-")[0])] if task else []
    files += [adapt.path(adaptation).parent] if adaptation in adapt.names() else []
    found = {file: folder for file in files if (folder := folder_of(file))}
    return {str(file.relative_to(folder)): _sha256(file) for file, folder in found.items()}


def _check_names(kind: str, part: Path) -> None:
    package = KINDS[kind]
    known = {*package.names(), *(baselines.names() if kind == "models" else ())}
    for path in sorted(part.glob("[!_.]*/__init__.py" if kind == "adaptations" else "[!_.]*.py")):
        name = path.parent.name if kind == "adaptations" else path.stem
        if name in known or importlib.util.find_spec(f"{package.__name__}.{name}") is not None:
            raise UsageError(
                f"{path}: the name '{name}' is taken by ptmbench itself or by another plugin. Give it another name."
            )


def _sha256(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all Python files in a folder."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*.py")):
        digest.update(f"{file.relative_to(path)}\0{_sha256(file)}\0".encode())
    return digest.hexdigest()
