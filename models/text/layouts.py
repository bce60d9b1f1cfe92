"""Cuts text files into documents and sentences.

A file's name and its first lines decide between six layouts:

wikitext   ``*.tokens``, or a first line " = Title = ": a title between empty lines begins a document, and any other
           line is a paragraph. The text stays as it was distributed, including ``<unk>`` and ``@-@``, so that models
           learn the text that the perplexity task measures
jsonl      ``*.jsonl``: one object a line, whose "text" is a document; so is each record of a file of records
           (`models.text.records`)
pairs      ``*.pairs.tsv``: each line has a text, a tab and its translation. These two are the sentences of a document;
           a line is skipped if no token can come from one of them
book       at least two chapter headings: a heading begins a document, every other line is a paragraph
wrapped    hard-wrapped lines: as "book", but an empty line ends a paragraph, and its lines are joined
plain      anything else: an empty line ends a document, every line is a paragraph (or a sentence)

A sentence ends after ".", "!" or "?" and closing quotes if white space and a capital, digit or opening quote follow.
It does not end after titles, initials and abbreviations. It always ends after a Chinese full stop.
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
_LEAST = 5  # a heading after fewer sentences begins no document, so that a table of contents stays in one piece


def layout(name: str, first: Sequence[str]) -> str:
    """Returns the layout of the file called ``name`` that begins with the lines ``first``."""
    name = name.removesuffix(".gz")
    if name.endswith(".jsonl") or is_records(name):
        return "jsonl"
    if name.endswith(".pairs.tsv"):
        return "pairs"
    text = [line for line in first if line.strip()]
    if name.endswith(".tokens") or (text and TITLE.fullmatch(text[0])):
        return "wikitext"
    headings = sum(bool(HEADING.fullmatch(line)) for line in text)
    # In wrapped prose, few lines end at the end of a sentence. Headings and verse are too few to matter.
    closed = sum(bool(_END.search(line)) for line in text)
    if len(text) >= 20 and closed < 0.6 * len(text) and max(map(len, text)) < 200:
        return "wrapped"
    return "book" if headings >= 2 else "plain"


def opening(layout: str, lines: Sequence[str]) -> int | None:
    """Returns the index of the first of ``lines`` that begins a document, whatever comes before ``lines`` in the file.

    Returns None if there is no such line.
    """
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
    """Yields the documents in ``lines``, the first of which is line ``number`` of its file.

    Documents and sentences may be empty. Raises `ValueError` with the number of a line that is not in the layout.
    """
    if layout == "jsonl":
        return _json_lines(lines, number)
    if layout == "pairs":
        return _pairs(lines, number)
    if layout == "wikitext":
        return _wikitext(lines)
    return _plain(lines) if layout == "plain" else _book(lines, layout == "wrapped")


def read_line(layout: str, line: str) -> str | None:
    """Returns the text that `documents` reads from ``line``: all of it, or the "text" of a JSON object.

    Returns None for a line that it skips.
    """
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
    """Whether every tokenizer finds a token in ``text``. Some drop undecodable characters and marks without letters."""
    return any(c.isprintable() and not c.isspace() and c != "\ufffd" and category(c)[0] != "M" for c in text)


def _wikitext(lines: Iterable[str]) -> Iterator[list[str]]:
    document, after_empty = [], True
    for line, following in pairwise(chain(lines, [""])):
        # Rows of tables (" = Played , W = ") look like titles, but only titles are between empty lines.
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
    """Splits ``paragraph`` into sentences by the rule in this module's docstring. Returns [] for white space."""
    result, begin = [], 0
    for cut in _CUT.finditer(paragraph):
        end = cut.end("close") if cut["close"] is not None else cut.start()
        if not _ABBREVIATION.search(paragraph, max(0, cut.start() - 12), cut.start()):
            result.append(paragraph[begin:end].strip())
            begin = cut.end()
    rest = paragraph[begin:].strip()
    return [*result, rest] if rest else result
