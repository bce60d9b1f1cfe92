"""XQuAD, German: Artetxe et al., 2020 (survey, section 7.2). Trained in English, asked and answered in German.

Official files: xquad.en.json and xquad.de.json, translations of each other question by question, in SQuAD's format.
Licence: CC BY-SA 4.0.

English questions of three quarters of the articles train, the German questions of the other quarter are reported: the
articles are translations too, so none may be in both parts. "all" is the whole German file, for files of predictions.
The headline is SQuAD's F1, as XQuAD's authors score it; the values after "language_" are MLQA's, which know German.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks import xquad_en
from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.mlqa import mlqa
from ptmbench.tasks.metrics.squad import squad
from ptmbench.tasks.task import Download, Example, Task

FILES = {"all": ("xquad.de.json",), "train": (xquad_en.FILE,), "dev": ("xquad.de.json",)}


def read(folder: Path, split: str) -> Iterator[Example]:
    """The questions of ``split``'s articles in file order, in English to train on and in German to be asked."""
    yield from xquad_en.part(pick(folder, FILES[split][0]), split)


TASK = Task(
    name="xquad_de",
    title="XQuAD (English to German)",
    form=Form.SPAN,
    source=xquad_en.TASK.source,
    folders=xquad_en.TASK.folders,
    files=FILES,
    read=read,
    metrics=(squad, mlqa("de", "language_")),
    headline="f1",
    chance=0.0,
    downloads=(
        *xquad_en.TASK.downloads,
        Download(
            url="https://raw.githubusercontent.com/google-deepmind/xquad/master/xquad.de.json",
            to="xquad/xquad.de.json",
        ),
    ),
    notes="Zero-shot from English. A quarter of XQuAD's own articles is reported and the rest trains, so scores do not "
    "compare with published ones.",
)
