"""SQuAD 1.1: Rajpurkar et al., 2016 (survey, section 7.2). Questions whose answer is a span of a Wikipedia paragraph.

Official files: train-v1.1.json and dev-v1.1.json, ``data[].paragraphs[].{context, qas[].{id, question, answers[].{text,
answer_start}}}``. The test set is not public, so the dev set is reported, as is usual. Licence: CC BY-SA 4.0.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ptmbench.tasks.files import json_document, pick
from ptmbench.tasks.forms import Answer, Form
from ptmbench.tasks.metrics.squad import squad
from ptmbench.tasks.task import DataError, Download, Example, Source, Task

FILES = {"train": ("train-v1.1.json",), "dev": ("dev-v1.1.json",)}


def read(folder: Path, split: str) -> Iterator[Example]:
    """The questions of ``split`` in file order."""
    yield from questions(pick(folder, FILES[split][0]))


def questions(path: Path, language: str = "", question_language: str = "") -> Iterator[Example]:
    """The questions of one file in SQuAD's format. ``group`` is the article's title and the paragraph's number.

    ``language`` is the language of the contexts. ``question_language`` is that of the questions, if it differs.

    Version 2.0 marks questions without an answer; their gold is (). If a question has neither an answer nor this mark,
    its answer is not public, and gold is None.
    """
    content = json_document(path)
    channels = {"languages": (question_language or language, language)} if language else {}
    try:
        for article in content["data"]:
            for number, paragraph in enumerate(article["paragraphs"]):
                context, group = _text(paragraph, "context"), f"{article.get('title', '')}#{number}"
                for row in paragraph["qas"]:
                    answers = tuple(Answer(_text(answer, "text"), _start(answer)) for answer in row.get("answers", ()))
                    known = answers or row.get("is_impossible", False)
                    yield Example(
                        id=str(row["id"]),
                        inputs=(_text(row, "question"), context),
                        gold=answers if known else None,
                        group=group,
                        channels=channels,
                    )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{path} is JSON, but not in SQuAD's format ({type(error).__name__}: {error}).") from error


def _text(record: dict[str, Any], key: str) -> str:
    if not isinstance(record[key], str):
        raise TypeError(f"'{key}' is not text but {record[key]!r:.40}")
    return record[key]


def _start(answer: dict[str, Any]) -> int:
    """The index of the answer's first character. Some copies of the files have "12" or 12.0 instead of 12."""
    found = answer["answer_start"]
    whole = isinstance(found, int) or (isinstance(found, float) and found.is_integer())
    if isinstance(found, bool) or not (whole or (isinstance(found, str) and re.fullmatch(r"-?[0-9]+", found))):
        raise TypeError(f"'answer_start' is not a whole number but {found!r:.40}")
    return int(found)


TASK = Task(
    name="squad11",
    title="SQuAD 1.1",
    form=Form.SPAN,
    source=Source(
        citation="Rajpurkar et al., 2016: SQuAD: 100,000+ questions for machine comprehension of text",
        licence="CC BY-SA 4.0",
        url="https://rajpurkar.github.io/SQuAD-explorer/",
        survey="7.2",
    ),
    folders=("squad11", "squad/v1.1", "squad", "SQuAD"),
    files=FILES,
    read=read,
    metrics=(squad,),
    headline="f1",
    chance=0.0,
    downloads=(
        Download(
            url="https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v1.1.json",
            to="squad11/train-v1.1.json",
            size=30288272,
            sha256="3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
        ),
        Download(
            url="https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v1.1.json",
            to="squad11/dev-v1.1.json",
            size=4854279,
            sha256="95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
        ),
    ),
)
