"""QQP, Quora Question Pairs (survey, section 7.1): do two questions ask the same thing?

Iyer, Dandekar & Csernai, 2017: First Quora dataset release: question pairs; in GLUE since Wang et al., 2019. Licence:
Quora's terms of service, for non-commercial use. Official files: a header. In train.tsv and dev.tsv, line breaks in
some questions split their rows. These parts are skipped, as in the official readers. test.tsv has other columns and no
broken rows.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import label, pick, rows
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.metrics.f1 import binary_f1
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
LABELS = ("0", "1")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Pairs in file order. Ids are those of the files."""
    path = pick(folder, FILES[split][0])
    if split == "test":
        for _, (index, first, second) in rows(path, ("id", "question1", "question2")):
            yield Example(id=index, inputs=(first, second))
        return
    columns = ("id", "question1", "question2", "is_duplicate")
    for line, (index, first, second, gold) in rows(path, columns, ragged="skip"):
        yield Example(id=index, inputs=(first, second), gold=label(path, line, gold, LABELS))


TASK = Task(
    name="qqp",
    title="QQP",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Iyer et al., 2017: First Quora dataset release: question pairs",
        licence="Quora's terms of service, non-commercial",
        url="https://quoradata.quora.com/First-Quora-Dataset-Release-Question-Pairs",
        survey="7.1",
    ),
    folders=("glue/QQP", "QQP"),
    files=FILES,
    read=read,
    metrics=(accuracy, binary_f1("1")),
    headline="accuracy+f1",
    labels=LABELS,
    version=2,  # since pairs of two long texts are truncated as in BERT's code
    words=("No", "Yes"),
    prompt="{0} {1} Question: Are these the same? Answer:",
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/data/QQP-clean.zip",
            to="glue",
            unpack=True,
            size=41696084,
            sha256="40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0",
        ),
    ),
    extra={"submission": {"file": "QQP.tsv", "rows": 390965, "constant": "0"}},
)
