"""MRPC, the Microsoft Research Paraphrase Corpus (survey, section 7.1): do two sentences from the news have the same
meaning?

Dolan & Brockett, 2005: Automatically constructing a corpus of sentential paraphrases, IWP; in GLUE since Wang et al.,
2019. Licence: Microsoft Research's own, for research. Official files: a header (after a byte order mark in train.tsv
and dev.tsv). Some quotation marks are opened but never closed.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import label, pick, rows
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.metrics.f1 import binary_f1
from ptmbench.tasks.task import Example, Source, Task

FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
LABELS = ("0", "1")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Pairs in file order; ids are the test file's index, elsewhere the row's position from 0."""
    path = pick(folder, FILES[split][0])
    if split == "test":
        for _, (index, first, second) in rows(path, ("index", "#1 String", "#2 String")):
            yield Example(id=index, inputs=(first, second))
        return
    for position, (line, (gold, first, second)) in enumerate(rows(path, ("Quality", "#1 String", "#2 String"))):
        yield Example(id=str(position), inputs=(first, second), gold=label(path, line, gold, LABELS))


TASK = Task(
    name="mrpc",
    title="MRPC",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Dolan & Brockett, 2005: Automatically constructing a corpus of sentential paraphrases",
        licence="Microsoft Research licence, for research",
        url="https://www.microsoft.com/en-us/download/details.aspx?id=52398",
        survey="7.1",
    ),
    folders=("glue/MRPC", "MRPC"),
    files=FILES,
    read=read,
    metrics=(accuracy, binary_f1("1")),
    headline="accuracy+f1",
    labels=LABELS,
    words=("No", "Yes"),
    prompt="{0} Question: {1} Is this the same? Answer:",
    extra={"submission": {"file": "MRPC.tsv", "rows": 1725, "constant": "1"}},
)
