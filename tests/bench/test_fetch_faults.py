"""``data fetch`` from a faulty server: each fault has its own message, and no file is left."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ptmbench.bench.data.fetch import FetchError, get
from ptmbench.tasks.task import Download
from tests.bench.serving import BODY, SUM, Server, left_in, redirect, reply


def stall(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(len(BODY)))
    request.end_headers()
    request.wfile.write(BODY[:1000])
    request.wfile.flush()
    time.sleep(1.5)


def silent(request: BaseHTTPRequestHandler) -> None:
    time.sleep(1.5)


def circle(request: BaseHTTPRequestHandler) -> None:
    request.send_response(302)
    request.send_header("Location", "/other" if request.path == "/file" else "/file")
    request.send_header("Content-Length", "0")
    request.end_headers()


def drip(*pieces: bytes, every: float, until: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    """A server that is never silent: it sends ``pieces``, then the last one ``until`` times, each after ``every``
    seconds."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):  # the client has closed the connection
            for piece in (*pieces, *[pieces[-1]] * until):
                request.wfile.write(piece)
                request.wfile.flush()
                time.sleep(every)

    return answer


STATUS = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: 256000\r\n\r\n"
XHTML = b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- moved -->\n<html xmlns="http://www.w3.org/1999/xhtml">Moved</html>'


FAULTS = {
    "a byte at a time": (drip(STATUS + LENGTH, b"x", every=0.02), "too slow .* less than 1024 a second"),
    "headers without end": (drip(STATUS + b"A: ", b"x", every=0.02), "too slow"),
    "a chunk's length without end": (
        drip(STATUS + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x", every=0.02),
        "too slow",
    ),
    "an address of no host": (
        redirect("http://[bad/"),
        r"redirects to 'http://\[bad/', which is not the address of a file",
    ),
    "an address of a long name": (redirect(f"http://{'a' * 70}.org/"), "which is not the address of a file"),
    "an address of no port": (redirect("http://127.0.0.1:port/"), "which is not the address of a file"),
    "an address of no such port": (redirect("http://127.0.0.1:99999/"), "which is not the address of a file"),
    "an address of a blank": (redirect("http://127.0.0.1 x/"), "which is not the address of a file"),
    "no address": (reply(b"", status=302), r"redirects \(status 302\) but gives no address"),
    "XHTML": (reply(XHTML, kind="application/xhtml+xml; charset=utf-8"), "a web page instead"),
    "XHTML in disguise": (reply(XHTML + b" " * 255_000, claim=256_000), "a web page instead|closed the connection"),
    "a page in UTF-16": (reply("<!DOCTYPE html><p>Moved".encode("utf-16").ljust(256_000)), "a web page instead"),
    "a page byte by byte": (
        drip(STATUS + LENGTH, *(bytes([n]) for n in b"<html><p>Moved" + b" " * 2000), every=0, until=0),
        "a web page instead",
    ),
    "deflate": (reply(**{"Content-Encoding": "deflate"}), r"encoded \(Content-Encoding: deflate\)"),
    "gzip": (reply(**{"Content-Encoding": "gzip"}), r"encoded \(Content-Encoding: gzip\)"),
    "brotli": (reply(**{"Content-Encoding": "br"}), r"encoded \(Content-Encoding: br\)"),
    "a packed transfer": (reply(**{"Transfer-Encoding": "gzip"}), r"encoded \(Transfer-Encoding: gzip\)"),
    "a short body": (reply(BODY[:1000], claim=len(BODY)), "closed the connection after .* of 256000 bytes"),
    "a web page": (reply(b"<html>Please log in</html>", kind="text/html; charset=utf-8"), "a web page instead"),
    "a page in disguise": (reply(b"\n<!DOCTYPE html><p>Moved", claim=23), "a web page instead"),
    "another sum": (reply(BODY[:-1] + b"x"), f"has SHA-256 .*but its publisher's is {SUM}"),
    "another size": (reply(BODY + b"x"), "a file of 256001 bytes, but the published one has 256000"),
    "a circle": (circle, "redirections, or a circle"),
    "a stall": (stall, "sent nothing for 0.3 s"),
    "silence": (silent, "no answer within 0.3 s|sent nothing for 0.3 s"),
    "nothing there": (reply(b"", status=404), r"no such file any more \(status 404\)"),
    "no access": (reply(b"", status=403), r"refuses access \(status 403\)"),
    "trouble": (reply(b"", status=503), r"the server failed \(status 503\)"),
    "an unsafe address": (reply(b"", status=302, Location="file:///etc/passwd"), "not safe to follow"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("known", [True, False], ids=["sum known", "sum unknown"])
def test_each_fault_has_its_own_message_and_leaves_no_file(
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
    assert left_in(tmp_path) == []


def test_no_connection_and_an_empty_file_raise_fetch_error(server: Server, tmp_path: Path) -> None:
    url = server.says("/file", reply(b""))
    with pytest.raises(FetchError, match="an empty file"):
        get(Download(url=url, to="x"), tmp_path)
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(FetchError, match="no connection.*attempt 3 of 3"):
        get(Download(url=url, to="x"), tmp_path, timeout=1)
    assert left_in(tmp_path) == []


def test_the_body_of_a_redirection_is_not_read(server: Server, tmp_path: Path) -> None:
    """urllib reads the body to its end, but it may be endless. Here it takes at least 20 s."""
    over, read_through = threading.Event(), []

    def answer(request: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):  # the client has closed the connection
            request.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: /other\r\n\r\n")
            for _ in range(1000):
                request.wfile.write(b"x" * 4000)
                if over.wait(0.02):
                    return
            read_through.append(True)

    server.says("/other", reply())
    url = server.says("/file", answer)
    assert get(Download(url=url, to="x", size=len(BODY), sha256=SUM), tmp_path).read_bytes() == BODY
    over.set()
    assert not read_through


def test_a_compressed_file_may_have_a_content_encoding(server: Server, tmp_path: Path) -> None:
    """For files that end in .gz, some servers name the compression of the file itself."""
    url = server.says("/x.tar.gz", reply(**{"Content-Encoding": "x-gzip"}))
    assert get(Download(url=url, to="x"), tmp_path).read_bytes() == BODY


def test_an_xml_file_is_not_mistaken_for_a_web_page(server: Server, tmp_path: Path) -> None:
    body = b'<?xml version="1.0"?>\n<sentences><head>x</head></sentences>'
    url = server.says("/x.xml", reply(body, kind="text/xml"))
    assert get(Download(url=url, to="x.xml"), tmp_path).read_bytes() == body
