"""Readers of word similarity and analogy: the official layouts, and the errors of malformed files."""

from pathlib import Path

import pytest

from ptmbench.tasks import load
from ptmbench.tasks.task import DataError, Example


def wordsim(folder: Path, text: str) -> list[Example]:
    (folder / "wordsim353").mkdir()
    (folder / "wordsim353/combined.csv").write_text(text)
    return load("word_similarity").examples(folder, "test")


def analogies(folder: Path, text: str) -> list[Example]:
    (folder / "google_analogy").mkdir()
    (folder / "google_analogy/questions-words.txt").write_text(text)
    return load("word_analogy").examples(folder, "test")


@pytest.mark.parametrize(
    "text",
    [
        "Word 1,Word 2,Human (mean)\ntiger,cat,7.35\nnoon,string,0.54\n",
        "Word 1\tWord 2\tHuman (mean)\r\ntiger\tcat\t7.35\r\nnoon\tstring\t0.54\r\n",
    ],
)
def test_wordsim_is_read_with_commas_and_with_tabs(tmp_path: Path, text: str) -> None:
    found = wordsim(tmp_path, text)
    assert [(e.id, e.inputs, e.gold) for e in found] == [
        ("2", ("tiger", "cat"), 7.35),
        ("3", ("noon", "string"), 0.54),
    ]


def test_a_file_without_header_keeps_its_first_pair(tmp_path: Path) -> None:
    assert [e.inputs for e in wordsim(tmp_path, "ice cream,cat,1\n")] == [("ice cream", "cat")]


@pytest.mark.parametrize("text", ["tiger,cat\n", "a,b,1\ntiger,cat,high\n", "a,b,1\ntiger,,3\n", "x,y,1\na,b,nan\n"])
def test_errors_name_the_line_of_bad_pairs(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=rf"combined\.csv, line {text.count(chr(10))}"):
        wordsim(tmp_path, text)


def test_analogies_have_sections_and_exclude_the_question_words(tmp_path: Path) -> None:
    text = ": capital-common\nAthens Greece Oslo Norway\nOslo Norway Athens Greece\n: plural\ncat cats dog dogs\n"
    first, second, third = analogies(tmp_path, text)
    assert (first.id, first.inputs, str(first.gold)) == ("2", ("Athens", "Greece", "Oslo"), "Norway")
    assert [e.gold.kind for e in (first, second, third)] == ["capital-common"] * 2 + ["plural"]
    assert first.gold.others == {"Athens", "Greece", "Oslo"}
    assert set(third.gold.candidates) == {"Athens", "Greece", "Oslo", "Norway", "cat", "cats", "dog", "dogs"}


def test_an_analogy_needs_four_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"questions-words\.txt, line 2.*four words"):
        analogies(tmp_path, ": x\nAthens Greece Oslo\n")
