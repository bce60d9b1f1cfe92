"""Writes a verdict for people and machines: JSON, Markdown, JUnit XML, annotations, plain lines.

Names and reasons come from records, so every format escapes them in its own way. Markdown stays below the 65,536
characters that a comment may have, by leaving out the least informative cells.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any
from xml.etree import ElementTree

from ptmbench.leaderboard.gate.cost import Time
from ptmbench.leaderboard.gate.gate import Gate
from ptmbench.leaderboard.gate.verdicts import (
    BLANK,
    INCONCLUSIVE,
    MISSING,
    NEW,
    NOT_COMPARABLE,
    ON_AVERAGE,
    PASS,
    REGRESSION,
    Verdict,
)
from ptmbench.leaderboard.text import clean, markdown_cell, number

SCHEMA = 1
COMMENT = 60_000
"""Most characters of a Markdown comment; services accept less than 65,536."""
ANNOTATIONS = 10
CONDITIONS_HEADING = "Under conditions, not in the mean drop"
_TEXT = 400  # characters of one reason; the line of a traceback may be very long
_ORDER = (REGRESSION, NOT_COMPARABLE, MISSING, INCONCLUSIVE, PASS, NEW, BLANK)
_SIGNS = {
    REGRESSION: "✗",
    NOT_COMPARABLE: "≠",
    MISSING: "?",
    INCONCLUSIVE: "~",
    PASS: "✓",
    NEW: "+",
    BLANK: "·",
    ON_AVERAGE: "≈",
}


def to_json(gate: Gate) -> str:
    """Returns everything known about the gate, with unrounded numbers; null for missing ones."""
    body = {
        "schema": SCHEMA, "verdict": gate.verdict, "reason": gate.reason,
        "status": gate.status(), "strict_status": gate.status(strict=True),
        "baseline": gate.baseline, "mean_drop": gate.macro and _plain(gate.macro),
        "cells": [_plain(cell) for cell in gate.cells], "time": _time(gate.time), "notes": list(gate.notes),
    }  # fmt: skip
    return json.dumps(_finite(body), indent=1, allow_nan=False) + "\n"


def to_markdown(gate: Gate, limit: int = COMMENT) -> str:
    """Returns a heading, the mean drop, a table of cells with the worst verdicts first, and a table of cells under
    conditions: at most ``limit`` characters."""
    lines = [f"## {_SIGNS[gate.verdict]} {gate.verdict.capitalize()}", "", _cell(gate.reason), ""]
    if gate.baseline:
        lines += [f"Baseline {gate.baseline['digest'][:12]}: {_cell(gate.baseline['reason'])}", ""]
    if gate.time.ratio is not None:
        low, high = gate.time.interval
        lines += [f"Time per step, HEAD / BASE: {gate.time.ratio:.2f} ({low:.2f} to {high:.2f}).", ""]
    head = ["| verdict | task | model | BASE | HEAD | drop, 95 % | margin | seeds | why |", f"|{'---|' * 9}"]
    plain, conditional = ([_row(cell) for cell in part] for part in (_unconditional(gate), _conditional(gate)))
    ends = [f"- {_cell(note)}" for note in gate.notes]
    ends += [f"- {_cell(cost)}" for cost in _cost_increases(gate)]
    ends += ["", _counts(gate)]

    def written(shown: int, ends: list[str]) -> str:
        rows = [*head, *plain[:shown], ""]
        if conditional and shown > len(plain):
            rows += [f"### {CONDITIONS_HEADING}", "", *head, *conditional[: shown - len(plain)], ""]
        return "\n".join([*lines, *rows, *ends]) + "\n"

    shown = count = len(plain) + len(conditional)
    text = written(shown, ends)
    while len(text) > limit and (shown or ends):
        shown, ends = (shown * 3 // 4, ends) if shown else (0, [])
        left = f"{count - shown} more cells and what else there is to say are in the JSON."
        text = written(shown, [*ends[:20], left])
    return text[:limit]


def to_junit(gate: Gate) -> str:
    """Returns a test case per cell and one for the mean drop. Regressions, also of cost, are failures, and cells that
    could not be compared are errors. Inconclusive, new and blank cells are skipped."""
    cases = [*([gate.macro] if gate.macro else []), *gate.cells]
    suite = ElementTree.Element("testsuite", name="ptmbench gate")
    counts: Counter[str] = Counter()
    for cell in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(cell.row), name=_xml(_name(cell)))
        kind = {REGRESSION: "failure", NOT_COMPARABLE: "error", MISSING: "error"}
        kind |= dict.fromkeys((INCONCLUSIVE, NEW, BLANK), "skipped")
        increases = [_cost_words(cost) for cost in cell.costs if cost.verdict == REGRESSION]
        tag = "failure" if increases else kind.get(cell.verdict)
        if tag:
            counts[tag] += 1
            words = "; ".join([cell.reason, *increases])
            ElementTree.SubElement(case, tag, message=_xml(words)).text = _xml(" ".join(_line(cell)))
    if not cases or gate.time.verdict == REGRESSION:
        case = ElementTree.SubElement(suite, "testcase", classname="gate", name="overall")
        counts["failure"] += 1
        ElementTree.SubElement(case, "failure", message=_xml(gate.reason))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(counts[tag]))
    suite.set("tests", str(len(suite)))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def annotations(gate: Gate) -> list[str]:
    """Returns at most `ANNOTATIONS` workflow commands for GitHub. The last one says how many are left out."""
    found = [f"::error title={_property(_name(cell, who=True))}::{_message(cell.reason)}" for cell in _bad(gate)]
    found += [f"::error title=Cost::{_message(cost)}" for cost in _cost_increases(gate)]
    found += [f"::error title=Time::{_message(gate.time.reason)}"] if gate.time.verdict == REGRESSION else []
    if not found and gate.verdict in (INCONCLUSIVE, ON_AVERAGE):
        found = [f"::warning title={gate.verdict.capitalize()}::{_message(gate.reason)}"]
    if len(found) > ANNOTATIONS:
        left = len(found) - ANNOTATIONS + 1
        found = [*found[: ANNOTATIONS - 1], f"::error title=And {left} more::The step summary shows them all."]
    return found


def to_lines(gate: Gate) -> str:
    """Returns plain lines for a terminal. Control characters in names are spelled out."""
    table = [("verdict", "task", "model", "BASE", "HEAD", "drop, 95 %", "margin", "seeds", "why")]
    table += [tuple(clean(part) for part in _line(cell)) for cell in (*_unconditional(gate), *_conditional(gate))]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]) - 1)]
    lines = ["  ".join([*(part.ljust(w) for part, w in zip(row, widths, strict=False)), row[-1]]) for row in table]
    if conditional := len(_conditional(gate)):
        lines.insert(len(lines) - conditional, f"{CONDITIONS_HEADING}:")
    lines += [clean(note) for note in (*gate.notes, *_cost_increases(gate), gate.time.reason)]
    lines += [_counts(gate), f"{gate.verdict.upper()}: {clean(gate.reason)}"]
    return "\n".join(line.rstrip() for line in lines)


def _unconditional(gate: Gate) -> list[Verdict]:
    """Returns the mean drop and the cells without a condition, the worst verdicts first."""
    return [*([gate.macro] if gate.macro else []), *_sorted(cell for cell in gate.cells if not cell.condition)]


def _conditional(gate: Gate) -> list[Verdict]:
    """Returns the cells under conditions, the worst verdicts first."""
    return _sorted(cell for cell in gate.cells if cell.condition)


def _sorted(cells: Iterable[Verdict]) -> list[Verdict]:
    return sorted(cells, key=lambda cell: (_ORDER.index(cell.verdict), cell.task, cell.row))


def _bad(gate: Gate) -> list[Verdict]:
    cells = (*_unconditional(gate), *_conditional(gate))
    return [cell for cell in cells if cell.verdict in (REGRESSION, NOT_COMPARABLE, MISSING)]


def _row(cell: Verdict) -> str:
    return f"| {' | '.join(_cell(part) for part in _line(cell))} |"


def _line(cell: Verdict) -> list[str]:
    digits = cell.decimals + 1
    drop, known = "", cell.drop is not None and math.isfinite(cell.drop.variance)
    if cell.drop is not None:
        drop = number(cell.drop.value, True, digits)
    if known:
        low, high = cell.drop.interval()
        drop += f" ({number(low, True, digits)} to {number(high, True, digits)})"
    seeds = f"{cell.seeds[0]} / {cell.seeds[1]}" if any(cell.seeds) else ""
    if any(cell.diverged):
        seeds += f", {cell.diverged[0]} / {cell.diverged[1]} diverged"
    why = " ".join([cell.reason, *cell.notes])[:_TEXT]
    return [
        f"{_SIGNS[cell.verdict]} {cell.verdict}", _name(cell), cell.row, number(cell.base, decimals=digits),
        number(cell.head, decimals=digits), drop, number(cell.margin, decimals=digits), seeds, why,
    ]  # fmt: skip


def _name(cell: Verdict, who: bool = False) -> str:
    words = [cell.row] if who else []
    words += [cell.task, cell.metric, "" if cell.adaptation == "finetune" else cell.adaptation]
    return " ".join(word for word in words if word)[:200]


def _cost_increases(gate: Gate) -> list[str]:
    return [
        f"{cell.row}, {cell.task}: {_cost_words(cost)}"
        for cell in gate.cells
        for cost in cell.costs
        if cost.verdict == REGRESSION
    ]


def _cost_words(cost: Any) -> str:
    return f"{cost.name} rose from {cost.base:,.0f} to {cost.head:,.0f}"


def _counts(gate: Gate) -> str:
    counts = Counter(cell.verdict for cell in gate.cells)
    several = "s" * (len(gate.cells) != 1)
    return f"{len(gate.cells)} cell{several}: {', '.join(f'{counts[name]} {name}' for name in _ORDER if counts[name])}."


def _cell(text: str) -> str:
    """Returns Markdown that shows ``text`` without effects: no links, no pictures, no @mentions."""
    return markdown_cell(text).replace("@", "@&#8203;").replace("://", ":&#8203;//")


def _xml(text: str) -> str:
    """Returns ``text`` without characters that XML forbids (`clean` spells them out). ElementTree escapes the rest."""
    return clean(text)[: 4 * _TEXT]


def _message(text: str) -> str:
    return clean(text)[:_TEXT].replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def _plain(cell: Verdict) -> dict[str, Any]:
    skip: tuple[str, ...] = ("drop", "costs", "data", "weights", "seeds", "diverged")
    body = {name: value for name, value in vars(cell).items() if name not in skip}
    body |= {"seeds": list(cell.seeds), "diverged": list(cell.diverged), "notes": list(cell.notes)}
    body["costs"] = [vars(cost) for cost in cell.costs]
    body["drop"] = None
    if cell.drop is not None:
        drop, known = cell.drop, math.isfinite(cell.drop.variance)
        low, high = drop.interval() if known else (None, None)
        body["drop"] = {"value": drop.value, "low": low, "high": high, "p": drop.p, "freedom": drop.freedom}
        body["drop"]["pretraining_variance"] = drop.from_pretraining
        body["drop"] |= {"percentiles": drop.percentiles and list(drop.percentiles), "examples": drop.examples}
    return body


def _time(time: Time) -> dict[str, Any]:
    return vars(time) | {"interval": time.interval and list(time.interval)}


def _finite(value: Any) -> Any:
    """Replaces NaN and infinities, which JSON does not have, by None."""
    rules: dict[type, Callable] = {
        dict: lambda part: {str(name): _finite(one) for name, one in part.items()},
        list: lambda part: [_finite(one) for one in part],
        tuple: lambda part: [_finite(one) for one in part],
        float: lambda part: part if math.isfinite(part) else None,
    }
    for kind, rule in rules.items():
        if isinstance(value, kind):
            return rule(value)
    return value.item() if hasattr(value, "item") else value
