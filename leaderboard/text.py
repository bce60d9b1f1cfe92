"""Text from outside made inert: control characters everywhere, formulas in CSV, markup in Markdown.

Labels, reasons and citations come from data, checkpoints and other people's records. HTML is left to Jinja's
autoescape; this module does what no template engine does.
"""

import re
import unicodedata

_FORMULA = ("=", "+", "-", "@")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?( ± \d+(\.\d+)?)?( \(\d+\))?(; \w[\w ;]*)?")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~&$!])")


def clean(text: object) -> str:
    """``text`` on one line, its invisible characters (ANSI codes, bidi overrides, lone surrogates) spelled out."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else " " if one.isspace() else _spelled(one) for one in text)


def csv_cell(value: object) -> object:
    """A CSV cell that no spreadsheet takes for a formula; numbers, also as "-1.2 ± 0.3 (3)", stay as they are."""
    if not isinstance(value, str):
        return value
    text = clean(value)
    if unicodedata.normalize("NFKC", text).lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def markdown_cell(value: object) -> str:
    """A cell of a Markdown table; everything that Markdown or HTML could take for markup is escaped."""
    return _MARKUP.sub(r"\\\1", clean(value)).replace(r"\<", "&lt;").replace(r"\>", "&gt;").replace(r"\&", "&amp;")


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
