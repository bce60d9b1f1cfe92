"""The commands ``ls`` and ``info``, which list and describe models, tasks and other names.

``ls`` reads folders and docstrings. It imports no task, and imports models only to choose them by the taxonomy.
"""

import ast
import difflib
import inspect
import re
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from ptmbench.bench.commands.options import VOCABULARY
from ptmbench.bench.commands.registry import names, resolve
from ptmbench.bench.errors import BrokenFile, UsageError
from ptmbench.models._importing import broken

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "models": "models",
    "objectives": "models/objectives",
    "tasks": "tasks",
    "adaptations": "bench/adapt",
    "transforms": "bench/adapt/transforms",
    "conditions": "bench/adapt/conditions",
    "suites": "bench/runs/suites",
    "corpora": "bench/data/recipes",
}
_SINGULAR = {"corpora": "corpus"}


def one_of(kind: str) -> str:
    """The singular of a key of `FOLDERS`."""
    return _SINGULAR.get(kind, kind[:-1])


def source(kind: str, name: str) -> Path:
    """The file that defines ``name``. A file of tasks may define several."""
    if kind == "models":
        from ptmbench import models

        return models.paths()[name]
    if kind == "objectives":
        from ptmbench.models import objectives

        return objectives.paths()[name]
    if kind == "tasks":
        from ptmbench import tasks

        return tasks.path(name)
    if kind == "adaptations":
        from ptmbench.bench import adapt

        return adapt.path(name)
    folder = ROOT / FOLDERS[kind]
    own_folder = kind in ("transforms", "conditions")
    return folder / name / "__init__.py" if own_folder else folder / f"{name}.py"


def docstring(kind: str, name: str) -> str:
    """The docstring of the file that defines ``name``. The file is parsed, not run.

    Raises `BrokenFile` if the file is not valid Python.
    """
    path = source(kind, name)
    try:
        return ast.get_docstring(ast.parse(path.read_bytes(), str(path))) or ""
    except (SyntaxError, ValueError) as error:
        raise broken(path, error, BrokenFile) from error


def summary(kind: str, name: str) -> str:
    """The complete sentences on the first line of the docstring, or one more if they fill less than a third of it.

    The docstring starts at the first line of the file. It is read without parsing, because parsing all files would take
    longer than everything else that `ls` does.
    """
    with open(source(kind, name), encoding="utf-8", errors="replace") as file:
        text = first = file.readline().strip().removeprefix('"""')
        while not text.endswith('"""') and (line := file.readline().strip()):
            text += f" {line}"
    text = text.removesuffix('"""')
    ends = [found.end() for found in re.finditer(r"[.?!](?<! al\.)(?= [A-Z]|$)", text)]
    whole = max((end for end in ends if end <= len(first)), default=0)
    if whole < len(first) / 3:  # no complete sentence, or only a name and its source
        whole = min((end for end in ends if end > whole), default=len(text))
    return text[:whole] + _plugin_of(kind, name)


def _plugin_of(kind: str, name: str) -> str:
    """Returns " [plugin FOLDER]" if a plugin defines ``name``, "" otherwise."""
    from ptmbench.bench.runs import plugins

    folder = plugins.folder_of(source(kind, name)) if kind in plugins.KINDS else None
    return f" [plugin {folder}]" if folder else ""


@click.command()
@click.argument("kind", type=click.Choice(tuple(FOLDERS)), required=False)
@click.option("--representation", metavar="TERM", help="Models only: contextual or non-contextual.")
@click.option("--architecture", metavar="TERM", help="Models only: an architecture, such as LSTM.")
@click.option("--objective", metavar="TERM", help="Models only: a pre-training objective, such as MLM or RTD.")
@click.option("--extension", metavar="TERM", help="Models only: an extension, such as multilingual.")
@click.option("--in", "anywhere", metavar="TERM", help="Models only: a term of the survey's figure 3, on any axis.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object: for each kind, a list of names and summaries."
)
def ls(kind: str | None, as_json: bool, **asked: str | None) -> None:
    """List models, objectives, tasks, adaptations, transforms, conditions, suites or corpora; all without KIND. Models
    can be chosen by their place in the survey's taxonomy; several options narrow the choice."""
    given = {axis: term for axis, term in asked.items() if term is not None}
    if given and kind != "models":
        option = "--in" if "anywhere" in given else f"--{next(iter(given))}"
        raise UsageError(f"{option} chooses models. Give it with the kind: `ptmbench ls models {option} TERM`.")
    kinds = (kind,) if kind else tuple(FOLDERS)
    chosen = {kind: names(kind) for kind in kinds}
    if given:
        from ptmbench.bench.commands.taxonomy import chosen_models

        chosen["models"] = chosen_models(given)
    found = {kind: [{"name": name, "summary": summary(kind, name)} for name in chosen[kind]] for kind in kinds}
    if as_json:
        import json

        click.echo(json.dumps(found, ensure_ascii=False, indent=2))
        return
    for number, (title, rows) in enumerate(found.items()):
        if not kind:
            click.echo(f"{chr(10) if number else ''}{title}")
        width = max((len(row["name"]) for row in rows), default=0)
        for row in rows:
            click.echo(f"{'' if kind else '  '}{row['name']:<{width}}  {row['summary']}".rstrip())


@click.command()
@click.argument("name")
@click.option(
    "--vocabulary",
    type=VOCABULARY,
    default=8192,
    show_default=True,
    help="Vocabulary size for the number of parameters.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(name: str, vocabulary: int, as_json: bool) -> None:
    """Show what is known of NAME.

    NAME is a model, objective, task, adaptation, transform, condition, suite or corpus, or the folder of a checkpoint.
    """
    if (Path(name) / "manifest.json").is_file():
        _checkpoint(Path(name), as_json)
        return
    found = {kind: resolve(kind, name) for kind in FOLDERS}
    found = {kind: one for kind, one in found.items() if _listed_name(kind, one) in names(kind)}
    if name in found.values():  # names that match exactly hide those that match in another spelling
        found = {kind: one for kind, one in found.items() if one == name}
    sheets = [(kind, _SHEETS[kind](one, vocabulary)) for kind, one in found.items()]
    if not sheets:
        every = sorted({name for kind in FOLDERS for name in names(kind)})
        near = ", ".join(difflib.get_close_matches(name.lower(), every, n=3))
        nearest = f" Nearest: {near}." if near else ""
        raise UsageError(f"Nothing is called '{name}'.{nearest} `ptmbench ls` shows all names.")
    if as_json:
        from ptmbench.bench.commands.files import dumps

        click.echo(dumps(dict(sheets)))
        return
    for kind, sheet in sheets:
        listed = _listed_name(kind, found[kind])
        click.echo(f"{found[kind]} ({one_of(kind)}){_plugin_of(kind, listed)}\n\n{docstring(kind, listed)}\n")
        for key, value in sheet.items():
            _entry(key, value)


def _listed_name(kind: str, name: str) -> str:
    """The listed name that ``name`` belongs to: for a variant of a task, the part before the dash."""
    return name.partition("-")[0] if kind == "tasks" else name


def _checkpoint(folder: Path, as_json: bool) -> None:
    from ptmbench.bench.engine.checkpoint import read

    found = read(folder)
    sheet = {name: value for name, value in found.about.items() if name != "curve"} | {"files": dict(found.files)}
    if as_json:
        from ptmbench.bench.commands.files import dumps

        click.echo(dumps({"checkpoint": sheet}))
        return
    click.echo(f"{folder} (checkpoint)\n")
    for key, value in sheet.items():
        _entry(key, value)


def _model(name: str, vocabulary: int) -> dict[str, Any]:
    from dataclasses import asdict

    from ptmbench import models
    from ptmbench.bench.engine.recipe import ADAM, RATE
    from ptmbench.models.text.tokenizers import Vocabulary

    module = models.load(name)
    words = Vocabulary(size=vocabulary)
    sizes = {}
    for label, size in module.SIZES.items():
        every, embedding = module.describe(size, words).parameters()
        sizes[label] = asdict(size) | {"parameters": every, "embedding_parameters": embedding}
    own = {"learning_rate": getattr(module, "LEARNING_RATE", RATE)} | ADAM | getattr(module, "ADAM", {})
    return asdict(module.CARD) | {"recipe": own, "sizes": sizes, "vocabulary": vocabulary}


def _task(name: str, vocabulary: int) -> dict[str, Any]:
    from dataclasses import asdict

    from ptmbench import tasks
    from ptmbench.bench.scoring.written import expected

    task = tasks.load(name)
    return {
        "title": task.title,
        "form": str(task.form),
        "headline": task.headline,
        "higher_is_better": task.higher_is_better,
        "chance": task.chance,
        "reported_split": task.report,
        "train_examples": task.train_examples or "all",
        "labels": list(task.labels),
        "folders": list(task.folders),
        "files": {split: list(files) for split, files in task.files.items()},
        "source": asdict(task.source),
        "predictions": expected(task),
        "version": task.version,
        "notes": task.notes,
    }


def _adaptation(name: str, vocabulary: int) -> dict[str, Any]:
    from ptmbench.bench.adapt.settings import Learning, kind

    usual, found = _settings(Learning), _settings(kind(name))
    return {"own": [row for row in found if row not in usual], "settings": [row for row in found if row in usual]}


def _transform(name: str, vocabulary: int) -> dict[str, Any]:
    from ptmbench.bench.adapt import transforms

    found = transforms.load(name)
    return {"compression": found.compression, "version": found.version, "settings": _settings(found.settings)}


def _condition(name: str, vocabulary: int) -> dict[str, Any]:
    from ptmbench.bench.adapt import conditions
    from ptmbench.tasks.forms import Form

    found = conditions.load(name)
    forms = [str(form) for form in Form if found.fits(form)]
    return {"forms": forms, "version": found.version, "settings": _settings(found.settings)}


def _settings(of: type) -> list[dict[str, Any]]:
    """What is said of each field of the settings ``of``: its name, default, valid values, and the text below it."""
    from dataclasses import fields

    texts = _field_texts(of)
    return [
        {"set": f.name, "default": f.default, "takes": f.metadata["takes"], "meaning": texts.get(f.name, "")}
        for f in fields(of)
    ]


def _field_texts(of: type) -> dict[str, str]:
    """The texts below the fields of a class and its bases, in their source, by field."""
    found = {}
    for one in reversed(of.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0].body
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[field.target.id] = " ".join(str(text.value.value).replace("``", "`").split())
    return found


def _suite(name: str, vocabulary: int) -> dict[str, Any]:
    from dataclasses import fields

    from ptmbench.bench.engine.budget import rungs
    from ptmbench.bench.runs import suites

    def flags(budget: Any) -> str:
        return ", ".join(one.flag() for one in rungs(budget))

    suite = suites.load(name)
    budgets = {model: flags(budget) for model, budget in suite.budgets.items()}
    values = {field.name: value for field in fields(suite) if not callable(value := getattr(suite, field.name))}
    return values | {"budget": flags(suite.budget), "budgets": budgets}


def _corpus(name: str, vocabulary: int) -> dict[str, Any]:
    from ptmbench.bench.data import recipes

    recipe = recipes.load(name)
    sources = {
        source.name: {"title": source.title, "licence": source.licence, "url": source.url, "files": len(source.files)}
        for source in recipe.sources
    }
    return {
        "summary": recipe.summary,
        "version": recipe.version,
        "sources": sources,
        "held_out": list(recipe.held_out),
        "made_by": f"ptmbench data corpus {name} --data DIR",
    }


_SHEETS = {
    "models": _model,
    "objectives": lambda name, vocabulary: {},
    "tasks": _task,
    "adaptations": _adaptation,
    "transforms": _transform,
    "conditions": _condition,
    "suites": _suite,
    "corpora": _corpus,
}


def _entry(key: str, value: Any, indent: str = "  ") -> None:
    """Prints ``key`` and ``value`` on a line. The entries of dicts and of lists of dicts follow, indented."""
    label = f"{indent}{key.replace('_', ' ')}"
    if isinstance(value, dict) and value:
        if all(not isinstance(part, dict | list | tuple) for part in value.values()) and indent != "  ":
            click.echo(
                f"{label}: " + ", ".join(f"{name.replace('_', ' ')} {_text(part)}" for name, part in value.items())
            )
            return
        click.echo(f"{label}:")
        for name, part in value.items():
            _entry(str(name) or "all", part, indent + "  ")
    elif isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        click.echo(f"{label}:")
        for part in value:
            click.echo(textwrap.indent(_setting(part) if "set" in part else _line(part), f"{indent}  "))
    elif value not in (None, "", (), [], {}):
        click.echo(f"{label}: {_text(value)}")


def _setting(part: dict[str, Any]) -> str:
    """A setting with its default and its valid values, and its meaning on lines of their own."""
    head = f"{part['set']}={part['default']}  ({part['takes']})"
    return "\n".join([head, *textwrap.wrap(part["meaning"], 104, initial_indent="    ", subsequent_indent="    ")])


def _line(part: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_text(entry)}" for name, entry in part.items())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
