"""Connections between machines: one side listens, the other dials and comes back after every loss.

Both sides prove who they are with certificates (mutual TLS). A peer that no longer answers is noticed within 4 s; one
that computes is not taken for dead, because grpc answers pings outside Python. A link needs at least 1 Mbit/s: on a
much slower one, pings wait too long behind tensors.
"""

__all__ = ["Joined", "Listener", "Papers", "UnfitError", "dial", "sessions"]

import asyncio
import contextlib
import logging
import os
import random
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from fedfloor.characters import safe_line
from fedfloor.deploy.coding import AHEAD, MOST_FRAME
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.messages import Hello, Welcome
from fedfloor.deploy.session import PARTING_S, RefusedError, Session, farewell
from fedfloor.errors import MissingExtraError

# grpc reads these when it is imported. Its lines on standard error are for its developers.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
try:
    import grpc
except ModuleNotFoundError as error:
    raise MissingExtraError("a deployment", "deploy") from error

_LOG = logging.getLogger(__name__)
SERVICE, METHOD = "fedfloor.v1.Plant", "Join"
GREETING_S = 10.0  #: how long Hello, Welcome and the handshake of TLS may take
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0  #: before dialling again
OPTIONS = [
    ("grpc.max_receive_message_length", MOST_FRAME),
    ("grpc.max_send_message_length", MOST_FRAME),
    # A ping after 1 s of silence and 2.7 s for its answer: a dead peer is noticed within 4 s. Both sides ping, also if
    # nothing is being sent, and neither minds the pings of the other. The timeout of keepalive is what TCP waits for an
    # acknowledgement; grpc itself never applies it to a ping (up to 1.85 it compares the wrong way round).
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 2700),
    ("grpc.http2.ping_timeout_ms", 2700),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
    # As little as possible is under way, for the sake of the pings: otherwise grpc lets a sender run 4 MB ahead.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", AHEAD),
    ("grpc.http2.max_frame_size", 2**20),  # one frame per chunk instead of sixty
    ("grpc.so_reuseport", 0),  # a second server on the same port is an error, not a rival
    ("grpc.server_handshake_timeout_ms", int(1000 * GREETING_S)),
    ("grpc.max_concurrent_streams", 8),
    ("grpc.max_connection_idle_ms", 5000),  # connections without a stream, which a stranger may leave open
    ("grpc.use_local_subchannel_pool", 1),  # one connection per session
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
]


class UnfitError(LinkError):
    """Others would refuse this machine's own certificate; the message says why."""


@dataclass(frozen=True, slots=True)
class Papers:
    """What a machine proves with who it is, and recognises others by; all PEM."""

    certificate: bytes
    key: bytes
    ca: bytes  #: certificate of the plant's CA


#: certificate of a peer in PEM (empty without TLS) and its Hello -> why it may not join, or an empty text
Guard = Callable[[bytes, Hello], str]
#: what is done with a peer that may join; the first message that it sends must be a Welcome
Handler = Callable[[Session, Hello], Awaitable[None]]


class Listener:
    """Serves every peer that dials and passes the guard; `async with` opens and closes the port.

    The identity is asked for again for every connection, so that a renewed certificate needs no restart. None: no TLS,
    for tests and benchmarks on one machine.
    """

    def __init__(
        self, address: str, handler: Handler, guard: Guard, identity: Callable[[], Papers] | None = None
    ) -> None:
        self.port = 0  #: that is listened on; picked by the system if the address has port 0
        self._address, self._handler, self._guard, self._identity = address, handler, guard, identity
        self._tasks: set[asyncio.Task[None]] = set()
        self._handshakes: deque[asyncio.TimerHandle] = deque()  # that have begun and led to no stream yet
        self._guests: dict[Session, tuple[bytes, Hello]] = {}  # that the guard has let in
        self._server: Any = None
        self._papers: Papers | None = None  # that grpc uses for new connections

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._server = grpc.aio.server(options=OPTIONS)
        join = grpc.stream_stream_rpc_method_handler(self._join)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: join}),))
        try:
            if self._identity is None:
                self.port = self._server.add_insecure_port(self._address)
            else:
                self._papers = self._identity()
                first = _configuration(self._papers)
                credentials = grpc.dynamic_ssl_server_credentials(first, self._renewed, True)
                self.port = self._server.add_secure_port(self._address, credentials)
        except RuntimeError as error:
            raise LinkError(
                f"Cannot listen on {self._address}: the address is in use or not of this machine."
            ) from error
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop(0.5)
        for timer in self._handshakes:
            timer.cancel()

    async def recheck(self) -> None:
        """End the connections of peers that may no longer join, because their certificates are revoked or expired."""
        leaving = []
        for session, (certificate, hello) in list(self._guests.items()):
            if session.is_open and (reason := self._guard(certificate, hello)):
                _LOG.warning("Refused %s at %s: %s", safe_line(hello.name), session.peer, reason)
                leaving.append(session.close(reason))
        await asyncio.gather(*leaving)

    def _renewed(self) -> Any:
        """Called by grpc, in a thread of its own, before every handshake."""
        assert self._identity is not None
        with contextlib.suppress(RuntimeError):  # the loop ends with the program; a handshake may come later
            self._loop.call_soon_threadsafe(self._watch_handshake)
        try:
            papers = self._identity()
        except UnfitError as error:
            _LOG.warning("Machines that dial this one may refuse its certificate. %s", error)
            return None
        except Exception as error:  # whatever the caller's function raises: the last certificate still serves
            _LOG.warning("The certificate of this machine cannot be read, the last one is used: %s", error)
            return None
        if papers == self._papers:
            return None  # a new configuration frees the last one, which grpc may be using for another handshake
        self._papers = papers
        return _configuration(papers)

    def _watch_handshake(self) -> None:
        self._handshakes.append(self._loop.call_later(GREETING_S, self._report_handshake))

    def _report_handshake(self) -> None:
        """Grpc does not say which handshakes fail: those that no stream follows."""
        self._handshakes.popleft()
        _LOG.warning("Refused a connection: the other side proved no certificate of this plant, or said nothing.")

    async def _join(self, _: Any, context: Any) -> None:
        """What grpc runs for every stream."""
        if self._handshakes:
            self._handshakes.popleft().cancel()
        session = Session(context, _address(context.peer()))
        certificate = b"".join(context.auth_context().get("x509_pem_cert", []))
        task = asyncio.create_task(self._serve(session, certificate))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.shield(task)
        finally:  # grpc cancels this coroutine when the peer is gone; the handler learns it from its session
            session.end(f"{session.peer} is gone.")

    async def _serve(self, session: Session, certificate: bytes) -> None:
        try:
            hello = (await session.receive(Hello, timeout=GREETING_S)).message
            assert isinstance(hello, Hello)
            if reason := self._guard(certificate, hello):
                _LOG.warning("Refused %s at %s: %s", safe_line(hello.name), session.peer, reason)
                await session.close(reason)
                return
            self._guests[session] = certificate, hello
            await self._handler(session, hello)
        except LinkError as error:
            if session.is_open:  # what the peer sent fits a message, but not what the handler knows
                _LOG.warning("Refused a message of %s: %s", session.peer, error)
                await session.close(str(error))
            else:
                _LOG.info("%s", error)
        except Exception:
            _LOG.exception("The connection of %s ends because of a mistake in this program.", session.peer)
            await session.close("An error occurred on the other side.")
        finally:
            self._guests.pop(session, None)
            await session.close()


@dataclass(frozen=True, slots=True)
class Joined:
    """A session that the other side has welcomed."""

    session: Session
    welcome: Welcome


async def dial(
    address: str,
    hello: Hello,
    identity: Callable[[], Papers] | None = None,
    *,
    timeout: float = GREETING_S,
) -> Joined:
    """Connect to a listener and join; raises a RefusedError or a LinkError that says why it was not possible.

    `identity` raises an UnfitError if the listener would refuse it; grpc would not say why.
    The certificate of the listener must be for the host of the address.
    """
    if identity is None:
        channel = grpc.aio.insecure_channel(address, OPTIONS)
    else:
        own = identity()
        credentials = grpc.ssl_channel_credentials(own.ca, own.key, own.certificate)
        channel = grpc.aio.secure_channel(address, credentials, OPTIONS)
    call = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
    session = Session(call, address, partial(_release, channel, call))
    watcher = asyncio.create_task(_watch(session, call))
    watcher.add_done_callback(_WATCHERS.discard)
    _WATCHERS.add(watcher)
    try:
        async with asyncio.timeout(timeout):
            await session.send(hello)
            welcome = (await session.receive(Welcome)).message
    except TimeoutError:
        await session.close()
        raise LinkError(f"{address} did not answer within {timeout:g} s.") from None
    except BaseException:
        await session.close()
        raise
    assert isinstance(welcome, Welcome)
    return Joined(session, welcome)


async def sessions(
    address: str, hello: Hello, identity: Callable[[], Papers] | None = None
) -> AsyncGenerator[Joined, None]:
    """Dial for ever: yield every session that is welcomed, and dial again when it has ended, after growing pauses."""
    pause = FIRST_PAUSE_S
    while True:
        try:
            joined = await dial(address, hello, identity)
        except LinkError as error:
            refusal = _REFUSALS.search(str(error))
            why = f" ({refusal[0].lower()})" if refusal else ""
            rest = "" if refusal else f" {error}"
            _LOG.warning("%s %s%s; next attempt in about %.1f s.%s", address, _verdict(error), why, pause, rest)
        else:
            begun = time.monotonic()
            try:
                yield joined
            finally:
                await joined.session.close()
            if time.monotonic() - begun > LONGEST_PAUSE_S:  # one that is sent away at once must not come at once
                pause = FIRST_PAUSE_S
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - not all devices of a floor at once
        pause = min(2.0 * pause, LONGEST_PAUSE_S)


#: what operating systems say about a connection that did not come about; it says more than grpc's words around it
_REFUSALS = re.compile("Connection refused|No route to host|Network is unreachable|Connection timed out")


def _verdict(error: LinkError) -> str:
    """What came of dialling, as the end of a sentence that begins with the address."""
    if isinstance(error, UnfitError):
        return "is not dialled"
    return "refuses this machine" if isinstance(error, RefusedError) else "cannot be reached"


_WATCHERS: set[asyncio.Task[None]] = set()  #: asyncio itself keeps no task alive


async def _watch(session: Session, call: Any) -> None:
    """End a session when grpc says that its stream is over."""
    code, details = await call.code(), await call.details()
    if code is grpc.StatusCode.OK:
        session.note_end(f"{session.peer} ended the connection.")
    else:
        session.note_end(farewell(session.peer, details))


async def _release(channel: Any, call: Any) -> None:
    """Let the other side take what was sent, then give back what the connection holds on this machine."""
    with contextlib.suppress(Exception):  # the stream may be over already, which grpc says in several ways
        async with asyncio.timeout(PARTING_S):
            await call.done_writing()
            await call.code()
    call.cancel()
    await channel.close()


def _configuration(identity: Papers) -> Any:
    return grpc.ssl_server_certificate_configuration([(identity.key, identity.certificate)], identity.ca)


def _address(peer: str) -> str:
    """An address as people write it, from `ipv4:10.0.0.7:50000` or `ipv6:%5B::1%5D:50000`."""
    return unquote(peer.removeprefix("ipv4:").removeprefix("ipv6:"))
