"""What the testbed asks of a network, whether of namespaces or of a proxy."""

__all__ = ["Network"]

from collections.abc import Sequence
from typing import Protocol, Self

from testbed.shaping import Rates


class Network(Protocol):
    """The hops between machines; `with` builds and removes it."""

    station_listen: str  #: HOST:PORT for `fedfloor server --listen`
    gateway_listen: str  #: HOST:PORT for `fedfloor gateway --listen`
    station_host: str  #: that gateways dial
    gateway_host: str  #: that devices dial

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def within(self, machine: str) -> Sequence[str]:
        """What a command must begin with to run on the base station (""), a gateway or a device."""

    def way_to_station(self, floor: int, port: int) -> str:
        """Address at which the gateway of a floor reaches the base station, which listens on a port."""

    def way_to_gateway(self, device: int, port: int) -> str:
        """Address at which a device reaches its gateway, which listens on a port."""

    def set_backhaul(self, floor: str, rates: Rates) -> None:
        """Shape the hop between the base station and the gateway of a floor, from now on."""

    def free_backhaul(self) -> None:
        """Remove the shaping of all hops to the base station, for machines that join."""
