"""BoolQ (survey, section 7.1): a yes/no question that someone asked a search engine, and a passage that answers it.

Clark et al., 2019: BoolQ: exploring the surprising difficulty of natural yes/no questions, NAACL; in SuperGLUE since
Wang et al., 2019. Licence: CC BY-SA 3.0. Official files: JSON lines with question, passage, idx and, in train and val,
label (true or false). Questions are in lower case and without a question mark.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import entry, json_lines, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.jsonl",), "dev": ("val.jsonl",), "test": ("test.jsonl",)}
LABELS = ("false", "true")


def read(folder: Path, split: str) -> Iterator[Example]:
    """(question, passage) pairs in file order; ids are the files' idx."""
    path = pick(folder, FILES[split][0])
    for line, record in json_lines(path):
        gold = LABELS[entry(path, line, record, "label", bool)] if split != "test" else None
        inputs = (entry(path, line, record, "question"), entry(path, line, record, "passage"))
        yield Example(id=str(entry(path, line, record, "idx", int)), inputs=inputs, gold=gold)


TASK = Task(
    name="boolq",
    title="BoolQ",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Clark et al., 2019: BoolQ: exploring the surprising difficulty of natural yes/no questions",
        licence="CC BY-SA 3.0",
        url="https://github.com/google-research-datasets/boolean-questions",
        survey="7.1",
    ),
    folders=("superglue/BoolQ", "BoolQ"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("No", "Yes"),
    prompt="{1} Question: {0}? Yes or No? Answer:",
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/superglue/data/v2/BoolQ.zip",
            to="superglue",
            unpack=True,
            size=4118001,
            sha256="853fbe7922f70c59629f06a39e8d9ca440c3d740e760fd3b87a5ddf3dcba2436",
        ),
    ),
    extra={"submission": {"archive": "superglue", "file": "BoolQ.jsonl", "rows": 3245, "constant": "true"}},
)
