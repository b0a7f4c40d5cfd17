"""Round trips of tensors between two processes: our link, plain and with TLS, against raw TCP; part of `make bench`.

Every turn takes all three in a row, so that a busy machine slows all of them down. The other process reads the whole
tensor before it sends it back.
"""

__all__ = ["rows"]

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
from tests.deploy.authorities import new_authority

from fedfloor.arrays import Vector
from fedfloor.deploy.fields import Layout
from fedfloor.deploy.link import Listener, Papers, dial
from fedfloor.deploy.messages import Expected, Hello, Model, Turn, Welcome
from fedfloor.deploy.session import Session

Row = tuple[str, str, str]
SIZES = {"100 KB": 25_000, "3.3 MB": 825_000}  #: float32 numbers
TURNS = 60
_HELLO = Hello("device", "bench", "", "{}")


def read_all(connection: socket.socket, view: memoryview) -> bool:
    """Fill a buffer; False at the end of the connection."""
    at = 0
    while at < len(view):
        count = connection.recv_into(view[at:])
        if not count:
            return False
        at += count
    return True


def echo_raw(server: socket.socket) -> None:
    """Send back tensors over TCP; 8 bytes before each say how long it is."""
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head = memoryview(bytearray(8))
    view = memoryview(b"")
    while read_all(connection, head):
        size = int.from_bytes(head, "little")
        if len(view) != size:
            view = memoryview(bytearray(size))
        read_all(connection, view)
        connection.sendall(view)


async def echo(session: Session, _: Hello) -> None:
    """Send back tensors over our link."""
    await session.send(Welcome("{}"))
    while True:
        arrived = await session.receive(Expected(Model, {"weights": Layout("float32", (10**8,), at_most=True)}))
        await session.send(arrived.message, arrived.turn)


async def serve(identity: Papers) -> None:
    """What the other process does: listen three times, say where, and wait for the end of its input."""
    raw = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=echo_raw, args=(raw,), daemon=True).start()
    async with (
        Listener("127.0.0.1:0", echo, lambda *_: "") as plain,
        Listener("127.0.0.1:0", echo, lambda *_: "", lambda: identity) as secure,
    ):
        print(raw.getsockname()[1], plain.port, secure.port, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def round_trip(session: Session, values: Vector, turn: Turn) -> float:
    """Seconds until a tensor is back."""
    begun = time.perf_counter()
    await session.send(Model(values), turn)
    await session.receive(Expected(Model, {"weights": Layout("float32", values.shape)}), turn=turn, timeout=60)
    return time.perf_counter() - begun


def raw_round_trip(connection: socket.socket, values: Vector, back: memoryview) -> float:
    """Seconds until a tensor is back."""
    begun = time.perf_counter()
    connection.sendall(values.nbytes.to_bytes(8, "little"))
    connection.sendall(values.data)
    read_all(connection, back)
    return time.perf_counter() - begun


async def measure(ports: list[int], identity: Papers) -> Iterator[Row]:
    """Medians of all sizes, as rows of the table."""
    connection = socket.create_connection(("127.0.0.1", ports[0]))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain = (await dial(f"127.0.0.1:{ports[1]}", _HELLO)).session
    secure = (await dial(f"127.0.0.1:{ports[2]}", _HELLO, lambda: identity)).session
    table: list[Row] = []
    for name, count in SIZES.items():
        values = np.random.default_rng(0).normal(size=count).astype(np.float32)
        back = memoryview(bytearray(values.nbytes))
        times = np.array(
            [
                (
                    raw_round_trip(connection, values, back),
                    await round_trip(plain, values, Turn(index, 1)),
                    await round_trip(secure, values, Turn(index, 1)),
                )
                for index in range(TURNS)
            ]
        )
        raw, *ours = 1e3 * np.median(times[TURNS // 6 :], axis=0)  # the first ones warm up
        for kind, took in zip(("plain", "mutual TLS"), ours, strict=True):
            note = f"{took:.2f} ms / {raw:.2f} ms, two processes"
            table.append((f"round trip of {name}: {kind} / raw TCP", f"{took / raw:.2f}x", note))
    for session in (plain, secure):
        await session.close()
    connection.close()
    return iter(table)


def rows() -> Iterator[Row]:
    """Start the other process and measure."""
    identity = new_authority().identity("bench")
    code = "import asyncio, sys; from benchmarks import connections; from fedfloor.deploy.link import Papers; "
    code += f"asyncio.run(connections.serve(Papers({identity.certificate!r}, {identity.key!r}, {identity.ca!r})))"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        ports = [int(word) for word in other.stdout.readline().split()]
        yield from asyncio.run(measure(ports, identity))
