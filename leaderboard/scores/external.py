"""Rows of the external division: systems from elsewhere, with the facts that their users declare about them.

`leaderboard.page.view` and `leaderboard.tables` call it. A declared number is shown with the word "declared" and never
takes part in a comparison of costs. A cost that is neither measured nor declared is "unknown".
"""

from collections.abc import Mapping
from typing import Any

from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.scores.grid import Row
from ptmbench.leaderboard.text import clean, quantity

UNKNOWN = "unknown"
_DECLARED = {"parameters": "", "flops": "FLOP"}
"""Costs that a user may declare, by their names in `leaderboard.page.view`, with their units."""


def declared(row: Row) -> dict[str, Any]:
    """Returns the declared facts about ``row``, the newest value of each name: "parameters", "flops" and "note"."""
    found: dict[str, Any] = {}
    for record in sorted(row.records, key=lambda record: record.finished):
        found |= (record.row.get("external") or {}).get("declared") or {}
    return found


def marked(row: Row, shown: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``shown``, a row of the page, with its "external" note. "cost" is {name: (number, text)}. If an external
    row has no number, the text gives the declared cost or says that it is unknown."""
    if row.division != "external":
        return {**shown, "external": ""}
    known = declared(row)
    texts = {
        name: f"{quantity(known[name], unit)} (declared)"
        for name, unit in _DECLARED.items()
        if is_number(known.get(name))
    }
    costs = {
        name: (None, texts.get(name, UNKNOWN)) if isinstance(pair, tuple) and pair[0] is None else pair
        for name, pair in shown["cost"].items()
    }
    return {**shown, "cost": costs, "external": note(row)}


def note(row: Row) -> str:
    """Returns the declared facts about ``row`` in one line; "" if there are none."""
    known = declared(row)
    parts = [f"{name} {known[name]:,}" for name in _DECLARED if is_number(known.get(name))]
    parts += [clean(known["note"])] if isinstance(known.get("note"), str) else []
    return f"declared: {'; '.join(parts)}" if parts else ""
