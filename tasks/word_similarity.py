"""Word similarity (survey, section 2.2): how similar are two words, by the cosine of their vectors, without training?

Finkelstein et al., 2002: Placing search in context: the concept revisited, TOIS: 353 pairs of words with the mean score
of 13 or 16 people, from 0 to 10. The headline is Spearman's correlation. Any list in this layout can be used: two words
and a score per line, separated by commas or tabs, with or without a header. SimLex-999 and MEN have to be cut to these
three columns. Official file: ``combined.csv`` (or ``combined.tab``).
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import lines, malformed, number, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.correlation import correlation
from ptmbench.tasks.task import Example, Source, Task

NAMES = "combined.csv|combined.tab"
_BETWEEN = re.compile(r"[ \t]*[,\t;][ \t]*")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Pairs in file order. Ids are line numbers from 1."""
    path = pick(folder, NAMES)
    for line, text in lines(path):
        if not text.strip(" \t"):
            continue
        fields = _BETWEEN.split(text.strip(" \t"))
        if len(fields) != 3 or not all(fields):
            raise malformed(path, line, f"two words and a mark are expected, between commas or tabs, not {text!r:.60}.")
        if line == 1 and not re.search(r"[0-9]", fields[2]):
            continue  # header
        yield Example(id=str(line), inputs=(fields[0], fields[1]), gold=number(path, line, fields[2]))


TASK = Task(
    name="word_similarity",
    title="Word similarity",
    form=Form.SIMILARITY,
    source=Source(
        citation="Finkelstein et al., 2002: Placing search in context: the concept revisited",
        licence="CC BY 4.0",
        url="https://gabrilovich.com/resources/data/wordsim353/wordsim353.html",
        survey="2.2",
    ),
    folders=("wordsim353", "word_similarity"),
    files={"test": (NAMES,)},
    read=read,
    metrics=(correlation,),
    headline="spearman",
    chance=0.0,
    report="test",
)
