"""An HTTP server on loopback with configurable faults, for the tests of ``data fetch``."""

import hashlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BODY = bytes(range(256)) * 1000
SUM = hashlib.sha256(BODY).hexdigest()


class Server:
    """Answers GET with the function registered for the path, and records the Range header of each request."""

    def __init__(self) -> None:
        self.ranges: list[str | None] = []
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.ranges.append(self.headers["Range"])
                server.answers[self.path.split("?")[0]](self)

            def log_message(self, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}{path}"

    def says(self, path: str, answer: Callable[[BaseHTTPRequestHandler], None]) -> str:
        self.answers[path] = answer
        return self.url(path)


def reply(
    body: bytes = BODY, *, status: int = 200, claim: int | None = None, kind: str = "application/zip", **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    """Sends the whole ``body``, whatever range is requested. ``claim`` overrides the length in the header."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body) if claim is None else claim))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return answer


def redirect(place: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Sends the client to the address ``place``."""
    return reply(b"", status=302, Location=place)


def ranged(body: bytes, tag: str, cut: int | None = None) -> Callable[[BaseHTTPRequestHandler], None]:
    """Honours Range unless If-Range differs from ``tag``. Breaks off each response after ``cut`` bytes."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        begin, range_header = 0, request.headers["Range"]
        if range_header and request.headers["If-Range"] in (None, tag):
            begin = int(range_header.removeprefix("bytes=").rstrip("-"))
        request.send_response(206 if begin else 200)
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        request.send_header("Content-Length", str(len(body) - begin))
        request.send_header("ETag", tag)
        request.end_headers()
        request.wfile.write(body[begin : None if cut is None else begin + cut])

    return answer


def left_in(data: Path) -> list[str]:
    """Returns all files and folders below ``data``, sorted."""
    return sorted(str(path.relative_to(data)) for path in data.rglob("*"))
