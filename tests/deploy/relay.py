"""A port that leads to another one, and that a test can stop in the middle of a message, silence or cut."""

import contextlib
import math
import socket
import threading
import time
from collections.abc import Callable
from typing import Literal

Direction = Literal["down", "up"]
_PIECE = 16_384  #: [byte] that are passed on at a time
_SMALL = 500  #: [byte] of what is not counted: pings, acknowledgements and short messages
_PAUSE = 0.2  #: [s] without anything larger, after which a new message has begun


class Relay:
    """Passes on what a client sends (up) and what it gets (down); everything here is called by the test's thread."""

    def __init__(self, target: Callable[[], int]) -> None:
        self._target = target
        self.rate = math.inf  #: [byte/s] that pass in each direction
        self._door = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._door.getsockname()[1]
        self._change = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._limit: tuple[Direction, int] | None = None
        self._passed, self._needs_pause, self._last = 0, False, {"down": 0.0, "up": 0.0}
        self.is_held, self.is_silent, self._is_closed = False, False, False
        self._start(self._accept)

    def hold(self, direction: Direction, size: int, *, message: bool = False) -> None:
        """Stop as soon as so many bytes have passed in one direction: from now on, or of the next message."""
        with self._change:
            self._limit, self._passed, self._needs_pause = (direction, size), 0, message

    def release(self) -> None:
        """Go on."""
        with self._change:
            self._limit, self.is_held = None, False
            self._change.notify_all()

    def silence(self, *, on: bool) -> None:
        """Let nothing through and tell nobody, as a link that is down; or let it through again."""
        with self._change:
            self.is_silent = on
            self._change.notify_all()

    def cut(self) -> None:
        """End all connections at once."""
        with self._change:
            self._limit, self.is_held = None, False
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._change.notify_all()

    def close(self) -> None:
        with self._change:
            self._is_closed = True
        self.silence(on=False)
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join(10.0)
        self._door.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        with self._change:
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target()), 10.0)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._change:
                self._sockets |= {client, server}
            self._start(self._pair, client, server)

    def _pair(self, client: socket.socket, server: socket.socket) -> None:
        other = threading.Thread(target=self._pump, args=("down", server, client), daemon=True)
        other.start()
        self._pump("up", client, server)
        other.join()
        with self._change:
            self._sockets -= {client, server}
        client.close()
        server.close()

    def _pump(self, direction: Direction, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE):
                self._count(direction, len(data))
                target.sendall(data)
                if len(data) > _SMALL:
                    time.sleep(len(data) / self.rate)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _count(self, direction: Direction, size: int) -> None:
        """Count what is about to pass, and wait while nothing may."""
        with self._change:
            now = time.monotonic()
            if size > _SMALL:
                if self._limit is not None and self._limit[0] == direction and not self.is_held:
                    self._needs_pause = self._needs_pause and now - self._last[direction] < _PAUSE
                    self._passed += 0 if self._needs_pause else size
                    self.is_held = self._passed >= self._limit[1]
                self._last[direction] = now
            self._change.wait_for(lambda: self._is_closed or not (self.is_held or self.is_silent))
