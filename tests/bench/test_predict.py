"""`predict` and `encode`: errors in the input are reported before a model computes anything."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.errors import EnvironmentProblem, UsageError
from ptmbench.bench.options import PredictOptions
from ptmbench.bench.runs import predict
from ptmbench.tasks.task import MissingData


@pytest.fixture
def call_predict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that calls `predict` with checkpoints of the given tasks and returns the tasks with predictions."""

    def call(*names: str, split: str) -> list[str]:
        predicted_tasks: list[str] = []
        monkeypatch.setattr(
            predict, "_adapted", lambda folder: SimpleNamespace(folder=folder, about={"task": folder.name})
        )
        monkeypatch.setattr(
            predict, "_predictions", lambda found, rows: predicted_tasks.append(found.folder.name) or ["1"]
        )
        folders = [tmp_path / str(n) / name for n, name in enumerate(names)]
        try:
            predict.predict(PredictOptions(checkpoints=folders, split=split, data=tmp_path, out=tmp_path / "out"))
        finally:
            assert not predicted_tasks or (tmp_path / "out").is_dir()
            call.done = predicted_tasks
        return predicted_tasks

    (tmp_path / "glue/CoLA").mkdir(parents=True)
    (tmp_path / "glue/CoLA/dev.tsv").write_text("gj04\t1\t\tHe goes.\n")
    return call


def test_a_missing_split_is_an_error_before_prediction_starts(call_predict, tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="no folder glue/RTE"):
        call_predict("cola", "rte", split="dev")
    assert not call_predict.done
    assert call_predict("cola", split="dev") == ["cola"]
    assert (tmp_path / "out/cola.dev.jsonl").read_text() == '{"id": "0", "prediction": "1"}\n'


def test_two_checkpoints_of_one_task_are_a_usage_error(call_predict) -> None:
    with pytest.raises(UsageError, match=r"predict cola: .*0/cola and .*1/cola\. Give one"):
        call_predict("cola", "cola", split="dev")
    assert not call_predict.done


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"caf\xc3\xa9\ncaf\xe9\n", r"lines, line 2: this is not UTF-8"), (b"", "lines is empty: give text")],
)
def test_encode_reports_unreadable_and_empty_input(
    content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "read", lambda folder: None)
    (tmp_path / "lines").write_bytes(content)
    with pytest.raises(EnvironmentProblem, match=message):
        predict.encode(checkpoint=tmp_path, source=tmp_path / "lines", out=tmp_path / "v.npz")
