"""CNN/DailyMail: Hermann et al., 2015; as summaries See et al., 2017, and Nallapati et al., 2016 (survey, section 7.6).
News articles with their highlights.

Three formats of the articles are read. The official one: ``cnn/stories`` and ``dailymail/stories`` hold a ``.story``
file for each article, with its paragraphs and then a line ``@highlight`` before each highlight. ``all_train.txt`` and
similar lists define the splits; a file is named by the SHA-1 of its URL. JSON lines: ``train.jsonl`` and the like, with
"article", "highlights" and "id". And, for ``cnn_dailymail-anonymised``, the format of Cheng and Lapata (2016), in which
names are @entity0 and so on: ``cnn/training/*.summary``, with four parts between empty lines: a URL, sentences with a
tab and a label, highlights with an asterisk before each, and the names of the entities. Gold is the highlights, one per
line, as ``rougeLsum`` expects. Licence: MIT for the scripts; the news belong to their publishers.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ptmbench.tasks.files import entry, json_lines, lines, malformed, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.rouge import rouge
from ptmbench.tasks.task import DataError, Example, MissingData, Source, Task, UnknownTask

SITES = ("cnn", "dailymail")
_LISTS = {"train": "all_train", "dev": "all_val", "test": "all_test"}
_JSON = {"train": "train.jsonl", "dev": "validation.jsonl|val.jsonl", "test": "test.jsonl"}
_FOLDERS = {"train": "training", "dev": "validation", "test": "test"}
_MARK = "@highlight"


def _files(split: str) -> tuple[str, ...]:
    listed = f"url_lists/{_LISTS[split]}.txt|{_LISTS[split]}.txt"
    return tuple(f"{official}|{_JSON[split]}" for official in (listed, *(f"{site}/stories" for site in SITES)))


def read(folder: Path, split: str) -> Iterator[Example]:
    """The articles of ``split``, in the order of the list or of the JSON lines."""
    listed = pick(folder, _files(split)[0])
    if listed.suffix == ".jsonl":
        for number, record in json_lines(listed):
            article, highlights = (entry(listed, number, record, key) for key in ("article", "highlights"))
            yield Example(id=str(record.get("id", number)), inputs=(article,), gold=(highlights,))
        return
    for number, address in lines(listed):
        name = hashlib.sha1(address.strip().encode(), usedforsecurity=False).hexdigest()
        paths = [folder / site / "stories" / f"{name}.story" for site in SITES]
        path = next((path for path in paths if path.exists()), None)
        if path is None:
            raise MissingData(f"{listed}, line {number}: there is no {paths[0]} or {paths[1]}; copy all stories.")
        yield _story(path)


def _story(path: Path) -> Example:
    article, highlights, follows = [], [], False
    for _, line in lines(path):
        if line.strip() == _MARK:
            follows = True
        elif line.strip():
            (highlights if follows or highlights else article).append(line.strip())
            follows = False
    if not highlights:
        raise DataError(f"{path} has no line '{_MARK}' with a highlight below it; copy the official file again.")
    return Example(id=path.stem, inputs=("\n".join(article),), gold=("\n".join(highlights),))


def read_anonymised(folder: Path, split: str) -> Iterator[Example]:
    """The articles of ``split`` with entity symbols instead of names, sorted by site and file name."""
    for site in SITES:
        for path in sorted((folder / site / _FOLDERS[split]).glob("*.summary")):
            parts = [part.split("\n") for part in "\n".join(text for _, text in lines(path)).strip().split("\n\n")]
            if len(parts) < 3:
                raise malformed(path, 1, "an address, sentences and highlights between empty lines were expected.")
            article, highlights = (
                "\n".join(row.split("\t")[0].strip().removeprefix("*") for row in part) for part in parts[1:3]
            )
            yield Example(id=f"{site}-{path.stem}", inputs=(article,), gold=(highlights,))


@cache
def variant(kind: str) -> Task:
    """The task "cnn_dailymail-anonymised" for "anonymised". "" is the default task."""
    if kind not in ("", "anonymised"):
        raise UnknownTask(f"CNN/DailyMail has no variant '{kind}'. Choices: cnn_dailymail, cnn_dailymail-anonymised.")
    return Task(
        name=f"cnn_dailymail-{kind}" if kind else "cnn_dailymail",
        title=f"CNN/DailyMail{', anonymised' if kind else ''}",
        form=Form.GENERATION,
        source=Source(
            citation="Nallapati et al., 2016; Cheng & Lapata, 2016" if kind else "See et al., 2017: Get to the point",
            licence="MIT (scripts); news by their publishers",
            url="https://github.com/abisee/cnn-dailymail",
            survey="7.6",
        ),
        folders=("neuralsum", "cnn_dailymail_anonymised") if kind else ("cnn_dailymail", "cnn-dailymail"),
        files={
            split: tuple(f"{site}/{_FOLDERS[split]}" for site in SITES) if kind else _files(split) for split in _LISTS
        },
        read=read_anonymised if kind else read,
        metrics=(rouge,),
        headline="rougeLsum",
        report="test",
        version=2,  # since generated summaries have one sentence per line
        extra={"lead": 3},
    )


TASK = variant("")
