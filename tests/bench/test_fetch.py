"""``data fetch`` of single files: complete downloads, resumed downloads, and checksums that are stored and compared."""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.data import fetch as fetching
from ptmbench.bench.data.fetch import FetchError, get
from ptmbench.tasks.task import Download
from tests.bench.serving import BODY, SUM, Server, left_in, ranged, reply


def test_a_file_is_downloaded_completely_and_under_its_name(server: Server, tmp_path: Path) -> None:
    url = server.says("/file", reply())
    assert get(Download(url=url, to="set/x.tsv", size=len(BODY), sha256=SUM), tmp_path) == tmp_path / "set/x.tsv"
    assert (tmp_path / "set" / "x.tsv").read_bytes() == BODY
    assert left_in(tmp_path) == ["downloads.json", "set", "set/x.tsv"]


def test_a_broken_connection_is_resumed_where_it_broke(server: Server, tmp_path: Path) -> None:
    url = server.says("/file", ranged(BODY, '"a"', cut=100_000))
    get(Download(url=url, to="x", size=len(BODY), sha256=SUM), tmp_path)
    assert (tmp_path / "x").read_bytes() == BODY
    assert server.ranges == [None, "bytes=100000-", "bytes=200000-"]


def _interrupted(server: Server, data: Path, monkeypatch: pytest.MonkeyPatch, **known: object) -> None:
    """Leaves the state after Ctrl-C in the middle of a download."""

    def stop(*arguments: object, **more: object) -> Iterator[bytes]:
        yield BODY[:5000]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fetching, "_pieces", stop)
        with pytest.raises(KeyboardInterrupt):
            get(Download(url=server.url("/file"), to="x", **known), data)
    assert not (data / "x").exists() and (data / ".fetch").is_dir()


@pytest.mark.parametrize("known", [{"size": len(BODY), "sha256": SUM}, {}], ids=["sum known", "sum unknown"])
def test_an_interrupted_download_is_resumed(known: dict, server: Server, tmp_path: Path, monkeypatch) -> None:
    server.says("/file", ranged(BODY, '"a"'))
    _interrupted(server, tmp_path, monkeypatch, **known)
    get(Download(url=server.url("/file"), to="x", **known), tmp_path)
    assert server.ranges == [None, "bytes=5000-"]
    assert (tmp_path / "x").read_bytes() == BODY and not (tmp_path / ".fetch").exists()


def test_a_file_that_changed_on_the_server_is_downloaded_again(server: Server, tmp_path: Path, monkeypatch) -> None:
    server.says("/file", ranged(BODY, '"a"'))
    _interrupted(server, tmp_path, monkeypatch)
    fresh = b"new" * 1000
    server.says("/file", ranged(fresh, '"b"'))
    get(Download(url=server.url("/file"), to="x"), tmp_path)
    assert server.ranges[-1] == "bytes=5000-"
    assert (tmp_path / "x").read_bytes() == fresh


@pytest.mark.parametrize("answer", [reply(), reply(ETag='"a"'), None], ids=["ignores Range", "tells a tag", "416"])
def test_a_server_without_ranges_sends_the_whole_file_again(
    answer, server: Server, tmp_path: Path, monkeypatch
) -> None:
    def unsatisfied(request: BaseHTTPRequestHandler) -> None:
        (reply(b"", status=416) if request.headers["Range"] else reply())(request)

    server.says("/file", answer or unsatisfied)
    _interrupted(server, tmp_path, monkeypatch, size=len(BODY), sha256=SUM)
    get(Download(url=server.url("/file"), to="x", size=len(BODY), sha256=SUM), tmp_path)
    assert (tmp_path / "x").read_bytes() == BODY


def test_the_first_checksum_is_stored_and_compared(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = server.says("/file", reply())
    get(Download(url=url, to="x"), tmp_path)
    assert json.loads((tmp_path / "downloads.json").read_text()) == {url: {"sha256": SUM, "size": len(BODY)}}
    assert "no published sum is known" in capsys.readouterr().err
    server.says("/file", reply(BODY[::-1]))
    with pytest.raises(FetchError, match="the one that .*downloads.json has from the first fetch"):
        get(Download(url=url, to="x"), tmp_path)
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_second_fetch_of_the_same_file_at_the_same_time_is_refused(
    server: Server, tmp_path: Path, monkeypatch
) -> None:
    url = server.says("/file", reply())

    def second(*arguments: object, **more: object) -> None:
        with pytest.raises(FetchError, match="being fetched into this folder by another process"):
            get(Download(url=url, to="x"), tmp_path)
        raise FetchError("enough")

    monkeypatch.setattr(fetching, "_receive", second)
    with pytest.raises(FetchError, match="enough"):
        get(Download(url=url, to="x"), tmp_path)


def test_a_damaged_list_of_checksums_raises_data_error(tmp_path: Path) -> None:
    (tmp_path / "downloads.json").write_text("{")
    with pytest.raises(tasks.task.DataError, match="downloads.json is not the JSON"):
        get(Download(url="https://example.org/x", to="x"), tmp_path)


@pytest.mark.parametrize("notes", ["", '{"valid', "[]", '{"validator": null}'])
def test_truncated_notes_only_discard_the_partial_download(notes: str, server: Server, tmp_path: Path) -> None:
    """A process that is killed while it writes the server's notes on the file leaves half of them."""
    url = server.says("/whole.bin", reply())
    part = tmp_path / ".fetch" / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.part"
    part.parent.mkdir()
    part.write_bytes(b"some of it")
    part.with_suffix(".json").write_text(notes)
    assert get(Download(url=url, to="whole.bin"), tmp_path).read_bytes() == BODY and server.ranges == [None]


def test_a_malformed_list_of_checksums_raises_data_error(server: Server, tmp_path: Path) -> None:
    url = server.says("/whole.bin", reply())
    for wrong in (SUM, {"sha256": 5}, {"size": "5"}):
        (tmp_path / "downloads.json").write_text(json.dumps({url: wrong}))
        with pytest.raises(tasks.task.DataError, match="downloads.json is not the JSON"):
            get(Download(url=url, to="whole.bin"), tmp_path)


def test_concurrent_fetches_keep_all_checksums(server, tmp_path):
    """Each fetch adds its checksum to the same file, and removes the shared folder of partial downloads once it is
    empty."""
    urls = [server.says(f"/{number}", reply()) for number in range(12)]
    with ThreadPoolExecutor(len(urls)) as threads:
        list(threads.map(lambda url: get(Download(url=url, to=url[-2:].strip("/")), tmp_path), urls))
    assert json.loads((tmp_path / "downloads.json").read_text()).keys() == set(urls)
    assert not (tmp_path / ".fetch").exists()
