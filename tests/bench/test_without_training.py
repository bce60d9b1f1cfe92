"""Baselines in a data folder without training files: three need none, the others report what is missing."""

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
    """A folder with only the reported splits of DialogSum, CoLA and TREC. For CoLA, this is the dev split."""
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
def test_lead_and_oracle_need_no_training_file(data: Path, row: str) -> None:
    made = _run(data, row, "dialogsum")
    assert made.status == "ok", made.reason
    assert made.task["examples"] == 4 and made.row["label"] in ("first sentences", "oracle sentences")


@pytest.mark.parametrize(
    ("task", "split", "value"), [("cola", "dev", 0.0), ("trec", "test", 200 / 3), ("dialogsum", "test", None)]
)
def test_majority_names_the_split_of_its_answer(data: Path, task: str, split: str, value: float | None) -> None:
    made = _run(data, "majority", task)
    assert made.status == "ok", made.reason
    assert made.row["label"] == f"majority (of the {split} split)"
    if value is not None:  # ROUGE of a summary depends on which one is the most frequent
        assert made.headline["value"] == pytest.approx(value)


def test_majority_uses_the_training_file_if_there_is_one(data: Path) -> None:
    (data / "trec/train_5500.label").write_text("HUM:ind Who ?\n" * 20)
    made = _run(data, "majority", "trec")
    assert made.row["label"] == "majority" and made.headline["value"] == pytest.approx(100 / 3)


def test_trained_baselines_name_the_missing_file(data: Path) -> None:
    made = _run(data, "bag-of-words", "trec")
    assert (made.status, made.reason["code"]) == ("not_applicable", "missing-data")
    assert "train_5500.label of the train split is missing" in made.reason["text"]


def test_the_fingerprint_covers_the_reported_file(data: Path) -> None:
    """Regression: without a training file, the fingerprint used to cover only its absence."""
    before = fingerprint(load("trec"), data)
    (data / "trec/TREC_10.label").write_text("LOC:city Where ?\n")
    assert fingerprint(load("trec"), data) != before
