"""AESLC, subject lines for e-mails: Zhang & Tetreault, 2019 (younger than the survey's section 7.6, summarization).

Official layout: ``enron_subject_line/{train,dev,test}/*.subject``, one e-mail per file: the body, a line ``@subject``,
and the author's subject. In dev and test, ``@ann0`` .. ``@ann2`` follow, subjects written by annotators. Gold is the
author's subject, then those of the annotators. The headline uses only the author's subject, as published values do.
``rouge1`` and the others take the best of all subjects. Licence: CC BY-NC-SA 4.0.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ptmbench.tasks.files import lines, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.rouge import rouge
from ptmbench.tasks.task import DataError, Download, Example, Source, Task

FILES = {split: (f"enron_subject_line/{split}",) for split in ("train", "dev", "test")}
_MARK = re.compile(r"@(subject|ann\d+)\s*")


def read(folder: Path, split: str) -> Iterator[Example]:
    """The e-mails of ``split``, sorted by file name. The ids are the file names without their ending."""
    for path in sorted(pick(folder, FILES[split][0]).glob("*.subject")):
        sections: list[list[str]] = [[]]
        for _, line in lines(path):
            if _MARK.fullmatch(line):
                sections.append([])
            else:
                sections[-1].append(line)
        body, *subjects = ("\n".join(section).strip() for section in sections)
        if not subjects or not subjects[0]:
            raise DataError(f"{path} has no line '@subject' with a subject below it; copy the official file again.")
        yield Example(id=path.stem, inputs=(body,), gold=tuple(subject for subject in subjects if subject))


def _author_statistics(gold: Sequence[Sequence[str]], predictions: Sequence[str]) -> np.ndarray:
    return rouge.statistics([references[:1] for references in gold], predictions)


def _author_value(sums: np.ndarray) -> dict[str, float]:
    return {f"author_{name}": value for name, value in rouge.value(sums).items()}


author_rouge = Additive(_author_statistics, _author_value)
"""{"author_rouge1", ...}: ROUGE with the first reference only."""

TASK = Task(
    name="aeslc",
    title="AESLC",
    form=Form.GENERATION,
    source=Source(
        citation="Zhang & Tetreault, 2019: This email could save your life",
        licence="CC BY-NC-SA 4.0",
        url="https://github.com/ryanzhumich/AESLC",
        survey="7.6",
    ),
    folders=("aeslc", "AESLC"),
    files=FILES,
    read=read,
    metrics=(rouge, author_rouge),
    headline="author_rougeL",
    report="test",
    downloads=(
        Download(
            url="https://github.com/ryanzhumich/AESLC/archive/master.zip",
            to="aeslc",
            unpack=True,
            strip=1,
        ),
    ),
    extra={"lead": 1},
)
