"""Checks that the folder of an adaptation fulfils the contract (`bench.adapt.contract`).

`bench.adapt.check` runs this before a plan is made, so that a broken folder is reported before any training. To avoid
importing TensorFlow, it reads only the source of the folder's other files.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType

from ptmbench.bench import adapt
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.errors import BrokenFile
from ptmbench.models._importing import broken
from ptmbench.tasks.forms import Form

_PACKAGE = "ptmbench.bench.adapt"


def path_of(name: str) -> Path:
    """The file that defines the adaptation ``name``."""
    return adapt.path(name)


def check(name: str, module: ModuleType) -> Adaptation:
    """Returns the adaptation ``name`` that its imported ``module`` defines. Raises `BrokenFile` with one sentence for
    each fault of its folder."""
    found = [one for file in sorted(path_of(name).parent.glob("*.py")) for one in _absent_imports(file)]
    adaptation = vars(module).get("ADAPTATION")
    if not isinstance(adaptation, Adaptation):
        found.append("It has no ADAPTATION, an instance of a subclass of bench.adapt.contract.Adaptation.")
    else:
        found += [*_wrong_values(adaptation), *_wrong_methods(type(adaptation))]
    if found:
        raise BrokenFile(f"{path_of(name)} does not define an adaptation. {' '.join(found)}")
    return adaptation


def _wrong_values(adaptation: Adaptation) -> Iterator[str]:
    own = type(adaptation)
    if not isinstance(vars(own).get("summary"), str):
        yield "It has no summary, a text."
    if not (isinstance(own.settings, type) and issubclass(own.settings, Settings) and is_dataclass(own.settings)):
        yield "Its settings are not a subclass of bench.adapt.settings.Settings."
    elif plain := [f.name for f in fields(own.settings) if "holds" not in f.metadata]:
        yield f"Of its settings {', '.join(plain)} is declared without bench.adapt.settings.setting or its kin."
    forms = own.only if isinstance(own.only, tuple) else (own.only,)
    if strange := [form for form in forms if not isinstance(form, Form)]:
        yield f"Its ``only`` is a tuple of forms, but has {strange[0]!r}."
    if own.heads is not None and not (isinstance(own.heads, Mapping) and all(isinstance(f, Form) for f in own.heads)):
        yield "Its heads are a dict from forms to modules below bench/adapt."
    else:
        for module in (own.heads or {}).values():
            file = adapt.file_of(*str(module).split("."))
            if not file.is_file():
                yield f"Its heads name {module!r}, but there is no file {file}."
            elif absent := {"Codec", "Head"} - set(_names(file)):
                yield f"{file} defines no {' and no '.join(sorted(absent))}."
    if not own.learns and own.respond is Adaptation.respond:
        yield "It does not learn, and has no respond(asked) either."


def _wrong_methods(own: type) -> Iterator[str]:
    """Yields a message for each method whose arguments differ from those in the contract."""
    for name, method in inspect.getmembers(Adaptation, inspect.isfunction):
        asked, found = (list(inspect.signature(one).parameters) for one in (method, vars(own).get(name, method)))
        if asked != found:
            yield f"Its {name}({', '.join(found[1:])}) takes other arguments than {name}({', '.join(asked[1:])})."


def _absent_imports(path: Path) -> Iterator[str]:
    """Yields a message for each import in ``path`` from below `bench.adapt`, also inside methods, that does not
    exist."""
    for node in ast.walk(_parsed(path)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(f"{_PACKAGE}."):
            continue
        file = adapt.file_of(*node.module.removeprefix(f"{_PACKAGE}.").split("."))
        if not file.is_file():
            yield f"{path.name}, line {node.lineno}, imports {node.module}, but there is no file {file}."
            continue
        defined = set(_names(file)) | {one.stem for one in file.parent.iterdir() if file.name == "__init__.py"}
        for alias in node.names:
            if alias.name not in defined:
                yield f"{path.name}, line {node.lineno}, imports {alias.name}, which {file} does not define."


def _names(path: Path) -> Iterator[str]:
    """The names that the source of ``path`` defines or imports. Raises `BrokenFile` if it is not valid Python."""
    yield from (name for node in _parsed(path).body for name in _defined(node))


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        raise broken(path, error, BrokenFile) from error


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
