"""WNLI (survey, section 7.1): Winograd schemas as pairs. The second sentence has a name instead of the pronoun.

Levesque, Davis & Morgenstern, 2012: The Winograd schema challenge, KR; recast by GLUE (Wang et al., 2019). Licence: CC
BY 4.0. Official files: a header; test.tsv has no label. Sentences of train occur in dev with the opposite label, so a
model that memorises them scores below chance. Many papers leave WNLI out.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import label, pick, rows
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
LABELS = ("0", "1")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Pairs in file order; ids are the files' index."""
    path = pick(folder, FILES[split][0])
    target = () if split == "test" else ("label",)
    for line, (index, first, second, *gold) in rows(path, ("index", "sentence1", "sentence2", *target)):
        found = label(path, line, gold[0], LABELS) if gold else None
        yield Example(id=index, inputs=(first, second), gold=found)


TASK = Task(
    name="wnli",
    title="WNLI",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Levesque et al., 2012: The Winograd schema challenge",
        licence="CC BY 4.0",
        url="https://cs.nyu.edu/~davise/papers/WinogradSchemas/WS.html",
        survey="7.1",
    ),
    folders=("glue/WNLI", "WNLI"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("False", "True"),
    prompt="{0} Question: {1} True or False? Answer:",
    chance=50.0,
    notes="Dev is adversarial to train: a model that learns train by heart falls below chance.",
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/data/WNLI.zip",
            to="glue",
            unpack=True,
            size=28999,
            sha256="ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46",
        ),
    ),
    extra={"submission": {"file": "WNLI.tsv", "rows": 146, "constant": "0"}},
)
