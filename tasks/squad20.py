"""SQuAD 2.0: Rajpurkar et al., 2018 (survey, section 7.2). As SQuAD 1.1, and half of the questions have no answer.

Official files: train-v2.0.json and dev-v2.0.json, SQuAD 1.1's layout with ``is_impossible`` and ``plausible_answers``.
The test set is not public, so the dev set is reported, as is usual. Licence: CC BY-SA 4.0.

Predictions are {question id: answer}, and "" means no answer. The official script also takes {question id: score of no
answer}, and then finds the best threshold on the score. The headline is F1 with the threshold of the model itself (0
for the networks here, at which "no answer" and the best span are equally probable). ``best_f1`` is F1 at the threshold
tuned on the reported questions, which most papers print for the dev set.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.squad2 import squad2, thresholds
from ptmbench.tasks.squad11 import questions
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train-v2.0.json",), "dev": ("dev-v2.0.json",)}
SOURCE = Source(
    citation="Rajpurkar et al., 2018: Know what you don't know: unanswerable questions for SQuAD",
    licence="CC BY-SA 4.0",
    url="https://rajpurkar.github.io/SQuAD-explorer/",
    survey="7.2",
)


def read(folder: Path, split: str) -> Iterator[Example]:
    """The questions of ``split`` in file order. Gold is () if there is no answer."""
    yield from questions(pick(folder, FILES[split][0]))


TASK = Task(
    name="squad20",
    title="SQuAD 2.0",
    form=Form.SPAN,
    source=SOURCE,
    folders=("squad20", "squad/v2.0"),
    files=FILES,
    read=read,
    metrics=(squad2, thresholds),
    headline="f1",
    labels=("",),
    chance=50.07,
    downloads=(
        Download(
            url="https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v2.0.json",
            to="squad20/train-v2.0.json",
            size=42123633,
            sha256="68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002",
        ),
        Download(
            url="https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v2.0.json",
            to="squad20/dev-v2.0.json",
            size=4370528,
            sha256="80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
        ),
    ),
)
