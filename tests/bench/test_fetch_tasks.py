"""``data fetch TASK``: archives are unpacked and checked, and files that change afterwards are detected."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.data.fetch import FetchError, fetch, get
from ptmbench.bench.runs import examples
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import DataError, Download, Example, MissingData, Source, Task
from tests.bench.serving import Server, left_in, redirect, reply


def _zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _read(folder: Path, split: str) -> list[Example]:
    return [Example(id="0", inputs=((folder / f"{split}.tsv").read_text(),), gold="a")]


def _task(name: str, *downloads: Download) -> Task:
    return Task(
        name=name, title=name.upper(), form=Form.CLASSIFICATION, labels=("a", "b"), read=_read,
        source=Source(citation="-", licence="on request", url="https://example.org/ask", survey=""),
        folders=(f"sets/{name}",), files={"train": ("train.tsv",), "dev": ("dev.tsv|valid.tsv",)},
        metrics=(accuracy,), headline="accuracy", downloads=downloads,
    )  # fmt: skip


@pytest.fixture
def register_tasks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    known: dict[str, Task] = {}
    monkeypatch.setattr(tasks, "load", lambda name: known[name])
    return lambda *made: known.update({task.name: task for task in made})


def test_tasks_that_are_there_are_only_fetched_with_again(server: Server, tmp_path: Path, register_tasks) -> None:
    url = server.says("/one.zip", reply(_zipped({"one/train.tsv": b"t", "one/dev.tsv": b"d", "__MACOSX/x": b"?"})))
    register_tasks(_task("one", Download(url=url, to="sets", unpack=True)), _task("two"))
    fetch(["one"], tmp_path)
    assert left_in(tmp_path) == ["downloads.json", "sets", "sets/one", "sets/one/dev.tsv", "sets/one/train.tsv"]
    fetch(["one"], tmp_path)
    assert len(server.ranges) == 1
    fetch(["one"], tmp_path, again=True)
    assert len(server.ranges) == 2


def test_data_on_request_name_the_address_to_ask(server: Server, tmp_path: Path, register_tasks) -> None:
    url = server.says("/one.zip", reply(_zipped({"train.tsv": b"t", "dev.tsv": b"d"})))
    register_tasks(_task("one", Download(url=url, to="sets/one", unpack=True)), _task("two"))
    expected = (
        r"TWO cannot be fetched \(terms: on request\).*example.org/ask.*sets/two.*: train.tsv, dev.tsv or valid.tsv"
    )
    with pytest.raises(MissingData, match=expected):
        fetch(["two", "one"], tmp_path)
    assert (tmp_path / "sets" / "one" / "train.tsv").exists(), "the others are fetched first"


def test_an_archive_without_the_files_of_the_task_raises_fetch_error(
    server: Server, tmp_path: Path, register_tasks
) -> None:
    url = server.says("/one.zip", reply(_zipped({"one/train.tsv": b"t"})))
    register_tasks(_task("one", Download(url=url, to="sets", unpack=True)))  # whose reported split is dev
    with pytest.raises(FetchError, match="dev.tsv of the dev split is missing.*do not contain it"):
        fetch(["one"], tmp_path)


def test_exit_statuses_and_output_of_data_fetch(
    server: Server, tmp_path: Path, register_tasks, capsys: pytest.CaptureFixture[str]
) -> None:
    url = server.says("/one.zip", reply(_zipped({"one/train.tsv": b"t", "one/dev.tsv": b"d"})))
    register_tasks(_task("one", Download(url=url, to="sets", unpack=True)), _task("two"))
    data = tmp_path / "new"
    assert main(["data", "fetch", "one", "--data", str(data)]) == 0
    assert capsys.readouterr().out.strip() == str(data / "sets")
    assert main(["data", "fetch", "one,two", "--data", str(data)]) == 4  # commas, as everywhere else, or blanks
    assert "Ask for it at https://example.org/ask" in capsys.readouterr().err
    server.says("/one.zip", reply(b"", status=404))
    assert main(["data", "fetch", "one", "--data", str(data), "--again"]) == 4
    out, err = capsys.readouterr()
    assert out == "" and "no such file any more" in err and "Traceback" not in err
    assert main(["data", "fetch", "--data", str(data)]) == 2


def test_the_downloads_of_all_tasks_are_well_formed() -> None:
    """Addresses use https, checksums are complete, and targets stay inside the data folder."""
    for task in map(tasks.load, tasks.names()):
        for one in task.downloads:
            assert one.url.startswith("https://"), one.url
            assert one.sha256 is None or (len(one.sha256) == 64 and int(one.sha256, 16) and one.size)
            assert not Path(one.to).is_absolute() and ".." not in Path(one.to).parts


def _check_splits(data: Path) -> dict[str, str]:
    """The state or the problem that `data check` reports for each split of the task "one"."""
    from ptmbench.bench.commands.data import _read as check

    return {row["split"]: row["problem"] or row["state"] for row in check(data)}


@pytest.mark.parametrize("way", ["archive", "files", "files with sums"])
def test_a_file_that_changes_after_its_fetch_is_detected(
    way: str, server: Server, tmp_path: Path, register_tasks, capsys, monkeypatch
) -> None:
    parts = {"train.tsv": b"train", "dev.tsv": b"dev"}
    if way == "archive":
        url = server.says("/one.zip", reply(_zipped({f"one/{name}": content for name, content in parts.items()})))
        downloads = [Download(url=url, to="sets", unpack=True)]
    else:
        sums = {name: {"size": len(c), "sha256": hashlib.sha256(c).hexdigest()} for name, c in parts.items()}
        downloads = [
            Download(url=server.says(f"/{name}", reply(content)), to=f"sets/one/{name}",
                     **(sums[name] if way == "files with sums" else {}))
            for name, content in parts.items()
        ]  # fmt: skip
    task = _task("one", *downloads)
    register_tasks(task)
    monkeypatch.setattr(tasks, "names", lambda: ("one",))
    fetch(["one"], tmp_path)
    assert _check_splits(tmp_path) == {"train": "ok", "dev": "ok"}
    (tmp_path / "sets/one/train.tsv").write_bytes(b"trein")
    states = _check_splits(tmp_path)
    assert states["dev"] == "ok" and "train.tsv has changed since it was fetched" in states["train"]
    assert main(["data", "check", str(tmp_path)]) == 4
    _clear_example_cache()
    with pytest.raises(DataError, match=r"train.tsv has changed since .*data fetch one --again"):
        examples.read(task, tmp_path, "train")
    assert examples.read(task, tmp_path, "dev")
    capsys.readouterr()
    fetch(["one"], tmp_path)
    assert "all files are there. But " in capsys.readouterr().err
    fetch(["one"], tmp_path, again=True)
    assert _check_splits(tmp_path) == {"train": "ok", "dev": "ok"}
    (tmp_path / "sets/one/train.tsv").unlink()
    assert _check_splits(tmp_path)["dev"] == "ok"
    (tmp_path / "downloads.json").unlink()
    (tmp_path / "sets/one/dev.tsv").write_bytes(b"mine")
    assert _check_splits(tmp_path)["dev"] == "ok", "nobody fetched it"
    _clear_example_cache()


def _clear_example_cache() -> None:
    examples._read.cache_clear()


def test_a_later_archive_may_replace_a_file_of_an_earlier_one(server: Server, tmp_path: Path, register_tasks) -> None:
    first = server.says("/1.zip", reply(_zipped({"train.tsv": b"1", "dev.tsv": b"d"})))
    second = server.says("/2.zip", reply(_zipped({"train.tsv": b"2"})))
    task = _task("one", *(Download(url=url, to="sets/one", unpack=True) for url in (first, second)))
    register_tasks(task)
    fetch(["one"], tmp_path)
    assert examples.read(task, tmp_path, "train")[0].inputs == ("2",)
    _clear_example_cache()


def test_a_redirection_to_an_invalid_address_gives_a_clear_error(
    server: Server, tmp_path: Path, register_tasks, capsys
) -> None:
    """It used to be an internal error, status 70."""
    url = server.says("/one.zip", redirect("http://[bad/"))
    register_tasks(_task("one", Download(url=url, to="sets", unpack=True)))
    assert main(["data", "fetch", "one", "--data", str(tmp_path / "new")]) == 4
    assert "is not the address of a file" in capsys.readouterr().err


def test_tar_archives_are_unpacked_too(server: Server, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("top/a/b.txt")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    url = server.says("/x.tgz", reply(buffer.getvalue()))
    get(Download(url=url, to="set", unpack=True, strip=1), tmp_path)
    assert (tmp_path / "set" / "a" / "b.txt").read_bytes() == b"abc"
