"""Scores official files of predictions against official gold files, as the official scorers do.

==========================  ==================================  ================================================
form                        gold                                predictions
==========================  ==================================  ================================================
classification, regression  the official file of a split        ``index<TAB>prediction`` under that header (GLUE), or
                                                                as for choice (SuperGLUE), or the gold's own XML
                                                                or JSON list; where probabilities are judged too,
                                                                more columns under the labels' names
choice                      the official file of a split        a line ``{"idx": 0, "label": 1}`` each (SuperGLUE)
span, few_shot              the official file of a split        one JSON object {question id: answer} (SQuAD), or
                                                                what the task's own scorer reads; ReCoRD as for choice,
                                                                the label being the answer
tagging                     columns, the tag in the last        columns, the tag in the last (CoNLL)
generation                  one reference per line, the         one text per line, or, as texts may have several
                            official JSON or folder             lines, a line ``{"id": "...", "prediction": "..."}``
                                                                each, which is what `predict` writes
cloze, ranking              the data set's folder               a line ``{"id": "...", "ranked": [candidates, the best
                                                                first]}`` each; candidates that are not listed are last
pointing                    the official file of a split        the same, with predictions in place of gold
==========================  ==================================  ================================================

For every form, a file may also have the lines that `predict` and `run` write (see `bench.scoring.written`). Formats are
recognised by content, not by the file's name. Any file may be gzipped, begin with a byte order mark, and have CRLF line
ends. Rows with ids may stand in any order. An error names the first row that does not match: a scorer that skips such
rows gives too high a score or hides a mistake.
"""

import re
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ptmbench import tasks
from ptmbench.bench.errors import UsageError
from ptmbench.bench.scoring import superglue, texts, written
from ptmbench.bench.scoring.gold import labelled, matched, official, whole_folder
from ptmbench.tasks.columns import DOCUMENT, sentences, to_iob2
from ptmbench.tasks.files import (
    entry,
    fields,
    is_number,
    json_document,
    json_lines,
    label,
    lines,
    malformed,
    number,
    rows,
)
from ptmbench.tasks.forms import Form, Rank, Reply, Scored, Tags, Target
from ptmbench.tasks.task import DataError, Example, Task

_RANKED = (Form.CLOZE, Form.RANKING, Form.ANALOGY)
_DOUBT = 1.0
"""The default threshold on no-answer scores in SQuAD's script."""


def score(task_name: str, gold: Path, predictions: Path, no_answer: Path | None = None) -> dict[str, Any]:
    """Returns {"task", "examples", all metrics of the task, "headline"}. Raises `DataError` for the first row that does
    not match.

    ``no_answer`` is a file with a JSON object {question id: no-answer score}, for tasks with unanswerable questions.
    """
    task = tasks.load(task_name)
    _check_filed(task)
    ranked = task.form in (*_RANKED, Form.MINIMAL_PAIR) or task.extra.get("gold") == "folder"
    if ranked and not gold.is_dir():
        raise DataError(f"{gold} is a file. Name the folder of {task.title}, because all of its files are read.")
    whole = task.form is Form.GENERATION and whole_folder(task, gold)
    if not (ranked or whole) and gold.is_dir() and Path(official(task, task.report)).suffix:  # folders have none
        raise DataError(f"{gold} is a folder; name one file of it, such as {official(task, task.report)}.")
    right, guesses = pairs(task, gold, predictions)
    if no_answer is not None:
        guesses = _with_no_answer_scores(task, gold, guesses, no_answer)
    sentences_only = [gold for gold in right if not _is_boundary(gold)]
    return {"task": task.name, "examples": len(sentences_only)} | task.score(right, guesses)


def pairs(task: Task, gold: Path, predictions: Path) -> tuple[list, list]:
    """Gold and predictions in the same order. Raises `DataError` for the first row that does not match. ``gold`` is a
    file, or the folder of the data set unless tags stand in columns."""
    if predictions.is_dir():
        raise DataError(f"{predictions} is a folder; name the file of predictions.")
    try:
        if task.form is not Form.GENERATION and not any(text.strip() for _, text in lines(predictions)):
            raise DataError(f"{predictions} is empty. Expected: {written.expected(task)}.")
        return _as_written(task, gold, predictions) or _reader(task)(task, gold, predictions)
    except DataError as error:
        raise written.with_expected_format(task, predictions, error) from error


def predictions_of(task: Task, data: Path, predictions: Path) -> list[Any]:
    """The predictions in a file for the reported split of ``task`` in the data folder ``data``, in the order of its
    examples. Raises the errors of `score`."""
    _check_filed(task)
    columns = task.form is Form.TAGGING and not task.extra.get("alike")
    if not columns:
        return pairs(task, task.folder(data), predictions)[1]
    right, guesses = pairs(task, task.paths(data, task.report)[0], predictions)
    tags = [guess for gold, guess in zip(right, guesses, strict=True) if not _is_boundary(gold)]
    return [list(to_iob2(guess)) for guess in tags]


def _check_filed(task: Task) -> None:
    if task.form is Form.LANGUAGE_MODELLING:
        raise UsageError(
            f"{task.title} has no predictions that a file could hold: its score is computed from the model's "
            "probabilities."
        )


def _is_boundary(gold: Any) -> bool:
    """Whether ``gold`` is the tag of a -DOCSTART- line, which is not a sentence."""
    return getattr(gold, "words", None) == (DOCUMENT,)


def _as_written(task: Task, gold: Path, predictions: Path) -> tuple[list, list] | None:
    """Gold and predictions from a file that `predict` wrote. None for other files, and for generation
    (`texts.read`)."""
    found = None if task.form is Form.GENERATION else written.read(task, predictions)
    if found is None:
        return None
    ranked = task.form in _RANKED
    together = ranked or task.form is Form.MINIMAL_PAIR
    examples = list(task.read(gold, task.report)) if together else labelled(task, gold)
    right, guesses = matched(examples, found, gold, predictions)
    for example, guess in zip(examples, guesses, strict=True):
        if task.form is Form.TAGGING and len(guess) != len(example.inputs):
            raise DataError(f"{predictions}: {len(guess)} tags for the {len(example.inputs)} words of {example.id}.")
        if task.form is Form.CHOICE:
            _choice(example, guess, predictions)
        if task.form is Form.FEW_SHOT:
            _class(example, guess, predictions)
        if ranked:
            _rank(example, guess, predictions)
    return right, guesses


def _rank(example: Example, guess: Rank, predictions: Path) -> None:
    target = example.gold
    last = len(target.candidates) - len(target.others - {target})
    if guess > last:
        wrong = f"the rank {guess:g} of {example.id} is beyond its {last} candidates"
        raise DataError(f"{predictions}: {wrong}.")
    if guess.best is not None and guess.best not in target.candidates:
        raise DataError(f"{predictions}: {guess.best!r:.60}, the best for {example.id}, is not one of its candidates.")


def _rows(task: Task, gold: Path, predictions: Path) -> tuple[list, list]:
    """Reads GLUE's tables, SuperGLUE's JSON lines, or XML and JSON lists, which are recognised by their first
    character. In a table, the n-th row of the official file has index n. XML and JSON lists have the format of the gold
    file, with predictions in place of gold."""
    if task.predictions is not None and superglue.is_json(predictions):
        return matched(labelled(task, gold), dict(task.predictions(predictions)), gold, predictions)
    if task.form is Form.CLASSIFICATION and superglue.is_json(predictions):
        return matched(labelled(task, gold), superglue.read(task, predictions), gold, predictions)
    if next((text.lstrip()[:1] for _, text in lines(predictions) if text.strip()), "") in ("<", "["):
        return _read_in_gold_format(task, gold, predictions)
    examples, numeric = labelled(task, gold), task.form in (Form.REGRESSION, Form.SIMILARITY)
    guesses: list[Any] = []
    header = next((text.split("\t") for _, text in lines(predictions)), [])
    shares = task.labels if task.scored and set(task.labels) <= set(header) else ()
    for line, (index, guess, *values) in rows(predictions, ("index", "prediction", *shares)):
        if index.strip() != str(len(guesses)):
            raise DataError(f"{predictions}, line {line}: expected index {len(guesses)}, found {index!r:.80}.")
        value = guess.strip()
        guesses.append(number(predictions, line, value) if numeric else label(predictions, line, value, task.labels))
        if shares:
            guesses[-1] = Scored(value, (number(predictions, line, share, 0.0, 1.0) for share in values))
    if len(guesses) != len(examples):
        where = f"index {min(len(guesses), len(examples))} is the first in only one of them"
        raise DataError(f"{gold} has {len(examples)} rows but {predictions} has {len(guesses)}: {where}.")
    return [example.gold for example in examples], guesses


def _choices(task: Task, gold: Path, predictions: Path) -> tuple[list, list]:
    found: dict[str, int] = {}
    for line, record in json_lines(predictions, unique=True):
        key = str(entry(predictions, line, record, "idx", int))
        if key in found:
            raise DataError(f"{predictions}, line {line}: idx {key} appears twice.")
        found[key] = entry(predictions, line, record, "label", int)
    examples = labelled(task, gold)
    for example in examples:
        _choice(example, found.get(example.id, 0), predictions)
    return matched(examples, found, gold, predictions)


def _choice(example: Example, guess: int, predictions: Path) -> None:
    last = len(example.inputs) - 2  # the context stands before the choices
    if not 0 <= guess <= last:
        wrong = f"the label {guess} of idx {example.id} is no choice: they count from 0 to {last}"
        raise DataError(f"{predictions}: {wrong}.")


def _ranked(task: Task, gold: Path, predictions: Path) -> tuple[list, list]:
    """Ranks from lists of candidates. Those that a list leaves out share the mean of the ranks that follow."""
    examples, lists = list(task.read(gold, task.report)), {}
    for line, record in json_lines(predictions, unique=True):
        key, names = entry(predictions, line, record, "id"), entry(predictions, line, record, "ranked", list)
        if key in lists:
            raise DataError(f"{predictions}, line {line}: the id {key} appears twice.")
        if len(set(map(str, names))) != len(names):
            raise DataError(f"{predictions}, line {line}: a candidate appears twice in the list.")
        lists[key] = [str(name) for name in names]
    right, found = matched(examples, lists, gold, predictions)
    for target, names in zip(right, found, strict=True):
        if unknown := next((name for name in names if name not in target.candidates), None):
            raise DataError(f"{predictions}: {unknown!r:.60} is not a candidate of {task.title}.")
    return right, [_place(target, names) for target, names in zip(right, found, strict=True)]


def _pairs(task: Task, gold: Path, predictions: Path) -> tuple[list, list]:
    """Two scores for each pair, the first one for the acceptable sentence."""
    found: dict[str, tuple[float, float]] = {}
    for line, record in json_lines(predictions, unique=True):
        key, scores = entry(predictions, line, record, "id"), entry(predictions, line, record, "scores", list)
        if key in found:
            raise DataError(f"{predictions}, line {line}: the id {key} appears twice.")
        if len(scores) != 2 or not all(map(is_number, scores)):
            raise malformed(predictions, line, f"the scores {scores!r:.60} are not two numbers.")
        found[key] = (scores[0], scores[1])
    return matched(list(task.read(gold, task.report)), found, gold, predictions)


def _place(target: Target, names: Sequence[str]) -> Rank:
    left = [name for name in names if name == target or name not in target.others]
    if target in left:
        return Rank(left.index(target) + 1, best=names[0])
    behind = len(target.candidates) - len(target.others - {target}) - len(left)
    return Rank(len(left) + (behind + 1) / 2, best=names[0] if names else None)


def _answers(task: Task, gold: Path, predictions: Path) -> tuple[list, list]:
    if task.extra.get("submission", {}).get("archive") == "superglue":
        return matched(labelled(task, gold), superglue.read(task, predictions), gold, predictions)
    if task.predictions is not None:
        return matched(labelled(task, gold), dict(task.predictions(predictions)), gold, predictions)
    found = json_document(predictions)
    if not isinstance(found, dict):
        raise DataError(f"{predictions} must be one JSON object from question ids to answers.")
    for key, answer in found.items():
        if not isinstance(answer, str):
            raise DataError(f"{predictions}: the answer to {key} must be a text, not {answer!r:.80}.")
    examples = labelled(task, gold)
    right, guesses = matched(examples, found, gold, predictions)
    for example, guess in zip(examples, guesses, strict=True):
        if task.form is Form.FEW_SHOT:
            _class(example, guess, predictions)
    return right, guesses


def _class(example: Example, guess: str, predictions: Path) -> None:
    known = sorted({text.name for text in example.inputs if text.name})
    if guess not in known:
        wrong = f"the class {guess!r:.60} of {example.id} is not one of {', '.join(known)}"
        raise DataError(f"{predictions}: {wrong}.")


def _with_no_answer_scores(task: Task, gold: Path, guesses: Sequence[str], path: Path) -> list[Reply]:
    """Predictions, each with its no-answer score from ``path``. A score above `_DOUBT` means "no answer"."""
    if "" not in task.labels:
        raise UsageError(f"Every question of {task.title} has an answer. Leave the file of no-answer scores out.")
    content = json_document(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} must be one JSON object from question ids to numbers.")
    for key, value in content.items():
        if not is_number(value):
            raise DataError(f"{path}: the score of {key} must be a number, not {value!r:.80}.")
    _, odds = matched(labelled(task, gold), content, gold, path)
    return [
        Reply("", no_answer=float(doubt), span=guess) if doubt > _DOUBT else Reply(guess, no_answer=float(doubt))
        for guess, doubt in zip(guesses, odds, strict=True)
    ]


def _tags(task: Task, gold: Path, predictions: Path) -> tuple[list, list]:
    """Tags as both files spell them, so that token accuracy is that of the official script."""
    right, guesses = [], []
    mark = task.extra.get("document", DOCUMENT)
    for ours, theirs in zip_longest(sentences(gold, mark), sentences(predictions, mark)):
        if ours is None or theirs is None:
            longer, line = (predictions, theirs[0]) if ours is None else (gold, ours[0])
            raise DataError(
                f"{longer}, line {line}: this sentence is number {len(right) + 1}; the other file has none."
            )
        (line, _, words), (place, _, tagged) = ours, theirs
        for offset, columns in enumerate(words):
            if len(columns) < 2:
                raise DataError(f"{gold}, line {line + offset}: {columns[0]!r} has no tag, which gold needs behind it.")
            _tag(gold, line + offset, columns[-1])
        alone = all(len(columns) == 1 for columns in tagged)  # a file of tags only
        for offset, (word, guess) in enumerate(zip_longest(words, tagged)):
            if word is None or guess is None or not (alone or word[0] == guess[0]):
                raise DataError(
                    f"{predictions}, line {place + offset}: expected {_shown(word)} of {gold}, line {line + offset}, "
                    f"but found {_shown(guess)}. Both files need the same words and empty lines."
                )
            _tag(predictions, place + offset, guess[-1])
        right.append(Tags((columns[-1] for columns in words), (columns[0] for columns in words)))
        guesses.append([columns[-1] for columns in tagged])
    if not right:
        raise DataError(f"{gold} holds no sentence.")
    ours, theirs = _boundaries(gold), _boundaries(predictions)
    if [place for place, _ in ours] == [place for place, _ in theirs]:
        right += [Tags((tag,), (DOCUMENT,)) for _, tag in ours]
        guesses += [[tag] for _, tag in theirs]
    return right, guesses


def _boundaries(path: Path) -> list[tuple[int, str]]:
    """(number of sentences before it, tag) of each tagged -DOCSTART- line.

    The script conlleval skips only empty lines, so each such line is one more word in its token accuracy. eng.testb has
    46,435 words in sentences, and 46,666 for the script. Here, too, these lines count if both files have them.
    """
    found, count, inside = [], 0, False
    for place, line in lines(path):
        columns = fields(line)
        boundary = bool(columns) and columns[0].startswith(DOCUMENT)
        if inside and (boundary or not columns):
            count += 1
        inside = bool(columns) and not boundary
        if boundary and len(columns) > 1:
            _tag(path, place, columns[-1])
            found.append((count, columns[-1]))
    return found


def _tag(path: Path, line: int, tag: str) -> None:
    """Raises `DataError` for a string that is not a tag. It would count as a word outside of entities."""
    if not re.fullmatch(r"O|[BIES]-.+", tag):
        raise DataError(f"{path}, line {line}: {tag!r:.60} is not a tag. Expected: O, or B-, I-, E- or S- and a type.")


def _read_in_gold_format(task: Task, gold: Path, predictions: Path) -> tuple[list, list]:
    """Predictions in the format of the gold file. The texts must be the same: if ids are only row numbers, nothing else
    shows that a row belongs to another text."""
    found: dict[str, Example] = {}
    for example in labelled(task, predictions):
        if example.id in found:
            raise DataError(f"{predictions}: {example.id} appears twice.")
        found[example.id] = example
    examples = labelled(task, gold)
    right, guesses = matched(examples, found, gold, predictions)
    for ours, theirs in zip(examples, guesses, strict=True):
        if ours.inputs != theirs.inputs and any(theirs.inputs[:1]):
            said, wanted = (" ".join(one.inputs) for one in (theirs, ours))
            raise DataError(f"{predictions}: {ours.id} is about {said!r:.80}, but in {gold} about {wanted!r:.80}.")
    return right, [guess.gold for guess in guesses]


_READERS = {
    Form.CLASSIFICATION: _rows,
    Form.REGRESSION: _rows,
    Form.CHOICE: _choices,
    Form.SPAN: _answers,
    Form.TAGGING: _tags,
    Form.GENERATION: texts.read,
    Form.FEW_SHOT: _answers,
    Form.CLOZE: _ranked,
    Form.RANKING: _ranked,
    Form.SIMILARITY: _rows,
    Form.ANALOGY: _ranked,
    Form.POINTING: _read_in_gold_format,
    Form.MINIMAL_PAIR: _pairs,
}


def _reader(task: Task) -> Callable[[Task, Path, Path], tuple[list, list]]:
    """The reader of predictions of ``task``: that of its form, or `_read_in_gold_format` if tags are not in the last
    column."""
    return _read_in_gold_format if task.extra.get("alike") else _READERS[task.form]


def _shown(columns: list[str] | None) -> str:
    return repr(columns[0]) if columns else "the end of the sentence"
