"""TREC question classification, six classes (survey, section 7.3): what kind of answer does a question ask for?

Li & Roth, 2002: Learning question classifiers, COLING. Licence: none stated, for research. Official files:
train_5500.label (5452 rows) and TREC_10.label (500), lines ``LOC:city What is the capital of Kosovo ?`` with a coarse
and a fine class. `tasks.trec_fine` is the task with the fine classes. The files are older than UTF-8: their only byte
that is not ASCII, 0xF0 in "sister city", stands for a space.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import label, lines, malformed, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train_5500.label",), "test": ("TREC_10.label",)}
LABELS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_ROW = re.compile(r"(([A-Z]+):[a-z]+) (.*\S.*)")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Questions in file order; ids are the row's position from 0."""
    path = pick(folder, FILES[split][0])
    for position, (line, _, coarse, question) in enumerate(questions(path)):
        yield Example(id=str(position), inputs=(question,), gold=label(path, line, coarse, LABELS))


def questions(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Yields (line, fine class, coarse class, question) for every line."""
    for line, text in lines(path, encoding="latin-1"):
        if not text.strip():
            continue
        row = _ROW.fullmatch(text.replace("\xf0", " "))
        if not row:
            raise malformed(path, line, f"{text!r:.60} is not a 'COARSE:fine question'.")
        yield line, row[1], row[2], row[3].strip()


TASK = Task(
    name="trec",
    title="TREC-6",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Li & Roth, 2002: Learning question classifiers",
        licence="none stated; for research",
        url="https://cogcomp.seas.upenn.edu/Data/QA/QC/",
        survey="7.3",
    ),
    folders=("trec", "TREC"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("an abbreviation", "a description", "a thing", "a person", "a place", "a number"),
    prompt="{0} The answer is",
    report="test",
    downloads=(
        Download(
            url="https://cogcomp.seas.upenn.edu/Data/QA/QC/train_5500.label",
            to="trec/train_5500.label",
            size=335858,
            sha256="9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3",
        ),
        Download(
            url="https://cogcomp.seas.upenn.edu/Data/QA/QC/TREC_10.label",
            to="trec/TREC_10.label",
            size=23354,
            sha256="033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e",
        ),
    ),
)
