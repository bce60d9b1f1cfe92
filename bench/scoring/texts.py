"""Generated texts and their references, for `bench.scoring.score_files`.

Predictions are one text per line, or JSON lines ``{"id": ..., "prediction": ...}``, which texts of several lines need.
The first line that is not blank decides: an object with both keys begins JSON lines. A text that only looks like JSON
("{ laughs }") is text. Other JSON is refused, because its brackets and keys would be scored as words: objects without
these keys, a list, one object over several lines, a damaged first object, and texts with a line that begins like such
an object.

If references come from an official JSON file or folder, they have ids, and JSON lines are matched by id. A file of one
reference per line has no ids. Then the ids 0, 1, ... stand for its lines, as the readers number them, in any order. An
incomplete set of such numbers is refused. Other ids do not identify lines: predictions are matched in their order, and
a message says so.
"""

import json
import re
from pathlib import Path

from ptmbench.bench.console import say
from ptmbench.bench.scoring.gold import (
    Content,
    content_of,
    first_line,
    labelled,
    matched,
    names_of,
    official,
    whole_folder,
)
from ptmbench.tasks.files import json_lines, lines, malformed
from ptmbench.tasks.task import DataError, Example, Task

_DAMAGED = re.compile(r'\s*\{\s*"(id|prediction)"\s*:')
"""The beginning of a line that `predict` wrote, even if the rest is cut off."""
_XML = re.compile(r"\s*<(\?xml|!doctype|mteval|refset|srcset|tstset|doc|seg)\b", re.IGNORECASE)
_WANTED = 'Give one text per line, or a line {"id": "...", "prediction": "..."} for each.'


def read(task: Task, gold: Path, predictions: Path) -> tuple[list, list]:
    """Tuples of references and predicted texts, in the same order. Raises `DataError` if they do not match."""
    examples, found = _references(task, gold), predicted(predictions)
    if examples is not None and isinstance(found, dict):
        return matched(examples, found, gold, predictions)
    right = [(text,) for _, text in lines(gold)] if examples is None else [example.gold for example in examples]
    if len(right) != len(found) or not right:
        where = f"line {min(len(right), len(found)) + 1} is the first in only one of them"
        raise DataError(f"{gold} has {len(right)} references but {predictions} has {len(found)} lines: {where}.")
    return right, _in_order(found, gold, predictions) if isinstance(found, dict) else found


def predicted(path: Path) -> dict[str, str] | list[str]:
    """Texts by id from JSON lines, in file order; a list of texts from a file of one text per line."""
    first, content = first_line(path), content_of(path)
    if content is Content.OBJECTS and {"id", "prediction"} <= set(json.loads(first)):
        return _by_id(path)
    if content is not Content.TEXT or _DAMAGED.match(first):
        what = "is damaged JSON" if content is Content.TEXT else f"begins {content.value} without these keys"
        raise DataError(f"{path}: {first.strip()!r:.60} {what}. {_WANTED}")
    found = []
    for line, text in lines(path):
        if _DAMAGED.match(text):
            raise DataError(f"{path}, line {line}: a JSON object was found among texts. {_WANTED}")
        found.append(text)
    return found


def _by_id(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line, record in json_lines(path, unique=True):
        key, text = record.get("id"), record.get("prediction")
        key = str(key) if type(key) is int else key
        if not isinstance(key, str) or not isinstance(text, str):
            raise malformed(
                path, line, 'the keys "id", a text or a whole number, and "prediction", a text, were expected.'
            )
        if key in found:
            raise DataError(f"{path}, line {line}: the id {key} appears twice.")
        found[key] = text
    return found


def _in_order(found: dict[str, str], gold: Path, predictions: Path) -> list[str]:
    """The texts of ``found`` in the order of the lines of ``gold``, which have no ids."""
    lines_of = [str(line) for line in range(len(found))]
    if set(found) == set(lines_of):
        return [found[line] for line in lines_of]
    numbers = [int(key) for key in found if re.fullmatch(r"0|[1-9][0-9]{0,8}", key)]
    if len(numbers) == len(found) and max(numbers) <= len(found) and numbers != list(range(1, len(found) + 1)):
        lacking = next(line for line in lines_of if line not in found)
        raise DataError(
            f"{predictions} has no prediction for {lacking}, but one for {max(numbers)}. The references of {gold} have "
            f"no ids, so their lines are 0 to {len(found) - 1}. Name the official file with its ids, or give all lines."
        )
    say(f"{gold} has no ids, and the ids of {predictions} are not line numbers: they are matched line by line.")
    return list(found.values())


def _references(task: Task, gold: Path) -> list[Example] | None:
    """The examples of a folder or of a file with ids; None for a file with one reference per line."""
    if task.extra.get("gold") == "folder" or whole_folder(task, gold):
        return list(task.read(gold, task.report))
    if gold.is_dir():
        return labelled(task, gold)
    every = {name for split in task.files for name in names_of(task, split)}
    if content_of(gold) is not Content.TEXT:
        if any(Path(name).suffix in (".json", ".jsonl") for name in every):
            return labelled(task, gold)
        raise DataError(f"{gold} is JSON, which {task.title} has no file of. Give one reference per line.")
    several = any(len(part) > 1 for part in task.files.values())
    sources = {_plain(Path(name).name) for part in task.files.values() for name in part[0].split("|")}
    if several and (_XML.match(first_line(gold)) or _plain(gold.name) in sources):
        raise DataError(
            f"{gold} holds no references, one a line. Name the folder of {task.title}, or a file of them such as "
            f"{official(task, task.report)}."
        )
    return None


def _plain(name: str) -> str:
    """``name`` without the suffix of gzip."""
    return name.removesuffix(".gz")
