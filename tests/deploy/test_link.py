"""Connections over real sockets and real TLS: who may join, what is refused, and what happens when a side is gone."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfloor.deploy import link
from fedfloor.deploy.coding import CHUNK_S, MOST_FRAME, PROTOCOL, encode
from fedfloor.deploy.fields import Layout, LinkError
from fedfloor.deploy.link import Listener, Papers, dial, sessions
from fedfloor.deploy.messages import (
    Expected,
    Failed,
    Hello,
    Message,
    Model,
    Ready,
    Received,
    Refused,
    Settled,
    Turn,
    Welcome,
)
from fedfloor.deploy.session import LateError, RefusedError, Session
from fedfloor.deploy.wire_pb2 import Frame
from tests.deploy.authorities import new_authority
from tests.deploy.examples import MESSAGES, expected, numbers, same

import grpc  # isort: skip  # after the link, which silences it

HELLO = Hello("device", "press-7", "", "{}")
ANY_MODEL = Expected(Model, {"weights": Layout("uint8", (40_000_000,), at_most=True)})
PLANT = new_authority()
BOUND = 60.0  #: [s] that no test takes unless it hangs


def run(scene: Coroutine[Any, Any, None]) -> None:
    """Play a scene, bounded in time."""
    asyncio.run(asyncio.wait_for(scene, BOUND))


def everybody(_: bytes, __: Hello) -> str:
    return ""


async def echo(session: Session, _: Hello) -> None:
    """Send every model back."""
    await session.send(Welcome("{}"))
    while True:
        envelope = await session.receive(ANY_MODEL)
        await session.send(envelope.message, envelope.turn)


@asynccontextmanager
async def joined(port: int, identity: Callable[[], Papers] | None = None) -> AsyncIterator[Session]:
    """A session with a listener of this machine."""
    session = (await dial(f"127.0.0.1:{port}", HELLO, identity)).session
    try:
        yield session
    finally:
        await session.close()


async def refused_by(port: int, *frames: bytes) -> str:
    """What a listener answers to frames that it refuses."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(f"/{link.SERVICE}/{link.METHOD}")()
        for frame in frames:
            with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                await call.write(frame)
        answer = Frame()
        while answer.WhichOneof("body") != "refused":
            data = await call.read()
            assert isinstance(data, bytes), "the stream ended without a reason"
            answer.ParseFromString(data)
        return str(answer.refused.reason)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_every_message_goes_both_ways(secure: bool) -> None:
    machine, other = PLANT.identity("gateway"), PLANT.identity("device")
    messages = [message for message in MESSAGES if not isinstance(message, Refused)]

    async def handler(session: Session, hello: Hello) -> None:
        assert same(HELLO, hello)
        await session.send(Welcome("{}"))
        for index, message in enumerate(messages):
            envelope = await session.receive(expected(message), turn=Turn(index, 1))
            await session.send(envelope.message, envelope.turn)

    async def scene() -> None:
        async with (
            Listener("127.0.0.1:0", handler, everybody, (lambda: machine) if secure else None) as listener,
            joined(listener.port, (lambda: other) if secure else None) as session,
        ):
            for index, message in enumerate(messages):
                await session.send(message, Turn(index, 1))
                envelope = await session.receive(expected(message), turn=Turn(index, 1))
                assert same(message, envelope.message)

    run(scene())


@pytest.mark.parametrize("size", [0, 1, 1_000_000, 1_000_001, 3_300_000, 36_000_000])
def test_tensors_of_every_size_go_there_and_back(size: int) -> None:
    async def scene() -> None:
        async with Listener("127.0.0.1:0", echo, everybody) as listener, joined(listener.port) as session:
            message = Model(numbers(size, dtype="uint8"))
            await session.send(message)
            assert same(message, (await session.receive(expected(message))).message)

    run(scene())


def test_replies_of_another_attempt_are_dropped() -> None:
    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        for turn in (Turn(3, 1), Turn(4, 1), Turn(4, 2)):
            await session.send(Model(numbers(500_000, dtype="uint8")), turn)
            await session.send(Received(), turn)
        await session.ended()

    async def scene() -> None:
        async with Listener("127.0.0.1:0", handler, everybody) as listener, joined(listener.port) as session:
            envelope = await session.receive(ANY_MODEL, turn=Turn(4, 2))
            assert envelope.turn == Turn(4, 2)
            assert (await session.receive(Received, turn=Turn(4, 2))).turn == Turn(4, 2)

    run(scene())


def test_who_does_not_pass_the_guard_is_told_and_logged_why(caplog: pytest.LogCaptureFixture) -> None:
    certificates = []

    def guard(certificate: bytes, hello: Hello) -> str:
        certificates.append(certificate)
        return f"{hello.name} is revoked." if hello.name == "press-7" else ""

    identity = PLANT.identity("press-7")

    async def scene() -> None:
        async with Listener("127.0.0.1:0", echo, guard, lambda: PLANT.identity("gateway")) as listener:
            address = f"127.0.0.1:{listener.port}"
            with pytest.raises(RefusedError, match=r"press-7 is revoked\."):
                await dial(address, HELLO, lambda: identity)
            other = await dial(address, Hello("device", "press-8", "", "{}"), lambda: identity)
            await other.session.close()

    run(scene())
    assert certificates == [identity.certificate] * 2
    assert "Refused press-7 at 127.0.0.1:" in caplog.text
    assert "press-7 is revoked." in caplog.text


WRONG_FRAMES = {
    "random bytes": ([b"\xff" * 50], "cannot be read"),
    "another version": ([Frame(protocol=9).SerializeToString()], f"protocol 9, this one protocol {PROTOCOL}"),
    "no Hello": (list(encode(Ready(1.0), Turn())), "Ready: this message is not expected here, but Hello"),
    "truncated": (
        [*encode(HELLO, Turn()), next(encode(Model(numbers(10**6)), Turn())), *encode(Received(), Turn())],
        "Model.weights: expected uint8 of at most 40000000, got float32 of 1000000",
    ),
    "cut off": (
        [*encode(HELLO, Turn()), next(encode(Model(numbers(10**6, dtype="uint8")), Turn())), *encode(Ready(1), Turn())],
        "truncated: 967,232 bytes are missing, but the message ready follows",
    ),
    "not a number": (
        [*encode(HELLO, Turn()), next(encode(Model(np.full(9, np.nan, np.float32)), Turn()))],
        "Model.weights: expected uint8",
    ),
}


@pytest.mark.parametrize("case", WRONG_FRAMES)
def test_a_wrong_frame_is_refused_with_its_reason_and_others_are_served_on(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    frames, reason = WRONG_FRAMES[case]

    async def scene() -> None:
        async with Listener("127.0.0.1:0", echo, everybody) as listener, joined(listener.port) as session:
            for _ in range(3):
                assert reason in await refused_by(listener.port, *frames)
            message = Model(numbers(1000, dtype="uint8"))
            await session.send(message)
            assert same(message, (await session.receive(ANY_MODEL)).message)

    run(scene())
    assert reason in caplog.text


def test_a_frame_larger_than_grpc_admits_ends_only_its_own_stream() -> None:
    async def scene() -> None:
        async with Listener("127.0.0.1:0", echo, everybody) as listener, joined(listener.port) as session:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{listener.port}") as channel:
                call = channel.stream_stream(f"/{link.SERVICE}/{link.METHOD}")()
                with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                    await call.write(b"\0" * (MOST_FRAME + 1))
                assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            await session.send(Model(numbers(10, dtype="uint8")))
            await session.receive(ANY_MODEL)

    run(scene())


def test_a_side_that_is_sending_learns_why_it_was_refused() -> None:
    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        await session.receive(Received)

    async def scene() -> None:
        async with Listener("127.0.0.1:0", handler, everybody) as listener, joined(listener.port) as session:
            with pytest.raises(RefusedError, match=r"Model: this message is not expected here, but Received"):
                await session.send(Model(numbers(30_000_000, dtype="uint8")))

    run(scene())


@pytest.mark.parametrize("stranger", ["no certificate", "foreign authority", "expired"])
def test_who_proves_no_certificate_of_the_plant_is_refused_and_logged(
    stranger: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "GREETING_S", 0.5)
    own = {
        "no certificate": Papers(b"", b"", PLANT.pem),
        "foreign authority": new_authority("other").identity("press-7"),
        "expired": PLANT.identity("press-7", days=-1),
    }[stranger]
    identity = Papers(own.certificate, own.key, PLANT.pem)

    async def scene() -> None:
        async with Listener("localhost:0", echo, everybody, lambda: PLANT.identity("gateway")) as listener:
            with pytest.raises(LinkError, match=r"localhost:\d+"):
                await dial(f"localhost:{listener.port}", HELLO, lambda: identity, timeout=10.0)
            while "proved no certificate of this plant" not in caplog.text:
                await asyncio.sleep(0.05)
            await (await dial(f"localhost:{listener.port}", HELLO, lambda: PLANT.identity("a"))).session.close()

    run(scene())


def test_a_server_of_another_plant_is_not_trusted() -> None:
    async def scene() -> None:
        foreign = new_authority("other").identity("gateway")
        async with Listener("localhost:0", echo, everybody, lambda: foreign) as listener:
            with pytest.raises(LinkError, match=r"(?i)certificate"):
                await dial(f"localhost:{listener.port}", HELLO, lambda: PLANT.identity("a"))

    run(scene())


def test_the_certificate_of_the_server_must_be_for_the_host_that_is_dialled() -> None:
    async def scene() -> None:
        elsewhere = PLANT.identity("gateway", host="127.0.0.2")
        async with Listener("127.0.0.1:0", echo, everybody, lambda: elsewhere) as listener:
            with pytest.raises(LinkError):
                await dial(f"127.0.0.1:{listener.port}", HELLO, lambda: PLANT.identity("a"))
            await (await dial(f"localhost:{listener.port}", HELLO, lambda: PLANT.identity("a"))).session.close()

    run(scene())


def test_a_renewed_certificate_is_used_for_new_connections_and_old_ones_go_on() -> None:
    new = new_authority("plant")
    now = [PLANT.identity("gateway")]

    async def scene() -> None:
        async with (
            Listener("127.0.0.1:0", echo, everybody, lambda: now[0]) as listener,
            joined(listener.port, lambda: PLANT.identity("a")) as session,
        ):
            now[0] = new.identity("gateway")
            async with joined(listener.port, lambda: new.identity("a")):
                await session.send(Model(numbers(10, dtype="uint8")))
                await session.receive(ANY_MODEL)

    run(scene())


def test_a_certificate_that_has_not_changed_is_not_handed_to_grpc_again() -> None:
    papers = [PLANT.identity("gateway"), PLANT.identity("gateway")]

    async def scene() -> None:
        async with Listener("localhost:0", echo, everybody, lambda: replace(papers[0])) as listener:
            assert listener._renewed() is None  # grpc would free what other handshakes are using, and crash
            papers.pop(0)
            assert listener._renewed() is not None
            assert listener._renewed() is None

    run(scene())


def test_a_certificate_that_cannot_be_read_just_now_does_not_stop_the_server(caplog: pytest.LogCaptureFixture) -> None:
    identities = [PLANT.identity("gateway")]

    async def scene() -> None:
        async with (
            Listener("127.0.0.1:0", echo, everybody, identities.pop) as listener,
            joined(listener.port, lambda: PLANT.identity("a")),
        ):
            pass

    run(scene())
    assert "the last one is used" in caplog.text


def test_a_timeout_leaves_the_session_as_it_was() -> None:
    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        await session.receive(Received)
        await session.send(Model(numbers(500_000, dtype="uint8")))
        await session.ended()

    async def scene() -> None:
        async with Listener("127.0.0.1:0", handler, everybody) as listener, joined(listener.port) as session:
            with pytest.raises(LateError, match=r"no Model or Failed arrived within 0.05 s"):
                await session.receive(ANY_MODEL, Failed, timeout=0.05)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(session.receive(ANY_MODEL), 0.05)
            await session.send(Received())
            for _ in range(1000):  # cancelled again and again, also between two chunks
                with contextlib.suppress(TimeoutError):
                    envelope = await asyncio.wait_for(session.receive(ANY_MODEL), 0.001)
                    break
            assert same(Model(numbers(500_000, dtype="uint8")), envelope.message)

    run(scene())


def test_a_tensor_that_never_ends_is_late() -> None:
    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        await session._write(next(encode(Model(numbers(500_000, dtype="uint8")), Turn())))
        await session.ended()

    async def scene() -> None:
        async with Listener("127.0.0.1:0", handler, everybody) as listener, joined(listener.port) as session:
            with pytest.raises(LateError, match=r"only a part of a message arrived within 0.2 s"):
                await session.receive(ANY_MODEL, timeout=0.2)

    run(scene())


@asynccontextmanager
async def slowed(port: int, rate: float, free: int = 0) -> AsyncIterator[int]:
    """A port that leads to another one and lets so many bytes a second through after some free ones."""

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        left = free
        with contextlib.suppress(ConnectionError), contextlib.closing(target):
            while data := await source.read(max(1, min(4096, int(rate / 50)))):
                target.write(data)
                await target.drain()
                left -= len(data)
                await asyncio.sleep(len(data) / rate if left < 0 else 0)

    tasks: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward = await asyncio.open_connection("127.0.0.1", port, limit=4096)
        for source, target in ((reader, onward[1]), (onward[0], writer)):
            tasks.append(asyncio.create_task(pump(source, target)))

    async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=4096) as server:
        yield server.sockets[0].getsockname()[1]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_a_peer_that_sends_a_byte_a_second_is_late() -> None:
    reasons: asyncio.Queue[Exception] = asyncio.Queue()

    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        try:
            await session.receive(ANY_MODEL, timeout=1.0)
        except LateError as error:
            reasons.put_nowait(error)

    async def scene() -> None:
        async with (
            Listener("127.0.0.1:0", handler, everybody) as listener,
            slowed(listener.port, 1.0, free=20_000) as port,
        ):
            session = (await dial(f"127.0.0.1:{port}", HELLO)).session
            with contextlib.suppress(LinkError):
                await session.send(Model(numbers(5_000_000, dtype="uint8")))
            assert "arrived within 1 s" in str(await reasons.get())
            await session.close()

    run(scene())


def test_sending_waits_for_a_peer_that_never_reads() -> None:
    sent: asyncio.Queue[int] = asyncio.Queue()

    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        for many in range(10_000):
            try:
                await session.send(Model(numbers(200_000, dtype="uint8")), timeout=0.5)
            except LinkError as error:
                assert "did not take a message within 0.5 s" in str(error)  # noqa: PT017
                sent.put_nowait(many)
                return

    async def scene() -> None:
        async with Listener("127.0.0.1:0", handler, everybody) as listener:
            session = (await dial(f"127.0.0.1:{listener.port}", HELLO)).session
            assert await sent.get() < 10  # 2 MB are under way at most
            await session.close()

    run(scene())


def test_a_message_that_is_cut_off_ends_the_session() -> None:
    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        await session.ended()

    async def scene() -> None:
        async with Listener("127.0.0.1:0", handler, everybody) as listener, joined(listener.port) as session:
            sending = asyncio.create_task(session.send(Model(numbers(30_000_000, dtype="uint8"))))
            await asyncio.sleep(0.2)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert await session.ended() == "A message was cut off."
            with pytest.raises(LinkError, match=r"cut off"):
                await session.send(Received())

    run(scene())


def test_a_side_can_close_although_the_other_takes_no_messages() -> None:
    closed = asyncio.Event()

    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        sending = asyncio.create_task(session.send(Model(numbers(30_000_000, dtype="uint8"))))
        await asyncio.sleep(0.2)
        await session.close("The shift is over.")
        closed.set()
        sending.cancel()

    async def scene() -> None:
        async with Listener("127.0.0.1:0", handler, everybody) as listener:
            session = (await dial(f"127.0.0.1:{listener.port}", HELLO)).session
            await closed.wait()
            await session.close()

    run(scene())


def test_several_tasks_may_send_at_once() -> None:
    async def scene() -> None:
        async with Listener("127.0.0.1:0", echo, everybody) as listener, joined(listener.port) as session:
            sizes = range(100_000, 1_000_000, 100_000)
            tasks = [asyncio.create_task(session.send(Model(numbers(size, dtype="uint8")))) for size in sizes]
            for size in sizes:
                envelope = await session.receive(ANY_MODEL)
                assert same(Model(numbers(size, dtype="uint8")), envelope.message)
            await asyncio.gather(*tasks)

    run(scene())


def test_a_session_that_is_closed_wakes_who_waits_for_a_message() -> None:
    closed: asyncio.Queue[str] = asyncio.Queue()

    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        closing = asyncio.create_task(session.close("The shift is over."))
        try:
            await session.receive(Settled)
        except LinkError as error:
            closed.put_nowait(str(error))
        await closing

    async def scene() -> None:
        async with Listener("127.0.0.1:0", handler, everybody) as listener, joined(listener.port) as session:
            with pytest.raises(RefusedError, match=r"The shift is over\."):
                await session.receive(Settled)
            assert await closed.get() == "The shift is over."
            assert not session.is_open

    run(scene())


def test_a_mistake_in_a_handler_ends_its_session_only(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        raise ZeroDivisionError

    async def scene() -> None:
        async with Listener("127.0.0.1:0", handler, everybody) as listener:
            for _ in range(3):
                async with joined(listener.port) as session:
                    with pytest.raises(RefusedError, match=r"error occurred on the other side"):
                        await session.receive(Settled)

    run(scene())
    assert "ZeroDivisionError" in caplog.text


def test_a_port_that_is_taken_is_named() -> None:
    async def scene() -> None:
        async with Listener("127.0.0.1:0", echo, everybody) as listener:
            with pytest.raises(LinkError, match=rf"Cannot listen on 127\.0\.0\.1:{listener.port}"):
                async with Listener(f"127.0.0.1:{listener.port}", echo, everybody):
                    pass

    run(scene())


def test_nobody_there_is_said_with_the_address() -> None:
    async def scene() -> None:
        async with Listener("127.0.0.1:0", echo, everybody) as listener:
            pass
        with pytest.raises(LinkError, match=rf"127\.0\.0\.1:{listener.port}.*refused"):
            await dial(f"127.0.0.1:{listener.port}", HELLO)

    run(scene())


def test_who_never_answers_is_given_up() -> None:
    async def silent(session: Session, _: Hello) -> None:
        await session.ended()

    async def scene() -> None:
        async with Listener("127.0.0.1:0", silent, everybody) as listener:
            with pytest.raises(LinkError, match=r"did not answer within 0.3 s"):
                await dial(f"127.0.0.1:{listener.port}", HELLO, timeout=0.3)

    run(scene())


def test_dialling_goes_on_until_somebody_is_there_and_after_every_loss(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "FIRST_PAUSE_S", 0.05)

    async def once(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))

    async def scene() -> None:
        async with Listener("127.0.0.1:0", once, everybody) as listener:
            address = f"127.0.0.1:{listener.port}"
        many = 0
        async with contextlib.AsyncExitStack() as stack:
            starting = asyncio.get_running_loop().call_later(
                0.5, lambda: asyncio.ensure_future(stack.enter_async_context(Listener(address, once, everybody)))
            )
            async with contextlib.aclosing(sessions(address, HELLO)) as dialled:
                async for joined_now in dialled:
                    assert "ended the connection" in await joined_now.session.ended()
                    many += 1
                    if many == 3:
                        break
            starting.cancel()

    run(scene())
    assert "cannot be reached (connection refused); next attempt in about 0." in caplog.text
    assert "failed to connect" not in caplog.text


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_fifty_sessions_at_once_leave_no_thread_and_no_descriptor_behind() -> None:
    async def scene() -> None:
        async with Listener("127.0.0.1:0", echo, everybody) as listener:
            counts = []
            for _ in range(4):
                open_sessions = [(await dial(f"127.0.0.1:{listener.port}", HELLO)).session for _ in range(50)]
                await asyncio.gather(*(session.send(Model(numbers(10, dtype="uint8"))) for session in open_sessions))
                await asyncio.gather(*(session.receive(ANY_MODEL) for session in open_sessions))
                await asyncio.gather(*(session.close() for session in open_sessions))
                await asyncio.sleep(0.2)
                counts.append([len(list(Path(f"/proc/self/{what}").iterdir())) for what in ("task", "fd")])
            assert counts[-1][0] <= counts[1][0] + 2  # grpc's pool of threads breathes
            assert counts[-1][1] <= counts[1][1]
            assert threading.active_count() < 20

    run(scene())


@asynccontextmanager
async def process_of(module: str, *arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of its own; it is ended by its id."""
    command = [sys.executable, "-m", f"tests.deploy.{module}", *(str(argument) for argument in arguments)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def noticed(happening: Awaitable[str]) -> str:
    """What is noticed by pings; without them it would take minutes."""
    return await asyncio.wait_for(happening, 10.0)


def test_a_peer_that_stops_answering_is_noticed_on_either_side() -> None:
    ended: asyncio.Queue[str] = asyncio.Queue()

    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        with pytest.raises(LinkError) as caught:
            await session.receive(Settled)
        ended.put_nowait(str(caught.value))

    async def a_listener_stops() -> None:
        async with process_of("peer", "listen") as process, joined(int(await line_of(process))) as session:
            process.send_signal(signal.SIGSTOP)
            assert "ping timeout" in await noticed(session.ended())
            with pytest.raises(LinkError):
                await session.receive(Settled)

    async def a_device_stops() -> None:
        async with (
            Listener("127.0.0.1:0", handler, everybody) as listener,
            process_of("peer", "dial", listener.port) as process,
        ):
            assert await line_of(process) == "joined"
            process.send_signal(signal.SIGSTOP)
            assert "127.0.0.1:" in await noticed(ended.get())

    async def scene() -> None:
        await asyncio.gather(a_listener_stops(), a_device_stops())

    run(scene())


@pytest.mark.slow
def test_a_device_that_only_computes_is_not_taken_for_dead() -> None:
    arrived: asyncio.Queue[Message] = asyncio.Queue()

    async def handler(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))
        arrived.put_nowait((await session.receive(Failed)).message)

    async def scene() -> None:
        async with (
            Listener("127.0.0.1:0", handler, everybody) as listener,
            process_of("peer", "busy", listener.port, 30),
        ):
            assert same(Failed("busy no more"), await arrived.get())

    run(scene())


@pytest.mark.slow
@pytest.mark.parametrize("mbit", [1.0, 8.0])
def test_a_slow_link_is_not_taken_for_a_dead_one(mbit: float) -> None:
    rate = mbit * 1e6 / 8

    async def scene() -> None:
        async with (
            Listener("127.0.0.1:0", echo, everybody) as listener,
            slowed(listener.port, rate) as port,
            joined(port) as session,
        ):
            message = Model(numbers(int(8 * rate), dtype="uint8"))  # eight seconds each way
            await session.send(message)
            assert same(message, (await session.receive(ANY_MODEL)).message)

    run(scene())


@pytest.mark.slow
def test_a_link_that_becomes_slow_in_the_middle_of_a_message_is_not_taken_for_a_dead_one() -> None:
    rate, fast = 2e6, 12_000_000  # [byte/s], [byte]

    async def scene() -> None:
        async with (
            Listener("127.0.0.1:0", echo, everybody) as listener,
            slowed(listener.port, rate, free=2 * fast) as port,
            joined(port) as session,
        ):
            message = Model(numbers(fast, dtype="uint8"))
            await session.send(message)
            assert same(message, (await session.receive(ANY_MODEL)).message)
            before = session._pace.chunk
            message = Model(numbers(fast + int(8 * rate), dtype="uint8"))  # the last bytes take eight seconds
            await session.send(message)
            assert session._pace.chunk < max(before, 2 * CHUNK_S * rate)
            assert same(message, (await session.receive(ANY_MODEL)).message)  # pings came through, in both directions

    run(scene())


def resident() -> int:
    """Memory of this process [byte]."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_fuzzed_frames_over_a_connection_crash_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    async def attacked(listener: Listener, session: Session, frames: int) -> int:
        """Memory after an attack during which somebody else was served."""
        async with process_of("attacker", listener.port, frames) as process:
            ended = asyncio.create_task(process.wait())
            while not ended.done():
                await session.send(Model(numbers(1000, dtype="uint8")))
                await session.receive(ANY_MODEL)
                await asyncio.sleep(0.1)
            assert await ended == 0
        return resident()

    async def scene() -> None:
        async with Listener("127.0.0.1:0", echo, everybody) as listener, joined(listener.port) as session:
            memory = await attacked(listener, session, 20_000)
            assert await attacked(listener, session, 80_000) < memory + 50_000_000

    asyncio.run(asyncio.wait_for(scene(), 900))


@pytest.mark.slow
def test_many_handshakes_at_once_do_not_crash_a_listener(plant_once: Path) -> None:
    server, device = plant_once / "server" / "base-station", plant_once / "device" / "press"

    async def scene() -> None:
        async with process_of("storm", "listen", server) as listener:
            port = await line_of(listener)
            async with (
                process_of("storm", "dial", device, port, 20) as one,
                process_of("storm", "dial", device, port, 20) as other,
            ):
                assert [*await asyncio.gather(one.wait(), other.wait())] == [0, 0]
            assert listener.returncode is None

    asyncio.run(asyncio.wait_for(scene(), 600))
