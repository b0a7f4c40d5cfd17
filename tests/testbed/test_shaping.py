"""Rates become arguments of tc and departure times; a proxy keeps to them."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from testbed.layout import Layout
from testbed.proxy import Proxy, Way
from testbed.shaping import Rates, departure, tbf_arguments

MOST_S = 60.0  #: that a transfer of the tests may take before it counts as stuck


def test_the_arguments_of_tc_leave_headers_out_and_let_little_pass_at_once() -> None:
    text = " ".join(tbf_arguments(4.25e6))
    assert text.startswith("stab overhead -66 linklayer ethernet tbf rate 4250000bit burst 3028 limit ")
    assert "burst 12500 " in " ".join(tbf_arguments(1e8))  # a millisecond of sending


def test_a_queue_of_one_message_loses_no_packet() -> None:
    assert int(tbf_arguments(1e6)[-1]) >= 2**20


def test_data_leaves_after_what_was_sent_before_it() -> None:
    assert departure(0.0, 3.0, 1000, 8000.0) == 4.0  # the link was idle
    assert departure(5.0, 3.0, 1000, 8000.0) == 6.0  # it was busy
    assert departure(5.0, 3.0, 1000, float("inf")) == 5.0


def test_a_way_takes_as_long_as_all_its_bytes_however_they_are_cut() -> None:
    way = Way(1e6)
    for _ in range(100):
        last = way.leave(10.0, 1250)
    assert last == pytest.approx(10.0 + 100 * 1250 * 8 / 1e6)


def test_a_new_rate_counts_for_what_arrives_later() -> None:
    way = Way(8000.0)
    assert way.leave(0.0, 1000) == 1.0
    way.rate = 16000.0
    assert way.leave(0.0, 1000) == 1.5


class Echo:
    """Sends back what it gets, on a thread, for one connection after the other."""

    def __init__(self) -> None:
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._door.accept()
            except OSError:
                return
            with connection:
                while data := connection.recv(2**16):
                    connection.sendall(data)

    def close(self) -> None:
        self._door.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(Layout(("press",), ())) as made:
        yield made


def dialled(address: str) -> socket.socket:
    host, _, port = address.partition(":")
    return socket.create_connection((host, int(port)), MOST_S)


def received(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (more := connection.recv(2**16)):
        data += more
    return bytes(data)


def test_a_proxy_changes_no_byte_and_is_never_faster_than_its_rates(proxy: Proxy, echo: Echo) -> None:
    sent = bytes(range(256)) * 500
    address, begun = proxy.forward(echo.port, Way(8e6), Way(4e6)), time.monotonic()
    with dialled(address) as connection:
        threading.Thread(target=connection.sendall, args=(sent,), daemon=True).start()
        assert received(connection, len(sent)) == sent
    assert time.monotonic() - begun >= 8 * len(sent) / 4e6  # the slower of both directions


def test_a_proxy_hands_on_the_end_of_a_connection(proxy: Proxy, echo: Echo) -> None:
    with dialled(proxy.forward(echo.port, Way(1e9), Way(1e9))) as connection:
        connection.sendall(b"last words")
        connection.shutdown(socket.SHUT_WR)
        assert received(connection, 100) == b"last words"  # and then the end


def test_a_proxy_hangs_up_if_nobody_listens_behind_it(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with dialled(proxy.forward(port, Way(1e9), Way(1e9))) as connection, contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def test_the_backhaul_of_a_floor_follows_the_decisions(proxy: Proxy) -> None:
    proxy.set_backhaul("press", Rates(2e6, 1e6))
    down, up = proxy._backhaul["press"]
    assert (down.rate, up.rate) == (2e6, 1e6)
    proxy.free_backhaul()
    assert (down.rate, up.rate) == (float("inf"), float("inf"))
