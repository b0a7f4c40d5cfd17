"""The page of a run that goes, served to browsers: a few fixed routes, GET only, nothing by its path on the disk."""

__all__ = ["WatchServer"]

import errno
import gzip
import hashlib
import io
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fedfloor.errors import FedfloorError
from fedfloor.reports.live.access import Access, is_loopback
from fedfloor.reports.live.watched import Watched
from fedfloor.reports.page import asset, plotly, style
from fedfloor.reports.words import words_script

_CONNECTIONS = 48  #: at the same time
_ASKING = 8.0  #: [s] until a request has arrived
_ANSWERING = 90.0  #: [s] until an answer is sent; the largest has a few megabytes
_REQUEST = 16_384  #: [byte] of a request line with all headers
_COMPRESSED = 4_096  #: [byte] from which an answer is compressed
_SCRIPT, _STYLE, _JSON = "text/javascript", "text/css", "application/json"

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}

Query = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class _Answer:
    body: bytes
    kind: str  #: MIME type
    is_fixed: bool = False  #: whether it is the same as long as the server runs


@cache
def _fixed(route: str) -> _Answer:
    """A part of the page that is always the same."""
    own = files("fedfloor.reports.live")
    texts: dict[str, tuple[Callable[[], str], str]] = {
        "/": (lambda: (own / "watch.html").read_text(encoding="utf-8"), "text/html"),
        "/watch.css": (lambda: style() + (own / "watch.css").read_text(encoding="utf-8"), _STYLE),
        "/now.js": (lambda: (own / "now.js").read_text(encoding="utf-8"), _SCRIPT),
        "/watch.js": (lambda: (own / "watch.js").read_text(encoding="utf-8"), _SCRIPT),
        "/page.js": (lambda: words_script() + asset("page.js"), _SCRIPT),
        "/plotly.js": (plotly, _SCRIPT),
    }
    text, kind = texts[route]
    return _Answer(text().encode(), f"{kind}; charset=utf-8", is_fixed=True)


_FIXED = ("/", "/watch.css", "/now.js", "/watch.js", "/page.js", "/plotly.js")


class WatchServer(ThreadingHTTPServer):
    """Serves one folder until it is shut down. The port is bound when it is made, so that its address is known.

    Without `token`, only an address that other machines can reach asks for one.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, path: Path, *, host: str = "127.0.0.1", port: int = 0, token: bool = False) -> None:
        family, address = _resolved(host, port)
        self.address_family = family
        self.watched = Watched(path)
        self._connections: dict[socket.socket, float] = {}  #: until when each may last
        self._unheard: dict[socket.socket, None] = {}  #: connections whose request has not arrived, the oldest first
        self._lock = threading.RLock()
        try:
            super().__init__(address, _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            is_elsewhere = getattr(error, "errno", None) == errno.EADDRNOTAVAIL
            advice = "Name an address of this machine" if is_elsewhere else "Name another port, or 0 for a free one"
            raise FedfloorError(f"{host} port {port}: cannot be opened: {reason}. {advice}") from None
        bound = str(self.server_address[0])
        self.access = Access.of(host, self.server_port, token=token or not is_loopback(bound))
        self.host = host if bound not in ("0.0.0.0", "::") else socket.gethostname()  # noqa: S104  # it is compared

    def server_bind(self) -> None:
        """Bind without asking for the name of the address, which can take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where to look; with the token, if there is one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        token = "" if self.access.token is None else f"?token={self.access.token}"
        return f"http://{host}:{self.server_port}/{token}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; if there are too many, the one that has kept us waiting longest must go."""
        with self._lock:
            if len(self._connections) >= _CONNECTIONS:
                silent = next(iter(self._unheard), None)
                if silent is None:
                    self.shutdown_request(request)
                    return
                self._end(silent)
            self._connections[request] = time.monotonic() + _ASKING
            self._unheard[request] = None
        super().process_request(request, client_address)

    def heard(self, request: socket.socket) -> None:
        """Note that a request has arrived whole."""
        with self._lock:
            self._unheard.pop(request, None)
            self._connections[request] = time.monotonic() + _ANSWERING

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._connections.pop(request, None)
            self._unheard.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that last too long, also those that send a byte now and then."""
        now = time.monotonic()
        with self._lock:
            for request in [entry for entry, end in self._connections.items() if end < now]:
                self._end(request)

    def _end(self, request: socket.socket) -> None:
        """Make the thread of a connection stop waiting; the thread closes it."""
        self._unheard.pop(request, None)
        self._connections.pop(request, None)
        try:
            request.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side was quicker
            return

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about browsers that went away; report our own mistakes, and keep serving."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Limited(io.RawIOBase):
    """The bytes of a connection, at most so many; `is_cut` says whether there were more."""

    def __init__(self, connection: socket.socket, most: int) -> None:
        self._connection, self._left, self.is_cut = connection, most, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self.is_cut = True
            return 0
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


class _Handler(BaseHTTPRequestHandler):
    """One request per connection."""

    server: WatchServer
    timeout = _ASKING
    server_version, sys_version = "fedfloor", ""

    def setup(self) -> None:
        super().setup()
        self._bytes = _Limited(self.connection, _REQUEST)
        self.rfile = io.BufferedReader(self._bytes, 1024)

    def parse_request(self) -> bool:
        """Refuse requests that are too long or for another host, before anything else is looked at."""
        if not super().parse_request():
            return False
        self.server.heard(self.connection)
        self.connection.settimeout(_ANSWERING)
        if self._bytes.is_cut:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request is too long.")
        elif not self.server.access.is_known_host(self.headers.get("Host")):
            self._refuse(HTTPStatus.FORBIDDEN, "This name does not belong to the machine that runs fedfloor watch.")
        elif self.command != "GET":
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is answered.", {"Allow": "GET"})
        else:
            return True
        return False

    def do_GET(self) -> None:
        """Answer one of the known routes."""
        try:
            target = urlsplit(self.path)
            query = parse_qs(target.query, max_num_fields=8)
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "The address cannot be read.")
            return
        access = self.server.access
        if target.path == "/" and "token" in query and access.is_right(query["token"][0]):
            headers = {
                "Location": "/",
                "Set-Cookie": access.set_cookie(),
            }  # so that it does not stay in the address bar
            self._send(HTTPStatus.SEE_OTHER, _Answer(b"", "text/plain"), headers)
        elif not access.is_open(self.headers.get("Authorization", ""), self.headers.get("Cookie", "")):
            self._refuse(HTTPStatus.FORBIDDEN, "Open the address that fedfloor watch has printed: it has the token.")
        elif target.path in _FIXED:
            self._send(HTTPStatus.OK, _fixed(target.path))
        elif target.path == "/figures":
            self._send(HTTPStatus.OK, _Answer(self.server.watched.figures(), _JSON))
        elif target.path == "/state":
            self._send_state(query)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _send_state(self, query: Query) -> None:
        log, after = (query.get(key, ["0"])[0] for key in ("log", "after"))
        if not all(number.isascii() and number.isdigit() and len(number) < 16 for number in (log, after)):
            self._refuse(HTTPStatus.BAD_REQUEST, "log and after must be whole numbers.")
            return
        state = self.server.watched.state(query.get("run", [""])[0], int(log), int(after))
        self._send(HTTPStatus.OK, _Answer(state, _JSON))

    def _refuse(self, status: HTTPStatus, reason: str, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, _Answer(f"{reason}\n".encode(), "text/plain; charset=utf-8"), headers)

    def send_error(self, code: int, *_: object, **__: object) -> None:
        """Answer a request that cannot be read, without repeating any of it."""
        status = HTTPStatus(code)
        self.close_connection = True
        self._refuse(status, f"{status.phrase}.")

    def _send(self, status: HTTPStatus, answer: _Answer, headers: Mapping[str, str] | None = None) -> None:
        more, body = dict(headers or {}), answer.body
        asked = getattr(self, "headers", {})  # a request that cannot be read has none
        if answer.is_fixed:
            more["Cache-Control"] = "no-cache"  # kept, but asked for again
            more["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            if asked.get("If-None-Match") == more["ETag"]:
                status, body = HTTPStatus.NOT_MODIFIED, b""
        if len(body) >= _COMPRESSED and "gzip" in asked.get("Accept-Encoding", ""):
            body, more["Content-Encoding"] = _compressed(answer) if answer.is_fixed else gzip.compress(body, 1), "gzip"
        self.send_response(status)
        lengths = {"Content-Type": answer.kind, "Content-Length": str(len(body)), "Connection": "close"}
        for name, value in {**_HEADERS, **lengths, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are not logged: there is one every second."""


@cache
def _compressed(answer: _Answer) -> bytes:
    return gzip.compress(answer.body, 6)


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """The first address of a host that a server can be bound to."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FedfloorError(
            f"host: {host!r} has no address: {reason}. Name 127.0.0.1 or a name of this machine"
        ) from None
    return family, (str(address[0]), int(address[1]))
