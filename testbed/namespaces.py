"""A network of namespaces: one for every machine and one with the bridges between them; needs root, `ip` and `tc`."""

__all__ = ["Namespaces", "refuse_without_namespaces"]

import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from typing import Self

from fedfloor.errors import DeploymentError
from testbed.layout import Layout
from testbed.shaping import UNSHAPED, Rates, tbf_arguments
from testbed.sweeper import Sweeper

_BACKHAUL, _FLOOR = "10.77", "10.78"  #: networks of the base station and of every floor, the latter alike for all


def refuse_without_namespaces() -> None:
    """Refuse a user or a machine that cannot make namespaces."""
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    if missing:
        problem = f"the program {missing[0]} is missing, which makes and shapes network namespaces"
        raise DeploymentError(f"--namespaces: {problem}. Install iproute2, or use --proxy, which needs neither")
    if os.geteuid() != 0:
        problem = "only root can make network namespaces"
        raise DeploymentError(f"--namespaces: {problem}. Run as root, or use --proxy, which needs no rights")


class Namespaces:
    """Namespaces, pairs of virtual interfaces, and bridges in a namespace of their own.

    One bridge connects the base station with the gateways. Every floor has another one for its gateway and devices. The
    last interface before a machine is shaped for what it receives, and its own for what it sends.

    The sweeper removes all of it.
    """

    station_listen, station_host = f"{_BACKHAUL}.0.1:7443", f"{_BACKHAUL}.0.1"
    gateway_listen, gateway_host = f"{_FLOOR}.0.1:7444", f"{_FLOOR}.0.1"

    def __init__(self, layout: Layout, sweeper: Sweeper) -> None:
        self.prefix = f"testbed-{secrets.token_hex(4)}"  #: of all namespaces of this run
        self._layout = layout
        self._switch = f"{self.prefix}-switch"
        self._sweeper = sweeper

    def __enter__(self) -> Self:
        refuse_without_namespaces()
        self._build()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it to the sweeper, which does the same if this process is killed."""

    def within(self, machine: str) -> Sequence[str]:
        """See `Network`."""
        return ["ip", "netns", "exec", self._namespace(machine)]

    def way_to_station(self, floor: int, port: int) -> str:  # noqa: ARG002  # all floors reach it alike
        """See `Network`."""
        return f"{self.station_host}:{port}"

    def way_to_gateway(self, device: int, port: int) -> str:  # noqa: ARG002  # likewise
        """See `Network`."""
        return f"{self.gateway_host}:{port}"

    def set_backhaul(self, floor: str, rates: Rates) -> None:
        """See `Network`."""
        m = self._layout.floors.index(floor)
        _shape(self._switch, f"air-{m}", rates.down)
        _shape(self._namespace(floor), "air", rates.up)

    def free_backhaul(self) -> None:
        """See `Network`."""
        for floor in self._layout.floors:
            self.set_backhaul(floor, UNSHAPED)

    def _namespace(self, machine: str) -> str:
        names = ["", *self._layout.floors, *(device.name for device in self._layout.devices)]
        return f"{self.prefix}-{names.index(machine)}"

    def _build(self) -> None:
        self._add(self._switch)
        self._bridge("air")
        self._machine("", "air", "air-station", f"{_BACKHAUL}.0.1")
        for m, floor in enumerate(self._layout.floors):
            self._bridge(f"floor-{m}")
            self._machine(floor, "air", f"air-{m}", _address(_BACKHAUL, 2 + m))
            self._connect(floor, "floor", f"floor-{m}", f"gateway-{m}", f"{_FLOOR}.0.1")
        for n, device in enumerate(self._layout.devices):
            self._machine(device.name, f"floor-{device.floor}", f"device-{n}", _address(_FLOOR, 2 + n), "floor")
            _shape(self._switch, f"device-{n}", device.rates.down)
            _shape(self._namespace(device.name), "floor", device.rates.up)

    def _add(self, name: str) -> None:
        self._sweeper.will_be("namespace", name)
        _run("ip", "netns", "add", name)

    def _bridge(self, name: str) -> None:
        _run("ip", "-n", self._switch, "link", "add", name, "type", "bridge")
        _run("ip", "-n", self._switch, "link", "set", name, "up")

    def _machine(self, machine: str, bridge: str, port: str, address: str, interface: str = "air") -> None:
        """Add a machine that is connected with a bridge."""
        self._add(self._namespace(machine))
        _run("ip", "-n", self._namespace(machine), "link", "set", "lo", "up")
        self._connect(machine, interface, bridge, port, address)

    def _connect(self, machine: str, interface: str, bridge: str, port: str, address: str) -> None:
        """Connect an interface of a machine with a port of a bridge."""
        own, switch = self._namespace(machine), self._switch
        _run("ip", "-n", own, "link", "add", interface, "type", "veth", "peer", "name", port, "netns", switch)
        _run("ip", "-n", own, "address", "add", f"{address}/16", "dev", interface)
        _run("ip", "-n", switch, "link", "set", port, "master", bridge)
        for namespace, name in ((own, interface), (switch, port)):
            _run("ip", "-n", namespace, "link", "set", name, "gso_max_segs", "1")
            _run("ip", "-n", namespace, "link", "set", name, "up")


def _address(network: str, number: int) -> str:
    return f"{network}.{number // 256}.{number % 256}"


def _shape(namespace: str, interface: str, rate: float) -> None:
    """Shape what leaves an interface; an endless rate removes the shaping."""
    place = ["dev", interface, "root"]
    if rate == float("inf"):
        _run("tc", "-n", namespace, "qdisc", "replace", *place, "noqueue")
    else:
        _run("tc", "-n", namespace, "qdisc", "replace", *place, *tbf_arguments(rate))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        answer = " ".join(done.stderr.split()) or f"it ended with code {done.returncode}"
        raise DeploymentError(f"{' '.join(command)}: {answer}. Use --proxy if this machine cannot do it")
