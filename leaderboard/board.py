"""The board: records in, one static page out, or the same tables as text.

The page opens from file:// with nothing beside it: style, script and data are inlined, a content security policy
allows exactly these two and no request at all, and every table is there without JavaScript. It is a pure function of
the records: built twice, it is the same to the byte, so it carries no build time.
"""

import base64
import hashlib
import json
import math
import os
import secrets
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from leaderboard import tables, view
from leaderboard.arrange import arrange
from leaderboard.grid import Grid
from leaderboard.record import Record, RecordError
from leaderboard.store import Damaged, load
from leaderboard.text import clean

_SITE = Path(__file__).parent / "site"
PAGE = "index.html"
TABLES = {
    "scores": tables.scores,
    "average": tables.macro,
    "benchmarks": tables.benchmarks,
    "twins": tables.twins,
    "cost": tables.cost,
    "reported": tables.reported,
    "cells": tables.cells,
}
_HEADINGS = {
    "scores": "Scores: mean ± sample standard deviation over seeds (number of seeds); [reason] where there is none",
    "average": "Average over tasks",
    "benchmarks": "Official scores of benchmarks",
    "twins": "Pre-trained minus random weights: mean ± standard deviation of the differences over seeds (seeds)",
    "cost": "Cost",
    "reported": "Reported by the papers, beside measured",
    "cells": "Every cell",
}


def build(folders: Sequence[Path], out: Path) -> Path:
    """Write the board of all records below ``folders`` to ``out``/index.html and return that path.

    The file is replaced in one step: a reader sees the old page or the new one. `RecordError` when there is no run to
    show.
    """
    store = load(folders)
    page = render(store.records, store.damaged)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    path = out / PAGE
    temporary = out / f".{PAGE}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        temporary.write_text(page, encoding="utf-8", newline="\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def text(folders: Sequence[Path], format: str = "markdown", table: str | None = None) -> str:
    """The tables as "markdown", "csv" or "json"; all of them, or the one called ``table``.

    CSV holds one table, "scores" unless told otherwise; "cells" is the one with unrounded numbers.
    """
    if table is not None and table not in TABLES:
        raise RecordError(f"There is no table '{table}'. There are: {', '.join(TABLES)}.")
    store = load(folders)
    grid = arrange(store.records)
    chosen = [table] if table else ["scores"] if format == "csv" else list(TABLES)
    if format == "csv":
        return tables.to_csv(TABLES[chosen[0]](grid))
    if format == "json":
        content = {name: _json_rows(TABLES[name](grid)) for name in chosen}
        content["damaged"] = [{"file": one.file, "reason": one.reason} for one in store.damaged]
        return json.dumps(content, indent=1, allow_nan=False) + "\n"
    if format == "markdown":
        return _markdown(grid, store.damaged, [name for name in chosen if table or name != "cells"])
    raise RecordError(f"There is no format '{format}'. There are: markdown, csv, json.")


def render(records: Sequence[Record], damaged: Sequence[Damaged] = ()) -> str:
    """The whole page as text."""
    style, script = _site("board.css"), _site("board.js")
    grid = arrange(records)
    exports = {name: tables.to_csv(TABLES[name](grid)) for name in TABLES}
    return _template().render(
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        data=_inline_json(exports),
        board=view.board(grid, records),
        damaged=damaged,
        headings=_HEADINGS,
    )


def _markdown(grid: Grid, damaged: Sequence[Damaged], names: Sequence[str]) -> str:
    parts = []
    for name in names:
        frame = TABLES[name](grid)
        body = tables.to_markdown(frame) if len(frame) else "Nothing to show.\n"
        notes = f"{tables.markdown_cell(frame.attrs['definition'])}\n" if "definition" in frame.attrs else ""
        parts.append("\n".join(part for part in (f"## {_HEADINGS[name]}\n", body, notes) if part))
    if notes := [*grid.notes, *(f"Damaged record {one.file}: {one.reason}" for one in damaged)]:
        parts.append("## Notes\n\n" + "".join(f"- {tables.markdown_cell(note)}\n" for note in notes))
    return "\n".join(parts)


def _json_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows = frame.astype(object).to_dict(orient="records")
    return [{str(name): _json_value(value) for name, value in row.items()} for row in rows]


def _json_value(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _site(name: str) -> str:
    return (_SITE / name).read_text(encoding="utf-8").strip()


def _policy(style: str, script: str) -> str:
    """Content security policy: our own style and script, and no request of any kind."""
    allowed = f"style-src {_allowed(style)}; script-src {_allowed(script)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _allowed(source: str) -> str:
    """The policy's word for exactly this inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _inline_json(value: Any) -> Markup:
    """JSON that cannot close its script element, whatever the strings in it say."""
    dumped = json.dumps(value, sort_keys=True, separators=(",", ":"))  # ASCII: U+2028 and friends are escaped already
    return Markup(dumped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_SITE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_final,
    )
    return environment.get_template("board.html.jinja")


def _final(value: Any) -> Any:
    """Invisible characters are spelled out on the page too; our own markup is left alone."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else clean(value)
