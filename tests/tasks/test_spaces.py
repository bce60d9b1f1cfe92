"""Spaces and numbers that Python reads differently from the official formats: no-break spaces, underscores."""

import gzip
import json
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.tasks import files
from ptmbench.tasks.files import fields, lines, number
from ptmbench.tasks.squad11 import questions
from ptmbench.tasks.task import DataError

ODD = "\x0b\x0c\x1c\x1d\x1e\x85\xa0\u2009\u2028\u2029\u202f\u3000"
"""Characters at which ``str.split`` or ``str.splitlines`` splits, but no official format does."""


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def test_only_spaces_and_tabs_separate_fields() -> None:
    assert fields(" a \t b\tc  ") == ["a", "b", "c"]
    for space in ODD:
        assert fields(f"a{space}b c") == [f"a{space}b", "c"]


@pytest.mark.parametrize("space", ODD)
def test_leaves_of_trees_keep_unusual_spaces(tmp_path: Path, space: str) -> None:
    """Three leaves of SST-5's train.txt contain U+00A0, as in ``(2 8 1\\/2)``. The reader once refused the whole split
    for them."""
    _write(tmp_path / "train.txt", f"(3 (2 Fellini) (2 (2 's) (2 (2 8{space}1\\/2) (3 fine))))\n(2 ok)\n")
    first, second = tasks.load("sst5").read(tmp_path, "train")
    assert (first.inputs, first.gold, second.inputs) == ((f"Fellini 's 8{space}1/2 fine",), "3", ("ok",))


@pytest.mark.parametrize("space", ODD)
def test_words_keep_unusual_spaces(tmp_path: Path, space: str) -> None:
    word = f"New{space}York"
    _write(tmp_path / "google_analogy/questions-words.txt", f": x\n{word} USA Oslo Norway\n")
    (example,) = tasks.load("word_analogy").examples(tmp_path, "test")
    assert example.inputs == (word, "USA", "Oslo")
    for part in ("0-5000", "5000-6500"):
        _write(tmp_path / f"muse/en-es.{part}.txt", f"{word} Nueva{space}York\n")
    (example,) = tasks.load("word_translation").examples(tmp_path, "test")
    assert (example.inputs, str(example.gold)) == ((word,), f"Nueva{space}York")
    _write(tmp_path / "wordsim353/combined.csv", f"{word}, cat,1.5\n")
    (example,) = tasks.load("word_similarity").examples(tmp_path, "test")
    assert example.inputs == (word, "cat")


@pytest.mark.parametrize(
    "value", ["1_0", "nan", "inf", "-Infinity", "１", "٣", "1e", "", " ", "0x1", "1\xa0", "\u20281", "1,5"]
)
def test_strings_that_only_python_reads_as_numbers_are_rejected(value: str) -> None:
    with pytest.raises(DataError, match="is not a number"):
        number(Path("x.tsv"), 1, value)


@pytest.mark.parametrize(
    ("value", "found"), [("4", 4.0), (" 3.50 ", 3.5), ("-1.5e-3", -0.0015), (".5", 0.5), ("5.", 5.0)]
)
def test_numbers_are_parsed(value: str, found: float) -> None:
    assert number(Path("x.tsv"), 1, value) == found


def test_a_number_that_overflows_a_float_is_rejected() -> None:
    with pytest.raises(DataError, match="is not a number"):
        number(Path("x.tsv"), 1, "9" * 400)


@pytest.mark.parametrize("start", ["1_0", "１", True, 1.5, None, "x"])
def test_answer_offsets_must_be_integers(tmp_path: Path, start: object) -> None:
    row = {"id": "a", "question": "?", "answers": [{"text": "X", "answer_start": start}]}
    path = tmp_path / "dev-v1.1.json"
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "X", "qas": [row]}]}]}))
    with pytest.raises(DataError, match="'answer_start' is not a whole number"):
        list(questions(path))


def test_numeric_answers_of_cmrc2018_are_read_as_texts(tmp_path: Path) -> None:
    """Numbers occur as answers in cmrc2018_dev.json. The official script converts them with ``str``."""
    row = {"query_id": "q", "query_text": "?", "answers": ["147位", 147.0, 147]}
    content = [{"context_id": "c", "context_text": "147位", "title": "t", "qas": [row]}]
    path = _write(tmp_path / "cmrc2018_dev.json", json.dumps(content))
    (example,) = tasks.load("cmrc2018").read(tmp_path, "dev")
    assert [(answer.text, answer.start) for answer in example.gold] == [("147位", 0), ("147.0", -1), ("147", 0)]
    for wrong in (True, None, ["147"]):
        _write(path, json.dumps([content[0] | {"qas": [row | {"answers": ["147位", wrong]}]}]))
        with pytest.raises(DataError, match='the key "answers" of q must be a list of texts'):
            list(tasks.load("cmrc2018").read(tmp_path, "dev"))


def test_docstart_lines_begin_an_abstract_of_jnlpba(tmp_path: Path) -> None:
    """The file test.tsv has 404 lines -DOCSTART-, which were once read as sentences."""
    _write(tmp_path / "test.tsv", "-DOCSTART-\tO\n\nIL-2\tB-DNA\n\n-DOCSTART-\tO\n\nx\tO\n\ny\tO\n")
    examples = list(tasks.load("jnlpba").read(tmp_path, "test"))
    assert [(example.inputs, example.group) for example in examples] == [(("IL-2",), "1"), (("x",), "2"), (("y",), "2")]


def test_a_gzip_bomb_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL", 10_000)
    path = tmp_path / "train.en"
    path.write_bytes(gzip.compress(b"a" * 5_000 + b"\n" + b"b" * 4_000))
    assert [len(text) for _, text in lines(path)] == [5_000, 4_000]
    path.write_bytes(gzip.compress(b"0" * 2_000_000))  # one line, which would be kept in memory as a whole
    with pytest.raises(DataError, match="train.en: the gzip stream unpacks to more than 100 times its size"):
        list(lines(path))
