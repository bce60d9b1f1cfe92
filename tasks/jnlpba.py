"""JNLPBA, five kinds of biomedical names in MEDLINE abstracts: Kim et al., 2004 (survey, section 7.4).

Official files of the shared task: Genia4ERtask1.iob2 (2,000 abstracts) for training and Genia4EReval1.iob2 (404) for
testing, ``word<TAB>tag`` in IOB2, an empty line after a sentence and a line ``###MEDLINE:number`` before an abstract.
Copies of them, train.tsv and test.tsv, have a line ``-DOCSTART-`` there instead. The test set has 3,856 sentences.
There is no development set; a part of the training sentences is used instead. For research under GENIA's licence.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks import columns
from ptmbench.tasks.columns import labels, read_tagged
from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.entity_f1 import entity_f1
from ptmbench.tasks.task import Example, Source, Task

FILES = {"train": ("Genia4ERtask1.iob2|train.tsv",), "test": ("Genia4EReval1.iob2|test.tsv",)}
DOCUMENT = ("###MEDLINE:", columns.DOCUMENT)
TYPES = ("DNA", "RNA", "protein", "cell_line", "cell_type")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Sentences in file order. ``group`` is the number of the abstract."""
    return read_tagged(pick(folder, FILES[split][0]), TYPES, document=DOCUMENT)


TASK = Task(
    name="jnlpba",
    title="JNLPBA",
    form=Form.TAGGING,
    source=Source(
        citation="Kim et al., 2004: Introduction to the bio-entity recognition task at JNLPBA",
        licence="GENIA project licence, for research",
        url="https://www.nactem.ac.uk/GENIA/current/Shared-tasks/JNLPBA/",
        survey="7.4",
    ),
    folders=("JNLPBA", "jnlpba", "bioner/JNLPBA"),
    files=FILES,
    read=read,
    metrics=(entity_f1,),
    headline="f1",
    labels=labels(TYPES),
    chance=0.0,
    report="test",
    version=2,  # since -DOCSTART- lines are not read as sentences
    extra={"document": DOCUMENT},
)
