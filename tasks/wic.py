"""WiC, Word-in-Context (survey, section 7.1): does a word have the same sense in two sentences?

Pilehvar & Camacho-Collados, 2019: WiC: the word-in-context dataset, NAACL; in SuperGLUE since Wang et al., 2019.
Licence: CC BY-NC 4.0. Official files: JSON lines with word, sentence1, sentence2, start1, end1, start2, end2
(characters), idx and, in train and val, label (true or false).

Asterisks mark the word for the encoder in both sentences, " * place * ". Its form may differ from ``word`` ("ran" for
"run").
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ptmbench.tasks.files import entry, json_lines, malformed, mark_word, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.jsonl",), "dev": ("val.jsonl",), "test": ("test.jsonl",)}
LABELS = ("false", "true")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Pairs of sentences with the word marked, in file order; ids are the files' idx."""
    path = pick(folder, FILES[split][0])
    for line, record in json_lines(path):
        gold = LABELS[entry(path, line, record, "label", bool)] if split != "test" else None
        inputs = tuple(_sentence(path, line, record, number) for number in "12")
        yield Example(id=str(entry(path, line, record, "idx", int)), inputs=inputs, gold=gold)


def _sentence(path: Path, line: int, record: dict[str, Any], number: str) -> str:
    text = entry(path, line, record, f"sentence{number}")
    start, end = (entry(path, line, record, f"{edge}{number}", int) for edge in ("start", "end"))
    if not 0 <= start < end <= len(text):
        raise malformed(path, line, f"characters {start} to {end} are not part of sentence{number}.")
    return mark_word(text, start, end)


TASK = Task(
    name="wic",
    title="WiC",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Pilehvar & Camacho-Collados, 2019: WiC: the word-in-context dataset",
        licence="CC BY-NC 4.0",
        url="https://pilehvar.github.io/wic/",
        survey="7.1",
    ),
    folders=("superglue/WiC", "WiC"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("No", "Yes"),
    prompt="{0} {1} Question: Does the marked word mean the same? Answer:",
    chance=50.0,
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/superglue/data/v2/WiC.zip",
            to="superglue",
            unpack=True,
            size=396213,
            sha256="ee7e67f4ae9eafbf533780faa198e62167f3cda54256cdf261877be3c0e90900",
        ),
    ),
    extra={"submission": {"archive": "superglue", "file": "WiC.jsonl", "rows": 1400, "constant": "true"}},
)
