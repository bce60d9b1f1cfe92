"""Builds the board from records: static HTML pages, or the same tables as text.

Runs that are given by name share one page. A folder of runs gets one page per run, and a page that lists them with
their headlines. A page opens from file:// and needs no other file: style, script and data are inlined. A content
security policy allows only these and no requests, and every table works without JavaScript. A page depends only on the
records, and for baselines on their commits in git. It has no build time, so two builds are identical to the byte.
"""

import base64
import gc
import hashlib
import json
import math
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from ptmbench.leaderboard import formats, tables
from ptmbench.leaderboard.page import courses as courses_section
from ptmbench.leaderboard.page import examples, history, view
from ptmbench.leaderboard.page.lessons import Catalogue
from ptmbench.leaderboard.records import courses
from ptmbench.leaderboard.records.record import Record, RecordError, slug
from ptmbench.leaderboard.records.store import Damaged, load, runs_below
from ptmbench.leaderboard.scores import export
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.scores.grid import Grid
from ptmbench.leaderboard.text import capitalize_first, clean, markdown_cell

if TYPE_CHECKING:
    import pandas as pd

_SITE = Path(__file__).parent / "site"
_STYLES = ("board.css", "lessons.css")
_SCRIPTS = ("logic.js", "place.js", "board.js", "texts.js", "compare.js")
_PLAIN_SCRIPTS = ("logic.js", "place.js", "plain.js")
"""Scripts of pages without filters."""
PAGE = "index.html"
MODELS = "models.html"
LARGE = 100
"""Number of cells above which the lessons on models are a page of their own."""
TABLES = {
    "scores": tables.scores,
    "average": tables.macro,
    "centred": tables.centred_average,
    "table2": tables.table_2,
    "table3": tables.table_3,
    "benchmarks": tables.benchmarks,
    "twins": tables.twins,
    "gains": tables.gains,
    "blimp": tables.blimp,
    "agreement": tables.agreement,
    "survey_order": tables.survey_order,
    "compression": tables.compression,
    "ladder": tables.ladder,
    "scaling": tables.scaling,
    "crossings": tables.crossings,
    "cost": tables.cost,
    "reported": tables.reported,
    "overlap": tables.overlap,
    "cells": tables.cells,
}
_HEADINGS = {
    "scores": "Scores: mean ± sample standard deviation over seeds (number of seeds); [reason] where there is none",
    "average": "Average over tasks",
    "centred": "Centred average: from chance (0) to certainty (100)",
    "table2": "The survey's table 2, reported and measured",
    "table3": "The survey's table 3 (compressed models), reported and measured",
    "benchmarks": "Official scores of benchmarks",
    "twins": "Pre-trained minus random weights: mean ± standard deviation of the differences over seeds (seeds)",
    "gains": "Effect of pre-training, one line per model and task: difference with its 95 % interval",
    "blimp": "BLiMP by phenomenon, and published figures",
    "agreement": "Order of models after another pre-training: Kendall's tau with its 95 % interval",
    "survey_order": "Order of models by the GLUE scores in the survey, and here: Kendall's tau with its 95 % interval",
    "compression": "Compressed models: retention with its 95 % interval, size, latency and cost",
    "ladder": "Score against budget: rungs of each model, and the gain per doubling of FLOPs since the rung below",
    "scaling": "Score against budget: per doubling of FLOPs by least squares, bend, and exponent of the power law",
    "crossings": "Score against budget: which of two models is ahead at each rung, and where they cross",
    "cost": "Cost",
    "reported": "Scores reported by the papers, and measured here",
    "overlap": "Examples of the report split that overlap with the training split, or with each other",
    "cells": "Every cell",
}
_LEFT_OUT_IF_EMPTY = (
    "overlap", "blimp", "agreement", "survey_order", "centred", "compression", "ladder", "scaling", "crossings",
)  # fmt: skip
"""Tables that Markdown leaves out if they are empty."""
_ONLY_BY_NAME = ("cells", "gains")
"""Tables with a line per model and task, for programs. Markdown and LaTeX have them only if asked for by name."""


def build(
    folders: Sequence[Path], out: Path, catalogue: Catalogue | None = None, texts: examples.Texts | None = None
) -> Path:
    """Writes the board of all records below ``folders`` to ``out``/index.html and returns that path.

    The ``catalogue`` (`leaderboard.page.lessons`) describes models beyond their records, and ``texts`` gives the texts
    of examples. A single folder of several runs becomes one page per run, ``out``/RUN.html, and index.html lists them,
    the latest first. The lessons on models and the objectives of the ``catalogue`` are then on a page of their own,
    ``out``/models.html. A single board with more than `LARGE` cells has such a page too. Predictions that a run kept
    are written to ``out``/examples/*.js, which the page loads when a reader asks.

    Each file is replaced in one step, so a reader sees either the old page or the new one. Raises `RecordError` if
    there is no run to show.
    """
    out = Path(out)
    runs = _runs(folders)
    with _without_garbage_collection():
        if len(runs) < 2:
            page, facts = _page(folders, out, catalogue, texts)
            if facts["home"]:
                _write(out / MODELS, _models(catalogue, "The board", [facts | {"file": PAGE, "title": "the board"}]))
            return _write(out / PAGE, page)
        listed, files = [], _files(runs)
        for run in runs:
            page, facts = _page([run], out, catalogue, texts, run.name)
            _write(out / files[run], page)
            listed.append(facts | {"file": files[run], "title": run.name})
        if catalogue:
            _write(out / MODELS, _models(catalogue, "All boards", listed))
        listed.sort(key=lambda page: page["last"], reverse=True)
        return _write(out / PAGE, _overview(listed, bool(catalogue)))


def _runs(folders: Sequence[Path]) -> list[Path]:
    """Returns the runs that get a page each: those in a single folder of runs."""
    if len(folders) != 1:
        return []
    home, runs = Path(folders[0]), runs_below(Path(folders[0]))
    return [run for run in runs if run.parent == home] if home not in runs else []


def _files(runs: Sequence[Path]) -> dict[Path, str]:
    """Returns a safe and unique file name for the page of each run."""
    names = {run: slug(run.name) for run in runs}
    taken = Counter([Path(PAGE).stem, Path(MODELS).stem, *names.values()])
    digest = {run: hashlib.sha256(ascii(run.name).encode()).hexdigest()[:8] for run in runs}
    return {run: f"{name}.html" if taken[name] == 1 else f"{name}-{digest[run]}.html" for run, name in names.items()}


def _page(
    folders: Sequence[Path], out: Path, catalogue: Catalogue | None, texts: examples.Texts | None, title: str = ""
) -> tuple[str, dict[str, Any]]:
    """Returns a page with all records below ``folders``, and the facts about it that other pages show. A page with a
    ``title`` is one of several, which share a page of models."""
    store = load(folders, remember=True)
    out.mkdir(parents=True, exist_ok=True)
    scripts, notes = examples.write_all(store.records, folders, out, texts)
    found, past = courses.load(folders, store.records), history.read(folders)
    shown = _page_values(store.records, scripts, catalogue, found, past, shared=bool(title))
    facts = {name: shown["facts"][name] for name in ("rows", "tasks", "records")}
    opening = " ".join(shown["opening"])
    facts |= {"opening": opening, "home": shown["home"], "damaged": len(store.damaged)}
    facts |= {"days": shown["facts"]["days"], "last": max((one.finished for one in store.records), default="")}
    facts["titles"] = list(dict.fromkeys(column["head"] for column in shown["columns"] if column["scored"]))
    facts["sheets"] = {sheet["model"]: sheet["id"] for sheet in shown["models"] if sheet["model"] and sheet["rows"]}
    return _render_page(shown, store.damaged, notes, title), facts


def _models(catalogue: Catalogue, back: str, pages: Sequence[Mapping[str, Any]]) -> str:
    """Returns the page of the ``catalogue``: the survey's figure and tables, models and objectives, with links to the
    ``pages`` that have rows of a model. ``back`` is the text of the link to `PAGE`."""
    boards: dict[str, list[dict[str, str]]] = {}
    for page in pages:
        for model, sheet in page["sheets"].items():
            boards.setdefault(model, []).append({"title": page["title"], "href": f"{page['file']}#{sheet}"})
    shown = view.board(arrange([]), [], {}, catalogue, boards=boards)
    return _plain("models.html.jinja", _STYLES, board=shown, back=back)


def _overview(pages: Sequence[Mapping[str, Any]], models: bool) -> str:
    return _plain(
        "overview.html.jinja", _STYLES[:1], pages=pages, models=MODELS if models else "",
        records=sum(page["records"] for page in pages), damaged=sum(page["damaged"] for page in pages),
    )  # fmt: skip


def _plain(template: str, styles: Sequence[str], **values: Any) -> str:
    """Returns a page without filters."""
    style, script = "\n".join(map(_site, styles)), "\n".join(map(_site, _PLAIN_SCRIPTS))
    policy = _policy(style, script)
    return _template(template).render(policy=policy, style=Markup(style), script=Markup(script), **values)


def _write(path: Path, page: str) -> Path:
    """Writes ``page`` to ``path`` in one step, and returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_text(page, encoding="utf-8", newline="\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Turns the garbage collector off. The objects of a build live until the page is written and have no cycles, and
    every collection would walk through all of them."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


FORMATS = ("markdown", "csv", "json", "latex", "every-eval-ever")


def text(folders: Sequence[Path], format: str = "markdown", table: str | None = None) -> str:
    """Returns the tables in one of `FORMATS`: all of them, or the one called ``table``.

    CSV holds one table, "cells" by default: a line per model and task, with unrounded numbers in columns of their own.
    JSON has this table among the others. Every Eval Ever holds every cell that has a score, as a JSON list with one
    evaluation per row. Raises `RecordError` for an unknown format or table.
    """
    if table is not None and table not in TABLES:
        raise RecordError(f"There is no table '{table}'. There are: {', '.join(TABLES)}.")
    if format not in FORMATS:
        raise RecordError(f"There is no format '{format}'. There are: {', '.join(FORMATS)}.")
    store = load(folders)
    return _text(arrange(store.records), store.damaged, format, table)


def write_exports(folders: Sequence[Path], out: Path) -> Path:
    """Writes every format to files below ``out``/exports, for spreadsheets, papers and other boards; returns that
    folder.

    ``every_eval_ever`` has one file per row. ``hugging_face`` has one folder per row with the `.eval_results` of its
    repository (official data only).
    """
    store = load(folders, remember=True)
    grid = arrange(store.records)
    home = Path(out) / "exports"
    files = {f"{name}.csv": _text(grid, store.damaged, "csv", name) for name in TABLES}
    for format, name in (("markdown", "board.md"), ("json", "board.json"), ("latex", "board.tex")):
        files[name] = _text(grid, store.damaged, format, None)
    for one in export.every_eval_ever(grid):
        files[f"every_eval_ever/{one['model_info']['id'].partition('/')[2]}.json"] = _dumps(one)
    files |= {f"hugging_face/{path}": content for path, content in export.eval_results(grid).items()}
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")
    return home


def _text(grid: Grid, damaged: Sequence[Damaged], format: str, table: str | None) -> str:
    chosen = [table] if table else ["cells"] if format == "csv" else list(TABLES)
    if format == "csv":
        return formats.to_csv(TABLES[chosen[0]](grid))
    if format == "every-eval-ever":
        return _dumps(export.every_eval_ever(grid))
    if format == "json":
        content = {name: _json_rows(TABLES[name](grid)) for name in chosen}
        content["damaged"] = [{"file": one.file, "reason": one.reason} for one in damaged]
        return _dumps(content)
    names = [name for name in chosen if table or name not in _ONLY_BY_NAME]
    if format == "latex":
        frames = ((name, TABLES[name](grid)) for name in names)
        return "\n".join(export.to_latex(frame, _HEADINGS[name]) for name, frame in frames if len(frame))
    return _markdown(grid, damaged, names)


def render(
    records: Sequence[Record],
    damaged: Sequence[Damaged] = (),
    scripts: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    catalogue: Catalogue | None = None,
    found: Mapping[str, courses.Points] | None = None,
) -> str:
    """Returns the whole page as text. ``scripts`` are the files of examples next to it, {seal: path}, and ``notes`` are
    about them. ``found`` are the courses of pre-trainings."""
    return _render_page(_page_values(records, scripts or {}, catalogue, found or {}), damaged, notes)


def _page_values(
    records: Sequence[Record],
    scripts: Mapping[str, str],
    catalogue: Catalogue | None,
    found: Mapping[str, courses.Points],
    past: history.Past = history.NOTHING,
    shared: bool = False,
) -> dict[str, Any]:
    """Returns the values for the template. The lessons are on a page of their own if it is ``shared`` by several
    boards, or if this board is large."""
    grid = arrange(records)
    home = MODELS if catalogue and (shared or len(grid.cells) > LARGE) else ""
    if catalogue and shared:  # the survey's figure and tables are on the shared page only
        catalogue = {"models": catalogue["models"]}
    shown = view.board(grid, records, scripts, catalogue, history.markup(grid, past), home)
    shown |= {"courses": courses_section.section(grid, found), "past": past.notes, "commits": history.SHOWN}
    return shown


def _render_page(shown: dict[str, Any], damaged: Sequence[Damaged], notes: Sequence[str], title: str = "") -> str:
    style, script = "\n".join(map(_site, _STYLES)), "\n".join(map(_site, _SCRIPTS))
    return _template("board.html.jinja").render(
        title=title,
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        data=_inline_json(shown.pop("data")),
        board=shown | {"notes": [*shown["notes"], *notes]},
        damaged=damaged,
        headings=_HEADINGS,
    )


def _markdown(grid: Grid, damaged: Sequence[Damaged], names: Sequence[str]) -> str:
    parts = []
    for name in names:
        frame = TABLES[name](grid)
        if name in _LEFT_OUT_IF_EMPTY and not len(frame) and len(names) > 1:
            continue
        body = formats.to_markdown(frame) if len(frame) else "Nothing to show.\n"
        notes = f"{markdown_cell(frame.attrs['definition'])}\n" if "definition" in frame.attrs else ""
        parts.append("\n".join(part for part in (f"## {_HEADINGS[name]}\n", body, notes) if part))
    if notes := [*grid.notes, *(f"Damaged record {one.file}: {one.reason}" for one in damaged)]:
        parts.append("## Notes\n\n" + "".join(f"- {markdown_cell(note)}\n" for note in notes))
    return "\n".join(parts)


def _json_rows(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    rows = frame.astype(object).to_dict(orient="records")
    return [{str(name): _json_value(value) for name, value in row.items()} for row in rows]


def _dumps(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def _json_value(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _site(name: str) -> str:
    return (_SITE / name).read_text(encoding="utf-8").strip()


def _policy(style: str, script: str = "") -> str:
    """Returns the content security policy. It allows our own style and script, and the files of examples that our
    script loads ('strict-dynamic' allows these, from a file or a server). It allows no other requests."""
    allowed = f"style-src {_source_hash(style)}"
    allowed += f"; script-src {_source_hash(script)} 'strict-dynamic'" if script else ""
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _source_hash(source: str) -> str:
    """Returns the policy's source expression for exactly this inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _inline_json(value: Any) -> Markup:
    """Returns JSON that cannot close its script element, whatever strings it has."""
    dumped = json.dumps(value, sort_keys=True, separators=(",", ":"))  # ASCII: U+2028 and the like are escaped already
    return Markup(dumped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_SITE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_spell_out_invisible,
    )
    environment.filters["bound"] = _bound
    environment.filters["capitalize_first"] = capitalize_first
    environment.filters["lower_first"] = lambda text: text if text[:2].isupper() else text[:1].lower() + text[1:]
    return environment.get_template(name)


def _bound(text: str) -> Markup:
    """Keeps a number and its sign on one line: "95 %", "÷ 4", "× 2"."""
    return escape(re.sub(r" (?=%)|(?<=[÷×]) ", "\N{NO-BREAK SPACE}", clean(text)))


def _spell_out_invisible(value: Any) -> Any:
    """Spells out invisible characters in text, but leaves our own markup alone."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else clean(value)
