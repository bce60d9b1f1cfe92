"""Readers for files of columns, as in the CoNLL shared tasks: one word per line, with its tag in the last column.

Tags may follow IOB1, IOB2 or BIOES. They are converted to IOB2, which encodes the same entities. A head learns "first
word" and "other word" more easily than "B only after a neighbour".
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ptmbench.tasks.files import fields, lines, malformed
from ptmbench.tasks.forms import Tags
from ptmbench.tasks.metrics.entity_f1 import iob2
from ptmbench.tasks.task import Example

DOCUMENT = "-DOCSTART-"
"""The start of a line that begins a document, in CoNLL-2003 and most other files."""


Sentence = tuple[int, str | None, list[list[str]]]


def sentences(path: Path, document: str | tuple[str, ...] = DOCUMENT) -> Iterator[Sentence]:
    """Yields the sentences of a file of columns as (line of the first word, document, the columns of each word).

    An empty line ends a sentence. A line that starts with ``document``, or with one of several such strings, begins a
    new document. Documents are numbered from 1; the document is None before the first such line.
    """
    count, start, words = 0, 0, []
    for number, line in lines(path):
        columns = fields(line)
        boundary = bool(columns) and columns[0].startswith(document)
        if columns and not boundary:
            start = start if words else number
            words.append(columns)
        elif words:
            yield start, str(count) if count else None, words
            words = []
        count += boundary
    if words:
        yield start, str(count) if count else None, words


def read_tagged(path: Path, types: Sequence[str], document: str | tuple[str, ...] = DOCUMENT) -> Iterator[Example]:
    """The sentences of ``path`` with entities of ``types``. Ids count from 0, and ``group`` is the number of the
    document."""
    allowed = re.compile(rf"O|[BIES]-({'|'.join(map(re.escape, types))})")
    for index, (start, group, words) in enumerate(sentences(path, document)):
        for line, columns in enumerate(words, start=start):
            if len(columns) < 2 or not allowed.fullmatch(columns[-1]):
                wanted = f"a word and a tag in the last column (O, or B- or I- and {' or '.join(types)}) were expected"
                raise malformed(path, line, f"{wanted}, not {' '.join(columns)!r:.80}.")
        inputs = tuple(columns[0] for columns in words)
        gold = Tags(to_iob2([columns[-1] for columns in words]), inputs)
        yield Example(id=str(index), inputs=inputs, gold=gold, group=group)


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Converts tags of IOB1, IOB2 or BIOES to IOB2.

    S is read as B, and E as I. conlleval does not know S and would merge two adjacent entities.
    """
    spelled = {"S": "B", "E": "I"}
    return iob2([spelled.get(tag[:1], tag[:1]) + tag[1:] for tag in tags])


def labels(types: Sequence[str]) -> tuple[str, ...]:
    """The IOB2 tags of entities of ``types``."""
    return ("O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI"))
