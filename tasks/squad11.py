"""SQuAD 1.1: Rajpurkar et al., 2016 (survey, section 7.2). Questions whose answer is a span of a Wikipedia paragraph.

Official files: train-v1.1.json and dev-v1.1.json, ``data[].paragraphs[].{context, qas[].{id, question, answers[].{text,
answer_start}}}``. The test set is not public, so the dev set is reported, as everybody does. Licence: CC BY-SA 4.0.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from tasks.files import pick
from tasks.forms import Answer, Form
from tasks.metrics.squad import squad
from tasks.task import DataError, Example, Source, Task

FILES = {"train": ("train-v1.1.json",), "dev": ("dev-v1.1.json",)}


def read(folder: Path, split: str) -> Iterator[Example]:
    """The questions of ``split`` in file order."""
    yield from questions(pick(folder, FILES[split][0]))


def questions(path: Path) -> Iterator[Example]:
    """The questions of one file in SQuAD's format; ``group`` is the article's title and the paragraph's number."""
    try:
        articles = json.loads(path.read_bytes().decode("utf-8-sig"))["data"]
        for article in articles:
            for number, paragraph in enumerate(article["paragraphs"]):
                context, group = paragraph["context"], f"{article.get('title', '')}#{number}"
                for row in paragraph["qas"]:
                    answers = tuple(
                        Answer(answer["text"], int(answer["answer_start"])) for answer in row.get("answers", ())
                    )
                    inputs = (row["question"], context)
                    yield Example(id=str(row["id"]), inputs=inputs, gold=answers or None, group=group)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start}); convert it to UTF-8.") from error
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}, line {error.lineno}: not JSON ({error.msg}); copy the official file again."
        ) from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{path} is JSON, but not in SQuAD's format ({type(error).__name__}: {error}).") from error


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
)
