"""A network without rights: a proxy of TCP in front of every machine that is dialled, which delays what passes."""

__all__ = ["Proxy", "Way"]

import asyncio
import socket
import threading
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Self, TypeVar, cast

from testbed.layout import Layout
from testbed.shaping import UNSHAPED, Rates, departure

_HOST = "127.0.0.1"
_MOST, _FEW = 2**17, 2**16  #: [byte] that wait on a link before it stops reading, and when it goes on
_PIECE_S = 5e-3  #: [s] of sending in a piece; the receiver gets whole pieces
_SMALLEST, _LARGEST = 512, 2**16  #: [byte] of a piece
_Result = TypeVar("_Result")


class Way:
    """A hop in one direction: its rate, which may change at any time, and when it is free again."""

    def __init__(self, rate: float) -> None:
        self.rate = rate  #: [bit/s]
        self._free = 0.0

    def piece(self) -> int:
        """How many bytes travel together."""
        return int(min(max(self.rate * _PIECE_S / 8.0, _SMALLEST), _LARGEST))

    def leave(self, arrived: float, size: int) -> float:
        """When bytes that arrived at some time have left, after everything that was sent before."""
        self._free = departure(self._free, arrived, size, self.rate)
        return self._free


class _End(asyncio.Protocol):
    """One end of a connection: what arrives here leaves at the other end, as late as the way says."""

    other: "_End"

    def __init__(self, way: Way) -> None:
        self._way = way  # of what arrives here
        self._waiting: deque[tuple[float, bytes]] = deque()  # with the times of arrival
        self._size = 0
        self._news, self._writable = asyncio.Event(), asyncio.Event()
        self._has_ended = False  # nothing more arrives here
        self.is_over = False  # everything that arrived has been handed on
        self._task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio leaves it out if proto is 0
        self._writable.set()

    def start(self) -> None:
        """Begin to hand on; both ends are there."""
        self._task = asyncio.create_task(self._hand_on())

    def data_received(self, data: bytes) -> None:
        self._waiting.append((time.monotonic(), data))
        self._size += len(data)
        self._news.set()
        if self._size > _MOST:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        """Note the end; the other direction may go on."""
        self._has_ended = True
        self._news.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """End both directions, but not before what has arrived is handed on."""
        if exc is not None:
            self._waiting.clear()
        self.eof_received()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def drained(self) -> None:
        """Wait while the receiver takes nothing."""
        await self._writable.wait()

    async def _hand_on(self) -> None:
        while True:
            while not self._waiting and not self._has_ended:
                self._news.clear()
                await self._news.wait()
            if not self._waiting:
                break
            arrived, data = self._waiting.popleft()
            view, size = memoryview(data), self._way.piece()
            for piece in (view[k : k + size] for k in range(0, len(data), size)):
                leaves = self._way.leave(arrived, len(piece))
                while (pause := leaves - time.monotonic()) > 0.0:
                    await asyncio.sleep(pause)
                await self.other.drained()
                if not self.other.transport.is_closing():
                    self.other.transport.write(piece)
                self._size -= len(piece)
                if self._size < _FEW:  # before the link is idle, which a slow sender would cause
                    self.transport.resume_reading()
        self.is_over = True
        if self.other.is_over or self.transport.is_closing():
            for end in (self, self.other):
                end.transport.close()
        elif not self.other.transport.is_closing():
            self.other.transport.write_eof()


class Proxy:
    """Forwards connections on loopback; its event loop runs in a thread of its own."""

    station_listen = gateway_listen = f"{_HOST}:0"
    station_host = gateway_host = _HOST

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._backhaul = {floor: (Way(UNSHAPED.down), Way(UNSHAPED.up)) for floor in layout.floors}
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread
        self._servers: list[asyncio.Server] = []
        self._ends: set[_End] = set()

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="testbed-proxy", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def within(self, machine: str) -> Sequence[str]:  # noqa: ARG002  # all machines are this one
        """See `Network`."""
        return []

    def way_to_station(self, floor: int, port: int) -> str:
        """See `Network`."""
        down, up = self._backhaul[self._layout.floors[floor]]
        return self.forward(port, down, up)

    def way_to_gateway(self, device: int, port: int) -> str:
        """See `Network`."""
        rates = self._layout.devices[device].rates
        return self.forward(port, Way(rates.down), Way(rates.up))

    def set_backhaul(self, floor: str, rates: Rates) -> None:
        """See `Network`."""
        down, up = self._backhaul[floor]
        down.rate, up.rate = rates.down, rates.up

    def free_backhaul(self) -> None:
        """See `Network`."""
        for floor in self._layout.floors:
            self.set_backhaul(floor, UNSHAPED)

    def forward(self, port: int, down: Way, up: Way) -> str:
        """Forward another port of loopback to this one; returns its address."""
        return self._run(self._forward(port, down, up))

    async def _forward(self, port: int, down: Way, up: Way) -> str:
        tasks: set[asyncio.Task[None]] = set()

        def accept() -> _End:
            end = _End(up)
            task = asyncio.create_task(self._connect(end, port, down))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            return end

        opened = socket.create_server((_HOST, 0))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _FEW)  # what waits should wait at its sender
        server = await self._loop.create_server(accept, sock=opened)
        self._servers.append(server)
        return f"{_HOST}:{opened.getsockname()[1]}"

    async def _connect(self, dialled: _End, port: int, down: Way) -> None:
        await asyncio.sleep(0)  # until `dialled` has its transport
        dialled.transport.pause_reading()
        try:
            _, end = await self._loop.create_connection(lambda: _End(down), _HOST, port)
        except OSError:
            dialled.transport.abort()
            return
        dialled.other, end.other = end, dialled
        for each in (dialled, end):
            self._ends.add(each)
            each.start()
        dialled.transport.resume_reading()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for end in self._ends:
            end.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
