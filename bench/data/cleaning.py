"""Cleans the text of the sources of `bench.data.recipes` and cuts it into documents.

A source names one of the functions `novel`, `book` and `articles`. Each reads the lines of a file and yields documents,
which are lists of paragraphs. A paragraph is one line. docs/corpora.md gives the reasons for each step.
`bench.data.making` calls the functions. It also removes repeats, which this module does not do.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise

from ptmbench.models.text.layouts import HEADING, TITLE

VERSION = 1
"""Raised whenever the same file would give different documents."""

LONGEST = 4000
"""Approximate number of words above which a document is split. A third of the novels has no chapter headings."""
SHORTEST = 200
"""Least number of words of a document that a heading ends. Headings in tables of contents follow each other more
closely, and so do "Part I" and "Chapter I"."""

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2018\u2019\u201a\u201b`\u00b4", "'"),
        **dict.fromkeys("\u2010\u2011", "-"),
        **dict.fromkeys("\u00ad\ufeff\u200b"),
    }
)
_DASH = re.compile(r"-{2,}")
_DOTS = re.compile(r"\.(?: \.)+")
_APOSTROPHE = re.compile(r"('\w+) (?=[.,;:!?])")  # ten times as fast, because it begins with a rare character
_RULE = re.compile(r"[\W_]*")
_ENDED = re.compile(r"""[.!?\u2026:;]["')\]\u00ab\u00bb\u2039\u203a ]*$""")
_HEADING = re.compile(
    r"(?i:\w+e[rs] (?:kapitel|capitel|buch|teil|theil|band|abschnitt|abtheilung))\.?"
    r"|(?i:chapitre|livre|partie) (?:[IVXLC]+|\d+|(?i:premier|premi\u00e8re))\.?|(?i:\w+ partie)\.?"
)
"""German and French headings; `models.text.layouts` knows the English ones."""


def novel(lines: Iterable[str]) -> Iterator[list[str]]:
    """Documents of a novel from ELTeC, given as plain text with a paragraph a line.

    A line that begins with a small letter continues the paragraph before, which a page break has cut in two.
    """
    return _cut_at_headings(_join(_tidy(lines)))


def book(lines: Iterable[str]) -> Iterator[list[str]]:
    """Documents of a book that was typed by hand.

    Hard-wrapped lines are joined (`_unwrap`). Spaces between a contraction and a punctuation mark ("wouldn't .") are
    removed.
    """
    paragraphs = (_APOSTROPHE.sub(r"\1", line) for line in _join(_unwrap(lines)))
    return _cut_at_headings(paragraphs)


def articles(lines: Iterable[str]) -> Iterator[list[str]]:
    """Documents of WikiText: one per article, with its tokens joined to text, and without titles and headings.

    Rare words remain ``<unk>``, because no file of WikiText-2 has the words themselves.
    """
    document: list[str] = []
    for before, line, following in _neighbours(lines):
        if TITLE.fullmatch(line) and not before.strip() and not following.strip():
            yield from _split(document)
            document = []
        elif line.strip() and not line.strip().startswith("= "):
            document += _tidy([_detokenise(line)])
    yield from _split(document)


def _tidy(lines: Iterable[str]) -> Iterator[str]:
    """Normalises lines: Unicode's composed form (NFC), straight quotes, plain hyphens, one kind of dash, "..." without
    spaces, single spaces.

    Soft hyphens and spaces before commas are removed, and so are lines without letters and digits.
    """
    for line in lines:
        text = unicodedata.normalize("NFC", line).translate(_PLAIN)
        text = " ".join(_DASH.sub("\u2014", text).split()).replace("''", '"').replace(" ,", ",")
        text = _DOTS.sub(lambda dots: dots[0].replace(" ", ""), text)
        if not _RULE.fullmatch(text):
            yield text


def _is_heading(line: str) -> bool:
    return bool(HEADING.fullmatch(line) or _HEADING.fullmatch(line))


def _join(paragraphs: Iterable[str]) -> Iterator[str]:
    """Joins a paragraph that begins with a small letter to the one before, if that one is not finished."""
    held = ""
    for paragraph in paragraphs:
        if held and paragraph[0].islower() and not _ENDED.search(held) and not _is_heading(held):
            held += f" {paragraph}"
        else:
            if held:
                yield held
            held = paragraph
    if held:
        yield held


def _unwrap(lines: Iterable[str]) -> Iterator[str]:
    """Joins hard-wrapped lines to paragraphs. If the lines of a file are paragraphs already, they stay.

    A paragraph ends at an empty line, and at a line to which the next line's first word could have been added, because
    wrapping fills lines. The width of the wrapped text is the 95th percentile of the lines' lengths.
    """
    lines = [line.replace("\f", "\n") for line in lines]
    lines = [part.strip() for line in lines for part in line.split("\n")[: -1 if line.endswith("\n") else None]]
    lengths = sorted(map(len, filter(None, lines)))
    width = lengths[len(lengths) * 95 // 100] if lengths else 0
    if width > 200:
        yield from _tidy(lines)
        return
    held: list[str] = []
    for line, following in pairwise([*lines, ""]):
        if _is_heading(line):
            yield from _tidy([" ".join(held)])
            yield from _tidy([line])
            held = []
            continue
        held.append(line)
        fits = len(line) + 1 + len(following.split(" ", 1)[0]) <= width
        if not following or (fits and _ENDED.search(line)) or _is_heading(following):
            yield from _tidy([" ".join(held)])
            held = []


def _cut_at_headings(paragraphs: Iterable[str]) -> Iterator[list[str]]:
    """Cuts paragraphs into documents at headings ("CHAPTER XII.", "7"), which are removed."""
    document: list[str] = []
    words = 0
    for paragraph in paragraphs:
        if _is_heading(paragraph):
            if words >= SHORTEST:
                yield from _split(document)
                document, words = [], 0
            continue
        document.append(paragraph)
        words += paragraph.count(" ") + 1
    yield from _split(document)


def _split(document: list[str]) -> Iterator[list[str]]:
    """Splits ``document`` into parts of nearly equal size, of about `LONGEST` words at most. [] gives no parts."""
    sizes = [paragraph.count(" ") + 1 for paragraph in document]
    total = sum(sizes)
    count = -(-total // LONGEST)
    part: list[str] = []
    done, cut = 0, 1
    for paragraph, size in zip(document, sizes, strict=True):
        part.append(paragraph)
        done += size
        if done * count >= cut * total:
            yield part
            part, cut = [], done * count // total + 1
    if part:
        yield part


_TOKENS = (
    (re.compile(r" @([-,.])@ "), r"\1"),
    (re.compile(r" ' ?((?:s|t|re|ve|ll|d|m) )"), r"'\1"),  # "city 's", "don 't", "Inc. ' s"
    (re.compile(r"(?<=s) ' (?=\w)"), "' "),  # "the boys ' room"; a closing quote looks the same
    (re.compile(r" ([,.;:!?%)\]\u2019\u201d])"), r"\1"),
    (re.compile(r"([(\[$\u00a3\u20ac#\u2018\u201c]) "), r"\1"),
    (re.compile(r"(?<=\d) ([\u2013\u2044]) (?=\d)"), r"\1"),
)
_QUOTED = re.compile(r'" (.*?) "(?= )')


def _detokenise(line: str) -> str:
    """Removes the spaces that WikiText's tokenizer put between words and punctuation."""
    line = f" {line.strip()} "
    if line.count(' " ') % 2 == 0:  # of an odd number, it is unknown which one is unpaired
        line = _QUOTED.sub(r'"\1"', line)
    for pattern, spelled in _TOKENS:
        line = pattern.sub(spelled, line)
    return line


def _neighbours(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Each line with the line before it and the line after it; "" at the ends."""
    before, held = "", None
    for line in lines:
        if held is not None:
            yield before, held, line
            before = held
        held = line
    if held is not None:
        yield before, held, ""
