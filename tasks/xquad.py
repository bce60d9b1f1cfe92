"""XQuAD in English, or trained in English and tested in German or Chinese: Artetxe et al., 2020 (survey, section 7.2).

Questions answered by a span of a Wikipedia paragraph. Official files, in SQuAD's format: xquad.en.json, 240 paragraphs
of 48 articles from SQuAD 1.1's dev set, and xquad.de.json and xquad.zh.json, its translations question by question.
Licence: CC BY-SA 4.0.

XQuAD is a test set for models trained on SQuAD. For use without SQuAD's training set, this task divides its articles:
English questions of three quarters of the articles are for training, and questions of every fourth article are reported
in the language of the task. The articles are translations of each other, so no article may be in both parts. "all" is
the whole file, for scoring prediction files. The headline is SQuAD's F1, as in XQuAD's paper. The values with the
prefix "language_" are MLQA's, which have rules for German and Chinese.
"""

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.mlqa import mlqa
from ptmbench.tasks.metrics.squad import squad
from ptmbench.tasks.squad11 import questions
from ptmbench.tasks.task import Download, Example, Source, Task

LANGUAGES = {"en": "English", "de": "German", "zh": "Chinese"}
EVERY = 4
"""One of this number of articles is reported."""
_NOTES = (
    "A quarter of XQuAD's own articles is reported and the rest trains, so scores do not compare with published ones."
)
_URL = "https://raw.githubusercontent.com/google-deepmind/xquad/master"


def read(folder: Path, split: str, *, language: str = "en") -> Iterator[Example]:
    """The questions of ``split``'s articles in file order, in English for training and otherwise in ``language``."""
    spoken = "en" if split == "train" else language
    articles = groupby(questions(pick(folder, _file(spoken)), spoken), key=lambda one: one.group.rpartition("#")[0])
    for number, (_, examples) in enumerate(articles, 1):  # the articles are the same in every language
        if split == "all" or (number % EVERY == 0) == (split == "dev"):
            yield from examples


def _file(language: str) -> str:
    return f"xquad.{language}.json"


def _task(language: str) -> Task:
    """The task with test questions in ``language``."""
    english = language == "en"
    return Task(
        name=f"xquad_{language}",
        title="XQuAD (English)" if english else f"XQuAD (English to {LANGUAGES[language]})",
        form=Form.SPAN,
        source=Source(
            citation="Artetxe et al., 2020: On the cross-lingual transferability of monolingual representations",
            licence="CC BY-SA 4.0",
            url="https://github.com/google-deepmind/xquad",
            survey="7.2",
        ),
        folders=("xquad", "XQuAD"),
        files={"all": (_file(language),), "train": (_file("en"),), "dev": (_file(language),)},
        read=read if english else partial(read, language=language),
        metrics=(squad,) if english else (squad, mlqa(language, "language_")),
        headline="f1",
        chance=0.0,
        downloads=tuple(
            Download(url=f"{_URL}/{_file(one)}", to=f"xquad/{_file(one)}") for one in dict.fromkeys(("en", language))
        ),
        notes=_NOTES if english else f"Zero-shot from English. {_NOTES}",
    )


TASKS = {
    "xquad_de": _task("de"),
    "xquad_en": _task("en"),
    "xquad_zh": _task("zh"),
}
