"""ReCoRD (survey, section 7.2): which entity of a news article fills the gap in a sentence that continues it?

Zhang et al., 2018: ReCoRD: bridging the gap between human and machine commonsense reading comprehension; in SuperGLUE
since Wang et al., 2019. Licence: none stated, for research; articles of CNN and Daily Mail. Official files: JSON lines
``{idx, passage: {text, entities: [{start, end}]}, qas: [{idx, query, answers: [{start, end, text}]}]}``, where ``end``
is the last character. There are no answers in test. The gap in the query is "@placeholder".

It is read as a span task: the files have the position of the answer in the article, and the official script compares
texts as SQuAD's does, with the best of the answers. Scoring a copy of the article for each entity (about twenty) would
cost twenty times as much for the same metric. A prediction is therefore not always one of the marked entities; the
scorer allows this.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import entry, json_lines, malformed, pick
from ptmbench.tasks.forms import Answer, Form
from ptmbench.tasks.metrics.squad import squad
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.jsonl",), "dev": ("val.jsonl",), "test": ("test.jsonl",)}


def read(folder: Path, split: str) -> Iterator[Example]:
    """(query, article) in file order. Ids are the queries' idx, and ``group`` is the article."""
    path = pick(folder, FILES[split][0])
    for line, record in json_lines(path):
        passage = entry(path, line, record, "passage", dict)
        text, article = entry(path, line, passage, "text"), str(entry(path, line, record, "idx", int))
        for query in entry(path, line, record, "qas", list):
            if not isinstance(query, dict):
                raise malformed(path, line, 'the key "qas" must be a list of objects.')
            gold = None if split == "test" else tuple(_answers(path, line, query, text))
            inputs = (entry(path, line, query, "query"), text)
            yield Example(id=str(entry(path, line, query, "idx", int)), inputs=inputs, gold=gold, group=article)


def _answers(path: Path, line: int, query: dict, text: str) -> Iterator[Answer]:
    answers = entry(path, line, query, "answers", list)
    if not answers or not all(isinstance(answer, dict) for answer in answers):
        raise malformed(path, line, 'the key "answers" must be a list of at least one object.')
    for answer in answers:
        words, start = entry(path, line, answer, "text"), entry(path, line, answer, "start", int)
        if text[start : start + len(words)] != words:
            raise malformed(path, line, f"the answer {words!r:.60} does not stand at character {start} of its article.")
        yield Answer(words, start)


TASK = Task(
    name="record",
    title="ReCoRD",
    form=Form.SPAN,
    source=Source(
        citation="Zhang et al., 2018: ReCoRD: bridging the gap between human and machine reading comprehension",
        licence="none stated; for research (articles of CNN and Daily Mail)",
        url="https://sheng-z.github.io/ReCoRD-explorer/",
        survey="7.2",
    ),
    folders=("superglue/ReCoRD", "ReCoRD"),
    files=FILES,
    read=read,
    metrics=(squad,),
    headline="f1+exact_match",
    chance=0.0,
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/superglue/data/v2/ReCoRD.zip",
            to="superglue",
            unpack=True,
            size=51757880,
            sha256="30c7b651ab21b8bf8fab986495cd1084333010e040548f861b839eec0044ac18",
        ),
    ),
    extra={"submission": {"archive": "superglue", "file": "ReCoRD.jsonl", "rows": 10000, "constant": "none"}},
)
