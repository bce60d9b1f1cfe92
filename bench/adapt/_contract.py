"""What the file of an adaptation has to define: read from its source before anything runs, since importing it imports
TensorFlow, and checked again when a cell imports it. `bench.plan` calls `check`, `bench.adapt.load` the rest."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from ptmbench.bench.errors import BrokenFile
from ptmbench.models._importing import broken, fits
from ptmbench.tasks.forms import Form

_FOLDER = Path(__file__).parent
_TAKES = {
    "make": "adapted, rows, settings, seed",
    "rate": "step, number, steps, settings",
    "turn": "steps, settings",
    "respond": "asked",
    "Decoding": "network, vocabulary, settings",
    "First": "network, vocabulary, form",
    "Step": "loss, variables",
}
"""Optional functions and classes of an adaptation, with the names of their arguments."""


def path_of(name: str) -> Path:
    return _FOLDER / f"{name}.py"


def check(name: str) -> None:
    """`BrokenFile` where the source of the adaptation ``name`` is no Python or lacks a name that every one defines."""
    path = path_of(name)
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        raise broken(path, error, BrokenFile) from error
    _refuse(path, _absent({defined for node in tree.body for defined in _defined(node)}))


def check_module(name: str, module: ModuleType) -> None:
    """`BrokenFile` where ``module``, the adaptation ``name``, cannot be used."""
    found = _absent(set(vars(module)))
    if not isinstance(getattr(module, "SUMMARY", ""), str):
        found.append("SUMMARY is a text.")
    for part, takes in {"Reading": "encoder, settings", **_TAKES}.items():
        value, count = getattr(module, part, None), len(takes.split(", "))
        if value is not None and not (callable(value) and fits(value, count)):
            found.append(f"{part}({takes}) cannot be called so.")
    own = getattr(module, "HEADS", {})
    if not isinstance(own, Mapping) or not all(form in tuple(Form) for form in own):
        found.append("HEADS is a dict from forms to files of bench/adapt/heads.")
    else:
        files = {file.stem for file in (_FOLDER / "heads").glob("[!_.]*.py")}
        found += [
            f"HEADS names {one!r}, which has no file in bench/adapt/heads." for one in own.values() if one not in files
        ]
    _refuse(path_of(name), found)


def _absent(defined: set[str]) -> list[str]:
    missing = [] if "SUMMARY" in defined else ["It has no SUMMARY, a text."]
    if not defined & {"Reading", "respond"}:
        missing.append("It has no Reading(encoder, settings), and no respond(asked) either.")
    return missing


def _refuse(path: Path, found: list[str]) -> None:
    if found:
        raise BrokenFile(f"{path} is no adaptation's file. {' '.join(found)}")


def _defined(node: ast.AST) -> Iterator[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.If | ast.Try | ast.With):
        yield from (name for inner in ast.iter_child_nodes(node) for name in _defined(inner))
    else:
        yield from (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
