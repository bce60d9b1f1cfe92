"""Makes text from outside inert: control characters everywhere, formulas in CSV, markup in Markdown and LaTeX.

Labels, reasons and citations come from data, checkpoints and other people's records. HTML is not escaped here: Jinja's
autoescape does that.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

JOINT = " · "
"""Separator between the parts of a row's name."""
MOST_DECIMALS = 9
_DECIMALS = {"bits_per_byte": 2}
"""Decimals by metric, for records that do not state them; 1 for all other metrics."""

_FORMULA = ("=", "+", "-", "@")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?( ± \d+(\.\d+)?)?( \(\d+\))?(; \w[\w ;]*)?")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~&$!])")
_UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}"}
_LATEX |= {">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}"}
_LATEX |= {one: f"\\{one}" for one in "&%$#_{}"} | {"±": r"$\pm$", "–": "--", "·": r"$\cdot$"}


def clean(text: object) -> str:
    """Returns ``text`` on one line, with invisible characters (ANSI codes, bidi overrides, lone surrogates) spelled
    out."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else " " if one.isspace() else _spelled(one) for one in text)


def capitalize_first(text: str) -> str:
    """Capitalizes ``text``, unless its first word has digits, as in all-minilm-l6-v2."""
    first, _, _ = text.partition(" ")
    return text if any(map(str.isdigit, first)) else text[:1].upper() + text[1:]


def csv_cell(value: object) -> object:
    """Returns a CSV cell that no spreadsheet takes for a formula. Numbers, also as "-1.2 ± 0.3 (3)", stay as they
    are."""
    if not isinstance(value, str):
        return value
    text = clean(value)
    if unicodedata.normalize("NFKC", text).lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def markdown_cell(value: object) -> str:
    """Returns a cell of a Markdown table. Everything that Markdown or HTML could take for markup is escaped."""
    return _MARKUP.sub(r"\\\1", clean(value)).replace(r"\<", "&lt;").replace(r"\>", "&gt;").replace(r"\&", "&amp;")


def latex_cell(value: object) -> str:
    """Returns text for a LaTeX table, with special characters escaped. A leading bracket or star is protected, so that
    no command takes it for an option."""
    text = "".join(_LATEX.get(one, one) for one in clean(value))
    return f"{{{text}}}" if text.startswith(("[", "*")) else text


def decimals_of(task: Mapping[str, Any]) -> int:
    """Returns the decimals of a headline: those in the ``task`` part of a record, or else (older records) those of the
    metric."""
    stated = task.get("decimals")
    if type(stated) is int and 0 <= stated <= MOST_DECIMALS:
        return stated
    return _DECIMALS.get(str(task["headline"]), 1)


def number(value: float | None, signed: bool = False, decimals: int = 1) -> str:
    """Returns a score with ``decimals`` decimals; "" for None, "nan" for NaN. Zero has no sign."""
    if value is None:
        return ""
    return f"{value:{'+' if signed else ''}.{decimals}f}" if round(value, decimals) else f"{0:.{decimals}f}"


def quantity(value: float | None, unit: str = "") -> str:
    """Returns ``value`` with three digits and a unit prefix: 11.2 M, 3.4 PFLOP. From 1,024 MiB on, it is in GiB."""
    if value is None:
        return ""
    if unit == "MiB":
        return f"{value / 1024:.3g} GiB" if value >= 1023.5 else f"{value:.3g} MiB"
    for size, prefix in _UNITS:
        if abs(value) >= 0.9995 * size:  # three digits would make it 1000 of the smaller unit
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".strip()


def duration(seconds: float | None) -> str:
    """Returns a duration for readers: 40 ms, 8.1 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None:
        return ""
    if 0 < seconds < 0.95:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.01 else f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
