"""QNLI (survey, section 7.1): does a sentence hold the answer to a question? SQuAD 1.1, recast as sentence pairs.

Wang et al., 2019: GLUE, ICLR, from Rajpurkar et al., 2016. Licence: CC BY-SA 4.0. Official files (GLUE's second
release): a header; test.tsv has no label.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import label, pick, rows
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
LABELS = ("entailment", "not_entailment")


def read(folder: Path, split: str) -> Iterator[Example]:
    """(question, sentence) pairs in file order; ids are the files' index."""
    path = pick(folder, FILES[split][0])
    target = () if split == "test" else ("label",)
    for line, (index, question, sentence, *gold) in rows(path, ("index", "question", "sentence", *target)):
        found = label(path, line, gold[0], LABELS) if gold else None
        yield Example(id=index, inputs=(question, sentence), gold=found)


TASK = Task(
    name="qnli",
    title="QNLI",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Wang et al., 2019: GLUE, from Rajpurkar et al., 2016: SQuAD",
        licence="CC BY-SA 4.0",
        url="https://gluebenchmark.com/tasks",
        survey="7.1",
    ),
    folders=("glue/QNLI", "QNLI"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("Yes", "No"),
    prompt="{1} Question: {0} Is this answered? Answer:",
    chance=50.0,
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/data/QNLIv2.zip",
            to="glue",
            unpack=True,
            size=10627589,
            sha256="e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
        ),
    ),
    extra={"submission": {"file": "QNLI.tsv", "rows": 5463, "constant": "not_entailment"}},
)
