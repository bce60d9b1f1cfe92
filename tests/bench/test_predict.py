"""`predict` and `encode` on the command line: what is wrong with their input is said before a network computes."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.errors import EnvironmentProblem, UsageError
from ptmbench.bench.options import PredictOptions
from ptmbench.bench.runs import predict
from ptmbench.tasks.task import MissingData


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Calls `predict` with checkpoints of the named tasks; what a network was asked."""

    def call(*names: str, split: str) -> list[str]:
        done: list[str] = []
        monkeypatch.setattr(
            predict, "_adapted", lambda folder: SimpleNamespace(folder=folder, about={"task": folder.name})
        )
        monkeypatch.setattr(predict, "_predictions", lambda found, rows: done.append(found.folder.name) or ["1"])
        folders = [tmp_path / str(n) / name for n, name in enumerate(names)]
        try:
            predict.predict(PredictOptions(checkpoints=folders, split=split, data=tmp_path, out=tmp_path / "out"))
        finally:
            assert not done or (tmp_path / "out").is_dir()
            call.done = done
        return done

    (tmp_path / "glue/CoLA").mkdir(parents=True)
    (tmp_path / "glue/CoLA/dev.tsv").write_text("gj04\t1\t\tHe goes.\n")
    return call


def test_a_missing_split_is_named_before_anything_is_predicted(asked, tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="no folder glue/RTE"):
        asked("cola", "rte", split="dev")
    assert not asked.done
    assert asked("cola", split="dev") == ["cola"]
    assert (tmp_path / "out/cola.dev.jsonl").read_text() == '{"id": "0", "prediction": "1"}\n'


def test_two_checkpoints_of_a_task_would_write_one_file(asked) -> None:
    with pytest.raises(UsageError, match=r"predict cola: .*0/cola and .*1/cola\. Give one"):
        asked("cola", "cola", split="dev")
    assert not asked.done


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"caf\xc3\xa9\ncaf\xe9\n", r"lines, line 2: this is not UTF-8"), (b"", "lines is empty: give text")],
)
def test_what_encode_cannot_read(content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "read", lambda folder: None)
    (tmp_path / "lines").write_bytes(content)
    with pytest.raises(EnvironmentProblem, match=message):
        predict.encode(checkpoint=tmp_path, source=tmp_path / "lines", out=tmp_path / "v.npz")
