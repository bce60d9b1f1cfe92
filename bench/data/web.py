"""HTTP requests for `bench.data.fetch`, with a message for each error and a limit on slow servers.

If a server sends a byte now and then, in the headers or in the body, the timeout of a socket never ends the request. So
all received bytes are counted. Within twice the timeout, at least `SLOWEST` bytes per second must arrive.
"""

import http.client
import io
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from ptmbench.bench.errors import EnvironmentProblem

SLOWEST = 1024
"""Lowest speed in bytes per second. A modem of 1998 was seven times as fast."""
SHOWN = 1024
"""Bytes of a file that are searched for the beginning of a web page."""
_REDIRECTS = 5
_PAGE = re.compile(
    rb"(\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)


class FetchError(EnvironmentProblem):
    """A download failed. The message says what the server did and what to do next."""


class Broken(FetchError):
    """The connection broke or stalled, and another attempt may succeed. With ``afresh``, it starts from zero."""

    afresh = False


class TooSlow(TimeoutError):
    """Fewer bytes than `SLOWEST` a second."""


class _Paced(io.RawIOBase):
    """Reads a socket's ``raw`` stream. Raises `TooSlow` if too few bytes arrive within ``window`` seconds."""

    def __init__(self, raw: io.RawIOBase, window: float):
        self._raw, self._window, self._since, self._count = raw, window, time.monotonic(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count = self._raw.readinto(buffer)
        self._count += count or 0
        spent = time.monotonic() - self._since
        if count and spent >= self._window:
            if self._count < SLOWEST * spent:
                raise TooSlow(f"{self._count} bytes in {spent:.3g} s, less than {SLOWEST} a second")
            self._since, self._count = time.monotonic(), 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **more: Any):
        super().__init__(sock, *arguments, **more)
        # A server may be silent for one timeout before it begins, so the window is two timeouts.
        self.fp = io.BufferedReader(_Paced(self.fp.detach(), 2 * (sock.gettimeout() or 30.0)))


class _Plain(http.client.HTTPConnection):
    response_class = _Response


class _Secure(http.client.HTTPSConnection):
    response_class = _Response


class _PlainHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Plain, req)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Secure, req)


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = _REDIRECTS

    def __init__(self) -> None:
        self.place = ""
        """The address of the last redirection."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        self.place = headers["Location"] or headers["URI"] or ""
        if not self.place:
            return None  # the opener then raises an error for the status
        fp.close()  # urllib would read the whole text of the answer, however long it is
        return super().http_error_302(req, io.BytesIO(), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        parts = urlsplit(newurl)
        _ = parts.port  # raises ValueError above 65535, where the system would take the remainder
        if req.type == "https" and parts.scheme != "https":
            raise FetchError(f"{req.full_url} redirects to {newurl:.200}, which is not safe to follow.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextmanager
def opened(request: urllib.request.Request, timeout: float, where: str) -> Iterator[Any]:
    """Yields the answer to ``request``. Raises `Broken` if another attempt may succeed, and else `FetchError`.

    ``where`` is the page that error messages refer to.
    """
    url, look = request.full_url, f"Look at {where or 'its home page'} for where the files are now."
    redirects = _Redirects()
    try:
        opener = urllib.request.build_opener(redirects, _PlainHandler, _SecureHandler)
        answer = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            raise _of_status(url, error.code, redirects.place, look) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise Broken(f"{url}: no answer within {timeout:g} s.") from error
        if isinstance(error.reason, socket.gaierror):
            raise FetchError(
                f"{url}: the name of the server cannot be resolved. Check the network connection."
            ) from error
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise FetchError(f"{url}: the server's certificate is not valid, so it is not trusted.") from error
        raise Broken(f"{url}: no connection ({error.reason}).") from error
    except TooSlow as error:
        raise Broken(f"{url}: the server is too slow ({error}).") from error
    except TimeoutError as error:
        raise Broken(f"{url}: no answer within {timeout:g} s.") from error
    except (http.client.InvalidURL, ValueError) as error:
        which = f"{url} redirects to {redirects.place!r:.200}, which" if redirects.place else f"{url!r:.200}"
        raise FetchError(f"{which} is not the address of a file ({error}). Nothing was kept. {look}") from error
    except (http.client.HTTPException, ConnectionError) as error:
        raise Broken(f"{url}: the connection broke ({type(error).__name__}).") from error
    with answer:
        yield answer


def _of_status(url: str, code: int, place: str, look: str) -> FetchError:
    """The error for an answer with status ``code``. ``place`` is the address that it redirects to, if any."""
    if 300 <= code < 400:
        if not place:
            return FetchError(f"{url}: the server redirects (status {code}) but gives no address. {look}")
        if urlsplit(place).scheme not in ("", "http", "https"):
            return FetchError(f"{url} redirects to {place:.200}, which is not safe to follow.")
        return FetchError(f"{url}: more than {_REDIRECTS} redirections, or a circle of them. {look}")
    if code in (404, 410):
        return FetchError(f"{url}: there is no such file any more (status {code}). {look}")
    if code in (401, 403):
        return FetchError(f"{url}: the server refuses access (status {code}). {look}")
    broken = Broken(f"{url}: the server failed (status {code}).")
    broken.afresh = code == 416  # no such range: the file has changed
    return broken


def refuse_headers(url: str, headers: Any, where: str) -> None:
    """Raises `FetchError` if the headers announce a web page or an encoded file."""
    if headers.get_content_type() in ("text/html", "application/xhtml+xml"):
        raise _page(url, where)
    for name, plain in (("Content-Encoding", ("", "identity")), ("Transfer-Encoding", ("", "identity", "chunked"))):
        coding = (headers[name] or "").strip().lower()
        # Some servers name the file's own compression here, which is not undone.
        packed = coding in ("gzip", "x-gzip") and urlsplit(url).path.lower().endswith((".gz", ".tgz"))
        if coding not in plain and not packed:
            raise FetchError(
                f"{url}: the server sent the file encoded ({name}: {coding:.40}), though it was asked not to, so it "
                f"was not kept. Fetch it with another program, or look at {where or 'its home page'}."
            )


def refuse_page(url: str, begin: bytes, where: str) -> None:
    """Raises `FetchError` if a file begins like a web page, in UTF-8 or UTF-16."""
    if _PAGE.match(begin.replace(b"\0", b"")):
        raise _page(url, where)


def _page(url: str, where: str) -> FetchError:
    """The error for a web page. Sites that have moved or need a login send one with the status of success."""
    return FetchError(
        f"{url}: the server sent a web page instead of the file (a login, or a notice that it moved). Nothing was "
        f"kept. Look at {where or 'its home page'}."
    )
