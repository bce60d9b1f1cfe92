"""The archive for the GLUE server: eleven files with the expected names and row counts, written whole or not at all."""

import zipfile
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.scoring import submission
from ptmbench.tasks.task import DataError, UnknownTask

ROWS = {
    "CoLA.tsv": 1063,
    "SST-2.tsv": 1821,
    "MRPC.tsv": 1725,
    "STS-B.tsv": 1379,
    "QQP.tsv": 390965,
    "MNLI-m.tsv": 9796,
    "MNLI-mm.tsv": 9847,
    "QNLI.tsv": 5463,
    "RTE.tsv": 3000,
    "WNLI.tsv": 146,
    "AX.tsv": 1104,
}
WORDS = {"MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "AX.tsv"}
INFERENCE = {"entailment", "neutral", "contradiction", "not_entailment"}


def _predictions() -> dict[str, list[str | float]]:
    """Returns cycling labels for every task except QQP, whose size would only cost time."""
    made: dict[str, list[str | float]] = {}
    for name in submission.GLUE:
        task = tasks.load(name)
        count = task.extra["submission"]["rows"]
        if name != "qqp":
            made[name] = [task.labels[i % len(task.labels)] if task.labels else i * 0.003 for i in range(count)]
    return made


def _tables(path: Path) -> dict[str, list[list[str]]]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert all(text.endswith("\n") and "\r" not in text for text in texts.values())
    return {name: [line.split("\t") for line in text.split("\n")[:-1]] for name, text in texts.items()}


def test_the_archive_has_the_format_of_the_glue_server(tmp_path: Path) -> None:
    made = _predictions()
    report = submission.write_glue(made, tmp_path / "new" / "folder")
    assert report.path == tmp_path / "new" / "folder" / "submission.zip"
    assert report.filled == ("qqp",)
    assert set(report.predicted) == set(made)
    assert len(report.notes) == 1
    assert "QQP" in report.notes[0]
    assert "placeholder" in report.notes[0]
    tables = _tables(report.path)
    assert {name: len(table) - 1 for name, table in tables.items()} == ROWS
    for name, table in tables.items():
        assert table[0] == ["index", "prediction"]
        assert [row[0] for row in table[1:]] == [str(index) for index in range(len(table) - 1)]
        answers = {row[1] for row in table[1:]}
        if name == "STS-B.tsv":
            assert [row[1] for row in table[1:4]] == ["0.000", "0.003", "0.006"]
        else:
            assert answers <= (INFERENCE if name in WORDS else {"0", "1"})
    assert [row[1] for row in tables["CoLA.tsv"][1:]] == made["cola"]
    assert [row[1] for row in tables["MNLI-mm.tsv"][1:]] == made["mnli_mm"]


def test_missing_tasks_get_placeholders_and_are_named(tmp_path: Path) -> None:
    report = submission.write_glue({"wnli": ["0"] * 146}, tmp_path)
    assert report.predicted == ("wnli",)
    assert len(report.filled) == len(report.notes) == 10
    for name in report.filled:
        assert any(tasks.load(name).extra["submission"]["file"] in note for note in report.notes)
    tables = _tables(report.path)
    assert {name: len(table) - 1 for name, table in tables.items()} == ROWS
    assert {row[1] for row in tables["STS-B.tsv"][1:]} == {f"{score}.000" for score in range(6)}, "never a constant"


def test_archives_are_reproducible_and_leave_no_other_files(tmp_path: Path) -> None:
    first = submission.write_glue({"wnli": ["0"] * 146}, tmp_path / "a").path.read_bytes()
    again = submission.write_glue({"wnli": ["0"] * 146}, tmp_path / "a").path.read_bytes()
    other = submission.write_glue({"wnli": ["1"] * 146}, tmp_path / "b").path.read_bytes()
    assert first == again != other
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["submission.zip"]


@pytest.mark.parametrize(
    ("predictions", "error", "message"),
    [
        ({"cola": ["1"] * 1062}, DataError, r"CoLA: 1062 predictions, .* 1063 rows of the official test.tsv"),
        ({"rte": ["entailment"] * 2999 + ["yes"]}, DataError, r"RTE: prediction 2999 is 'yes', .*'not_entailment'"),
        ({"wnli": [0] * 146}, DataError, r"WNLI: prediction 0 is 0, but the labels are '0', '1'"),
        ({"stsb": [1.0] * 1378 + [float("nan")]}, DataError, r"STS-B: prediction 1378 is nan, not a finite number"),
        ({"stsb": ["high"] * 1379}, DataError, r"STS-B: prediction 0 is 'high', not a finite number"),
        ({"colla": []}, UnknownTask, r"'colla' is not a task of a GLUE submission. Nearest: cola"),
        ({}, DataError, r"There are no predictions"),
    ],
)
def test_predictions_that_the_server_would_refuse_are_rejected(
    predictions: dict, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        submission.write_glue(predictions, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rejected_predictions_leave_the_old_archive_unchanged(tmp_path: Path) -> None:
    old = submission.write_glue({"wnli": ["0"] * 146}, tmp_path).path
    before = old.read_bytes()
    with pytest.raises(DataError):
        submission.write_glue({"wnli": ["0"] * 145}, tmp_path)
    assert old.read_bytes() == before


def test_a_write_error_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space left"):
        submission.write_glue({"wnli": ["0"] * 146}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_similarity_scores_are_clipped_with_a_note(tmp_path: Path) -> None:
    report = submission.write_glue({"stsb": [-0.2, -0.0, 5.25, 2.34567] + [1.0] * 1375}, tmp_path)
    assert "STS-B: 2 of 1379 predictions lay outside 0 to 5 and were clipped." in report.notes
    answers = [row[1] for row in _tables(report.path)["STS-B.tsv"][1:5]]
    assert answers == ["0.000", "0.000", "5.000", "2.346"]
