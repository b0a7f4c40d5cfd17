"""One open connection between two machines: typed messages both ways, whichever side dialled."""

__all__ = ["LateError", "RefusedError", "Session", "farewell"]

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fedfloor.characters import safe_line
from fedfloor.deploy.coding import Decoder, Envelope, Pace, encode
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.messages import Expected, Message, Refused, Turn

_LOG = logging.getLogger(__name__)
_NO_TURN = Turn()
_REFUSED = Expected(Refused)
PARTING_S = 2.0  #: how long a side that closes waits for the other to take its last message


class LateError(LinkError):
    """A message that was not there in time; the connection stays open."""


class RefusedError(LinkError):
    """The other side does not go on; the message is its reason."""


class Session:
    """Sends and receives messages over a stream of grpc; `read` and `write` of both sides' streams are alike.

    One task at a time may receive. Any number may send; each message is sent as a whole.
    """

    def __init__(self, stream: Any, peer: str, release: Callable[[], Awaitable[None]] | None = None) -> None:
        self.peer = peer  #: address of the other side
        self._stream, self._release = stream, release
        self._sending = asyncio.Lock()
        self._is_receiving = False
        self._decoder, self._pace = Decoder(), Pace()
        self._reading: asyncio.Future[Any] | None = None
        self._ended = asyncio.Event()
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reason = LinkError()

    @property
    def is_open(self) -> bool:
        """Whether neither side has ended the connection and the other one answers."""
        return not self._ended.is_set()

    async def ended(self) -> str:
        """Wait until the connection has ended and say why; a peer that no longer answers ends it too."""
        if self.is_open:
            self._begin_reading()  # without it, nobody would notice that the other side has closed the connection
        await self._ended.wait()
        return str(self._reason)

    async def send(self, message: Message, turn: Turn = _NO_TURN, *, timeout: float | None = None) -> None:
        """Send a message; waits while the other side does not read.

        A message that is cut off, because the timeout [s] has passed or the task was cancelled, ends the connection.
        """
        has_begun = False
        try:
            async with asyncio.timeout(timeout), self._sending:
                self._begin_reading()  # grpc loses a refusal that arrives while nobody reads
                for frame in encode(message, turn, self._pace):
                    has_begun = True
                    await self._write(frame)
        except TimeoutError:
            self.end(f"{self.peer} did not take a message within {timeout:g} s.")
            raise self._error() from None
        except asyncio.CancelledError:
            if has_begun:
                self.end("A message was cut off.")
            raise

    async def receive(
        self, *expected: Expected | type[Message], turn: Turn | None = None, timeout: float | None = None
    ) -> Envelope:
        """Return the next message, which must be one of the expected ones.

        Messages of another round or attempt than `turn` are dropped; those that belong to no round are not. Raises a
        LateError when the timeout [s] has passed, a RefusedError if the other side refuses to go on, and a LinkError
        if the connection ended or the message is not as expected; then the other side is told why and it ends too.
        """
        assert not self._is_receiving, "one task at a time may receive"
        self._is_receiving = True
        choices = [entry if isinstance(entry, Expected) else Expected(entry) for entry in expected]
        try:
            async with asyncio.timeout(timeout):
                return await self._next(choices, turn)
        except TimeoutError:
            names = " or ".join(entry.message.__name__ for entry in choices)
            part = "only a part of a message" if self._decoder.is_inside else f"no {names}"
            raise LateError(f"{self.peer}: {part} arrived within {timeout:g} s.") from None
        except LinkError as error:
            if self.is_open:
                _LOG.warning("Refused a message of %s: %s", self.peer, error)
                await self.close(str(error))
            raise
        finally:
            self._is_receiving = False

    async def close(self, reason: str = "") -> None:
        """End the connection; the reason, if there is one, is told to the other side."""
        if reason and self.is_open:
            with contextlib.suppress(LinkError):
                await self.send(Refused(reason), timeout=PARTING_S)
        release, self._release = self._release, None
        if release is not None:
            await release()
        self.end(reason or "This side closed the connection.")

    def end(self, why: str) -> None:
        """End the connection at once and without a word to the other side; whoever waits for a message is woken."""
        self.note_end(why)
        if not self._stopped.done():
            self._stopped.set_result(None)

    def note_end(self, why: str) -> None:
        """Take note that grpc has ended the stream; a read that is under way may still return the last frame."""
        if self.is_open:
            self._reason = LinkError(why)
            self._ended.set()

    def _error(self) -> LinkError:
        return type(self._reason)(*self._reason.args)

    async def _next(self, choices: Sequence[Expected], turn: Turn | None) -> Envelope:
        envelope = None
        while envelope is None:
            frame = await self._read()
            if self._decoder.needs_more_than(frame):
                self._begin_reading()  # grpc puts the next chunk together while this one is copied
            envelope = self._decoder.feed(frame, [*choices, _REFUSED], turn)
        if isinstance(envelope.message, Refused):
            self._reason = RefusedError(safe_line(envelope.message.reason))
            self._ended.set()
            raise self._error()
        return envelope

    async def _write(self, frame: bytes) -> None:
        if not self.is_open:
            raise self._error()
        try:
            await self._stream.write(frame)
        except Exception as error:  # whatever grpc raises here (it has five kinds) means that the stream is over
            await self._find_refusal()
            self.end(farewell(self.peer, _details(error)))
            raise self._error() from None

    async def _find_refusal(self) -> None:
        """Read on: the other side may have said why it takes no more messages."""
        with contextlib.suppress(LinkError, TimeoutError):
            async with asyncio.timeout(PARTING_S):
                await (self._ended.wait() if self._is_receiving else self._next([], None))

    def _begin_reading(self) -> asyncio.Future[Any]:
        """Read the next frame. Nobody cancels this: it would end the stream, and grpc would lose the memory of it."""
        if self._reading is None:
            if not self.is_open:
                raise self._error()
            self._reading = asyncio.ensure_future(self._stream.read())
            self._reading.add_done_callback(self._notice_end)
        return self._reading

    def _notice_end(self, reading: asyncio.Future[Any]) -> None:
        if reading.cancelled():
            self.note_end(f"{self.peer} is gone.")
        elif (error := reading.exception()) is not None:
            self.note_end(farewell(self.peer, _details(error)))
        elif not isinstance(reading.result(), bytes):  # grpc's mark for the end of a stream
            self.note_end(f"{self.peer} ended the connection.")

    async def _read(self) -> bytes:
        reading = self._begin_reading()
        if not reading.done():
            await asyncio.wait([reading, self._stopped], return_when=asyncio.FIRST_COMPLETED)
        is_lost = not reading.done() or reading.cancelled() or reading.exception() is not None
        frame = None if is_lost else reading.result()
        if not isinstance(frame, bytes):
            raise self._error()
        self._reading = None
        return frame


def farewell(peer: str, details: str) -> str:
    """Why a stream ended, from the details that grpc gives."""
    details = details.replace("Internal error from Core", "it no longer takes messages")
    return f"The connection to {peer} ended: {safe_line(details, 300)}"


def _details(error: BaseException) -> str:
    """What grpc says about an error."""
    details = getattr(error, "details", None)
    return (details() if callable(details) else "") or str(error)
