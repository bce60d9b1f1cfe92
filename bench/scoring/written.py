"""Reads the lines that `predict` writes, and describes the files of predictions that `score` accepts."""

import json
from pathlib import Path
from typing import Any

from ptmbench.tasks.files import is_number, json_lines, label, lines, malformed
from ptmbench.tasks.forms import Form, Rank, Reply, Scored
from ptmbench.tasks.task import DataError, Task

_ADVICE = " Fetch the official file again"
"""The end of messages about official files. It is no use for files of predictions, which are not fetched."""

_ROWS = 'a header "index<TAB>prediction" and such a row for each example'
_RANKED = 'a line {"id": "...", "ranked": [candidates, the best first]} for each example'
_FORMATS = {
    Form.CLASSIFICATION: _ROWS,
    Form.REGRESSION: _ROWS,
    Form.SIMILARITY: _ROWS,
    Form.CHOICE: 'a line {"idx": 0, "label": 1} for each example',
    Form.SPAN: "one JSON object from question ids to answers",
    Form.FEW_SHOT: "one JSON object from ids to classes",
    Form.TAGGING: "a line for each word with its tag in the last column, and empty lines between sentences",
    Form.GENERATION: "one text per line",
    Form.CLOZE: _RANKED,
    Form.RANKING: _RANKED,
    Form.ANALOGY: _RANKED,
    Form.POINTING: "the format of the gold file with predictions in place of gold",
    Form.MINIMAL_PAIR: 'a line {"id": "...", "scores": [of the acceptable sentence, of the other one]} for each pair',
}


def expected(task: Task) -> str:
    """A description of the files of predictions of ``task`` that `score` accepts; "" if it accepts none."""
    if task.form is Form.LANGUAGE_MODELLING:
        return ""
    official = task.files[task.report][0].split("|")[0]
    if task.predictions is not None:
        what = "what the task's own scorer reads"
    elif task.extra.get("alike"):
        what = _FORMATS[Form.POINTING]
    elif task.extra.get("submission", {}).get("nested"):
        what = 'lines {"idx": 0, "passage": {"questions": [{"idx": 0, "answers": [{"idx": 0, "label": 1}]}]}}'
    elif task.extra.get("submission", {}).get("archive") == "superglue":
        what = 'a line {"idx": 0, "label": ...} for each example'
    elif task.form is Form.CLASSIFICATION and Path(official).suffix in (".xml", ".json"):
        what = _FORMATS[Form.POINTING]
    else:
        what = _FORMATS[task.form]
    return f"{what}; or the lines that `predict` writes"


def with_expected_format(task: Task, predictions: Path, error: DataError) -> DataError:
    """``error`` with the expected format in place of the advice to fetch a file again, if it is about
    ``predictions``."""
    text, advised, _ = str(error).partition(_ADVICE)
    if not advised or not text.startswith(str(predictions)):
        return error
    return type(error)(f"{text} Expected: {expected(task)}.")


def read(task: Task, path: Path) -> dict[str, Any] | None:
    """{`Example.id`: prediction} of a file that `predict` wrote; None for others. Raises `DataError` for a bad line."""
    if not _is_written(path):
        return None
    found: dict[str, Any] = {}
    for line, record in json_lines(path, unique=True):
        key = record.get("id")
        key = str(key) if type(key) is int else key
        if not isinstance(key, str) or "prediction" not in record:
            raise malformed(path, line, 'the keys "id", a text, and "prediction" were expected.')
        if key in found:
            raise DataError(f"{path}, line {line}: the id {key} appears twice.")
        found[key] = _value(task, path, line, record)
    return found


def _is_written(path: Path) -> bool:
    """Whether the first line that is not blank is an object with the keys of `predict`."""
    first = next((text for _, text in lines(path) if text.strip()), "")
    try:
        record = json.loads(first) if first.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"id", "prediction"} <= set(record)


def _value(task: Task, path: Path, line: int, record: dict[str, Any]) -> Any:
    """The prediction of one line, as the metrics take it."""
    value = record["prediction"]
    if task.form is Form.CLASSIFICATION:
        guess = label(path, line, value, task.labels)
        shares = record.get("scores")
        if shares is None:
            return guess
        if not isinstance(shares, list) or len(shares) != len(task.labels) or not all(map(is_number, shares)):
            raise malformed(path, line, f'"scores" must be {len(task.labels)} numbers, one for each label.')
        return Scored(guess, shares)
    if task.form in (Form.REGRESSION, Form.SIMILARITY):
        return float(_checked(path, line, value, is_number(value), "a number"))
    if task.form is Form.CHOICE:
        return _checked(path, line, value, isinstance(value, int) and is_number(value), "the number of a choice")
    if task.form in (Form.CLOZE, Form.RANKING, Form.ANALOGY):
        best = record.get("best")
        rank = _checked(path, line, value, is_number(value) and value >= 1, "a rank from 1")
        return Rank(rank, best=best if isinstance(best, str) else None)
    if task.form in (Form.TAGGING, Form.POINTING):
        kind = str if task.form is Form.TAGGING else list
        right = isinstance(value, list) and all(isinstance(part, kind) for part in value)
        found = _checked(path, line, value, right, "a list of tags" if kind is str else "a list of tuples")
        return found if kind is str else [tuple(part) for part in found]
    if task.form is Form.MINIMAL_PAIR:
        right = isinstance(value, list) and len(value) == 2 and all(map(is_number, value))
        return tuple(_checked(path, line, value, right, "two scores"))
    text = _checked(path, line, value, isinstance(value, str), "a text")
    facts, doubt, span = record.get("facts"), record.get("no_answer"), record.get("span")
    if task.form is not Form.SPAN or (facts is None and doubt is None and span is None):
        return text
    if (
        not (doubt is None or is_number(doubt))
        or not isinstance(facts, list | None)
        or not isinstance(span, str | None)
    ):
        raise malformed(path, line, '"no_answer" must be a number, "span" a text, and "facts" a list.')
    names = None if facts is None else [tuple(fact) if isinstance(fact, list) else fact for fact in facts]
    return Reply(text, no_answer=doubt, span=span, facts=names)


def _checked(path: Path, line: int, value: Any, right: bool, wanted: str) -> Any:
    if not right:
        raise malformed(path, line, f"the prediction {value!r:.60} is not {wanted}.")
    return value
