"""How a text file is cut into documents and sentences. No TensorFlow.

Six layouts are told apart by a file's name and its first lines:

wikitext   ``*.tokens``, or a first line " = Title = ": a title between empty lines begins a document, any other line
           is a paragraph. The text stays as it was distributed, ``<unk>`` and ``@-@`` included: what is learnt is then
           what the perplexity task asks
jsonl      ``*.jsonl``: one object a line, its "text" is a document; so is each record of a file of records
           (`models.text.records`)
pairs      ``*.pairs.tsv``: a text, a tab and its translation a line: a document of these two, which stay whole; lines
           where one of them says nothing are passed over
book       at least two chapter headings: a heading begins a document, every other line is a paragraph
wrapped    hard-wrapped lines: the same, but an empty line ends a paragraph, and its lines are joined
plain      anything else: an empty line ends a document, every line is a paragraph (or a sentence)

A paragraph is cut into sentences after ".", "!" or "?" and closing quotes, before white space and a capital, digit or
opening quote, unless the word before is a title, an initial or an abbreviation; after Chinese full stops always.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from unicodedata import category

from ptmbench.models.text.records import is_records

TITLE = re.compile(r"\s*= [^=].* =\s*")
HEADING = re.compile(
    r"\s*(?:(?i:chapter|book|part|volume|letter)\s+(?:[IVXLC]+|\d+|(?i:the\s+)?[A-Z][A-Za-z-]+)\b.{0,60}"
    r"|[IVXLC]+\.?|\d{1,3}\.?)\s*"
)
_END = re.compile(r"""[.!?…:;。！？]["'”’)\]]*\s*$""")
_CUT = re.compile(
    r"""(?<=[.!?…])(?P<close>["'”’)\]]*)\s+(?=["'“‘(\[]*[A-Z0-9À-ÖØ-ÞА-Я])"""
    r"""|(?<=[。！？])(?=[^。！？”’」』）])|(?<= [.!?])\s+(?=["'<])"""
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s\"'“‘(\[])(?:[A-Z]|Mr|Mrs|Ms|Messrs|Mme|Mlle|Dr|St|Prof|Capt|Col|Gen|Lieut|Lt|Sgt|Maj|Rev|Hon|Esq|Jr|Sr|Mt|"
    r"vs|etc|i\.e|e\.g|cf|No|Nos|Vol|vol|pp|p|Fig|fig|Inc|Co|Ltd|U\.S|a\.m|p\.m)\.$"
)
_LEAST = 5  # a heading after fewer sentences begins no document: a table of contents stays in one piece


def layout(name: str, first: Sequence[str]) -> str:
    """The layout of the file called ``name`` that begins with the lines ``first``."""
    name = name.removesuffix(".gz")
    if name.endswith(".jsonl") or is_records(name):
        return "jsonl"
    if name.endswith(".pairs.tsv"):
        return "pairs"
    text = [line for line in first if line.strip()]
    if name.endswith(".tokens") or (text and TITLE.fullmatch(text[0])):
        return "wikitext"
    headings = sum(bool(HEADING.fullmatch(line)) for line in text)
    # Few lines of wrapped prose end where a sentence does; headings and verse are too few to matter.
    closed = sum(bool(_END.search(line)) for line in text)
    if len(text) >= 20 and closed < 0.6 * len(text) and max(map(len, text)) < 200:
        return "wrapped"
    return "book" if headings >= 2 else "plain"


def opening(layout: str, lines: Sequence[str]) -> int | None:
    """The first of ``lines`` (later ones of a file) that begins a document whatever stands before; None for none."""
    if layout in ("jsonl", "pairs"):
        return 0 if lines else None
    if layout == "plain":
        return next((i for i, (before, _) in enumerate(pairwise(lines), 1) if not before.strip()), None)
    if layout == "wikitext":
        blank = [not line.strip() for line in lines]
        titles = (i for i in range(1, len(lines) - 1) if blank[i - 1] and blank[i + 1] and TITLE.fullmatch(lines[i]))
        return next(titles, None)
    paragraphs, after_empty = 0, True  # a paragraph holds at least one sentence
    for i, line in enumerate(lines):
        if HEADING.fullmatch(line):
            if paragraphs >= _LEAST:
                return i
            paragraphs = 0
        else:
            paragraphs += after_empty and bool(line.strip())
        after_empty = not line.strip()
    return None


def documents(layout: str, lines: Iterable[str], number: int = 1) -> Iterator[list[str]]:
    """The documents in ``lines``, the first of which has this ``number`` in its file; `ValueError` names a bad line.

    A document may be empty, as may its sentences.
    """
    if layout == "jsonl":
        return _json_lines(lines, number)
    if layout == "pairs":
        return _pairs(lines, number)
    if layout == "wikitext":
        return _wikitext(lines)
    return _plain(lines) if layout == "plain" else _book(lines, layout == "wrapped")


def read_line(layout: str, line: str) -> str | None:
    """The text that `documents` reads of ``line``: all of it, or what a JSON object has as "text". None for a line that
    it passes over."""
    if layout == "jsonl":
        return json.loads(line)["text"] if line.strip() else None
    if layout == "pairs":
        return line if line.strip() and all(map(_says, line.rstrip("\n").split("\t"))) else None
    return line


def _json_lines(lines: Iterable[str], number: int) -> Iterator[list[str]]:
    for place, line in enumerate(lines, number):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f'line {place}: expected a JSON object with a "text", found {line[:60]!r}.') from error
        if not isinstance(text, str):
            raise ValueError(f'line {place}: "text" must be a string, found {text!r:.60}.')
        yield [sentence for part in text.splitlines() for sentence in sentences(part)]


def _pairs(lines: Iterable[str], number: int) -> Iterator[list[str]]:
    for place, line in enumerate(lines, number):
        if not line.strip():
            continue
        sides = line.rstrip("\n").split("\t")
        if len(sides) != 2:
            raise ValueError(f"line {place}: expected a text, one tab and its translation, found {line[:60]!r}.")
        if all(map(_says, sides)):
            yield sides


def _says(text: str) -> bool:
    """Whether every tokenizer finds something in ``text``: some drop what cannot be decoded, and marks on no letter."""
    return any(c.isprintable() and not c.isspace() and c != "\ufffd" and category(c)[0] != "M" for c in text)


def _wikitext(lines: Iterable[str]) -> Iterator[list[str]]:
    document, after_empty = [], True
    for line, following in pairwise(chain(lines, [""])):
        # Rows of tables (" = Played , W = ") look like titles; only titles stand between empty lines.
        if after_empty and not following.strip() and TITLE.fullmatch(line):
            yield document
            document = []
        document += sentences(line)
        after_empty = not line.strip()
    yield document


def _plain(lines: Iterable[str]) -> Iterator[list[str]]:
    document: list[str] = []
    for line in lines:
        if line.strip():
            document += sentences(line)
        else:
            yield document
            document = []
    yield document


def _book(lines: Iterable[str], wrapped: bool) -> Iterator[list[str]]:
    document, paragraph = [], []
    for line in lines:
        heading = bool(HEADING.fullmatch(line))
        if heading or not wrapped or not line.strip():
            document += sentences(" ".join(paragraph))
            paragraph = []
        if heading:
            if len(document) >= _LEAST:
                yield document
                document = []
            document += [line]
        else:
            paragraph.append(line.strip())
    yield document + sentences(" ".join(paragraph))


def sentences(paragraph: str) -> list[str]:
    """The sentences of ``paragraph`` by the rule of this module's opening; [] for white space."""
    result, begin = [], 0
    for cut in _CUT.finditer(paragraph):
        end = cut.end("close") if cut["close"] is not None else cut.start()
        if not _ABBREVIATION.search(paragraph, max(0, cut.start() - 12), cut.start()):
            result.append(paragraph[begin:end].strip())
            begin = cut.end()
    rest = paragraph[begin:].strip()
    return [*result, rest] if rest else result
