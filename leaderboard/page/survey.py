"""The survey's tables 1 to 4 with all their rows, and the status of each here.

The status is the sheet of the model, its rows on this board, or "not built yet".
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ptmbench.leaderboard.page import compression
from ptmbench.leaderboard.page.lessons import Boards, Catalogue
from ptmbench.leaderboard.records.record import THEN
from ptmbench.leaderboard.scores.grid import Grid, Row
from ptmbench.leaderboard.survey.rows import COMPRESSED, LOSSES, MODELS, TRANSFERS

_SCHEDULE = ("teacher", "auxiliary", "epochs", "inner_epochs", "joint_epochs", "learning_rate")
"""Settings that do not change a method: whom it learns from, how long and how fast."""

ABSENT = "not built yet"


def tables(
    grid: Grid, catalogue: Catalogue, links: Mapping[str, str], home: str = "", boards: Boards | None = None
) -> list[dict[str, Any]]:
    """Returns {"number", "title", "heads", "rows"} for each table; [] without the catalogue's taxonomy.

    A row is {"cells", "here"}. "here" is a list of {"text", "href"}; the address is "" if there is no link. Rows that
    were compressed here have "words" after their name in "text", and their figures in "phrase". ``home`` is
    the page of the objectives, "" for this page. ``boards`` are the other pages with rows of a model.
    """
    if not catalogue.get("taxonomy"):
        return []
    boards = boards or {}
    rows = [row for row in grid.rows if row.kind in ("pretrained", "published")]
    methods, measured = _methods(catalogue["taxonomy"]), compression.phrases(grid)
    return [
        {
            "number": 1,
            "title": "loss functions of pre-training tasks",
            "heads": ("Task", "Loss"),
            "rows": [
                {"cells": (one.task, one.loss), "here": _objectives(one.objectives, catalogue, home)} for one in LOSSES
            ],
        },
        {
            "number": 2,
            "title": "representative models",
            "heads": ("Model", "Architecture", "Input", "Pre-training task", "Corpus", "Parameters", "GLUE", "FT?"),
            "rows": [{"cells": one, "here": _model(one.name, rows, catalogue, links, boards)} for one in MODELS],
        },
        {
            "number": 3,
            "title": "compressed models",
            "heads": ("Method", "Type", "Layers", "Loss", "Speed-up", "Parameters", "Source", "GLUE"),
            "rows": [
                {
                    "cells": one[:-2],
                    "here": _measured(one.methods, measured)
                    or _built(one.methods, catalogue)
                    or _model(one.name, rows, catalogue, links, boards)
                    + [{"text": f"transform {name} has this type", "href": ""} for name in methods.get(one.kind, ())],
                }
                for one in COMPRESSED
            ],
        },
        {
            "number": 4,
            "title": "common combinations of adapting PTMs",
            "heads": ("Where", "FT/FE", "Models"),
            "rows": [
                {"cells": (one.where, one.how, ", ".join(one.models)), "here": _adapted(one, rows)} for one in TRANSFERS
            ],
        },
    ]


def _objectives(names: Sequence[str], catalogue: Catalogue, home: str) -> list[dict[str, str]]:
    known = [name for name in names if name in catalogue["objectives"]]
    return [{"text": name, "href": f"{home}#o-{name}"} for name in known] or [{"text": ABSENT, "href": ""}]


def _model(
    name: str, rows: Sequence[Row], catalogue: Catalogue, links: Mapping[str, str], boards: Boards
) -> list[dict[str, str]]:
    """Returns the sheet of the model called ``name``, with the number of its rows on the board, or the ``boards`` that
    have some. Published checkpoints have names that begin with the model's name."""
    wanted = _fold(name.partition(" (")[0])
    found = next((one for one, entry in catalogue["models"].items() if wanted in map(_fold, entry["names"])), "")
    here = [row for row in rows if row.name == found]
    if found:
        count = f"{len(here)} {'row' if len(here) == 1 else 'rows'} here" if here else "no row here"
        elsewhere = [{"text": f"rows on {one['title']}", "href": one["href"]} for one in boards.get(found, ())]
        sheet = {"text": catalogue["models"][found]["title"], "href": links[found]}
        return [sheet, *(elsewhere or [{"text": count, "href": ""}])]
    published = [row for row in rows if row.division == "published" and _fold(row.label).startswith(wanted)]
    if published:
        return [{"text": f"published checkpoint {row.label}", "href": ""} for row in published]
    return [{"text": ABSENT, "href": ""}]


def _measured(methods: Sequence[str], phrases: Mapping[Row, str]) -> list[dict[str, str]]:
    """Returns the rows of this board that were compressed by one of the ``methods`` with its default settings, with
    their ``phrases``. Rows with random weights are left out, because the survey's table has none."""
    return [
        {"text": row.label, "href": "#compression", "words": row.words, "phrase": phrase}
        for row, phrase in phrases.items()
        if row.kind != "random" and _method(row) in methods
    ]


def _method(row: Row) -> str:
    """Returns the name of what compressed ``row``: the transform, the adaptation or, for a student in pre-training, the
    model. Returns "" if a setting other than those in `_SCHEDULE` is not the default."""
    adaptation, _, transform = row.adaptation.partition(THEN)
    name, _, settings = (transform or adaptation).partition(":")
    changed = settings.split("+") if transform else re.split(r"\+(?=\w+=)", settings)
    if any(one and one.partition("=")[0] not in _SCHEDULE for one in changed):
        return ""
    return row.name if row.student and not row.teacher else name


def _built(methods: Sequence[str], catalogue: Catalogue) -> list[dict[str, str]]:
    """Returns the built ones among ``methods``, which have no row on this board."""
    known = [name for name in methods if name in catalogue.get("methods", ())]
    return [{"text": f"{name}, no row here", "href": ""} for name in known]


def _adapted(one: Any, rows: Sequence[Row]) -> list[dict[str, str]]:
    """Returns the adaptations of a row of table 4, and which of its models have rows with one of them on the board."""
    names = [_fold(name) for name in one.models]
    here = [row for row in rows if row.adaptation in one.adaptations and _fold(row.label) in names]
    labels = list(dict.fromkeys(row.label for row in here))
    options = [{"text": f"--adaptation {name}", "href": ""} for name in one.adaptations]
    return [*options, {"text": f"rows here: {', '.join(labels)}" if labels else "no row here", "href": ""}]


def _methods(term: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns {value of extensions: transforms of that kind}, from the taxonomy's terms."""
    found = {value: list(term["methods"]) for value in term.get("values", ()) if term["methods"]}
    for part in term["parts"]:
        found |= _methods(part)
    return found


def _fold(name: str) -> str:
    """Returns ``name`` without case and punctuation."""
    return re.sub(r"[^a-z0-9]+", "", name.casefold())
