"""WSC, the Winograd schema challenge (survey, section 7.1): does a pronoun stand for this noun phrase?

Levesque, Davis & Morgenstern, 2012: The Winograd schema challenge, KR; as coreference in SuperGLUE (Wang et al., 2019).
Licence: CC BY 4.0. Official files: JSON lines with text, target (span1, the phrase, and span2, the pronoun, each with
its text and the number of its first space-separated word), idx and, in train and val, label (true or false).

The inputs are the text with asterisks around the pronoun, " * he * ", and the phrase. If the word with the given number
is not the pronoun (row 42 of val), the nearest occurrence of the pronoun is used.
"""

import re
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
    """(text with the pronoun marked, noun phrase) in file order; ids are the files' idx."""
    path = pick(folder, FILES[split][0])
    for line, record in json_lines(path):
        gold = LABELS[entry(path, line, record, "label", bool)] if split != "test" else None
        target = entry(path, line, record, "target", dict)
        inputs = (_text(path, line, record, target), " ".join(entry(path, line, target, "span1_text").split()))
        yield Example(id=str(entry(path, line, record, "idx", int)), inputs=inputs, gold=gold)


def _text(path: Path, line: int, record: dict[str, Any], target: dict[str, Any]) -> str:
    text, pronoun = entry(path, line, record, "text"), entry(path, line, target, "span2_text").strip()
    number = entry(path, line, target, "span2_index", int)
    before = [match.start() for match in re.finditer(r"\S+", text)]
    # Words include punctuation marks, so the pronoun is searched for inside them.
    found = [match.start() for match in re.finditer(rf"(?<!\w){re.escape(pronoun)}(?!\w)", text, re.IGNORECASE)]
    if not pronoun or not found:
        raise malformed(path, line, f"the text does not hold the pronoun {pronoun!r:.40}.")
    place = min(found, key=lambda start: abs(sum(first <= start for first in before) - 1 - number))
    return mark_word(text, place, place + len(pronoun))


TASK = Task(
    name="wsc",
    title="WSC",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Levesque et al., 2012: The Winograd schema challenge",
        licence="CC BY 4.0",
        url="https://cs.nyu.edu/~davise/papers/WinogradSchemas/WS.html",
        survey="7.1",
    ),
    folders=("superglue/WSC", "WSC"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("No", "Yes"),
    prompt="{0} Question: Does the marked pronoun mean {1}? Answer:",
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/superglue/data/v2/WSC.zip",
            to="superglue",
            unpack=True,
            size=32751,
            sha256="2ed6dfa94556b4a128ff0441efe365b2e883124e7e6aa00fb8d3a6cb1fd520a9",
        ),
    ),
    extra={
        "submission": {
            "archive": "superglue",
            "file": "WSC.jsonl",
            "rows": 146,
            "constant": "false",
            "spelling": {"false": "False", "true": "True"},
        }
    },
)
