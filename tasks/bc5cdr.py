"""BC5CDR, chemicals and diseases in PubMed abstracts: Li et al., 2016 (survey, section 7.4).

The BioCreative V corpus in the usual format for comparing taggers: train.tsv, devel.tsv and test.tsv with 500 abstracts
each, ``word<TAB>tag`` in IOB2, with an empty line after each sentence. Abstracts are not separated. Public domain;
annotated by the US National Library of Medicine.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.columns import labels, read_tagged
from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.entity_f1 import entity_f1
from ptmbench.tasks.task import Example, Source, Task

FILES = {"train": ("train.tsv",), "dev": ("devel.tsv",), "test": ("test.tsv",)}
TYPES = ("Chemical", "Disease")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Sentences in file order."""
    return read_tagged(pick(folder, FILES[split][0]), TYPES)


TASK = Task(
    name="bc5cdr",
    title="BC5CDR",
    form=Form.TAGGING,
    source=Source(
        citation="Li et al., 2016: BioCreative V CDR task corpus: a resource for chemical disease relation extraction",
        licence="public domain (US government work)",
        url="https://biocreative.bioinformatics.udel.edu/tasks/biocreative-v/track-3-cdr/",
        survey="7.4",
    ),
    folders=("bioner/BC5CDR-IOB", "BC5CDR-IOB", "BC5CDR"),
    files=FILES,
    read=read,
    metrics=(entity_f1,),
    headline="f1",
    labels=labels(TYPES),
    chance=0.0,
    report="test",
)
