"""MultiRC (survey, section 7.2): is an answer to a question about a paragraph right? Any number can be right.

Khashabi et al., 2018: Looking beyond the surface, NAACL; in SuperGLUE since Wang et al., 2019. Licence: for research
and academic use. Official files: JSON lines ``{idx, passage: {text, questions: [{idx, question, answers: [{idx, text,
label}]}]}}``; no label in test. Questions need several sentences of the paragraph. Each answer is a separate example;
`tasks.metrics.multirc` groups the answers to a question.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import entry, json_lines, malformed, pick
from ptmbench.tasks.forms import Form, Part
from ptmbench.tasks.metrics.multirc import multirc
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.jsonl",), "dev": ("val.jsonl",), "test": ("test.jsonl",)}
LABELS = ("0", "1")


def read(folder: Path, split: str) -> Iterator[Example]:
    """(paragraph, question and answer) in file order. Ids are "paragraph-question-answer", groups are paragraphs."""
    path = pick(folder, FILES[split][0])
    for line, record in json_lines(path):
        paragraph, number = entry(path, line, record, "passage", dict), entry(path, line, record, "idx", int)
        text = entry(path, line, paragraph, "text")
        for question in _objects(path, line, paragraph, "questions"):
            question_id = f"{number}-{entry(path, line, question, 'idx', int)}"
            for answer in _objects(path, line, question, "answers"):
                gold = entry(path, line, answer, "label", int) if split != "test" else None
                if gold not in (None, 0, 1):
                    raise malformed(path, line, f"the label {gold} is not one of 0, 1.")
                yield Example(
                    id=f"{question_id}-{entry(path, line, answer, 'idx', int)}",
                    inputs=(text, f"{entry(path, line, question, 'question')} {entry(path, line, answer, 'text')}"),
                    gold=None if gold is None else Part(LABELS[gold], whole=question_id),
                    group=str(number),
                )


def _objects(path: Path, line: int, record: dict, key: str) -> list[dict]:
    found = entry(path, line, record, key, list)
    if not all(isinstance(one, dict) for one in found):
        raise malformed(path, line, f'the key "{key}" must be a list of objects.')
    return found


TASK = Task(
    name="multirc",
    title="MultiRC",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Khashabi et al., 2018: Looking beyond the surface: a challenge set for reading comprehension",
        licence="for research and academic use",
        url="https://cogcomp.seas.upenn.edu/multirc/",
        survey="7.2",
    ),
    folders=("superglue/MultiRC", "MultiRC"),
    files=FILES,
    read=read,
    metrics=(multirc,),
    headline="f1a+exact_match",
    labels=LABELS,
    version=2,  # since pairs of two long texts are truncated as in BERT's code
    words=("False", "True"),
    prompt="{0} Question: {1} True or False? Answer:",
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/superglue/data/v2/MultiRC.zip",
            to="superglue",
            unpack=True,
            size=1116225,
            sha256="b3cd440856e72eb166b2edcd37b798455f1ebd51f2c3de64c0c2a4e1971d2737",
        ),
    ),
    extra={
        "submission": {
            "archive": "superglue",
            "file": "MultiRC.jsonl",
            "rows": 9693,
            "constant": "1",
            "spelling": {"0": 0, "1": 1},
            "nested": True,
        }
    },
)
