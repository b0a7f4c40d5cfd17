"""Round trips of tensors between two processes: our link, plain and with TLS, against raw TCP; part of `make bench`.

Every turn takes all of them in a row, so that a busy machine slows all of them down. The other process reads the whole
tensor before it sends it back. Bare gRPC with the options of our link, which sends bytes in chunks and neither encodes
nor checks them, tells how much of the ratio is gRPC's own.
"""

__all__ = ["raw_echo", "raw_round_trip", "rows"]

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.deploy.authorities import new_authority

from fedfloor.arrays import Vector
from fedfloor.deploy import link
from fedfloor.deploy.coding import MOST_CHUNK
from fedfloor.deploy.fields import Layout
from fedfloor.deploy.link import Listener, Papers, dial
from fedfloor.deploy.messages import Expected, Hello, Model, Turn, Welcome
from fedfloor.deploy.session import Session

import grpc  # isort: skip  # after the link, which silences it

Row = tuple[str, str, str]
SIZES = {"3.3 MB": 825_000, "100 KB": 25_000}  #: float32 numbers; a connection grows fast with large ones
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


def serve_raw() -> None:
    """Listen, say where, and send back tensors over TCP until the connection ends."""
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    echo_raw(server)


@contextlib.contextmanager
def raw_echo() -> Iterator[socket.socket]:
    """A TCP connection to another process that sends tensors back."""
    code = "from benchmarks import connections; connections.serve_raw()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        with raw_connection(int(other.stdout.readline())) as connection:
            yield connection


def raw_connection(port: int) -> socket.socket:
    """A TCP connection to a port of this machine."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


async def echo(session: Session, _: Hello) -> None:
    """Send back tensors over our link."""
    await session.send(Welcome("{}"))
    while True:
        arrived = await session.receive(Expected(Model, {"weights": Layout("float32", (10**8,), at_most=True)}))
        await session.send(arrived.message, arrived.turn)


async def echo_bare(_: Any, context: Any) -> None:
    """Send back tensors over bare gRPC; the first message says how long the tensor is."""
    while isinstance(head := await context.read(), bytes):
        chunks, missing = [], int.from_bytes(head, "little")
        while missing:
            chunks.append(await context.read())
            missing -= len(chunks[-1])
        for chunk in chunks:
            await context.write(chunk)


async def bare_server(identity: Papers | None) -> tuple[Any, int]:
    """A server that echoes bytes, with the options of our link, and its port."""
    server = grpc.aio.server(options=link.OPTIONS)
    method = grpc.stream_stream_rpc_method_handler(echo_bare)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(link.SERVICE, {link.METHOD: method}),))
    if identity is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        pair = [(identity.key, identity.certificate)]
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pair, identity.ca, True))
    await server.start()
    return server, port


async def serve(identity: Papers) -> None:
    """What the other process does: listen five times, say where, and wait for the end of its input."""
    raw = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=echo_raw, args=(raw,), daemon=True).start()
    servers = [await bare_server(None), await bare_server(identity)]
    async with (
        Listener("127.0.0.1:0", echo, lambda *_: "") as plain,
        Listener("127.0.0.1:0", echo, lambda *_: "", lambda: identity) as secure,
    ):
        print(raw.getsockname()[1], plain.port, secure.port, *(port for _, port in servers), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for server, _ in servers:
        await server.stop(None)


async def round_trip(session: Session, values: Vector, turn: Turn) -> float:
    """Seconds until a tensor is back."""
    begun = time.perf_counter()
    await session.send(Model(values), turn)
    await session.receive(Expected(Model, {"weights": Layout("float32", values.shape)}), turn=turn, timeout=60)
    return time.perf_counter() - begun


async def bare_round_trip(call: Any, values: Vector) -> float:
    """Seconds until a tensor is back; what arrives meanwhile is read meanwhile, as our link does."""
    begun = time.perf_counter()
    view = values.view(np.uint8).data

    async def read() -> None:
        missing = len(view)
        while missing:
            missing -= len(await call.read())

    reading = asyncio.create_task(read())
    await call.write(len(view).to_bytes(8, "little"))
    for at in range(0, len(view), MOST_CHUNK):
        await call.write(bytes(view[at : at + MOST_CHUNK]))
    await reading
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
    connection = raw_connection(ports[0])
    plain = (await dial(f"127.0.0.1:{ports[1]}", _HELLO)).session
    secure = (await dial(f"127.0.0.1:{ports[2]}", _HELLO, lambda: identity)).session
    credentials = grpc.ssl_channel_credentials(identity.ca, identity.key, identity.certificate)
    channels = (
        grpc.aio.insecure_channel(f"127.0.0.1:{ports[3]}", link.OPTIONS),
        grpc.aio.secure_channel(f"127.0.0.1:{ports[4]}", credentials, link.OPTIONS),
    )
    calls = [channel.stream_stream(f"/{link.SERVICE}/{link.METHOD}")() for channel in channels]
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
                    await bare_round_trip(calls[0], values),
                    await bare_round_trip(calls[1], values),
                )
                for index in range(TURNS)
            ]
        )
        times = 1e3 * times[TURNS // 6 :]  # the first ones warm up
        raw = np.median(times[:, 0])
        for kind, ours, bare in (("plain", 1, 3), ("mutual TLS", 2, 4)):
            took, own = np.median(times[:, ours]), np.median(times[:, bare])
            note = f"{took:.2f} ms / {raw:.2f} ms; bare gRPC {own:.2f} ms, {own / raw:.2f}x"
            table.append((f"round trip of {name}: {kind} / raw TCP", f"{took / raw:.2f}x", note))
    for session in (plain, secure):
        await session.close()
    for call, channel in zip(calls, channels, strict=True):
        call.cancel()
        await channel.close()
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
