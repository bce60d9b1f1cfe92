"""RTE as SuperGLUE gives it (survey, section 7.1): the pairs of `tasks.rte`, as JSON lines with other keys.

Dagan et al., 2006, and three later challenges; GLUE and SuperGLUE (Wang et al., 2019) took the same rows in the same
order. It is a separate task because its files and its test server differ, and because its model is also used for the
diagnostic sets `tasks.axb` and `tasks.axg`. Licence: the challenges' terms, for research. Official files: premise,
hypothesis, idx and, in train and val, label.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks import rte
from ptmbench.tasks.files import entry, json_lines, label, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Task

FILES = {"train": ("train.jsonl",), "dev": ("val.jsonl",), "test": ("test.jsonl",)}
LABELS = rte.LABELS


def read(folder: Path, split: str) -> Iterator[Example]:
    """(premise, hypothesis) pairs in file order; ids are the files' idx."""
    yield from pairs(pick(folder, FILES[split][0]), labelled=split != "test")


def pairs(path: Path, *, labelled: bool) -> Iterator[Example]:
    """The pairs of one file. Also used for the training files of `tasks.axb` and `tasks.axg`."""
    for line, record in json_lines(path):
        gold = label(path, line, entry(path, line, record, "label"), LABELS) if labelled else None
        inputs = (entry(path, line, record, "premise"), entry(path, line, record, "hypothesis"))
        yield Example(id=str(entry(path, line, record, "idx", int)), inputs=inputs, gold=gold)


TASK = Task(
    name="rte_superglue",
    title="RTE (SuperGLUE)",
    form=Form.CLASSIFICATION,
    source=rte.TASK.source,
    folders=("superglue/RTE", "RTE"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=rte.TASK.words,
    prompt=rte.TASK.prompt,
    chance=50.0,
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/superglue/data/v2/RTE.zip",
            to="superglue",
            unpack=True,
            size=750920,
            sha256="6310aab3f000424c9d0318a1ff20692e07c7f4aa15e8f17a5972ea0a35c398b9",
        ),
    ),
    extra={"submission": {"archive": "superglue", "file": "RTE.jsonl", "rows": 3000, "constant": "entailment"}},
)
