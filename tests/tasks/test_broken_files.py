"""Broken official files, beyond a missing column: each gives an error that names the file, never a traceback."""

import json
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.tasks.files import json_document
from ptmbench.tasks.task import DataError


def _write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[1,\n{"a": }]', "line 2: this is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        (f'{{"a": {"1" * 5000}}}', "this is not JSON .*4300 digits"),  # Python refuses to parse so long a number
        ('{"a": 1, "a": 2}', "has the key 'a' twice"),
    ],
)
@pytest.mark.parametrize("name", ["cmrc2018/cmrc2018_dev.json", "squad11/dev-v1.1.json"])
def test_invalid_json_is_reported(name: str, content: str, message: str, tmp_path: Path) -> None:
    path = _write(tmp_path / name, content)
    with pytest.raises(DataError, match=f"{path.name}.*{message}"):
        json_document(path)
    with pytest.raises(DataError, match=f"{path.name}.*{message}"):
        list(tasks.load(path.parent.name).read(path.parent, "dev"))


@pytest.mark.parametrize(("place", "value"), [("context", None), ("question", {"a": 1}), ("text", 7)])
def test_a_question_field_that_is_not_a_text_is_reported(place: str, value: object, tmp_path: Path) -> None:
    answer = {"text": "Ann", "answer_start": 0}
    row = {"id": "q1", "question": "Who?", "answers": [answer]}
    paragraph = {"context": "Ann and Bo.", "qas": [row]}
    next(part for part in (answer, row, paragraph) if place in part)[place] = value
    _write(tmp_path / "dev-v1.1.json", json.dumps({"data": [{"title": "t", "paragraphs": [paragraph]}]}))
    with pytest.raises(DataError, match=rf"dev-v1\.1\.json is JSON, but not in SQuAD's format .*{place}"):
        list(tasks.load("squad11").read(tmp_path, "dev"))


def test_additional_answers_that_are_not_an_object_are_reported(tmp_path: Path) -> None:
    story = {"id": "s", "story": "x", "questions": [], "answers": [], "additional_answers": "0"}
    _write(tmp_path / "coqa-dev-v1.0.json", json.dumps({"data": [story]}))
    with pytest.raises(DataError, match='the key "additional_answers" is .*an object was expected'):
        list(tasks.load("coqa").read(tmp_path, "dev"))


@pytest.mark.parametrize("corpus", ["TREx", "Squad"])
def test_a_subject_that_is_not_a_text_is_reported(corpus: str, tmp_path: Path) -> None:
    _write(tmp_path / "common_vocab_cased.txt", "Paris\n")
    _write(tmp_path / "relations.jsonl", json.dumps({"relation": "P19", "template": "[X] was born in [Y] ."}))
    fact = {"sub_label": ["Ann"], "obj_label": "Paris", "masked_sentences": ["in [MASK] ."]}
    _write(tmp_path / corpus / "P19.jsonl", json.dumps(fact))
    task = tasks.load("lama" if corpus == "TREx" else "lama-squad")
    with pytest.raises(DataError, match='P19.jsonl, line 1: the key "sub_label" is .* a text was expected'):
        list(task.read(tmp_path, "test"))


@pytest.mark.parametrize("kept", [1, 3])
def test_a_different_number_of_named_triples_is_reported(kept: int, tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        _write(tmp_path / f"{split}.txt", "1\t_hypernym\t2\n3\t_hypernym\t2\n")
        _write(tmp_path / "text" / f"{split}.txt", "a.n.01\t_hypernym\tb.n.01\n" * (kept if split == "valid" else 2))
    with pytest.raises(DataError, match="valid.txt has another number of triples .* must match one to one"):
        list(tasks.load("wn18rr").read(tmp_path, "test"))
