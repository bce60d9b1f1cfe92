"""Rules of the code structure: allowed imports, modules without TensorFlow, and the maximum length of files."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ptmbench import models

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("bench", "models", "tasks", "leaderboard")
HEAVY = {
    "tensorflow",
    "keras",
    "keras_hub",
    "keras_nlp",
    "tensorflow_text",
    "tensorflow_model_optimization",
    "tf_keras",
}
MAY_IMPORT = {
    "bench": set(ROOMS),
    "models": {"models"},
    "tasks": {"tasks"},
    "leaderboard": {"leaderboard"},
}
LEADERBOARD = {
    "stats": set(),
    "text": set(),
    "formats": {"text"},
    "records": {"text"},
    "scores": {"records", "stats", "text"},
    "gate": {"records", "stats", "text"},
    "survey": {"records", "scores", "stats", "text"},
    "tables": {"records", "scores", "stats", "survey", "text"},
    "page": {"records", "scores", "stats", "survey", "tables", "text"},
    "past": {"page", "records", "scores", "stats", "text"},
}
"""The parts of the leaderboard that each part may import besides itself. `leaderboard.board` may import all parts."""
QUICK = (
    "runs.plan",
    "engine.budget",
    "options",
    "errors",
    "environment",
    "console",
    "scoring.score_files",
    "scoring.submission",
    "commands.options",
)
"""Modules of bench that the command line imports before any cell runs."""

FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yields the name of each imported module, and whether it is imported outside of functions."""
    tree = tree_of(path)
    inner = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) not in inner
        elif isinstance(node, ast.ImportFrom) and node.module == "ptmbench":
            for alias in node.names:
                yield f"ptmbench.{alias.name}", id(node) not in inner
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), id(node) not in inner


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_packages_import_only_allowed_packages(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    for module, _ in imports(path):
        assert not module.startswith("."), f"{name(path)} imports relatively; write the whole name"
        top, *rest = module.split(".")
        assert top not in ROOMS, f"{name(path)} imports {module}, which may be anybody's; write ptmbench.{module}"
        assert top != "ptmbench" or rest[0] in MAY_IMPORT[room], f"{name(path)} may not import {module}"
        assert top != "tests", f"{name(path)} imports the tests"
        assert room not in ("tasks", "leaderboard") or top not in HEAVY, f"{name(path)} may not import {module}"


@pytest.mark.parametrize("part", LEADERBOARD)
def test_leaderboard_parts_import_only_parts_below_them(part: str) -> None:
    home = ROOT / "leaderboard" / part
    for path in home.glob("*.py") if home.is_dir() else [home.with_suffix(".py")]:
        for module, _ in imports(path):
            for other in imported_parts(path, module):
                assert other in LEADERBOARD[part] | {part}, f"{name(path)} may not import {module}"


def imported_parts(path: Path, module: str) -> set[str]:
    """Returns the parts of the leaderboard that ``path`` imports by importing ``module``."""
    if module != "ptmbench.leaderboard":
        return {module.split(".")[2]} if module.startswith("ptmbench.leaderboard.") else set()
    nodes = ast.walk(tree_of(path))
    froms = (node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == module)
    return {alias.name for node in froms for alias in node.names}


MODELS = sorted(models.paths().values())


@pytest.mark.parametrize("path", MODELS, ids=name)
def test_model_files_import_network_libraries_only_inside_functions(path: Path) -> None:
    for module, at_top in imports(path):
        assert not (at_top and module.split(".")[0] in HEAVY), f"{name(path)} imports {module} before build() is called"


def test_heavy_libraries_are_not_imported_before_a_cell_needs_them() -> None:
    """Imports the modules in a new process, because the sources do not show which modules are imported indirectly."""
    modules = [f"ptmbench.bench.{module}" for module in QUICK]
    modules += [f"ptmbench.tasks.{path.stem}" for path in (ROOT / "tasks").glob("[!_]*.py")]
    modules += [f"ptmbench.models.{path.stem}" for path in (ROOT / "models").glob("[!_]*.py")]
    modules += [f"ptmbench.models.{path.parent.name}.{path.stem}" for path in MODELS]
    modules += [
        "ptmbench." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "leaderboard").rglob("[!_]*.py")
    ]
    modules += [
        f"ptmbench.bench.runs.suites.{path.stem}" for path in (ROOT / "bench" / "runs" / "suites").glob("[!_]*.py")
    ]
    code = (
        "import importlib, sys\n"
        "from ptmbench.models.text.tokenizers import Vocabulary\n"
        f"for module in {modules!r}:\n"
        "    there = importlib.import_module(module)\n"
        "    if hasattr(there, 'CARD'):  # dry runs ask what a model will cost\n"
        "        model = there.describe(there.SIZES['tiny'], Vocabulary(size=100))\n"
        "        model.parameters(), model.training_flops(64), model.encoder_flops(64)\n"
        f"    found = {HEAVY!r} & set(sys.modules)\n"
        "    if found: sys.exit(f'{module} imports {sorted(found)}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", FILES, ids=name)
def test_files_have_a_maximum_number_of_lines(path: Path) -> None:
    longest = 120 if path in MODELS else 400
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= longest, f"{name(path)} has {lines} lines; beyond {longest} it wants to be two files (aim at 250)"


@cache
def project_files(path: Path) -> frozenset[Path]:
    """Returns the files of the project that ``path`` imports, at its top or inside a function."""
    ours = [module.split(".")[1:] for module in imported_names(path) if module.startswith("ptmbench.")]
    return frozenset({file for parts in ours if (file := ROOT.joinpath(*parts).with_suffix(".py")).exists()})


def imported_names(path: Path) -> Iterator[str]:
    """Yields the names of the modules that ``path`` imports anywhere, and of the objects imported from them."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def dependencies(path: Path) -> set[Path]:
    """Returns all files of the project that ``path`` imports, directly or indirectly."""
    found, waiting = set(), [path]
    while waiting:
        new = project_files(waiting.pop()) - found
        found |= new
        waiting += new
    return found


def described_models() -> list[Path]:
    """Returns the model files that define ``describe``, which returns configurations of `models.layers`."""
    return [path for path in MODELS if "\ndef describe(" in path.read_text(encoding="utf-8")]


def unit(path: Path) -> str:
    """Returns the folder of bench that contains ``path``, or the name of a file directly in bench."""
    parts = path.relative_to(ROOT / "bench").parts
    return parts[0]


def test_bench_has_few_folders_in_few_layers_without_import_cycles() -> None:
    """Rooms are the folders of bench. Floors are layers: each imports only from lower ones, so there are no cycles."""
    files = sorted((ROOT / "bench").rglob("*.py"))
    below: dict[str, set[str]] = {unit(path): set() for path in files}
    for path in files:
        inside = {module.split(".")[2] for module in imported_names(path) if module.startswith("ptmbench.bench.")}
        below[unit(path)] |= {one if one in below else f"{one}.py" for one in inside} & below.keys() - {unit(path)}
    rooms = [one for one in below if not one.endswith(".py")]
    assert len(rooms) <= 8 and len(below) - len(rooms) <= 8, sorted(below)
    floors, left = 0, dict(below)
    while left:
        lowest = {one for one, others in left.items() if not others & left.keys()}
        assert lowest, f"these import each other in a circle: {sorted(left)}"
        left = {one: others for one, others in left.items() if one not in lowest}
        floors += 1
    assert floors <= 8


def test_every_model_describes_itself() -> None:
    assert {path.stem for path in described_models()} == set(models.names())


@pytest.mark.parametrize("path", described_models(), ids=name)
def test_a_model_file_depends_on_one_architecture_and_no_other_model(path: Path) -> None:
    """The file of a model imports one architecture, its objectives, and the library that all models share."""
    architectures = {file for file in project_files(path) if file.parent.name == "architectures"}
    assert len(architectures) == 1, f"{name(path)} imports {sorted(map(name, architectures))}; it needs exactly one"
    behind = dependencies(path)
    others = {file for file in behind if file.parent.name == "architectures"} - architectures
    others -= {ROOT / "models" / "architectures" / "encoders.py"}  # the blocks of BERT, which readers know
    assert not others, f"{name(path)} needs {sorted(map(name, others))} beside its architecture"
    relatives = sorted(name(file) for file in behind & set(MODELS) - {path})
    assert not relatives, f"{name(path)} imports the files of other models: {relatives}"


@pytest.mark.parametrize("path", described_models(), ids=name)
def test_a_model_file_with_describe_does_not_compute_costs(path: Path) -> None:
    """Parameters and FLOPs follow from the configurations. Only functions that define sizes may do arithmetic."""
    tree = tree_of(path)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    sizes = [f for f in functions if isinstance(f.returns, ast.Name) and f.returns.id in ("Size", "int")]
    allowed = {id(node) for function in sizes for node in ast.walk(function)}
    found = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp | ast.AugAssign)
        and id(node) not in allowed
        and not isinstance(node.op, ast.BitOr)
    ]
    assert not found, f"{name(path)} computes in lines {found}; the layers' configurations know what a model costs"


RUN, SHARE = 4, 0.1
"""The number of consecutive equal lines that count as a copy, and the maximum share of copied lines."""


def test_few_lines_of_architectures_and_layers_are_copies() -> None:
    """Counts the lines of `models.architectures` and `models.layers` that another file has too, without imports. Only
    `RUN` or more consecutive lines count."""
    files = [path for path in FILES if path.parent.name in ("architectures", "layers") and path.parts[-3] == "models"]
    texts = {}
    for path in files:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        texts[path] = [line for line in lines if line and not line.startswith(("import ", "from "))]
    places: dict[tuple[str, ...], set[Path]] = {}
    for path, lines in texts.items():
        for start in range(len(lines) - RUN + 1):
            places.setdefault(tuple(lines[start : start + RUN]), set()).add(path)
    copies = {}
    for path, lines in texts.items():
        starts = [at for at in range(len(lines) - RUN + 1) if len(places[tuple(lines[at : at + RUN])]) > 1]
        copies[path] = len({line for start in starts for line in range(start, start + RUN)})
    share = sum(copies.values()) / sum(map(len, texts.values()))
    worst = sorted(copies, key=copies.get, reverse=True)[:5]
    assert share <= SHARE, f"{share:.0%} of the lines are copies, most of them in {[name(path) for path in worst]}"


def test_every_folder_with_python_files_is_a_package() -> None:
    from setuptools import find_packages

    found = {name for room in ROOMS for name in find_packages(str(ROOT), include=[room, f"{room}.*"])}
    folders = {".".join(path.relative_to(ROOT).parent.parts) for path in FILES}
    assert folders == found, "a folder with Python files lacks its __init__.py"


def test_user_folders_with_the_names_of_our_packages_have_no_effect(tmp_path: Path) -> None:
    """A user may have folders models/, tasks/, bench/ and leaderboard/ in the working directory and on the path."""
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("raise SystemExit('this is not ours')\n", encoding="utf-8")
    import os

    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    for arguments in (["ls", "models"], ["info", "sst2"], ["data", "make", "world"], ["run", "demo", "--dry-run"]):
        done = subprocess.run(
            [sys.executable, "-m", "ptmbench", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0 and done.stdout + done.stderr, done.stderr


def test_pins_have_no_url_and_cover_all_dependencies() -> None:
    import re
    import tomllib

    lines = [
        line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.!+]+", line) for line in lines)
    pinned = {line.split("==")[0] for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = project["dependencies"] + project["optional-dependencies"]["test"]
    assert {re.split(r"[\s<>=!~;\[]", line, maxsplit=1)[0] for line in required} <= pinned


def test_readme_has_one_install_and_one_test_command_and_ci_is_executable() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("python3.11 -m venv") for line in lines) == 1
    assert sum(line.startswith(".venv/bin/python -m pytest") for line in lines) == 1
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111, ".ci/run is not executable"
