"""RTE, recognising textual entailment (survey, section 7.1): does a passage entail a hypothesis?

Four yearly challenges in one: Dagan et al., 2006; Bar Haim et al., 2006; Giampiccolo et al., 2007; Bentivogli et al.,
2009; joined by GLUE (Wang et al., 2019). Licence: the challenges' terms, for research. Official files: a header;
test.tsv has no label.
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
    """(passage, hypothesis) pairs in file order; ids are the files' index."""
    path = pick(folder, FILES[split][0])
    target = () if split == "test" else ("label",)
    for line, (index, passage, hypothesis, *gold) in rows(path, ("index", "sentence1", "sentence2", *target)):
        found = label(path, line, gold[0], LABELS) if gold else None
        yield Example(id=index, inputs=(passage, hypothesis), gold=found)


TASK = Task(
    name="rte",
    title="RTE",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Dagan et al., 2006: The PASCAL recognising textual entailment challenge (RTE-1, 2, 3, 5)",
        licence="terms of the RTE challenges, for research",
        url="https://gluebenchmark.com/tasks",
        survey="7.1",
    ),
    folders=("glue/RTE", "RTE"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("True", "False"),
    prompt="{0} Question: {1} True or False? Answer:",
    chance=50.0,
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/data/RTE.zip",
            to="glue",
            unpack=True,
            size=697150,
            sha256="6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
        ),
    ),
    extra={"submission": {"file": "RTE.tsv", "rows": 3000, "constant": "entailment"}},
)
