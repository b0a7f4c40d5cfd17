"""The server of the live page: who is answered, with what, and what nobody can do to it."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fedfloor
from fedfloor.errors import FedfloorError, RunLogError
from fedfloor.reports.live import serving
from fedfloor.reports.live.access import Access, is_loopback
from fedfloor.reports.live.serving import WatchServer

pytest.importorskip("plotly", reason="plotly is not installed")

ROUTES = ("/", "/watch.css", "/now.js", "/watch.js", "/page.js", "/plotly.js", "/state", "/figures")
WAIT = 30.0  #: [s] for an answer
Serve = Callable[..., WatchServer]


@pytest.fixture
def serve(finished: Path) -> Iterator[Serve]:
    """Start servers that end with the test."""
    servers: list[WatchServer] = []

    def start(path: Path = finished, **options: Any) -> WatchServer:
        server = WatchServer(path, **options)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def ask(
    server: WatchServer, path: str, *, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=WAIT)
    try:
        connection.request(method, path, headers={key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def raw(server: WatchServer, content: bytes) -> bytes:
    """What comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=WAIT) as connection:
        received = b""
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                received += part
        except TimeoutError:
            raise
        except OSError:  # closed before everything was sent
            pass
        return received


def token_of(server: WatchServer) -> str:
    return server.url.partition("token=")[2]


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_is_answered_with_headers_that_keep_others_out(route: str, serve: Serve) -> None:
    answer, body = ask(serve(), route)
    assert (answer.status, len(body) > 50) == (200, True)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "Python" not in answer.headers["Server"]


def test_the_page_has_no_script_of_its_own_and_loads_only_known_routes(serve: Serve) -> None:
    _, body = ask(serve(), "/")
    text = body.decode()
    assert set(re.findall(r'(?:src|href)="([^"]+)"', text)) - {"data:,", "#figures"} <= set(ROUTES)
    assert not re.findall(r"<script(?![^>]*src=)", text)
    assert " on" not in re.sub(r">[^<]*<", "><", text).replace(" one", "")


@pytest.mark.parametrize(
    "path",
    [
        "/rounds.jsonl",
        "/scenario.toml",
        "/../scenario.toml",
        "/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/static/",
        "/state/",
        "/watch.html",
        "/%00",
        "/STATE",
        "*",
        "/favicon.ico",
        "/serving.py",
    ],
)
def test_no_file_is_served_by_its_path(path: str, serve: Serve) -> None:
    answer, body = ask(serve(), path)
    assert answer.status == 404
    assert b"rounds" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "FOO"])
def test_only_get_is_answered(method: str, serve: Serve) -> None:
    answer, _ = ask(serve(), "/state", method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET"


@pytest.mark.parametrize("query", ["after=x", "after=-1", "log=1e9", "after=" + "9" * 400, "after=%00", "log=²"])
def test_numbers_that_are_none_are_refused(query: str, serve: Serve) -> None:
    answer, _ = ask(serve(), "/state?" + query.replace("²", "%C2%B2"))
    assert answer.status == 400


def test_the_state_tells_only_what_is_new(serve: Serve) -> None:
    server = serve()
    _, body = ask(server, "/state")
    state = json.loads(body)
    while state["runs"][0]["status"] == "reading":
        state = json.loads(ask(server, "/state")[1])
    shown = state["shown"]
    assert len(shown["rounds"]) == 40
    _, body = ask(server, f"/state?run=.&log={shown['log']}&after=38")
    assert [entry[0] for entry in json.loads(body)["shown"]["rounds"]] == [38, 39]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:8000", "LOCALHOST", "[::1]:80", "192.168.1.5", "[fe80::1%25a]"]
)
def test_names_of_this_machine_and_addresses_are_accepted(host: str, serve: Serve) -> None:
    answer, _ = ask(serve(), "/state", Host=host)
    assert answer.status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[", "a b", "@"]
)
def test_names_of_others_are_refused_against_rebinding(host: str, serve: Serve) -> None:
    answer, body = ask(serve(), "/state", Host=host)
    assert answer.status == 403
    assert b"rounds" not in body


def test_a_request_without_a_host_is_refused(serve: Serve) -> None:
    assert b" 403 " in raw(serve(), b"GET /state HTTP/1.0\r\n\r\n")


def test_loopback_needs_no_token_unless_it_is_asked_for(serve: Serve) -> None:
    assert "token" not in serve().url
    assert len(token_of(serve(token=True))) >= 43


def test_an_address_that_others_reach_needs_a_token(serve: Serve) -> None:
    server = serve(host="0.0.0.0")
    token = token_of(server)
    for path in ROUTES:
        answer, body = ask(server, path)
        assert answer.status == 403
        assert token.encode() not in body
    answer, _ = ask(server, f"/?token={token}")
    assert answer.status == 303
    assert answer.headers["Location"] == "/"  # so that the token leaves the address bar
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    answer, _ = ask(server, "/state", Cookie=f"other=1; {cookie.split(';')[0]}")
    assert answer.status == 200
    answer, _ = ask(server, "/figures", Authorization=f"Bearer {token}")
    assert answer.status == 200


def test_wrong_tokens_are_refused_everywhere(serve: Serve) -> None:
    server = serve(token=True)
    token = token_of(server)
    for wrong in ("", "x", token[:-1], token + "x", token.swapcase(), "%ff", "%C3%A4"):
        for path in ROUTES:
            assert ask(server, f"{path}?token={wrong}")[0].status == 403
        assert ask(server, "/state", Authorization=f"Bearer {wrong}")[0].status == 403
        assert ask(server, "/state", Cookie=f"fedfloor-{server.server_port}={wrong}")[0].status == 403
    assert ask(server, f"/state?token={token}")[0].status == 403  # only the page itself takes it from the address
    assert ask(server, "/state", Authorization=f"Basic {token}")[0].status == 403
    assert ask(server, "/state", Cookie=f"fedfloor-1={token}")[0].status == 403
    assert ask(server, "/state", Cookie='\xe4=;;;="')[0].status == 403


def test_a_longer_name_of_the_machine_is_accepted_only_with_a_token() -> None:
    name = socket.gethostname().lower()
    closed, opened = Access.of("0.0.0.0", 1, token=True), Access.of("127.0.0.1", 1, token=False)
    assert closed.is_known_host(f"{name}.factory.example:80")
    assert not opened.is_known_host(f"{name}.factory.example:80")
    assert not closed.is_known_host("evil.example")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("name", False),
    ],
)
def test_what_counts_as_loopback(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\r\n",
        b"\0" * 2000,
        b"GET\r\n\r\n",
        b"GET /state\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
        b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /?" + b"a=1&" * 99 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
def test_requests_that_make_no_sense_are_survived(content: bytes, serve: Serve) -> None:
    server = serve()
    assert b" 200 OK" not in raw(server, content)
    assert ask(server, "/state")[0].status == 200


@pytest.mark.parametrize(
    "content",
    [
        b"GET /" + b"a" * 10**6 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 10**5 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 10**6 + b"\r\n\r\n",
    ],
    ids=["line", "headers", "header"],
)
def test_requests_that_are_too_long_are_refused(content: bytes, serve: Serve) -> None:
    server = serve()
    assert b" 200 OK" not in raw(server, content)
    assert ask(server, "/state")[0].status == 200


def test_slow_clients_block_nobody_and_make_room(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    silent = []
    try:
        for _ in range(3 * serving._CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=WAIT)
            connection.sendall(b"GET / HT")
            silent.append(connection)
        assert ask(server, "/state")[0].status == 200
        assert len(server._connections) <= serving._CONNECTIONS
    finally:
        for connection in silent:
            connection.close()


def test_a_connection_that_drips_is_ended(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_ASKING", 0.3)
    server = serve()
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=WAIT) as connection:
        connection.settimeout(0.05)
        for _ in range(int(WAIT / 0.05)):
            try:
                connection.sendall(b"G")
                if connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("the connection was never ended")


def test_many_questions_at_the_same_time_are_all_answered(serve: Serve) -> None:
    server = serve()
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.extend(ask(server, "/state")[0].status for _ in range(5)))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert answers == [200] * 80
    assert threading.active_count() < 60


def test_what_is_fixed_is_sent_once_and_compressed(serve: Serve) -> None:
    server = serve()
    answer, body = ask(server, "/plotly.js", Accept_Encoding="gzip, br")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert body[:2] == b"\x1f\x8b"
    answer, body = ask(server, "/plotly.js", If_None_Match=answer.headers["ETag"])
    assert (answer.status, body) == (304, b"")


def test_a_taken_port_and_a_strange_host_are_named(serve: Serve, finished: Path) -> None:
    taken = serve().server_port
    with pytest.raises(FedfloorError, match=rf"127\.0\.0\.1 port {taken}: cannot be opened"):
        WatchServer(finished, port=taken)
    with pytest.raises(FedfloorError, match="host: 'no such host' has no address"):
        WatchServer(finished, host="no such host")
    with pytest.raises(FedfloorError, match=r"192\.0\.2\.1 port 0: cannot be opened.*Name an address of this machine"):
        WatchServer(finished, host="192.0.2.1")


@pytest.mark.parametrize(("place", "problem"), [("nowhere", "does not exist"), ("plant.toml", "is a file"), ("", "''")])
def test_a_folder_that_cannot_be_watched_is_named(place: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "plant.toml").write_text("")
    with pytest.raises(RunLogError, match=problem):
        fedfloor.watch(str(tmp_path / place) if place else "")


@pytest.mark.parametrize("form", ["table", "json"])
def test_the_command_prints_its_address_first_and_ends_with_ctrl_c(form: str, finished: Path, tmp_path: Path) -> None:
    run = finished if form == "json" else tmp_path / "later"
    command = [sys.executable, "-m", "fedfloor", "watch", str(run), "--token", "always", "--format", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        killer = threading.Timer(120.0, process.kill)
        killer.start()
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            if run != finished:  # as by someone who starts both programs at once
                assert process.stderr.readline().strip() == f"waiting for {run}, which does not exist yet ..."
                shutil.copytree(finished, run)
            line = process.stdout.readline().strip()
            url = json.loads(line)["url"] if form == "json" else line
            port, token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{43})", url).groups()  # type: ignore[union-attr]
            connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=WAIT)
            connection.request("GET", "/state", headers={"Authorization": f"Bearer {token}"})
            assert json.loads(connection.getresponse().read())["runs"][0]["scenario"] == "small"
            connection.close()
            os.kill(process.pid, signal.SIGINT)
            rest, errors = process.communicate(timeout=60)
        finally:
            killer.cancel()
            process.kill()
    said = "" if form == "json" else "Open this address in a browser. Ctrl-C ends the page; the run goes on.\n"
    assert (process.returncode, rest, errors) == (0, "", said)
