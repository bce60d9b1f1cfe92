"""Distributed text to documents of paragraphs: how the sources of `bench.data.recipes` are cleaned.

A source names one of `novel`, `book` and `articles`. Each takes the lines of a file and gives documents, lists of
paragraphs, each paragraph one line. What they do to the text is stated with each, and docs/corpora.md says why.
`bench.data.making` calls them; deduplication is not done here.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise

from ptmbench.models.text.layouts import HEADING, TITLE

VERSION = 1
"""Raised whenever the same file would give other documents."""

LONGEST = 4000
"""Words after which a document ends with its paragraph: a third of the novels has no chapter headings."""
SHORTEST = 200
"""Words before which a heading begins no document: tables of contents, and "Part I" before "Chapter I"."""

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
_APOSTROPHE = re.compile(r"('\w+) (?=[.,;:!?])")  # begins with a letter that is rare: ten times as fast
_RULE = re.compile(r"[\W_]*")
_ENDED = re.compile(r"""[.!?\u2026:;]["')\]\u00ab\u00bb\u2039\u203a ]*$""")
_HEADING = re.compile(
    r"(?i:\w+e[rs] (?:kapitel|capitel|buch|teil|theil|band|abschnitt|abtheilung))\.?"
    r"|(?i:chapitre|livre|partie) (?:[IVXLC]+|\d+|(?i:premier|premi\u00e8re))\.?|(?i:\w+ partie)\.?"
)
"""German and French ones, which the layouts of `models.text.layouts` do not know."""


def novel(lines: Iterable[str]) -> Iterator[list[str]]:
    """ELTeC's plain text, a paragraph a line. A line that begins with a small letter goes on with a paragraph that a
    page break has cut."""
    return _chapters(_joined(_tidy(lines)))


def book(lines: Iterable[str]) -> Iterator[list[str]]:
    """Plain text as typed by hand: hard-wrapped lines are joined (see `_unwrapped`), and the spaces that an export left
    behind contractions ("wouldn't .") go."""
    paragraphs = (_APOSTROPHE.sub(r"\1", line) for line in _joined(_unwrapped(lines)))
    return _chapters(paragraphs)


def articles(lines: Iterable[str]) -> Iterator[list[str]]:
    """WikiText's tokens as the text that they were: an article a document, without titles and headings.

    Rare words stay ``<unk>``: no file of WikiText-2 has them, and every third sentence has one.
    """
    document: list[str] = []
    for before, line, following in _neighbours(lines):
        if TITLE.fullmatch(line) and not before.strip() and not following.strip():
            yield from _parts(document)
            document = []
        elif line.strip() and not line.strip().startswith("= "):
            document += _tidy([_detokenised(line)])
    yield from _parts(document)


def _tidy(lines: Iterable[str]) -> Iterator[str]:
    """Lines in Unicode's composed form (NFC) with straight quotes, plain hyphens, one kind of dash, "..." and single
    spaces; without soft hyphens, spaces before commas, and lines that have no letter and no digit."""
    for line in lines:
        text = unicodedata.normalize("NFC", line).translate(_PLAIN)
        text = " ".join(_DASH.sub("\u2014", text).split()).replace("''", '"').replace(" ,", ",")
        text = _DOTS.sub(lambda dots: dots[0].replace(" ", ""), text)
        if not _RULE.fullmatch(text):
            yield text


def _is_heading(line: str) -> bool:
    return bool(HEADING.fullmatch(line) or _HEADING.fullmatch(line))


def _joined(paragraphs: Iterable[str]) -> Iterator[str]:
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


def _unwrapped(lines: Iterable[str]) -> Iterator[str]:
    """Paragraphs of hard-wrapped lines; of a file whose lines are paragraphs, these.

    A paragraph ends at an empty line, and where the next line's first word would still have fitted: whoever wraps text
    fills each line. The width is the length that 95 in 100 lines keep to.
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


def _chapters(paragraphs: Iterable[str]) -> Iterator[list[str]]:
    """Documents that end where a heading begins another one; headings themselves ("CHAPTER XII.", "7") go."""
    document: list[str] = []
    words = 0
    for paragraph in paragraphs:
        if _is_heading(paragraph):
            if words >= SHORTEST:
                yield from _parts(document)
                document, words = [], 0
            continue
        document.append(paragraph)
        words += paragraph.count(" ") + 1
    yield from _parts(document)


def _parts(document: list[str]) -> Iterator[list[str]]:
    """``document`` in parts of about equally many words, at most about `LONGEST`; [] gives none."""
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
    (re.compile(r"(?<=s) ' (?=\w)"), "' "),  # "the boys ' room"; nothing tells it from a closing quote
    (re.compile(r" ([,.;:!?%)\]\u2019\u201d])"), r"\1"),
    (re.compile(r"([(\[$\u00a3\u20ac#\u2018\u201c]) "), r"\1"),
    (re.compile(r"(?<=\d) ([\u2013\u2044]) (?=\d)"), r"\1"),
)
_QUOTED = re.compile(r'" (.*?) "(?= )')


def _detokenised(line: str) -> str:
    """``line`` of WikiText without the spaces that its tokenizer put between words and marks."""
    line = f" {line.strip()} "
    if line.count(' " ') % 2 == 0:  # else nothing tells which one is alone
        line = _QUOTED.sub(r'"\1"', line)
    for pattern, spelled in _TOKENS:
        line = pattern.sub(spelled, line)
    return line


def _neighbours(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Each line with those before and behind it, "" at the ends."""
    before, held = "", None
    for line in lines:
        if held is not None:
            yield before, held, line
            before = held
        held = line
    if held is not None:
        yield before, held, ""
