"""XNLI: Conneau et al., 2018 (survey, section 4.2). MNLI's question for pairs translated by people into 15 languages.

Official files: ``XNLI-1.0/xnli.dev.tsv`` and ``xnli.test.tsv``, 19 columns, all languages in one file. For training,
``XNLI-MT-1.0/multinli/multinli.train.en.tsv`` and so on have machine translations of MNLI in the columns premise, hypo
and label, in which a contradiction is "contradictory". Licence: CC BY-NC 4.0.

``TASK`` is English. "xnli-zh" is zero-shot: it trains on English, uses the English dev pairs for early stopping, and
reports Chinese. "xnli-zh-translated" uses Chinese for all three (translate-train, section 5.1 of the paper).
"""

import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from ptmbench.tasks.files import label, pick, rows
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.mnli import LABELS
from ptmbench.tasks.mnli import TASK as MNLI
from ptmbench.tasks.task import Download, Example, Source, Task, UnknownTask

LANGUAGES = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
MACHINE = {"contradictory": "contradiction"}
"""The spelling of a label in the translated training files."""
_DEV, _TEST = ("XNLI-1.0/xnli.dev.tsv",), ("XNLI-1.0/xnli.test.tsv",)


def _files(language: str, trained: str) -> dict[str, tuple[str, ...]]:
    files = {"train": (f"XNLI-MT-1.0/multinli/multinli.train.{trained}.tsv",), "dev": _DEV, "test": _TEST}
    return files if language == trained else files | {f"dev-{language}": _DEV}


def read_language(folder: Path, split: str, *, language: str, trained: str) -> Iterator[Example]:
    """Pairs in file order. Those for training and early stopping are in the language ``trained``, the others in
    ``language``.

    Ids are the files' pairID, and ``group`` is the promptID, which three hypotheses about one premise share. Training
    pairs are numbered from 0.
    """
    path = pick(folder, _files(language, trained)[split][0])
    if split == "train":
        for count, (line, (premise, hypothesis, gold)) in enumerate(rows(path, ("premise", "hypo", "label"))):
            gold = label(path, line, MACHINE.get(gold, gold), LABELS)
            spoken = {"languages": (trained, trained)}
            yield Example(id=str(count), inputs=(premise, hypothesis), gold=gold, channels=spoken)
        return
    wanted = trained if split == "dev" else language
    columns = ("language", "pairID", "promptID", "sentence1", "sentence2", "gold_label")
    for line, (code, pair, prompt, premise, hypothesis, gold) in rows(path, columns):
        if code == wanted:
            gold = label(path, line, gold, LABELS)
            spoken = {"languages": (code, code)}
            yield Example(id=pair, inputs=(premise, hypothesis), gold=gold, group=prompt, channels=spoken)


def read(folder: Path, split: str) -> Iterator[Example]:
    """English pairs in all splits."""
    return read_language(folder, split, language="en", trained="en")


@cache
def variant(way: str) -> Task:
    """The task of "zh" (zero-shot from English) or "zh-translated". "en" is the default task."""
    found = re.fullmatch(r"([a-z]{2})(-translated)?", way)
    language, translated = (found[1], bool(found[2])) if found else ("", False)
    if language not in LANGUAGES or way == "en-translated":
        raise UnknownTask(
            f"XNLI has no '{way}'. Write a language, and -translated to train on its translation of MNLI (xnli-zh, "
            f"xnli-zh-translated); the languages are {', '.join(LANGUAGES)}."
        )
    default, trained = way == "en", language if translated else "en"
    how = "" if default else " (translate-train)" if translated else " (from English)"
    official = "https://dl.fbaipublicfiles.com/XNLI"
    return Task(
        name="xnli" if default else f"xnli-{way}",
        title=f"XNLI {language}{how}",
        form=Form.CLASSIFICATION,
        source=Source(
            citation="Conneau et al., 2018: XNLI: evaluating cross-lingual sentence representations",
            licence="CC BY-NC 4.0",
            url="https://github.com/facebookresearch/XNLI",
            survey="4.2",
        ),
        folders=("xnli", "XNLI"),
        files=_files(language, trained),
        read=read if default else partial(read_language, language=language, trained=trained),
        metrics=(accuracy,),
        headline="accuracy",
        labels=LABELS,
        words=MNLI.words,
        prompt=MNLI.prompt,
        report="test",
        chance=100.0 / 3.0,
        downloads=tuple(
            Download(url=f"{official}/{name}.zip", to="xnli", unpack=True) for name in ("XNLI-1.0", "XNLI-MT-1.0")
        ),
        extra={"languages": (language, trained)},
    )


TASK = variant("en")
