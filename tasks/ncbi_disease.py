"""NCBI-disease, diseases in PubMed abstracts: Dogan et al., 2014 (survey, section 7.4).

793 abstracts in the usual format for comparing taggers: train.tsv, devel.tsv and test.tsv, ``word<TAB>tag`` in IOB2,
with an empty line after each sentence. Abstracts are not separated. Public domain; made by the US National Library of
Medicine.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.columns import labels, read_tagged
from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.entity_f1 import entity_f1
from ptmbench.tasks.task import Example, Source, Task

FILES = {"train": ("train.tsv",), "dev": ("devel.tsv",), "test": ("test.tsv",)}
TYPES = ("Disease",)


def read(folder: Path, split: str) -> Iterator[Example]:
    """Sentences in file order."""
    return read_tagged(pick(folder, FILES[split][0]), TYPES)


TASK = Task(
    name="ncbi_disease",
    title="NCBI-disease",
    form=Form.TAGGING,
    source=Source(
        citation="Dogan et al., 2014: NCBI disease corpus: a resource for disease name recognition",
        licence="public domain (US government work)",
        url="https://www.ncbi.nlm.nih.gov/CBBresearch/Dogan/DISEASE/",
        survey="7.4",
    ),
    folders=("bioner/NCBI-disease-IOB", "NCBI-disease-IOB", "NCBI-disease"),
    files=FILES,
    read=read,
    metrics=(entity_f1,),
    headline="f1",
    labels=labels(TYPES),
    chance=0.0,
    report="test",
)
