"""XQuAD, English: Artetxe et al., 2020 (survey, section 7.2). Questions answered by a span of a Wikipedia paragraph.

Official file: xquad.en.json, 240 paragraphs of 48 articles from SQuAD 1.1's dev set, in SQuAD's format. Licence: CC
BY-SA 4.0.

XQuAD is made for testing what was trained on SQuAD. Where SQuAD's training set is not at hand, its articles serve for
both: the questions of the last of every four are reported, those of the others train. No article is in both parts.
"all" is the whole file, for files of predictions.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.squad import squad
from ptmbench.tasks.squad11 import questions
from ptmbench.tasks.task import Download, Example, Source, Task

FILE = "xquad.en.json"
EVERY = 4
"""One article of so many is reported."""


def read(folder: Path, split: str) -> Iterator[Example]:
    """The questions of ``split``'s articles in file order."""
    yield from part(pick(folder, FILE), split)


def part(path: Path, split: str) -> Iterator[Example]:
    """The questions of the articles that ``split`` has of a file; the articles are the same in every language."""
    articles = groupby(questions(path), key=lambda example: example.group.rpartition("#")[0])
    for number, (_, examples) in enumerate(articles, 1):
        if split == "all" or (number % EVERY == 0) == (split == "dev"):
            yield from examples


TASK = Task(
    name="xquad_en",
    title="XQuAD (English)",
    form=Form.SPAN,
    source=Source(
        citation="Artetxe et al., 2020: On the cross-lingual transferability of monolingual representations",
        licence="CC BY-SA 4.0",
        url="https://github.com/google-deepmind/xquad",
        survey="7.2",
    ),
    folders=("xquad", "XQuAD"),
    files={"all": (FILE,), "train": (FILE,), "dev": (FILE,)},
    read=read,
    metrics=(squad,),
    headline="f1",
    chance=0.0,
    downloads=(
        Download(
            url="https://raw.githubusercontent.com/google-deepmind/xquad/master/xquad.en.json",
            to="xquad/xquad.en.json",
        ),
    ),
    notes="A quarter of XQuAD's own articles is reported and the rest trains, so scores do not compare with published "
    "ones.",
)
