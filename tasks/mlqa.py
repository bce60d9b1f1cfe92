"""MLQA: Lewis et al., 2020 (survey, section 4.2). Trained on English SQuAD, tested on articles in seven languages.

Official files: ``dev/dev-context-de-question-en.json`` and so on, in SQuAD's format, and SQuAD 1.1's train-v1.1.json
next to the two folders. ``TASK`` has German articles and questions; `variant` gives any of the 49 pairs. "mlqa-zh" has
Chinese articles and questions, "mlqa-zh-en" Chinese articles and English questions. Licence: CC BY-SA 3.0.

The task is zero-shot: the English dev file is used for early stopping, whichever language is reported.
"""

import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.mlqa import LANGUAGES, mlqa
from ptmbench.tasks.squad11 import TASK as SQUAD
from ptmbench.tasks.squad11 import questions
from ptmbench.tasks.task import Download, Example, Source, Task, UnknownTask


def _file(split: str, context: str, question: str) -> str:
    return f"{split}/{split}-context-{context}-question-{question}.json"


def _files(context: str, question: str) -> dict[str, tuple[str, ...]]:
    return {
        "train": ("train-v1.1.json",),
        "dev": (_file("dev", "en", "en"),),
        "test": (_file("test", context, question),),
        f"dev-{context}": (_file("dev", context, question),),
    }


def read_pair(folder: Path, split: str, *, context: str, question: str) -> Iterator[Example]:
    """The questions of ``split`` in file order."""
    spoken = ("en", "en") if split in ("train", "dev") else (context, question)
    yield from questions(pick(folder, _files(context, question)[split][0]), *spoken)


def read(folder: Path, split: str) -> Iterator[Example]:
    """German articles and questions."""
    return read_pair(folder, split, context="de", question="de")


@cache
def variant(pair: str) -> Task:
    """The task of "zh" or "zh-en" (language of the articles, then of the questions). "de" is the default task."""
    codes = re.fullmatch(r"([a-z]{2})(?:-([a-z]{2}))?", pair)
    context, question = (codes[1], codes[2] or codes[1]) if codes else ("", "")
    if context not in LANGUAGES or question not in LANGUAGES:
        raise UnknownTask(
            f"MLQA has no '{pair}'. Write the articles' language, then the questions' (mlqa-zh, mlqa-zh-en), of "
            f"{', '.join(LANGUAGES)}."
        )
    default = (context, question) == ("de", "de")
    short = context if context == question else f"{context}-{question}"
    return Task(
        name="mlqa" if default else f"mlqa-{short}",
        title=f"MLQA {short}",
        form=Form.SPAN,
        source=Source(
            citation="Lewis et al., 2020: MLQA: evaluating cross-lingual extractive question answering",
            licence="CC BY-SA 3.0",
            url="https://github.com/facebookresearch/MLQA",
            survey="4.2",
        ),
        folders=("mlqa", "MLQA_V1", "MLQA"),
        files=_files(context, question),
        read=read if default else partial(read_pair, context=context, question=question),
        metrics=(mlqa(context),),
        headline="f1",
        report="test",
        chance=0.0,
        downloads=(
            Download(url="https://dl.fbaipublicfiles.com/MLQA/MLQA_V1.zip", to="mlqa", unpack=True, strip=1),
            *(
                Download(url=one.url, to="mlqa/train-v1.1.json", size=one.size, sha256=one.sha256)
                for one in SQUAD.downloads
                if one.url.endswith("train-v1.1.json")
            ),
        ),
        extra={"languages": (context, question)},
    )


TASK = variant("de")
