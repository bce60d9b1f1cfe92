"""Baselines in a data folder without training files: three rows ask for none, the others say what they lack."""

import json
from pathlib import Path

import pytest

from ptmbench.bench.data.sources import fingerprint
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import examples
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.leaderboard.records import record
from ptmbench.tasks import load


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The reported splits of DialogSum, CoLA and TREC, and CoLA's dev split is the reported one."""
    (tmp_path / "data/dialogsum").mkdir(parents=True)
    rows = [
        {"fname": str(n), "dialogue": f"A: It is {n}.\nB: Yes.\nA: Bye.\nB: See you.", "summary": f"It is {n}."}
        for n in range(4)
    ]
    (tmp_path / "data/dialogsum/dialogsum.test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "data/CoLA").mkdir()
    (tmp_path / "data/CoLA/dev.tsv").write_text("".join(f"gj04\t{n % 3 > 0:d}\t\tHe goes {n}.\n" for n in range(9)))
    (tmp_path / "data/trec").mkdir()
    (tmp_path / "data/trec/TREC_10.label").write_text("LOC:city Where ?\nLOC:city Where is it ?\nHUM:ind Who ?\n")
    examples._read.cache_clear()
    yield tmp_path / "data"
    examples._read.cache_clear()


def _run(data: Path, row: str, task: str) -> record.Record:
    found = load(task)
    cell = Cell(
        row=Row.parse(row, None), task=task, task_version=found.version, form=found.form,
        data_sha256=fingerprint(found, data), adaptation="baseline", settings={}, seed=0, tokenizer="", limit=0,
    )  # fmt: skip
    made = cells.run(cell, Context(data=data, out=data.parent / "out", shape=None, tokenizer=None, source={}))
    record.write(data.parent / "out", made)
    return made


@pytest.mark.parametrize("row", ["lead", "oracle"])
def test_sentences_of_the_text_need_no_training(data: Path, row: str) -> None:
    made = _run(data, row, "dialogsum")
    assert made.status == "ok", made.reason
    assert made.task["examples"] == 4 and made.row["label"] in ("first sentences", "oracle sentences")


@pytest.mark.parametrize(
    ("task", "split", "value"), [("cola", "dev", 0.0), ("trec", "test", 200 / 3), ("dialogsum", "test", 0)]
)
def test_the_most_frequent_answer_says_whose_it_is(data: Path, task: str, split: str, value: float) -> None:
    made = _run(data, "majority", task)
    assert made.status == "ok", made.reason
    assert made.row["label"] == f"majority (of the {split} split)"
    assert made.headline["value"] >= value if task == "dialogsum" else made.headline["value"] == pytest.approx(value)


def test_with_a_training_file_it_is_that_of_training(data: Path) -> None:
    (data / "trec/train_5500.label").write_text("HUM:ind Who ?\n" * 20)
    made = _run(data, "majority", "trec")
    assert made.row["label"] == "majority" and made.headline["value"] == pytest.approx(100 / 3)


def test_rows_that_learn_say_what_is_missing(data: Path) -> None:
    made = _run(data, "bag-of-words", "trec")
    assert (made.status, made.reason["code"]) == ("not_applicable", "missing-data")
    assert "train_5500.label of the train split is missing" in made.reason["text"]


def test_another_reported_file_is_another_cell(data: Path) -> None:
    """Without the training file, the fingerprint was that of its absence alone."""
    before = fingerprint(load("trec"), data)
    (data / "trec/TREC_10.label").write_text("LOC:city Where ?\n")
    assert fingerprint(load("trec"), data) != before
