"""AX-b, SuperGLUE's broad-coverage diagnostics (survey, section 7.1): GLUE's AX with two classes and public labels.

Wang et al., 2019: SuperGLUE, NeurIPS, section 3.3. Licence: none stated, published for research. Official files: RTE's
train.jsonl for training, because a model for RTE makes the predictions; AX-b.jsonl with sentence1, sentence2, label,
logic (the phenomena) and idx, which is a string here.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks import rte_superglue
from ptmbench.tasks.files import entry, json_lines, label, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.metrics.matthews import matthews
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("RTE/train.jsonl",), "test": ("AX-b/AX-b.jsonl",)}
LABELS = rte_superglue.LABELS


def read(folder: Path, split: str) -> Iterator[Example]:
    """Pairs in file order; ids are the files' idx."""
    path = pick(folder, FILES[split][0])
    if split == "train":
        yield from rte_superglue.pairs(path, labelled=True)
        return
    for line, record in json_lines(path):
        gold = label(path, line, entry(path, line, record, "label"), LABELS)
        inputs = (entry(path, line, record, "sentence1"), entry(path, line, record, "sentence2"))
        yield Example(id=entry(path, line, record, "idx"), inputs=inputs, gold=gold)


TASK = Task(
    name="axb",
    title="AX-b",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Wang et al., 2019: SuperGLUE: a stickier benchmark for language understanding systems",
        licence="none stated; for research",
        url="https://super.gluebenchmark.com/diagnostics/",
        survey="7.1",
    ),
    folders=("superglue", "."),
    files=FILES,
    read=read,
    metrics=(matthews, accuracy),
    headline="mcc",
    labels=LABELS,
    words=rte_superglue.TASK.words,
    prompt=rte_superglue.TASK.prompt,
    chance=0.0,
    report="test",
    notes="A diagnosis, not part of SuperGLUE's score; train is RTE's.",
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/superglue/data/v2/AX-b.zip",
            to="superglue",
            unpack=True,
            size=33950,
            sha256="43b45c55a273575c58a33cd68f10a971f83daa3aa223bfbc4077b92fbdf960b3",
        ),
        *rte_superglue.TASK.downloads,
    ),
    extra={
        "submission": {"archive": "superglue", "file": "AX-b.jsonl", "rows": 1104, "constant": "entailment"},
        "trained_on": "rte_superglue",
    },
)
