"""A base station, the gateway of one floor and its devices inside a test, over mutual TLS; and machines that misbehave.

The gateway's tops are in a process of their own, as always. The second floor has no gateway: tests play it.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedfloor import __version__
from fedfloor.deploy.actuators.choosing import make_actuator
from fedfloor.deploy.authority import BASE_STATION, make_authority, parties_of
from fedfloor.deploy.certificates import Role
from fedfloor.deploy.device import Device, LocalData, serve_device
from fedfloor.deploy.gateway import Gateway, serve_gateway
from fedfloor.deploy.guarding import papers_of
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.link import Joined, dial
from fedfloor.deploy.messages import Hello
from fedfloor.deploy.station import Station, StationOptions
from fedfloor.deploy.tasks import DeviceTask, FloorTask, floor_tasks
from fedfloor.rounds.plants.backhaul import FloorOrder, FloorReply, Parts
from fedfloor.runs.planned import planned_run
from fedfloor.training.network import built
from fedfloor.training.network.built import BuiltNetwork
from tests.deploy.plants import OVERRIDES

INPUTS = built.Inputs(np.array([100.0]), np.array([70.0]))
CUT = 1  #: also that of the trial
PATIENCE = 90.0  #: [s] for everything that a test waits for
Result = TypeVar("Result")
#: not closed, because calls of grpc speak to their loop when they are collected; nor collected, because that warns
_ENDED: list[asyncio.AbstractEventLoop] = []


def some_data(task: DeviceTask, count: int | None = None) -> LocalData:
    """Noise, twice as much as a batch unless said otherwise."""
    rng, count = np.random.default_rng(task.number), count or 2 * task.batch
    return LocalData(rng.integers(0, 256, (count, 1, 28, 28), np.uint8), rng.integers(0, 10, count))


class Loop:
    """An event loop in a thread, for machines that run beside a test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def start_for(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Start something that ends by itself."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def start(self, work: Coroutine[Any, Any, None]) -> Callable[[], None]:
        """Start something that runs until what this returns is called."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)

        def stop() -> None:
            future.cancel()
            with contextlib.suppress(Exception):
                self.run(asyncio.sleep(0.05))

        return stop

    def close(self) -> None:
        async def cancel() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.run(cancel())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        _ENDED.append(self._loop)


class TestFloor:
    """The first floor of the plant with its gateway; devices join when a test starts them."""

    __test__ = False

    def __init__(self, place: Path, *, devices: int = 3, tops: int = 1, more: Sequence[str] = ()) -> None:
        overrides = [*OVERRIDES, f"floors.0.devices.0.count={devices}", *more]
        scenario = planned_run("quick", "random", 1, overrides=overrides, training=True).scenario
        self.certs, self.tasks = place / "certs", floor_tasks(scenario)
        make_authority(self.certs, parties_of(scenario))
        self.task, self.other = self.tasks[0], self.tasks[1]
        self.network = BuiltNetwork(scenario.model, scenario.seed)
        self.weights = np.zeros(self.network.layout.size, np.float32)
        self.network.layout.save(self.weights)
        self.loop, self.round = Loop(), 0
        self.station = self._station(0)
        self.gateway = 0  #: port for devices
        ready = threading.Event()

        def listening(port: int) -> None:
            self.gateway = port
            ready.set()

        gateway = Gateway(
            name=self.task.floor,
            station=f"127.0.0.1:{self.station.port}",
            listen="127.0.0.1:0",
            actuator=lambda: make_actuator("log"),
            credentials=self.credentials(Role.GATEWAY, self.task.floor),
            processes=tops,
            on_listening=listening,
        )
        self._gateway = self.loop.start(serve_gateway(gateway))
        assert ready.wait(PATIENCE)
        self.station.announce(INPUTS)

    def _station(self, port: int) -> Station:
        options = StationOptions(f"127.0.0.1:{port}", self.credentials(Role.SERVER, BASE_STATION), 0.1)
        return Station(self.tasks, options).__enter__()

    def restart_station(self, tasks: tuple[FloorTask, ...]) -> None:
        """End the base station, and start one at the same address that knows nothing of the first."""
        self.station.__exit__()
        self.tasks, self.task = tasks, tasks[0]
        self.station = self._station(self.station.port)

    def credentials(self, role: Role, name: str) -> Credentials:
        return Credentials(self.certs / role / name, role)

    def start_device(
        self, place: int, count: int | None = None, *, allow_samples: bool = False, allow_gradients: bool = False
    ) -> Callable[[], None]:
        """Start a device that holds so many samples; what this returns ends it."""
        name = self.task.devices[place].name
        device = Device(
            name=name,
            gateway=f"127.0.0.1:{self.gateway}",
            data=lambda task: some_data(task, count),
            actuator=make_actuator("log"),
            credentials=self.credentials(Role.DEVICE, name),
            allow_samples=allow_samples,
            allow_gradients=allow_gradients,
        )
        return self.loop.start(serve_device(device))

    async def dial_as(self, role: Role, name: str, *, folder: Path | None = None, called: str | None = None) -> Joined:
        """Join as a machine with the certificate of one, or of another folder, under its name or another one."""
        port = self.gateway if role is Role.DEVICE else self.station.port
        credentials = Credentials(folder or self.certs / role / name, role)
        hello = Hello(str(role), called or name, __version__, "{}")
        return await dial(f"127.0.0.1:{port}", hello, papers_of(credentials))

    def there(self, floor: int = 0) -> list[bool]:
        """Which devices of a floor the base station knows to be ready."""
        tasks = self.tasks
        first = sum(len(task.devices) for task in tasks[:floor])
        return self._presence()[first : first + len(tasks[floor].devices)]

    def _presence(self) -> list[bool]:
        names = [(floor.devices, device.name) for floor in self.station._floors for device in floor.task.devices]
        return [name in there for there, name in names]

    def wait_for(self, there: list[bool], floor: int = 0) -> None:
        """Wait until just these devices of a floor are ready."""
        wait_until(lambda: self.there(floor) == there)

    def order(self, floor: int = 0, *, cut: int = CUT, deadline: float = 30.0) -> FloorOrder:
        count = len(self.tasks[floor].devices)
        return FloorOrder(
            floor, floor, 0.1, np.full(count, cut), np.full(count, 1e9), Parts(0.1, 1.0, 0.1), 1e6, 1e6, deadline
        )

    def carry_out(self, *orders: FloorOrder) -> dict[int, FloorReply]:
        """Do a round; returns what came of the orders, by floor."""
        replies = {reply.floor: reply for reply in self.station.carry_out(self.round, orders, self.weights)}
        completed = [m in replies and replies[m].model is not None for m in range(len(self.tasks))]
        self.station.settle(self.round, np.array(completed))
        self.round += 1
        return replies

    def close(self) -> None:
        self.loop.close()
        self.station.__exit__()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


@contextlib.contextmanager
def lines_of_log() -> Iterator[list[str]]:
    """What the machines say to people meanwhile."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, logger = Keep(), logging.getLogger("fedfloor")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
