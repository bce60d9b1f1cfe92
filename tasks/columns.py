"""Files of columns, as the CoNLL shared tasks have them: one word a line, its tag in the last column.

Tags may follow IOB1, IOB2 or BIOES; examples always have IOB2. The entities are the same, and a head learns "first
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
"""How a line begins that begins a document, in the files of CoNLL-2003 and most others."""


Sentence = tuple[int, str | None, list[list[str]]]


def sentences(path: Path, document: str | tuple[str, ...] = DOCUMENT) -> Iterator[Sentence]:
    """Sentences of any file of columns: (line of the first word, document, the columns of each word).

    An empty line ends a sentence. A line that starts with ``document``, or with one of several, begins document 1, 2,
    ...; before the first it is None.
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


def tagged(path: Path, types: Sequence[str], document: str | tuple[str, ...] = DOCUMENT) -> Iterator[Example]:
    """The sentences of ``path`` with entities of ``types``; ids count from 0, ``group`` is the document's number."""
    allowed = re.compile(rf"O|[BIES]-({'|'.join(map(re.escape, types))})")
    for index, (start, group, words) in enumerate(sentences(path, document)):
        for line, columns in enumerate(words, start=start):
            if len(columns) < 2 or not allowed.fullmatch(columns[-1]):
                wanted = f"a word and a tag in the last column (O, or B- or I- and {' or '.join(types)}) were expected"
                raise malformed(path, line, f"{wanted}, not {' '.join(columns)!r:.80}.")
        inputs = tuple(columns[0] for columns in words)
        gold = Tags(plain([columns[-1] for columns in words]), inputs)
        yield Example(id=str(index), inputs=inputs, gold=gold, group=group)


def plain(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags of IOB1, IOB2 or BIOES as IOB2.

    S is a beginning and E goes on: conlleval, which knows no S, would take two neighbours for one entity.
    """
    spelled = {"S": "B", "E": "I"}
    return iob2([spelled.get(tag[:1], tag[:1]) + tag[1:] for tag in tags])


def labels(types: Sequence[str]) -> tuple[str, ...]:
    """The tags of IOB2 for entities of ``types``."""
    return ("O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI"))
