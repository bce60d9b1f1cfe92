"""AX, GLUE's diagnostic set (survey, section 7.1): 1104 hand-made pairs that test what an MNLI model knows about
language.

Wang et al., 2019: GLUE, ICLR, section 4. Licence: none stated, published for research. Official files: MNLI's train.tsv
for training, and diagnostic.tsv (AX.tsv in GLUE's own archive) with index and two sentences. The labels are not public;
the GLUE server scores predictions.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks import mnli
from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.matthews import matthews
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("MNLI/train.tsv",), "test": ("diagnostic/diagnostic.tsv|AX/AX.tsv",)}


def read(folder: Path, split: str) -> Iterator[Example]:
    """Pairs in file order; ids are the files' index."""
    yield from mnli.pairs(pick(folder, FILES[split][0]), labelled=split != "test")


TASK = Task(
    name="ax",
    title="GLUE diagnostics",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Wang et al., 2019: GLUE: a multi-task benchmark and analysis platform",
        licence="none stated; for research",
        url="https://gluebenchmark.com/diagnostics",
        survey="7.1",
    ),
    folders=("glue", "."),
    files=FILES,
    read=read,
    metrics=(matthews,),
    headline="mcc",
    labels=mnli.LABELS,
    words=mnli.TASK.words,
    prompt=mnli.TASK.prompt,
    chance=0.0,
    report="test",
    notes="Unlabelled as distributed: no score here; predictions of a model fine-tuned on mnli go to the GLUE server.",
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/data/AX.tsv",
            to="glue/AX/AX.tsv",
            size=222257,
            sha256="0e13510b1bb14436ff7e2ee82338f0efb0133ecf2e73507a697dc210db3f05fd",
        ),
        *mnli.TASK.downloads,
    ),
    extra={"submission": {"file": "AX.tsv", "rows": 1104, "constant": "entailment"}, "trained_on": "mnli"},
)
