"""CoQA: Reddy et al., 2019 (survey, section 7.2). Conversational questions about a story, which depend on earlier ones.

Official files: coqa-train-v1.0.json and coqa-dev-v1.0.json, ``data[].{id, source, story, questions[].{turn_id,
input_text}, answers[].{turn_id, input_text, span_start, span_end}, additional_answers: {key: answers}}``. The test set
is not public. Predictions are a list of ``{id, turn_id, answer}``. Licence: by domain, from CC BY-SA 4.0 to research
only (RACE, CNN).

The input has the question and all previous rounds, the newest first, so that truncation removes the oldest. Their
answers are the gold ones, as in the authors' evaluation. Answers are free text with the passage that supports them.
"yes", "no" and "unknown" are labels. For other answers, training uses the span of the passage that agrees best with the
answer, and the scorer compares with the answer itself. The official script's scores by domain are not computed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ptmbench.tasks.files import entry, json_document, malformed, pick
from ptmbench.tasks.forms import Answer, Form
from ptmbench.tasks.metrics.coqa import coqa
from ptmbench.tasks.metrics.squad import closest, normalise
from ptmbench.tasks.task import DataError, Download, Example, Source, Task

FILES = {"train": ("coqa-train-v1.0.json",), "dev": ("coqa-dev-v1.0.json",)}
LABELS = ("yes", "no", "unknown")


def read(folder: Path, split: str) -> Iterator[Example]:
    """The rounds of ``split`` in file order. Ids are "story#turn", and ``group`` is the story."""
    path = pick(folder, FILES[split][0])
    content = json_document(path)
    if not isinstance(content, dict):
        raise DataError(f'{path} must be one JSON object with the stories under the key "data"; fetch it again.')
    for story in _objects(path, content, "data"):
        text, name = entry(path, 1, story, "story"), entry(path, 1, story, "id")
        several = [_turns(path, story, "answers")]
        more = entry(path, 1, {"additional_answers": {}} | story, "additional_answers", dict)
        several += [_turns(path, more, key) for key in more]
        rounds: list[str] = []
        for turn, question in _turns(path, story, "questions").items():
            question_text = entry(path, 1, question, "input_text")
            lacking = [answers for answers in several if turn not in answers]
            if lacking:
                raise malformed(path, 1, f"story {name}: a list of answers has none for turn {turn}.")
            gold = tuple(_answer(path, text, answers[turn]) for answers in several)
            inputs = (" | ".join([question_text, *reversed(rounds)]), text)
            yield Example(id=f"{name}#{turn}", inputs=inputs, gold=gold, group=name)
            rounds.append(f"{question_text} {several[0][turn]['input_text']}")


def _objects(path: Path, record: Mapping[str, Any], key: str) -> list[dict]:
    found = entry(path, 1, record, key, list)
    if not all(isinstance(one, dict) for one in found):
        raise malformed(path, 1, f'the key "{key}" must be a list of objects.')
    return found


def _turns(path: Path, record: Mapping[str, Any], key: str) -> dict[int, dict]:
    return {entry(path, 1, one, "turn_id", int): one for one in _objects(path, record, key)}


def _answer(path: Path, story: str, answer: dict) -> Answer:
    text = entry(path, 1, answer, "input_text")
    start, end = (entry(path, 1, answer, key, int) for key in ("span_start", "span_end"))
    if normalise(text) in LABELS:
        return Answer(normalise(text), max(start, -1))
    return Answer(text, *(closest(story, start, end, text) if 0 <= start < end else (-1,)))


def predictions(path: Path) -> dict[str, str]:
    """Reads the official list of ``{id, turn_id, answer}``."""
    content = json_document(path)
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise DataError(f"{path} must be one JSON list of objects with id, turn_id and answer.")
    found: dict[str, str] = {}
    for one in content:
        key = f"{entry(path, 1, one, 'id')}#{entry(path, 1, one, 'turn_id', int)}"
        if key in found:
            raise DataError(f"{path} answers {key} (story and turn) twice; leave only one answer.")
        found[key] = entry(path, 1, one, "answer")
    return found


TASK = Task(
    name="coqa",
    title="CoQA",
    form=Form.SPAN,
    source=Source(
        citation="Reddy et al., 2019: CoQA: a conversational question answering challenge",
        licence="by domain, from CC BY-SA 4.0 to research only",
        url="https://stanfordnlp.github.io/coqa/",
        survey="7.2",
    ),
    folders=("coqa", "CoQA"),
    files=FILES,
    read=read,
    predictions=predictions,
    metrics=(coqa,),
    headline="f1",
    labels=LABELS,
    chance=0.0,
    downloads=tuple(
        Download(url=f"https://nlp.stanford.edu/data/coqa/{name}", to=f"coqa/{name}") for (name,) in FILES.values()
    ),
)
