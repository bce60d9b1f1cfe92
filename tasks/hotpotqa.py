"""HotpotQA, distractor setting: Yang et al., 2018 (survey, section 7.2). Questions that need two of ten paragraphs.

Official files: hotpot_train_v1.1.json and hotpot_dev_distractor_v1.json, a list of ``{_id, question, answer,
supporting_facts: [[title, sentence]], context: [[title, [sentence, ...]]]}``. The test set is not public. Predictions
are ``{answer: {id: text}, sp: {id: [[title, sentence], ...]}}``. Licence: CC BY-SA 4.0.

The ten paragraphs form one context, with a line for each title. Every sentence is a piece of it that may be evidence,
with the name (title, number). "yes" and "no" are labels. The files have no positions of answers. The first occurrence
in a supporting sentence is used, or else the first in the context. The position of "yes" and "no" is the first
supporting sentence.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ptmbench.tasks.files import entry, json_document, malformed, pick
from ptmbench.tasks.forms import Answer, Answers, Form, Piece, Reply
from ptmbench.tasks.metrics.hotpotqa import hotpotqa
from ptmbench.tasks.task import DataError, Download, Example, Source, Task

FILES = {"train": ("hotpot_train_v1.1.json",), "dev": ("hotpot_dev_distractor_v1.json",)}
LABELS = ("yes", "no")
_URL = "https://curtis.ml.cmu.edu/datasets/hotpot/"


def read(folder: Path, split: str) -> Iterator[Example]:
    """The questions of ``split`` in file order."""
    path = pick(folder, FILES[split][0])
    content = json_document(path)
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise DataError(f"{path} must be one JSON list of objects, one for each question; fetch it again.")
    for row in content:
        pieces = tuple(_pieces(path, row))
        key, text = entry(path, 1, row, "_id"), entry(path, 1, row, "answer")
        facts = _facts(path, key, row.get("supporting_facts"))
        yield Example(
            id=key,
            inputs=(entry(path, 1, row, "question"), *pieces),
            gold=Answers([Answer(text, _place(pieces, facts, text))], facts),
        )


def _pieces(path: Path, row: dict) -> Iterator[str]:
    for paragraph in entry(path, 1, row, "context", list):
        match paragraph:
            case [str(title), [*sentences]] if all(isinstance(sentence, str) for sentence in sentences):
                yield f"{title}\n"
                yield from (Piece(sentence, (title, number)) for number, sentence in enumerate(sentences))
                yield "\n"
            case _:
                raise malformed(
                    path, 1, f"question {row.get('_id')}: a paragraph is not a list [title, [sentence, ...]]."
                )


def _facts(path: Path, key: str, found: Any) -> list[tuple[str, int]]:
    match found:
        case [*pairs] if all(isinstance(p, list) and [type(v) for v in p] == [str, int] for p in pairs):
            return [(title, number) for title, number in pairs]
    raise malformed(path, 1, f"the supporting facts of {key} must be a list of [title, sentence number].")


def _place(pieces: tuple[str, ...], facts: list[tuple[str, int]], text: str) -> int:
    """The position of ``text`` in the first supporting sentence that contains it, or else in the context. -1 if there
    is none."""
    start = 0
    for piece in pieces:
        if getattr(piece, "name", None) in facts and (text in LABELS or text in piece):
            return start + (0 if text in LABELS else piece.index(text))
        start += len(piece)
    return -1 if text in LABELS else "".join(pieces).find(text)


def predictions(path: Path) -> dict[str, Reply]:
    """Reads the official object of answers and supporting facts."""
    content = json_document(path)
    parts = [content.get(key) for key in ("answer", "sp")] if isinstance(content, dict) else [None, None]
    if not all(isinstance(part, dict) for part in parts):
        raise DataError(f'{path} must be one JSON object with objects under the keys "answer" and "sp".')
    answers, facts = parts
    if odd := next(iter(answers.keys() ^ facts.keys()), None):
        raise DataError(f'{path}: {odd} is only one of "answer" and "sp"; both need every question.')
    return {key: Reply(entry(path, 1, answers, key), facts=_facts(path, key, facts[key])) for key in answers}


TASK = Task(
    name="hotpotqa",
    title="HotpotQA (distractor)",
    form=Form.SPAN,
    source=Source(
        citation="Yang et al., 2018: HotpotQA: a dataset for diverse, explainable multi-hop question answering",
        licence="CC BY-SA 4.0",
        url="https://hotpotqa.github.io/",
        survey="7.2",
    ),
    folders=("hotpotqa", "HotpotQA"),
    files=FILES,
    read=read,
    predictions=predictions,
    metrics=(hotpotqa,),
    headline="joint_f1",
    labels=LABELS,
    chance=0.0,
    downloads=tuple(Download(url=_URL + name, to=f"hotpotqa/{name}") for (name,) in FILES.values()),
)
