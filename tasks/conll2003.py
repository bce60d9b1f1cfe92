"""CoNLL-2003 named entities, English: Tjong Kim Sang & De Meulder, 2003 (survey, section 7.4).

Official files: one word a line as ``word POS chunk tag``, an empty line after a sentence, a ``-DOCSTART-`` line
before a document. The original files are tagged IOB1; later copies (train.txt, valid.txt, test.txt) IOB2. Both are
read, and gold is always IOB2: its entities are the same, and a head learns "first word" and "other word" more easily
than "B only after a neighbour". Text of the Reuters corpus, for research under NIST's agreement.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tasks.files import lines, malformed, pick
from tasks.forms import Form
from tasks.metrics.entity_f1 import entity_f1, iob2
from tasks.task import Example, Source, Task

FILES = {
    "train": ("eng.train|train.txt",),
    "dev": ("eng.testa|valid.txt|dev.txt",),
    "test": ("eng.testb|test.txt",),
}
TYPES = ("PER", "ORG", "LOC", "MISC")
_TAG = re.compile(rf"O|[BIES]-({'|'.join(TYPES)})")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Sentences in file order; ``group`` is the number of the news item, None in files without ``-DOCSTART-``."""
    path = pick(folder, FILES[split][0])
    for index, (start, document, words) in enumerate(sentences(path)):
        for line, columns in enumerate(words, start=start):
            if len(columns) < 2 or not _TAG.fullmatch(columns[-1]):
                wanted = f"a word, more columns and a tag (O, or B- or I- and {' or '.join(TYPES)}) were expected"
                raise malformed(path, line, f"{wanted}, not {' '.join(columns)!r:.80}.")
        tags = iob2([columns[-1] for columns in words])
        yield Example(id=str(index), inputs=tuple(columns[0] for columns in words), gold=tags, group=document)


def sentences(path: Path) -> Iterator[tuple[int, str | None, list[list[str]]]]:
    """Sentences of any file of columns: (line of the first word, document, the columns of each word).

    An empty line ends a sentence, ``-DOCSTART-`` begins document 1, 2, ...; before the first it is None.
    """
    document, start, words = 0, 0, []
    for number, line in lines(path):
        # Only blanks and tabs separate: a word may hold a no-break space, at which str.split would cut it.
        columns = [column for column in line.replace("\t", " ").split(" ") if column]
        boundary = columns[:1] == ["-DOCSTART-"]
        if columns and not boundary:
            start = start if words else number
            words.append(columns)
        elif words:
            yield start, str(document) if document else None, words
            words = []
        document += boundary
    if words:
        yield start, str(document) if document else None, words


TASK = Task(
    name="conll2003",
    title="CoNLL-2003 (en)",
    form=Form.TAGGING,
    source=Source(
        citation="Tjong Kim Sang & De Meulder, 2003: Introduction to the CoNLL-2003 shared task",
        licence="Reuters corpus: research use under NIST's agreement",
        url="https://www.clips.uantwerpen.be/conll2003/ner/",
        survey="7.4",
    ),
    folders=("conll2003", "CoNLL-2003", "conll03"),
    files=FILES,
    read=read,
    metrics=(entity_f1,),
    headline="f1",
    labels=("O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI")),
    chance=0.0,
    report="test",
    notes="Gold is IOB2 also where the files are IOB1; entity F1 does not depend on it, token accuracy does.",
)
