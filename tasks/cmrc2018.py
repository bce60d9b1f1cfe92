"""CMRC 2018: Cui et al., 2019. Chinese questions answered by a span of a Wikipedia paragraph: SQuAD's task (survey,
section 7.2) in Chinese. The Chinese models of the survey's section 4 report it.

Official files: cmrc2018_train.json, cmrc2018_dev.json and cmrc2018_trial.json in one of two layouts: SQuAD's, or the
original list of ``{context_id, context_text, title, qas: [{query_id, query_text, answers: [text, ...]}]}``. The
original has no positions of answers, so the first occurrence is used. In 27 questions of its dev file, some answers are
JSON numbers, mostly dates as a spreadsheet stores them (39764.0 for 12 November 2008). The official script converts all
answers with ``str``, and so does `read`. The test set is not public. Licence: CC BY-SA 4.0.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import entry, json_document, malformed, pick
from ptmbench.tasks.forms import Answer, Form
from ptmbench.tasks.metrics.cmrc import cmrc
from ptmbench.tasks.squad11 import questions
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("cmrc2018_train.json",), "dev": ("cmrc2018_dev.json",), "trial": ("cmrc2018_trial.json",)}
_URL = "https://raw.githubusercontent.com/ymcui/cmrc2018/master/squad-style-data/"


def read(folder: Path, split: str) -> Iterator[Example]:
    """The questions of ``split`` in file order. ``group`` is the paragraph."""
    path = pick(folder, FILES[split][0])
    content = json_document(path)
    if not isinstance(content, list):
        yield from questions(path)
        return
    for paragraph in content:
        if not isinstance(paragraph, dict):
            raise malformed(path, 1, "the list must hold objects, one for each paragraph.")
        context, group = (entry(path, 1, paragraph, key) for key in ("context_text", "context_id"))
        for row in entry(path, 1, paragraph, "qas", list):
            if not isinstance(row, dict):
                raise malformed(path, 1, f'the key "qas" of {group} must be a list of objects.')
            texts = entry(path, 1, row, "answers", list)
            if not texts or not all(type(text) in (str, int, float) for text in texts):
                raise malformed(path, 1, f'the key "answers" of {row.get("query_id")} must be a list of texts.')
            yield Example(
                id=entry(path, 1, row, "query_id"),
                inputs=(entry(path, 1, row, "query_text"), context),
                gold=tuple(Answer(text, context.find(text)) for text in map(str, texts)),
                group=group,
                channels={"languages": ("zh", "zh")},
            )


TASK = Task(
    name="cmrc2018",
    title="CMRC 2018",
    form=Form.SPAN,
    source=Source(
        citation="Cui et al., 2019: A span-extraction dataset for Chinese machine reading comprehension",
        licence="CC BY-SA 4.0",
        url="https://github.com/ymcui/cmrc2018",
        survey="",
    ),
    folders=("cmrc2018", "CMRC2018"),
    files=FILES,
    read=read,
    metrics=(cmrc,),
    headline="exact_match+f1",
    chance=0.0,
    downloads=tuple(Download(url=_URL + name, to=f"cmrc2018/{name}") for (name,) in FILES.values()),
)
