"""``data make``, ``data ls`` and ``data check`` on the microworld and on damaged files."""

import json
import shutil
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.__main__ import main


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "world"
    assert main(["data", "make", str(folder)]) == 0
    return folder


def test_ls_without_a_folder_lists_the_files_of_each_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "ls", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["task"], row["split"]) for row in rows} == {
        (name, split) for name in tasks.names() for split in tasks.load(name).files
    }
    assert all(row["files"] and row["from"] for row in rows)


def test_check_reads_all_rows_of_the_microworld(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(world), "--json"]) == 0
    rows = {(row["task"], row["split"]): row for row in json.loads(capsys.readouterr().out)}
    cola = tasks.load("cola")
    assert rows["cola", "dev"]["rows"] == len(cola.examples(world, "dev"))
    assert cola.fingerprint(world, ["dev"]).startswith(rows["cola", "dev"]["fingerprint"])
    assert not [row for row in rows.values() if row["state"] == "malformed"]


def test_a_damaged_file_is_reported_and_the_rest_is_read(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "world"
    shutil.copytree(world, folder)
    path = tasks.load("cola").paths(folder, "dev")[0]
    path.write_bytes(b"one column only\n" + path.read_bytes())
    tasks.load("sst2").paths(folder, "dev")[0].unlink()
    assert main(["data", "check", str(folder), "--json"]) == 4
    out, err = capsys.readouterr()
    rows = {(row["task"], row["split"]): row["state"] for row in json.loads(out)}
    assert rows["cola", "dev"] == "malformed" and path.name in err
    assert rows["cola", "train"] == "ok" and rows["sst2", "dev"] == "missing"
    assert main(["data", "ls", str(folder), "--json"]) == 0
    states = {(row["task"], row["split"]): row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states["sst2", "dev"] == "missing" and states["cola", "dev"] == "found"


def test_the_suggested_command_quotes_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "my world"
    (folder / "glue/CoLA").mkdir(parents=True)
    (folder / "glue/CoLA/dev.tsv").write_text("gj04\t1\t\tHe goes.\n")
    assert main(["data", "check", str(folder)]) == 0
    assert f"`data ls '{folder}'` names them" in capsys.readouterr().err


def test_a_folder_without_any_data_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(tmp_path)]) == 4
    assert "holds no task's data" in capsys.readouterr().err
