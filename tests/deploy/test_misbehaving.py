"""What machines of a floor survive: peers that misbehave, come late, come twice, or must not come at all."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from fedfloor.deploy import link
from fedfloor.deploy.actuators.choosing import make_actuator
from fedfloor.deploy.authority import issue, make_authority, revoke
from fedfloor.deploy.certificates import CA, CERTIFICATE, KEY, Role
from fedfloor.deploy.coding import encode
from fedfloor.deploy.crossing import activation_layout, label_layout
from fedfloor.deploy.device import Device, serve_device
from fedfloor.deploy.fields import Layout, LinkError
from fedfloor.deploy.messages import (
    Abandon,
    Begin,
    Bottom,
    Boundary,
    Expected,
    Failed,
    Gradient,
    Hello,
    Inputs,
    Message,
    Model,
    Order,
    Present,
    Profile,
    Ready,
    Received,
    Settled,
    Share,
    Sums,
    Trained,
    Turn,
    Welcome,
)
from fedfloor.deploy.session import RefusedError, Session
from fedfloor.deploy.tasks import DeviceTask, task_text
from fedfloor.deploy.wire_pb2 import Frame
from tests.conftest import known
from tests.deploy.floors import CUT, INPUTS, PATIENCE, TestFloor, lines_of_log, some_data, wait_until
from tests.deploy.programs import descendants


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestFloor]:
    """A floor with three devices, of which the first is always there."""
    made = TestFloor(tmp_path_factory.mktemp("floor"))
    stop = made.start_device(0)
    made.wait_for([True, False, False])
    yield made
    stop()
    made.close()


def test_a_floor_goes_on_with_one_of_three_devices(floor: TestFloor) -> None:
    reply = floor.carry_out(floor.order())[0]
    assert reply.took_part.tolist() == [True, False, False]
    assert reply.points == floor.task.devices[0].batch
    assert not np.array_equal(known(reply.model), floor.weights)


def test_a_device_may_join_late_leave_and_hold_less_than_a_batch(floor: TestFloor) -> None:
    stop = floor.start_device(1, count=3)
    floor.wait_for([True, True, False])
    reply = floor.carry_out(floor.order())[0]
    assert reply.took_part.tolist() == [True, True, False]
    assert reply.points == floor.task.devices[0].batch + 3
    stop()
    floor.wait_for([True, False, False])
    assert floor.carry_out(floor.order())[0].took_part.tolist() == [True, False, False]


def test_the_newest_connection_of_a_name_wins(floor: TestFloor) -> None:
    name = floor.task.devices[1].name

    async def twice() -> str:
        first = await floor.dial_as(Role.DEVICE, name)
        second = await floor.dial_as(Role.DEVICE, name)
        try:
            while True:
                await first.session.receive(Inputs, Settled, Expected(Begin, {"weights": _any(floor)}))
        except RefusedError as error:
            assert second.session.is_open
            return str(error)
        finally:
            await first.session.close()
            await second.session.close()

    assert "taken its place" in floor.loop.run(twice())
    floor.wait_for([True, False, False])


def _any(floor: TestFloor) -> Layout:
    return Layout("float32", (floor.network.layout.size,), at_most=True)


Answer = Callable[["BadDevice", Session, Turn], Coroutine[Any, Any, None]]


class BadDevice:
    """A device that does its trial well, and then answers a round as it likes."""

    def __init__(self, floor: TestFloor, place: int, answer: Answer) -> None:
        self.floor, self.name, self.answer = floor, floor.task.devices[place].name, answer
        self.task: DeviceTask = floor.task.devices[place]
        self.refused = ""

    async def serve(self) -> None:
        joined = await self.floor.dial_as(Role.DEVICE, self.name)
        session = joined.session
        try:
            await session.send(Sums(784, np.array([1.0]), np.array([1.0])))
            while True:
                envelope = await session.receive(
                    Inputs, Settled, Expected(Begin, {"weights": _any(self.floor)}), _gradient(self.floor, self.task)
                )
                message, turn = envelope.message, envelope.turn
                if isinstance(message, Inputs):
                    await session.send(Ready(None))
                elif isinstance(message, Begin) and turn.attempt == 1:
                    await session.send(self.boundary(), turn)
                    await session.receive(_gradient(self.floor, self.task), turn=turn)
                    await session.send(Bottom(0.1, None, 1, None, message.weights), turn)
                elif isinstance(message, Begin):
                    await self.answer(self, session, turn)
        except LinkError as error:
            self.refused = str(error)
        finally:
            await session.close()

    def boundary(self, count: int = 2, **changes: Any) -> Boundary:
        """What a good device would send, except for the changes."""
        layout, labels = activation_layout(self.task, self.floor.network, CUT), label_layout(self.task)
        activations = np.zeros((count, *layout.shape[1:]), layout.dtype)
        return replace(Boundary(0, None, activations, np.zeros(count, labels.dtype)), **changes)


def _gradient(floor: TestFloor, task: DeviceTask) -> Expected:
    return Expected(Gradient, {"gradient": activation_layout(task, floor.network, CUT)})


def _sends(**changes: Callable[[Boundary], Any]) -> Answer:
    async def answer(device: BadDevice, session: Session, turn: Turn) -> None:
        good = device.boundary()
        await session.send(replace(good, **{name: change(good) for name, change in changes.items()}), turn)

    return answer


async def _sends_another_message(_: BadDevice, session: Session, turn: Turn) -> None:
    await session.send(Received(), turn)


async def _sends_many_samples(device: BadDevice, session: Session, turn: Turn) -> None:
    await session.send(device.boundary(device.task.batch + 1), turn)


async def _sends_a_huge_tensor(device: BadDevice, session: Session, turn: Turn) -> None:
    with contextlib.suppress(LinkError):  # it is refused before it is sent
        await session.send(device.boundary(activations=np.zeros(2**24, np.float32)), turn)


async def _sends_a_part(device: BadDevice, session: Session, turn: Turn) -> None:
    await session._write(next(encode(device.boundary(device.task.batch), turn)))
    await session.send(Received(), turn)


async def _sends_other_weights(device: BadDevice, session: Session, turn: Turn) -> None:
    for iteration in range(device.task.local_iterations):
        labels = None if iteration else np.zeros(2, np.uint8)
        await session.send(device.boundary(iteration=iteration, labels=labels), turn)
        await session.receive(_gradient(device.floor, device.task), turn=turn)
    await session.send(Bottom(0.1, None, 2, None, np.zeros(3, np.float32)), turn)


async def _sends_nothing(_: BadDevice, __: Session, ___: Turn) -> None:
    await asyncio.sleep(0.0)


BAD_DEVICES = {
    "another shape": (_sends(activations=lambda good: good.activations[:, :1].copy()), "expected float32"),
    "another type": (_sends(activations=lambda good: good.activations.astype(np.float16)), "got float16"),
    "not a number": (_sends(activations=lambda good: good.activations * np.nan), "not finite"),
    "more than a batch": (_sends_many_samples, "expected float32"),
    "oversize": (_sends_a_huge_tensor, "got float32 of 16777216"),
    "truncated": (_sends_a_part, "truncated"),
    "endless loss": (_sends(activations=lambda good: good.activations + np.float32(3e38)), "not finite"),
    "no such class": (_sends(labels=lambda good: known(good.labels) + 77), "labels must be 0 to 9"),
    "too few labels": (_sends(labels=lambda good: known(good.labels)[:1]), "must be"),
    "another iteration": (_sends(iteration=lambda _: 3), "iteration 3 instead of 0"),
    "another message": (_sends_another_message, "not expected here"),
    "weights of another network": (_sends_other_weights, "Bottom.weights"),
    "nothing": (_sends_nothing, "not done within"),
}


@pytest.mark.parametrize("kind", BAD_DEVICES)
def test_a_device_that_misbehaves_is_left_out_and_the_others_complete_the_round(floor: TestFloor, kind: str) -> None:
    answer, words = BAD_DEVICES[kind]
    bad = BadDevice(floor, 1, answer)
    with lines_of_log() as lines:
        stop = floor.loop.start(bad.serve())
        floor.wait_for([True, True, False])
        reply = floor.carry_out(floor.order(deadline=3.0 if kind == "nothing" else 30.0))[0]
        stop()
        floor.wait_for([True, False, False])
    assert reply.model is not None, reply.reason
    assert reply.took_part.tolist() == [True, False, False]
    assert any(f"{bad.name} is left out" in line and words in line for line in lines), lines


class BadGateway:
    """The gateway of the second floor, which answers an order as it likes."""

    def __init__(self, floor: TestFloor, trained: Trained, model: Message, times: int = 1) -> None:
        self.floor, self.trained, self.model, self.times = floor, trained, model, times

    async def serve(self) -> None:
        joined = await self.floor.dial_as(Role.GATEWAY, self.floor.other.floor)
        session = joined.session
        try:
            await session.send(Ready(None, tuple(Present(device.name, None) for device in self.floor.other.devices)))
            while True:
                layout = Layout("float32", (self.floor.network.layout.size,))
                envelope = await session.receive(Inputs, Settled, Abandon, Expected(Order, {"weights": layout}))
                if isinstance(envelope.message, Order):
                    await session.send(Received(), envelope.turn)
                    await session.send(self.trained, envelope.turn)
                    for _ in range(self.times):
                        await self.send_model(session, envelope.turn)
        finally:
            await session.close()

    async def send_model(self, session: Session, turn: Turn) -> None:
        await session.send(self.model, turn)


class HalfGateway(BadGateway):
    """Sends a part of its model, and then another message."""

    async def send_model(self, session: Session, turn: Turn) -> None:
        await session._write(next(encode(self.model, turn)))
        await session.send(Received(), turn)


def _trained(floor: TestFloor, **changes: Any) -> Trained:
    shares = tuple(Share(device.name, 0.1, 0.1, None) for device in floor.other.devices)
    return replace(Trained(2.3, 2.0, None, shares), **changes)


BAD_GATEWAYS: dict[str, tuple[Callable[[TestFloor], BadGateway], str]] = {
    "another shape": (
        lambda floor: BadGateway(floor, _trained(floor), Model(floor.weights[1:])), "Model.weights: expected float32"
    ),
    "another type": (
        lambda floor: BadGateway(floor, _trained(floor), Model(floor.weights.astype(np.float16))), "got float16"
    ),
    "not a number": (lambda floor: BadGateway(floor, _trained(floor), Model(floor.weights * np.nan)), "not finite"),
    "oversize": (
        lambda floor: BadGateway(floor, _trained(floor), Model(np.zeros(2**24, np.float32))), "got float32 of 16777216"
    ),
    "truncated": (lambda floor: HalfGateway(floor, _trained(floor), Model(floor.weights)), "truncated"),
    "no loss": (lambda floor: BadGateway(floor, _trained(floor, loss=np.nan), Model(floor.weights)), "Trained.loss"),
    "more points than a batch": (
        lambda floor: BadGateway(floor, _trained(floor, points=1e9), Model(floor.weights)), "trained with 1e+09 samples"
    ),
    "no model": (lambda floor: BadGateway(floor, _trained(floor), Received()), "Received came instead of Model"),
    "nothing": (lambda floor: BadGateway(floor, _trained(floor), Received(), 0), "no answer within its deadline"),
}  # fmt: skip


REFUSED_AT_ONCE = ("another shape", "another type", "not a number", "oversize", "truncated", "no loss")


@pytest.mark.parametrize("kind", BAD_GATEWAYS)
def test_a_gateway_that_misbehaves_is_lost_and_the_others_complete_the_round(floor: TestFloor, kind: str) -> None:
    make, words = BAD_GATEWAYS[kind]
    with lines_of_log() as lines:
        stop = floor.loop.start(make(floor).serve())
        floor.wait_for([True, True], floor=1)
        replies = floor.carry_out(floor.order(), floor.order(1, deadline=1.0 if kind == "nothing" else 30.0))
        stop()
        floor.wait_for([False, False], floor=1)
    assert replies[0].model is not None, replies[0].reason
    assert replies[1].model is None
    assert words in replies[1].reason  # which the base station's log says with the round
    if kind in REFUSED_AT_ONCE:
        assert any(line.startswith("Refused a message") and words in line for line in lines), lines


def test_messages_that_nobody_waits_for_do_not_pile_up(floor: TestFloor) -> None:
    flood = BadGateway(floor, _trained(floor), Trained(1.0, 1.0, None, ()), 5000)
    with lines_of_log() as lines:
        stop = floor.loop.start(flood.serve())
        floor.wait_for([True, True], floor=1)
        replies = floor.carry_out(floor.order(), floor.order(1))
        stop()
        floor.wait_for([False, False], floor=1)
    assert replies[0].model is not None, replies[0].reason
    assert replies[1].model is None
    assert not any("mistake in this program" in line for line in lines)


def test_late_replies_of_a_round_are_dropped(floor: TestFloor) -> None:
    ready = Ready(None, tuple(Present(device.name, None) for device in floor.other.devices))

    async def late() -> None:
        session, orders = (await floor.dial_as(Role.GATEWAY, floor.other.floor)).session, list[Turn]()
        try:
            await session.send(ready)
            while True:
                layout = Layout("float32", (floor.network.layout.size,))
                envelope = await session.receive(Inputs, Settled, Abandon, Expected(Order, {"weights": layout}))
                orders += [envelope.turn] if isinstance(envelope.message, Order) else []
                if len(orders) == 2:
                    for turn, loss in zip(orders, (7.0, 1.0), strict=True):
                        await session.send(Received(), turn)
                        await session.send(_trained(floor, loss=loss), turn)
                        await session.send(Model(floor.weights), turn)
                    orders.clear()
        finally:
            await session.close()

    stop = floor.loop.start(late())
    floor.wait_for([True, True], floor=1)
    assert floor.carry_out(floor.order(1, deadline=0.5))[1].model is None
    reply = floor.carry_out(floor.order(1))[1]
    assert reply.model is not None, reply.reason
    assert reply.loss == 1.0
    stop()
    floor.wait_for([False, False], floor=1)


async def _refusal_of_another_version(floor: TestFloor, papers: link.Papers, hello: Hello) -> str:
    credentials = grpc.ssl_channel_credentials(papers.ca, papers.key, papers.certificate)
    async with grpc.aio.secure_channel(f"127.0.0.1:{floor.gateway}", credentials) as channel:
        call = channel.stream_stream(f"/{link.SERVICE}/{link.METHOD}")()
        frame = Frame.FromString(next(encode(hello, Turn())))
        frame.protocol = 9
        await call.write(frame.SerializeToString())
        answer: str = Frame.FromString(await call.read()).refused.reason
        return answer


UNPROVED = "proved no certificate of this plant"
STRANGERS = {
    "no certificate": UNPROVED,
    "foreign CA": UNPROVED,
    "expired": UNPROVED,
    "revoked": "was revoked on",
    "another device's name": "is not for the name",
    "wrong role": "a gateway was expected, got a 'device'",
    "role of another": "is for a device, not for a gateway",
    "device of another floor": "has no device",
    "another version": "speaks protocol 9",
}  #: who must not join, and a part of the log line that says why


def _of_stranger(floor: TestFloor, kind: str, place: Path) -> tuple[link.Papers, Hello, int]:
    """What a stranger proves, what it says, and the port that it dials."""
    own, other = (device.name for device in floor.task.devices[:2])
    station, certs, name, role, said = floor.station.port, floor.certs, kind.replace(" ", "-"), "device", own
    ca = (certs / "device" / own / CA).read_bytes()
    if kind == "no certificate":
        return link.Papers(b"", b"", ca), Hello("device", own, "", "{}"), floor.gateway
    if kind == "foreign CA":
        certs, name = place, own
        make_authority(place, [(Role.DEVICE, own)])
    elif kind == "expired":
        issue(certs, Role.DEVICE, name, days=30, now=datetime.now(UTC) - timedelta(days=100))
    elif kind == "revoked":
        issue(certs, Role.DEVICE, name)
        revoke(certs, name, role=Role.DEVICE)
        said = name
    elif kind == "device of another floor":
        name = said = floor.other.devices[0].name
    elif kind == "role of another":
        name, role, said = own, "gateway", floor.other.floor
    else:
        name, said = own, other if kind == "another device's name" else own
    folder = certs / "device" / name
    papers = link.Papers((folder / CERTIFICATE).read_bytes(), (folder / KEY).read_bytes(), ca)
    return papers, Hello(role, said, "", "{}"), station if "role" in kind else floor.gateway


@pytest.mark.parametrize("kind", STRANGERS)
def test_who_must_not_join_is_refused_with_a_line_and_the_round_is_not_disturbed(
    floor: TestFloor, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "GREETING_S", 1.0)  # so that a handshake that failed is said soon
    papers, hello, port = _of_stranger(floor, kind, tmp_path / "foreign")

    async def refusal() -> str:
        if kind == "another version":
            return await _refusal_of_another_version(floor, papers, hello)
        with pytest.raises(LinkError) as caught:
            await link.dial(f"127.0.0.1:{port}", hello, lambda: papers, timeout=10.0)
        return str(caught.value)

    with lines_of_log() as lines:
        answer = floor.loop.start_for(refusal())
        reply = floor.carry_out(floor.order())[0]
        reason = answer.result(PATIENCE)
        wait_until(lambda: any(line.startswith("Refused") and STRANGERS[kind] in line for line in lines))
    assert reply.took_part.tolist() == [True, False, False]
    assert STRANGERS[kind] in reason or STRANGERS[kind] == UNPROVED


def test_a_device_that_is_revoked_while_it_is_connected_is_sent_away_after_the_round(floor: TestFloor) -> None:
    name, stop = floor.task.devices[2].name, floor.start_device(2)
    floor.wait_for([True, False, True])
    revoke(floor.certs, name, role=Role.DEVICE)
    with lines_of_log() as lines:
        assert floor.carry_out(floor.order())[0].took_part.tolist() == [True, False, True]
        floor.wait_for([True, False, False])
        assert floor.carry_out(floor.order())[0].took_part.tolist() == [True, False, False]
    stop()
    assert any(line.startswith(f"Refused {name}") and "revoked" in line for line in lines)


def test_a_floor_follows_a_base_station_that_begins_anew_and_one_with_another_scenario(floor: TestFloor) -> None:
    tasks = floor.tasks
    slower = [device.model_copy(update={"learning_rate": 0.01}) for device in floor.task.devices]
    other = (floor.task.model_copy(update={"devices": tuple(slower)}), tasks[1])
    for each in (tasks, other, tasks):
        floor.restart_station(each)
        wait_until(lambda: floor.station._floors[0].described == 1)
        floor.station.announce(floor.station.agree())
        floor.wait_for([True, False, False])
        assert floor.carry_out(floor.order())[0].took_part.tolist() == [True, False, False]


def test_a_device_sends_no_samples_unless_its_owner_allows_it(floor: TestFloor) -> None:
    task = floor.task.devices[0].model_copy(update={"min_cut": 0})
    answers: list[Message] = []

    async def curious(session: Session, _: Hello) -> None:
        await session.send(Welcome(task_text(task)))
        await session.receive(Profile)
        await session.receive(Sums)
        await session.send(Inputs(INPUTS.mean, INPUTS.deviation))
        await session.receive(Ready)
        await session.send(Begin(0, 1, 1e9, 0.1, 10.0, np.zeros(0, np.float32)), Turn(0, 2))
        boundary = {"activations": activation_layout(task, floor.network, 0), "labels": label_layout(task)}
        answers.append((await session.receive(Failed, Expected(Boundary, boundary))).message)

    async def ask(*, allow_samples: bool) -> None:
        async with link.Listener("127.0.0.1:0", curious, lambda *_: "") as door:
            device = Device(
                name=task.name,
                gateway=f"127.0.0.1:{door.port}",
                data=some_data,
                actuator=make_actuator("log"),
                credentials=None,
                allow_samples=allow_samples,
            )
            serving = asyncio.create_task(serve_device(device))
            while not answers:
                await asyncio.sleep(0.02)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    floor.loop.run(ask(allow_samples=False))
    (answer,) = answers
    assert isinstance(answer, Failed)
    assert "--allow-samples" in answer.reason
    answers.clear()
    floor.loop.run(ask(allow_samples=True))
    assert isinstance(answers[0], Boundary)


@pytest.mark.slow
def test_fifty_devices_in_one_process_leave_nothing_behind_in_twenty_rounds(tmp_path: Path) -> None:
    floor = TestFloor(tmp_path, devices=50)
    try:
        for place in range(50):
            floor.start_device(place)
        floor.wait_for([True] * 50)
        sizes = []
        for _ in range(25):
            assert floor.carry_out(floor.order(deadline=120.0))[0].took_part.all()
            sizes.append(_footprint())
        memory, threads, descriptors = zip(*sizes, strict=True)
        assert memory[-1] <= 1.05 * memory[4], memory
        assert threads[-1] <= threads[4], threads
        assert max(descriptors[-10:]) <= max(descriptors[:10]), descriptors
    finally:
        floor.close()


def _footprint() -> tuple[int, int, int]:
    """Memory [kB] of this process and those that it has started, and the threads and open descriptors of this one."""
    numbers = [os.getpid(), *descendants(os.getpid())]
    texts = [Path(f"/proc/{number}/status").read_text() for number in numbers]
    memory = sum(int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith("VmRSS"))
    return memory, threading.active_count(), len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # of this moment
