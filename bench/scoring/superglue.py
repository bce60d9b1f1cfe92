"""Reads SuperGLUE's files of predictions (JSON lines) for scoring, and packs them for the test server.

A file has a line ``{"idx": 0, "label": ...}`` for every row. In MultiRC, each line is a paragraph: ``{"idx": 0,
"passage": {"questions": [{"idx": 0, "answers": [{"idx": 0, "label": 1}]}]}}``. Labels are spelled as by the server's
own baselines: "true" and "false" for BoolQ and WiC, "True" and "False" for WSC, 0 and 1 for COPA and MultiRC, words for
the inference tasks, and the text of an answer for ReCoRD.

The server (super.gluebenchmark.com) requires ten files at the top level of one archive. Those of AX-b and AX-g come
from the model of RTE. Tasks without predictions get placeholders, and `Report` names them. Placeholders of MultiRC and
ReCoRD need the official test file, because its numbering follows no rule.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ptmbench import tasks
from ptmbench.bench.scoring.submission import Report, archive, check_names
from ptmbench.tasks.files import entry, json_lines, lines, malformed
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import DataError, MissingData, Task

TASKS = ("boolq", "cb", "copa", "multirc", "record", "rte_superglue", "wic", "wsc", "axb", "axg")
"""The tasks of a submission, in the order of the server's table."""
NAME = "superglue.zip"


def is_json(path: Path) -> bool:
    """Whether the first line that is not blank begins an object. No table of `tasks.files.rows` does."""
    return next((text.lstrip()[:1] for _, text in lines(path) if text.strip()), "") == "{"


def read(task: Task, path: Path) -> dict[str, Any]:
    """Reads {`Example.id`: prediction} from a file of predictions. Raises `DataError` with the line that is wrong."""
    found: dict[str, Any] = {}
    for line, record in json_lines(path, unique=True):
        for key, value in _predictions(task, path, line, record):
            if key in found:
                raise malformed(path, line, f"idx {key} appears twice.")
            found[key] = _value(task, path, line, value)
    return found


def write(predictions: Mapping[str, Mapping[str, Any]], out: Path, data: Path | None = None) -> Report:
    """Writes ``out``/superglue.zip from {task name: {`Example.id` of the official test file: prediction}}.

    ``data`` is the data folder, for placeholders. Raises `UnknownTask` or `DataError`, and then leaves the files in
    ``out`` unchanged.
    """
    check_names(predictions, TASKS, "SuperGLUE")
    files: dict[str, str] = {}
    notes: list[str] = []
    for task in map(tasks.load, TASKS):
        wanted = task.extra["submission"]
        found = predictions.get(task.name)
        if found is None:
            found, note = _placeholder(task, data)
            notes.append(note)
            if not found:
                continue
        _check(task, found)
        files[wanted["file"]] = _text(task, found)
    return Report(
        path=archive(files, Path(out) / NAME),
        predicted=tuple(name for name in TASKS if name in predictions),
        filled=tuple(name for name in TASKS if name not in predictions),
        notes=tuple(notes),
    )


def _predictions(task: Task, path: Path, line: int, record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields (id, value as in the file) for each prediction of one line."""
    number = _index(path, line, record)
    if not task.extra.get("submission", {}).get("nested"):
        yield number, _label(path, line, record)
        return
    for question in _objects(path, line, entry(path, line, record, "passage", dict), "questions"):
        asked = f"{number}-{_index(path, line, question)}"
        for answer in _objects(path, line, question, "answers"):
            yield f"{asked}-{_index(path, line, answer)}", _label(path, line, answer)


def _index(path: Path, line: int, record: dict[str, Any]) -> str:
    """The ``idx`` of ``record`` as a string. AX-b's own file has strings, others have numbers."""
    value = record.get("idx")
    return (
        value
        if isinstance(value, str) and value.isascii() and value.isdecimal()
        else str(entry(path, line, record, "idx", int))
    )


def _label(path: Path, line: int, record: dict[str, Any]) -> Any:
    if "label" not in record:
        raise malformed(path, line, f'the key "label" is missing for idx {record["idx"]}.')
    return record["label"]


def _objects(path: Path, line: int, record: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = entry(path, line, record, key, list)
    if not all(isinstance(one, dict) for one in found):
        raise malformed(path, line, f'the key "{key}" must be a list of objects.')
    return found


def _value(task: Task, path: Path, line: int, value: Any) -> Any:
    """Converts a value of a file to the prediction that metrics compare."""
    if task.form is Form.SPAN:
        return entry(path, line, {"label": value}, "label")
    if task.form is Form.CHOICE:
        return entry(path, line, {"label": value}, "label", int)
    if isinstance(value, bool):
        value = str(value).lower()
    known = {_spelled(task, label): label for label in task.labels} | {label: label for label in task.labels}
    if not isinstance(value, str | int) or value not in known:
        shown = ", ".join(map(repr, dict.fromkeys(_spelled(task, label) for label in task.labels)))
        raise malformed(path, line, f"the label {value!r:.60} is not one of {shown}.")
    return known[value]


def _spelled(task: Task, prediction: Any) -> Any:
    """A prediction as the server spells it."""
    return task.extra.get("submission", {}).get("spelling", {}).get(prediction, prediction)


def _placeholder(task: Task, data: Path | None) -> tuple[dict[str, Any], str]:
    wanted, flat = task.extra["submission"], task.form is not Form.SPAN and not task.extra["submission"].get("nested")
    ids = [str(index) for index in range(wanted["rows"])]
    if not flat:
        try:
            ids = [] if data is None else [example.id for example in task.examples(data, "test")]
        except MissingData:
            ids = []
    if not ids:
        return {}, (
            f"{task.title}: no predictions, and no official test file to make a placeholder for: {wanted['file']} is "
            "left out, and the server refuses an archive without it."
        )
    answer = f"{wanted['file']} is a placeholder with {_spelled(task, wanted['constant'])!r} in every row."
    return dict.fromkeys(ids, wanted["constant"]), f"{task.title}: no predictions; {answer}"


def _check(task: Task, found: Mapping[str, Any]) -> None:
    wanted = task.extra["submission"]
    official = task.files["test"][0]
    if len(found) != wanted["rows"]:
        raise DataError(
            f"{task.title}: {len(found)} predictions, but the SuperGLUE server wants one for each of the "
            f"{wanted['rows']} rows of the official {official}. Predict that file, whole."
        )
    parts = 3 if wanted.get("nested") else 1
    for key, value in found.items():
        numbers = key.split("-")
        if len(numbers) != parts or not all(number.isascii() and number.isdecimal() for number in numbers):
            raise DataError(f"{task.title}: {key!r:.60} is not an idx of the official {official}.")
        right = {Form.SPAN: str, Form.CHOICE: int}.get(task.form)
        if (right and (not isinstance(value, right) or isinstance(value, bool))) or (
            not right and value not in task.labels
        ):
            kind = {str: "a text", int: "the number of a choice"}.get(right, "one of " + ", ".join(task.labels))
            raise DataError(f"{task.title}: the prediction for idx {key} is {value!r:.60}, not {kind}.")


def _text(task: Task, found: Mapping[str, Any]) -> str:
    """The lines of one file, sorted by idx."""
    numbered = sorted((tuple(map(int, key.split("-"))), _spelled(task, value)) for key, value in found.items())
    if not task.extra["submission"].get("nested"):
        rows: list[dict[str, Any]] = [{"idx": index, "label": value} for (index,), value in numbered]
    else:
        nested: dict[int, dict[int, list[dict[str, Any]]]] = {}
        for (paragraph, question, answer), value in numbered:
            nested.setdefault(paragraph, {}).setdefault(question, []).append({"idx": answer, "label": value})
        rows = [
            {"idx": paragraph, "passage": {"questions": [{"idx": q, "answers": a} for q, a in questions.items()]}}
            for paragraph, questions in nested.items()
        ]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
