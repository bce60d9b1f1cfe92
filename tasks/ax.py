"""AX, GLUE's diagnostic set (survey, section 7.1): 1104 hand-made pairs that show what an MNLI model knows of language.

Wang et al., 2019: GLUE, ICLR, section 4. Licence: none stated, published for research. Official files: MNLI's
train.tsv to learn from; diagnostic.tsv (AX.tsv in GLUE's own archive) to predict: index and two sentences, no label.
The GLUE server scores it.
"""

from collections.abc import Iterator
from pathlib import Path

from tasks import mnli
from tasks.files import pick
from tasks.forms import Form
from tasks.metrics.matthews import matthews
from tasks.task import Example, Source, Task

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
    chance=0.0,
    report="test",
    notes="Unlabelled as distributed: no score here; predictions of a model fine-tuned on mnli go to the GLUE server.",
    extra={"submission": {"file": "AX.tsv", "rows": 1104, "constant": "entailment"}, "trained_on": "mnli"},
)
