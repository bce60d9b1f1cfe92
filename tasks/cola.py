"""CoLA, the Corpus of Linguistic Acceptability (survey, section 7.1): is this sentence acceptable English to a
linguist?

Warstadt, Singh & Bowman, 2019: Neural network acceptability judgments, TACL 7; in GLUE since Wang et al., 2019.
Licence: sentences quoted from published linguistics under fair use, compiled for research. Official files: train.tsv
and dev.tsv have four columns and no header (source, label, the author's own mark, sentence); test.tsv has a header and
no label.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import label, pick, rows
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.metrics.matthews import matthews
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
LABELS = ("0", "1")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Sentences in file order; ids are the test file's index, elsewhere the row's position from 0."""
    path = pick(folder, FILES[split][0])
    if split == "test":
        for _, (index, sentence) in rows(path, ("index", "sentence")):
            yield Example(id=index, inputs=(sentence,))
        return
    unnamed = rows(path, ("source", "label", "author's mark", "sentence"), header=False)
    for position, (line, (_, gold, _, sentence)) in enumerate(unnamed):
        yield Example(id=str(position), inputs=(sentence,), gold=label(path, line, gold, LABELS))


TASK = Task(
    name="cola",
    title="CoLA",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Warstadt et al., 2019: Neural network acceptability judgments",
        licence="quotations from published linguistics, for research (fair use)",
        url="https://nyu-mll.github.io/CoLA/",
        survey="7.1",
    ),
    folders=("glue/CoLA", "CoLA"),
    files=FILES,
    read=read,
    metrics=(matthews, accuracy),
    headline="mcc",
    labels=LABELS,
    words=("wrong", "right"),
    prompt="{0} This sentence is",
    chance=0.0,
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/data/CoLA.zip",
            to="glue",
            unpack=True,
            size=376971,
            sha256="f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
        ),
    ),
    extra={"submission": {"file": "CoLA.tsv", "rows": 1063, "constant": "1"}},
)
