"""SQuAD 2.0's dev set as divided by Stanford's course CS224n (survey, section 7.2): 16 articles with answers, 20
without.

Files: dev-v2.0.json (6078 questions) and test-v2.0.json (5915, answers withheld), in SQuAD 2.0's format. Rajpurkar et
al., 2018; the division is the course's (https://github.com/chrischute/squad). Licence: CC BY-SA 4.0.

Use it if SQuAD's own training set is not available. Of the part with answers, every fourth article is reported, and the
others are for training. No article is in both splits. "all" is the whole part with answers, for scoring prediction
files.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.squad2 import squad2, thresholds
from ptmbench.tasks.squad11 import questions
from ptmbench.tasks.squad20 import SOURCE
from ptmbench.tasks.task import Example, Task

FILE = "dev-v2.0.json"
FILES = {"all": (FILE,), "train": (FILE,), "dev": (FILE,), "test": ("test-v2.0.json",)}
EVERY = 4
"""One of this number of articles is reported."""


def read(folder: Path, split: str) -> Iterator[Example]:
    """The questions of ``split``'s articles in file order."""
    examples = questions(pick(folder, FILES[split][0]))
    if split in ("all", "test"):
        yield from examples
        return
    for number, (_, article) in enumerate(groupby(examples, key=lambda example: example.group.rpartition("#")[0]), 1):
        if (number % EVERY == 0) == (split == "dev"):
            yield from article


TASK = Task(
    name="squad20_cs224n",
    title="SQuAD 2.0 (part of its dev set)",
    form=Form.SPAN,
    source=SOURCE,
    folders=("squad/cs224n", "cs224n"),
    files=FILES,
    read=read,
    metrics=(squad2, thresholds),
    headline="f1",
    labels=("",),
    chance=50.51,
    notes="Four articles of the dev set are reported and twelve others train, so scores do not compare with published "
    "ones.",
)
