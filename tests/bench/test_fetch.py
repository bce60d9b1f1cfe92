"""``data fetch`` against a server on loopback that misbehaves: each fault has its own message, and nothing stays."""

import hashlib
import io
import json
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.data import fetch as fetching
from ptmbench.bench.data.fetch import FetchError, fetch, get
from ptmbench.bench.runs import examples
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import DataError, Download, Example, MissingData, Source, Task

BODY = bytes(range(256)) * 1000
SUM = hashlib.sha256(BODY).hexdigest()


class Server:
    """Answers GET by the function that stands under the path; keeps the requests' Range headers."""

    def __init__(self) -> None:
        self.ranges: list[str | None] = []
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.ranges.append(self.headers["Range"])
                served.answers[self.path.split("?")[0]](self)

            def log_message(self, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}{path}"

    def says(self, path: str, answer: Callable[[BaseHTTPRequestHandler], None]) -> str:
        self.answers[path] = answer
        return self.url(path)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def _reply(
    body: bytes = BODY, *, status: int = 200, claim: int | None = None, kind: str = "application/zip", **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    """The whole ``body`` whatever is asked for; ``claim`` is the length that the header tells."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body) if claim is None else claim))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return answer


def _ranged(body: bytes, tag: str, cut: int | None = None) -> Callable[[BaseHTTPRequestHandler], None]:
    """Honours Range under If-Range; breaks off after ``cut`` bytes of each answer."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        begin, asked = 0, request.headers["Range"]
        if asked and request.headers["If-Range"] in (None, tag):
            begin = int(asked.removeprefix("bytes=").rstrip("-"))
        request.send_response(206 if begin else 200)
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        request.send_header("Content-Length", str(len(body) - begin))
        request.send_header("ETag", tag)
        request.end_headers()
        request.wfile.write(body[begin : None if cut is None else begin + cut])

    return answer


def _left(data: Path) -> list[str]:
    return sorted(str(path.relative_to(data)) for path in data.rglob("*"))


def _stall(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(len(BODY)))
    request.end_headers()
    request.wfile.write(BODY[:1000])
    request.wfile.flush()
    time.sleep(1.5)


def _silent(request: BaseHTTPRequestHandler) -> None:
    time.sleep(1.5)


def _round(request: BaseHTTPRequestHandler) -> None:
    request.send_response(302)
    request.send_header("Location", "/other" if request.path == "/file" else "/file")
    request.send_header("Content-Length", "0")
    request.end_headers()


def _answers(*pieces: bytes, every: float, until: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    """``pieces``, the last one again and again ``every`` so many seconds: a server that never is silent."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):  # the other side has left
            for piece in (*pieces, *[pieces[-1]] * until):
                request.wfile.write(piece)
                request.wfile.flush()
                time.sleep(every)

    return answer


STATUS = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: 256000\r\n\r\n"
XHTML = b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- moved -->\n<html xmlns="http://www.w3.org/1999/xhtml">Moved</html>'


def _leads(place: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return _reply(b"", status=302, Location=place)


FAULTS = {
    "a byte at a time": (_answers(STATUS + LENGTH, b"x", every=0.02), "too slow .* less than 1024 a second"),
    "headers without end": (_answers(STATUS + b"A: ", b"x", every=0.02), "too slow"),
    "a chunk's length without end": (
        _answers(STATUS + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x", every=0.02),
        "too slow",
    ),
    "an address of no host": (_leads("http://[bad/"), r"leads to 'http://\[bad/', which is no address of a file"),
    "an address of a long name": (_leads(f"http://{'a' * 70}.org/"), "which is no address of a file"),
    "an address of no port": (_leads("http://127.0.0.1:port/"), "which is no address of a file"),
    "an address of no such port": (_leads("http://127.0.0.1:99999/"), "which is no address of a file"),
    "an address of a blank": (_leads("http://127.0.0.1 x/"), "which is no address of a file"),
    "no address": (_reply(b"", status=302), r"leads elsewhere \(status 302\) and does not say where"),
    "XHTML": (_reply(XHTML, kind="application/xhtml+xml; charset=utf-8"), "a web page instead"),
    "XHTML in disguise": (_reply(XHTML + b" " * 255_000, claim=256_000), "a web page instead|closed the connection"),
    "a page in UTF-16": (_reply("<!DOCTYPE html><p>Moved".encode("utf-16").ljust(256_000)), "a web page instead"),
    "a page byte by byte": (
        _answers(STATUS + LENGTH, *(bytes([n]) for n in b"<html><p>Moved" + b" " * 2000), every=0, until=0),
        "a web page instead",
    ),
    "deflate": (_reply(**{"Content-Encoding": "deflate"}), r"encoded \(Content-Encoding: deflate\)"),
    "gzip": (_reply(**{"Content-Encoding": "gzip"}), r"encoded \(Content-Encoding: gzip\)"),
    "brotli": (_reply(**{"Content-Encoding": "br"}), r"encoded \(Content-Encoding: br\)"),
    "a packed transfer": (_reply(**{"Transfer-Encoding": "gzip"}), r"encoded \(Transfer-Encoding: gzip\)"),
    "a short body": (_reply(BODY[:1000], claim=len(BODY)), "closed the connection after .* of 256000 bytes"),
    "a web page": (_reply(b"<html>Please log in</html>", kind="text/html; charset=utf-8"), "a web page instead"),
    "a page in disguise": (_reply(b"\n<!DOCTYPE html><p>Moved", claim=23), "a web page instead"),
    "another sum": (_reply(BODY[:-1] + b"x"), f"has SHA-256 .*but its publisher's is {SUM}"),
    "another size": (_reply(BODY + b"x"), "a file of 256001 bytes, but the published one has 256000"),
    "a circle": (_round, "redirections, or a circle"),
    "a stall": (_stall, "sent nothing for 0.3 s"),
    "silence": (_silent, "no answer within 0.3 s|sent nothing for 0.3 s"),
    "nothing there": (_reply(b"", status=404), r"no such file any more \(status 404\)"),
    "no access": (_reply(b"", status=403), r"refuses access \(status 403\)"),
    "trouble": (_reply(b"", status=503), r"in trouble \(status 503\)"),
    "an unsafe address": (_reply(b"", status=302, Location="file:///etc/passwd"), "not safe to follow"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("known", [True, False], ids=["sum known", "sum unknown"])
def test_each_fault_has_its_own_message_and_leaves_nothing(
    fault: str, known: bool, server: Server, tmp_path: Path
) -> None:
    if fault in ("another sum", "another size") and not known:
        pytest.skip("without a sum every file is the first one")
    answer, message = FAULTS[fault]
    if fault == "a page in disguise" and known:
        message += "|published one has"
    url = server.says("/file", answer)
    server.answers["/other"] = answer
    one = Download(url=url, to="set/file", **({"size": len(BODY), "sha256": SUM} if known else {}))
    with pytest.raises(FetchError, match=message):
        get(one, tmp_path, timeout=0.3, where="https://example.org")
    assert _left(tmp_path) == []


def test_no_connection_and_an_empty_file_are_said(server: Server, tmp_path: Path) -> None:
    url = server.says("/file", _reply(b""))
    with pytest.raises(FetchError, match="an empty file"):
        get(Download(url=url, to="x"), tmp_path)
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(FetchError, match="no connection.*attempt 3 of 3"):
        get(Download(url=url, to="x"), tmp_path, timeout=1)
    assert _left(tmp_path) == []


def test_the_text_of_a_redirection_is_not_read(server: Server, tmp_path: Path) -> None:
    """urllib reads it to its end, of which there may be none; here it goes on for 20 s at least."""
    over, read_through = threading.Event(), []

    def answer(request: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):  # the other side has left
            request.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: /other\r\n\r\n")
            for _ in range(1000):
                request.wfile.write(b"x" * 4000)
                if over.wait(0.02):
                    return
            read_through.append(True)

    server.says("/other", _reply())
    url = server.says("/file", answer)
    assert get(Download(url=url, to="x", size=len(BODY), sha256=SUM), tmp_path).read_bytes() == BODY
    over.set()
    assert not read_through


def test_a_packed_file_may_be_called_encoded(server: Server, tmp_path: Path) -> None:
    """Servers that know the ending .gz name the file's own packing."""
    url = server.says("/x.tar.gz", _reply(**{"Content-Encoding": "x-gzip"}))
    assert get(Download(url=url, to="x"), tmp_path).read_bytes() == BODY


def test_an_xml_file_is_no_page(server: Server, tmp_path: Path) -> None:
    body = b'<?xml version="1.0"?>\n<sentences><head>x</head></sentences>'
    url = server.says("/x.xml", _reply(body, kind="text/xml"))
    assert get(Download(url=url, to="x.xml"), tmp_path).read_bytes() == body


def test_a_redirection_to_no_address_is_a_sentence(server: Server, tmp_path: Path, made_up, capsys) -> None:
    """It was an error of this program, status 70."""
    url = server.says("/one.zip", _leads("http://[bad/"))
    made_up(_task("one", Download(url=url, to="sets", unpack=True)))
    assert main(["data", "fetch", "one", "--data", str(tmp_path / "new")]) == 4
    assert "is no address of a file" in capsys.readouterr().err


def _tell(data: Path) -> dict[str, str]:
    """What `data check` says of each split of the task "one"."""
    from ptmbench.bench.commands.data import _read as check

    return {row["split"]: row["problem"] or row["state"] for row in check(data)}


@pytest.mark.parametrize("way", ["archive", "files", "files with sums"])
def test_a_file_that_changes_after_its_fetch_is_told(
    way: str, server: Server, tmp_path: Path, made_up, capsys, monkeypatch
) -> None:
    parts = {"train.tsv": b"train", "dev.tsv": b"dev"}
    if way == "archive":
        url = server.says("/one.zip", _reply(_zipped({f"one/{name}": content for name, content in parts.items()})))
        downloads = [Download(url=url, to="sets", unpack=True)]
    else:
        sums = {name: {"size": len(c), "sha256": hashlib.sha256(c).hexdigest()} for name, c in parts.items()}
        downloads = [
            Download(url=server.says(f"/{name}", _reply(content)), to=f"sets/one/{name}",
                     **(sums[name] if way == "files with sums" else {}))
            for name, content in parts.items()
        ]  # fmt: skip
    task = _task("one", *downloads)
    made_up(task)
    monkeypatch.setattr(tasks, "names", lambda: ("one",))
    fetch(["one"], tmp_path)
    assert _tell(tmp_path) == {"train": "ok", "dev": "ok"}
    (tmp_path / "sets/one/train.tsv").write_bytes(b"trein")
    told = _tell(tmp_path)
    assert told["dev"] == "ok" and "train.tsv has changed since it was fetched" in told["train"]
    assert main(["data", "check", str(tmp_path)]) == 4
    _forget_what_was_read()
    with pytest.raises(DataError, match=r"train.tsv has changed since .*data fetch one --again"):
        examples.read(task, tmp_path, "train")
    assert examples.read(task, tmp_path, "dev")
    capsys.readouterr()
    fetch(["one"], tmp_path)
    assert "all files are there. But " in capsys.readouterr().err
    fetch(["one"], tmp_path, again=True)
    assert _tell(tmp_path) == {"train": "ok", "dev": "ok"}
    (tmp_path / "sets/one/train.tsv").unlink()
    assert _tell(tmp_path)["dev"] == "ok"
    (tmp_path / "downloads.json").unlink()
    (tmp_path / "sets/one/dev.tsv").write_bytes(b"mine")
    assert _tell(tmp_path)["dev"] == "ok", "nobody fetched it"
    _forget_what_was_read()


def _forget_what_was_read() -> None:
    examples._read.cache_clear()


def test_a_later_archive_may_bring_the_same_file(server: Server, tmp_path: Path, made_up) -> None:
    first = server.says("/1.zip", _reply(_zipped({"train.tsv": b"1", "dev.tsv": b"d"})))
    second = server.says("/2.zip", _reply(_zipped({"train.tsv": b"2"})))
    task = _task("one", *(Download(url=url, to="sets/one", unpack=True) for url in (first, second)))
    made_up(task)
    fetch(["one"], tmp_path)
    assert examples.read(task, tmp_path, "train")[0].inputs == ("2",)
    _forget_what_was_read()


def test_a_file_comes_whole_and_under_its_name(server: Server, tmp_path: Path) -> None:
    url = server.says("/file", _reply())
    assert get(Download(url=url, to="set/x.tsv", size=len(BODY), sha256=SUM), tmp_path) == tmp_path / "set/x.tsv"
    assert (tmp_path / "set" / "x.tsv").read_bytes() == BODY
    assert _left(tmp_path) == ["downloads.json", "set", "set/x.tsv"]


def test_a_broken_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    url = server.says("/file", _ranged(BODY, '"a"', cut=100_000))
    get(Download(url=url, to="x", size=len(BODY), sha256=SUM), tmp_path)
    assert (tmp_path / "x").read_bytes() == BODY
    assert server.ranges == [None, "bytes=100000-", "bytes=200000-"]


def _interrupted(server: Server, data: Path, monkeypatch: pytest.MonkeyPatch, **known: object) -> None:
    """The state after Ctrl-C in the middle of a download."""

    def stop(*arguments: object, **more: object) -> Iterator[bytes]:
        yield BODY[:5000]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fetching, "_pieces", stop)
        with pytest.raises(KeyboardInterrupt):
            get(Download(url=server.url("/file"), to="x", **known), data)
    assert not (data / "x").exists() and (data / ".fetch").is_dir()


@pytest.mark.parametrize("known", [{"size": len(BODY), "sha256": SUM}, {}], ids=["sum known", "sum unknown"])
def test_an_interrupted_download_goes_on(known: dict, server: Server, tmp_path: Path, monkeypatch) -> None:
    server.says("/file", _ranged(BODY, '"a"'))
    _interrupted(server, tmp_path, monkeypatch, **known)
    get(Download(url=server.url("/file"), to="x", **known), tmp_path)
    assert server.ranges == [None, "bytes=5000-"]
    assert (tmp_path / "x").read_bytes() == BODY and not (tmp_path / ".fetch").exists()


def test_a_file_that_changed_meanwhile_comes_anew(server: Server, tmp_path: Path, monkeypatch) -> None:
    server.says("/file", _ranged(BODY, '"a"'))
    _interrupted(server, tmp_path, monkeypatch)
    fresh = b"new" * 1000
    server.says("/file", _ranged(fresh, '"b"'))
    get(Download(url=server.url("/file"), to="x"), tmp_path)
    assert server.ranges[-1] == "bytes=5000-"
    assert (tmp_path / "x").read_bytes() == fresh


@pytest.mark.parametrize("answer", [_reply(), _reply(ETag='"a"'), None], ids=["ignores Range", "tells a tag", "416"])
def test_a_server_without_ranges_sends_it_all_again(answer, server: Server, tmp_path: Path, monkeypatch) -> None:
    def unsatisfied(request: BaseHTTPRequestHandler) -> None:
        (_reply(b"", status=416) if request.headers["Range"] else _reply())(request)

    server.says("/file", answer or unsatisfied)
    _interrupted(server, tmp_path, monkeypatch, size=len(BODY), sha256=SUM)
    get(Download(url=server.url("/file"), to="x", size=len(BODY), sha256=SUM), tmp_path)
    assert (tmp_path / "x").read_bytes() == BODY


def test_the_first_sum_is_kept_and_checked(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = server.says("/file", _reply())
    get(Download(url=url, to="x"), tmp_path)
    assert json.loads((tmp_path / "downloads.json").read_text()) == {url: {"sha256": SUM, "size": len(BODY)}}
    assert "no published sum is known" in capsys.readouterr().err
    server.says("/file", _reply(BODY[::-1]))
    with pytest.raises(FetchError, match="the one that .*downloads.json has from the first fetch"):
        get(Download(url=url, to="x"), tmp_path)
    assert (tmp_path / "x").read_bytes() == BODY


def test_two_fetches_of_one_file_do_not_mix(server: Server, tmp_path: Path, monkeypatch) -> None:
    url = server.says("/file", _reply())

    def second(*arguments: object, **more: object) -> None:
        with pytest.raises(FetchError, match="being fetched into this folder by another process"):
            get(Download(url=url, to="x"), tmp_path)
        raise FetchError("enough")

    monkeypatch.setattr(fetching, "_receive", second)
    with pytest.raises(FetchError, match="enough"):
        get(Download(url=url, to="x"), tmp_path)


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
def made_up(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    known: dict[str, Task] = {}
    monkeypatch.setattr(tasks, "load", lambda name: known[name])
    return lambda *made: known.update({task.name: task for task in made})


def test_tasks_are_fetched_checked_and_left_alone_when_there(server: Server, tmp_path: Path, made_up) -> None:
    url = server.says("/one.zip", _reply(_zipped({"one/train.tsv": b"t", "one/dev.tsv": b"d", "__MACOSX/x": b"?"})))
    made_up(_task("one", Download(url=url, to="sets", unpack=True)), _task("two"))
    fetch(["one"], tmp_path)
    assert _left(tmp_path) == ["downloads.json", "sets", "sets/one", "sets/one/dev.tsv", "sets/one/train.tsv"]
    fetch(["one"], tmp_path)
    assert len(server.ranges) == 1
    fetch(["one"], tmp_path, again=True)
    assert len(server.ranges) == 2


def test_data_behind_a_licence_say_where_to_ask(server: Server, tmp_path: Path, made_up) -> None:
    url = server.says("/one.zip", _reply(_zipped({"train.tsv": b"t", "dev.tsv": b"d"})))
    made_up(_task("one", Download(url=url, to="sets/one", unpack=True)), _task("two"))
    expected = (
        r"TWO cannot be fetched \(terms: on request\).*example.org/ask.*sets/two.*: train.tsv, dev.tsv or valid.tsv"
    )
    with pytest.raises(MissingData, match=expected):
        fetch(["two", "one"], tmp_path)
    assert (tmp_path / "sets" / "one" / "train.tsv").exists(), "the others are fetched first"


def test_an_archive_without_the_task_s_files_is_said(server: Server, tmp_path: Path, made_up) -> None:
    url = server.says("/one.zip", _reply(_zipped({"one/train.tsv": b"t"})))
    made_up(_task("one", Download(url=url, to="sets", unpack=True)))  # whose reported split is dev
    with pytest.raises(FetchError, match="dev.tsv of the dev split is missing.*does not hold it"):
        fetch(["one"], tmp_path)


def test_the_command_line(server: Server, tmp_path: Path, made_up, capsys: pytest.CaptureFixture[str]) -> None:
    url = server.says("/one.zip", _reply(_zipped({"one/train.tsv": b"t", "one/dev.tsv": b"d"})))
    made_up(_task("one", Download(url=url, to="sets", unpack=True)), _task("two"))
    data = tmp_path / "new"
    assert main(["data", "fetch", "one", "--data", str(data)]) == 0
    assert capsys.readouterr().out.strip() == str(data / "sets")
    assert main(["data", "fetch", "two", "--data", str(data)]) == 4
    assert "Ask for it at https://example.org/ask" in capsys.readouterr().err
    server.says("/one.zip", _reply(b"", status=404))
    assert main(["data", "fetch", "one", "--data", str(data), "--again"]) == 4
    out, err = capsys.readouterr()
    assert out == "" and "no such file any more" in err and "Traceback" not in err
    assert main(["data", "fetch", "--data", str(data)]) == 2


def test_what_tasks_name_can_be_fetched() -> None:
    """Addresses are https, sums are whole, and targets stay inside the data folder."""
    for task in map(tasks.load, tasks.names()):
        for one in task.downloads:
            assert one.url.startswith("https://"), one.url
            assert one.sha256 is None or (len(one.sha256) == 64 and int(one.sha256, 16) and one.size)
            assert not Path(one.to).is_absolute() and ".." not in Path(one.to).parts


def test_a_damaged_list_of_sums_is_said(tmp_path: Path) -> None:
    (tmp_path / "downloads.json").write_text("{")
    with pytest.raises(tasks.task.DataError, match="downloads.json is not the JSON"):
        get(Download(url="https://example.org/x", to="x"), tmp_path)


def test_tar_archives_are_unpacked_too(server: Server, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("top/a/b.txt")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    url = server.says("/x.tgz", _reply(buffer.getvalue()))
    get(Download(url=url, to="set", unpack=True, strip=1), tmp_path)
    assert (tmp_path / "set" / "a" / "b.txt").read_bytes() == b"abc"


@pytest.mark.parametrize("notes", ["", '{"valid', "[]", '{"validator": null}'])
def test_notes_that_were_cut_short_cost_the_part_and_no_more(notes: str, server: Server, tmp_path: Path) -> None:
    """A process that is killed while it writes what the server said of the file leaves half of that."""
    url = server.says("/whole.bin", _reply())
    part = tmp_path / ".fetch" / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.part"
    part.parent.mkdir()
    part.write_bytes(b"some of it")
    part.with_suffix(".json").write_text(notes)
    assert get(Download(url=url, to="whole.bin"), tmp_path).read_bytes() == BODY and server.ranges == [None]


def test_a_list_of_sums_that_was_written_by_hand_is_said(server: Server, tmp_path: Path) -> None:
    url = server.says("/whole.bin", _reply())
    for wrong in (SUM, {"sha256": 5}, {"size": "5"}):
        (tmp_path / "downloads.json").write_text(json.dumps({url: wrong}))
        with pytest.raises(tasks.task.DataError, match="downloads.json is not the JSON"):
            get(Download(url=url, to="whole.bin"), tmp_path)


def test_fetches_side_by_side_lose_nothing(server, tmp_path):
    """Each of them notes its sum in the one file, and clears away behind itself what the others may be using."""
    urls = [server.says(f"/{number}", _reply()) for number in range(12)]
    with ThreadPoolExecutor(len(urls)) as threads:
        list(threads.map(lambda url: get(Download(url=url, to=url[-2:].strip("/")), tmp_path), urls))
    assert json.loads((tmp_path / "downloads.json").read_text()).keys() == set(urls)
    assert not (tmp_path / ".fetch").exists()
