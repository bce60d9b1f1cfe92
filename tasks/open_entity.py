"""Open Entity (survey, section 4.1): which types does an entity in a sentence have? Any number is possible.

Choi et al., 2018: Ultra-fine entity typing, ACL. Licence: none stated, for research. Official files: JSON lines
``{annot_id, left_context_token: [...], mention_span, right_context_token: [...], y_str: [types]}``, 1998 mentions each.
The annotators wrote 10331 types. Only the nine general ones are used, as in ERNIE (Zhang et al., 2019, section 4.4) and
later work. Mentions with none of these stay, without a right type.

Each type of a mention is a separate example, as in `tasks.multirc`: the sentence with the mention between asterisks,
and the type. Prediction files may have the format of the official scorer, {annot_id: {gold, pred}}.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import entry, json_document, json_lines, malformed, mark_word, pick
from ptmbench.tasks.forms import Form, Part
from ptmbench.tasks.metrics.types import types
from ptmbench.tasks.task import DataError, Example, Source, Task

FILES = {split: (f"crowd/{split}.json",) for split in ("train", "dev", "test")}
TYPES = ("person", "group", "organization", "location", "entity", "time", "object", "event", "place")
LABELS = ("0", "1")


def read(folder: Path, split: str) -> Iterator[Example]:
    """(sentence, type) in file order. Ids are "annot_id-type". The mention is ``group`` and gold's whole."""
    path = pick(folder, FILES[split][0])
    for line, record in json_lines(path):
        name, mention = entry(path, line, record, "annot_id"), entry(path, line, record, "mention_span")
        left, right, given = (
            _words(path, line, record, key) for key in ("left_context_token", "right_context_token", "y_str")
        )
        before = " ".join([*left, ""])
        text = mark_word(" ".join([before + mention, *right]), len(before), len(before) + len(mention))
        for kind in TYPES:
            gold = Part(LABELS[kind in given], whole=name, kind=kind)
            yield Example(id=f"{name}-{kind}", inputs=(text, kind), gold=gold, group=name)


def _words(path: Path, line: int, record: dict, key: str) -> list[str]:
    found = entry(path, line, record, key, list)
    if not all(isinstance(word, str) for word in found):
        raise malformed(path, line, f'the key "{key}" must be a list of texts.')
    return found


def predictions(path: Path) -> dict[str, str]:
    """Reads the official scorer's format. ``pred`` lists the types of a mention; only the nine types are used."""
    content = json_document(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} must be one JSON object from annot_id to {{gold, pred}}.")
    found = {}
    for name, answer in content.items():
        if not isinstance(answer, dict) or not isinstance(answer.get("pred"), list):
            raise DataError(f'{path}: the answer to {name} needs a list of types under "pred", not {answer!r:.80}.')
        found |= {f"{name}-{kind}": LABELS[kind in answer["pred"]] for kind in TYPES}
    return found


TASK = Task(
    name="open_entity",
    title="Open Entity (9 types)",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Choi et al., 2018: Ultra-fine entity typing",
        licence="none stated, for research",
        url="https://www.cs.utexas.edu/~eunsol/html_pages/open_entity.html",
        survey="4.1",
    ),
    folders=("open_entity", "OpenEntity"),
    files=FILES,
    read=read,
    metrics=(types,),
    headline="micro_f1",
    labels=LABELS,
    words=("False", "True"),
    prompt="{0} Question: is it of the type {1}? True or False? Answer:",
    report="test",
    predictions=predictions,
)
