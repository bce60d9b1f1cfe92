"""SuperGLUE prediction files: scored as they are, and packed for the test server."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ptmbench import tasks
from ptmbench.bench.scoring import superglue
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.task import DataError, UnknownTask

QUESTIONS = [
    {"idx": 4, "question": "Who?"}
    | {"answers": [{"idx": 9, "text": "Jo", "label": 1}, {"idx": 10, "text": "Al", "label": 0}]}
]
GOLD = {
    "boolq": [{"question": "is it", "passage": "It is.", "label": not n, "idx": n} for n in (0, 1)],
    "wsc": [
        {"text": "Jo said he ran.", "idx": n, "label": label}
        | {"target": {"span1_text": "Jo", "span1_index": 0, "span2_text": "he", "span2_index": 2}}
        for n, label in enumerate((True, False))
    ],
    "multirc": [{"idx": 2, "passage": {"text": "Jo did.", "questions": QUESTIONS}}],
    "record": [
        {"idx": 0, "passage": {"text": "Jo ran."}}
        | {"qas": [{"idx": 5, "query": "@placeholder ran.", "answers": [{"start": 0, "end": 1, "text": "Jo"}]}]}
    ],
    "axb": [
        {"idx": str(n), "sentence1": "A", "sentence2": "B", "label": label}
        for n, label in enumerate(("entailment", "not_entailment"))
    ],
}  # fmt: skip


def _write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def _answered(*labels: Any) -> list[dict[str, Any]]:
    answers = [{"idx": index, "label": label} for index, label in zip((9, 10), labels, strict=True)]
    return [{"idx": 2, "passage": {"questions": [{"idx": 4, "answers": answers}]}}]


@pytest.mark.parametrize(
    ("name", "predictions", "headline"),
    [
        ("boolq", [{"idx": 1, "label": "true"}, {"idx": 0, "label": "true"}], 50),
        ("boolq", [{"idx": 0, "label": True}, {"idx": 1, "label": False}], 100),
        ("boolq", GOLD["boolq"], 100),  # the gold file itself, whose lines also have a passage
        ("boolq", ["index\tprediction", "0\ttrue", "1\ttrue"], 50),
        ("wsc", [{"idx": 0, "label": "True"}, {"idx": 1, "label": "True"}], 50),
        ("wsc", [{"idx": 0, "label": "true"}, {"idx": 1, "label": False}], 100),
        ("multirc", _answered(1, 0), 100),
        ("multirc", _answered(1, 1), 100 * (2 / 3) / 2),
        ("record", [{"idx": 5, "label": "the Jo"}], 100),
        ("axb", [{"idx": "0", "label": "entailment"}, {"idx": 1, "label": "not_entailment"}], 100),
    ],
)
def test_official_files_are_scored(name: str, predictions: list[Any], headline: float, tmp_path: Path) -> None:
    gold = _write(tmp_path / ("AX-b.jsonl" if name == "axb" else "val.jsonl"), GOLD[name])
    found = score(name, gold, _write(tmp_path / "guess.jsonl", predictions))
    assert found["headline"] == pytest.approx(headline)


@pytest.mark.parametrize(
    ("name", "predictions", "message"),
    [
        ("boolq", [{"idx": 0, "label": "true"}], "no prediction for the example 1"),
        ("boolq", [{"idx": n, "label": "true"} for n in (0, 1, 7)], "a prediction for 7, which"),
        ("boolq", [{"idx": 0, "label": "true"}] * 2, "line 2: idx 0 appears twice"),
        ("boolq", [{"idx": 0, "label": 1}], "line 1: the label 1 is not one of 'false', 'true'"),
        ("boolq", [{"idx": 0}], 'line 1: the key "label" is missing for idx 0'),
        ("boolq", [{"idx": -1.5, "label": "true"}], 'line 1: the key "idx" is -1.5'),
        ("boolq", ["{"], "line 1: this is not JSON"),
        ("multirc", _answered(1, "yes"), "line 1: the label 'yes' is not one of 0, 1"),
        ("multirc", [{"idx": 2, "passage": {"questions": [{"idx": 4, "answers": 3}]}}], '"answers" is 3; a list'),
        ("multirc", [{"idx": 2, "passage": {"questions": [3]}}], '"questions" must be a list of objects'),
        ("record", [{"idx": 5, "label": 3}], 'the key "label" is 3; a text'),
        ("record", [{"idx": 6, "label": "x"}], "no prediction for the example 5"),
    ],
)
def test_mismatches_name_the_first_invalid_line(
    name: str, predictions: list[Any], message: str, tmp_path: Path
) -> None:
    gold = _write(tmp_path / "val.jsonl", GOLD[name])
    with pytest.raises(DataError, match=message):
        score(name, gold, _write(tmp_path / "guess.jsonl", predictions))


def _predictions(name: str) -> dict[str, Any]:
    """Returns cycling labels. MultiRC gets two passages with up to 50 questions of up to 100 answers."""
    task = tasks.load(name)
    count = task.extra["submission"]["rows"]
    values = list(task.labels) or ([0, 1] if name == "copa" else ["Jo", "naïve"])
    keys = [f"{n // 5000}-{n // 100}-{n}" if name == "multirc" else str(n) for n in range(count)]
    return {key: values[n % len(values)] for n, key in enumerate(reversed(keys))}


def _files(path: Path) -> dict[str, list[dict[str, Any]]]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    return {name: [json.loads(line) for line in text.splitlines()] for name, text in texts.items()}


def test_the_archive_has_the_format_of_the_superglue_server(tmp_path: Path) -> None:
    made = {name: _predictions(name) for name in superglue.TASKS}
    report = superglue.write(made, tmp_path / "new")
    assert (report.filled, report.notes) == ((), ())
    files = _files(report.path)
    assert list(files) == [
        "BoolQ.jsonl", "CB.jsonl", "COPA.jsonl", "MultiRC.jsonl", "ReCoRD.jsonl",
        "RTE.jsonl", "WiC.jsonl", "WSC.jsonl", "AX-b.jsonl", "AX-g.jsonl",
    ]  # fmt: skip
    for name, rows in files.items():
        if name != "MultiRC.jsonl":
            assert [row["idx"] for row in rows] == list(range(len(rows)))
    labels = {name: {row.get("label") for row in rows} for name, rows in files.items()}
    assert labels["BoolQ.jsonl"] == labels["WiC.jsonl"] == {"true", "false"}
    assert labels["WSC.jsonl"] == {"True", "False"}
    assert labels["COPA.jsonl"] == {0, 1}
    assert labels["AX-g.jsonl"] == labels["RTE.jsonl"] == {"entailment", "not_entailment"}
    questions = [question for row in files["MultiRC.jsonl"] for question in row["passage"]["questions"]]
    assert [answer["idx"] for question in questions for answer in question["answers"]] == list(range(9693))
    assert {answer["label"] for question in questions for answer in question["answers"]} == {0, 1}
    assert superglue.write(made, tmp_path / "again").path.read_bytes() == report.path.read_bytes()


def test_written_predictions_are_read_back_unchanged(tmp_path: Path) -> None:
    for name in ("wsc", "multirc", "record", "axb"):
        made = _predictions(name)
        report = superglue.write({name: made}, tmp_path)
        with zipfile.ZipFile(report.path) as archive:
            path = Path(archive.extract(tasks.load(name).extra["submission"]["file"], tmp_path))
        assert superglue.read(tasks.load(name), path) == made


def test_missing_tasks_get_placeholders_where_the_numbering_is_known(tmp_path: Path) -> None:
    report = superglue.write({"cb": _predictions("cb")}, tmp_path)
    assert set(report.filled) == set(superglue.TASKS) - {"cb"}
    assert set(_files(report.path)) == {tasks.load(name).extra["submission"]["file"] for name in superglue.TASKS} - {
        "MultiRC.jsonl", "ReCoRD.jsonl",
    }  # fmt: skip
    assert sum("left out, and the server refuses" in note for note in report.notes) == 2
    assert any("WSC.jsonl is a placeholder with 'False'" in note for note in report.notes)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("cb", {"0": "maybe"}, "CB: the prediction for idx 0 is 'maybe', not one of entailment"),
        ("copa", {"3": "1"}, "COPA: the prediction for idx 3 is '1', not the number of a choice"),
        ("record", {"9": None}, "ReCoRD: the prediction for idx 9 is None, not a text"),
        ("wic", {"x": "true"}, "WiC: 1401 predictions, but the SuperGLUE server wants .* 1400 rows"),
    ],
)
def test_invalid_predictions_are_rejected_before_writing(
    name: str, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        superglue.write({name: _predictions(name) | change}, tmp_path)
    assert list(tmp_path.iterdir()) == []
    renamed = {("a-b" if key == "0" else key): value for key, value in _predictions(name).items()}
    with pytest.raises(DataError, match="'a-b' is not an idx"):
        superglue.write({name: renamed}, tmp_path)


def test_unknown_and_missing_tasks_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnknownTask, match="'rte' is not a task of a SuperGLUE submission.*rte_superglue"):
        superglue.write({"rte": {}}, tmp_path)
    with pytest.raises(DataError, match="There are no predictions"):
        superglue.write({}, tmp_path)
