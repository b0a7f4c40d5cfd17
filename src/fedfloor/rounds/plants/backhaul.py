"""What a plant of real machines asks of a network: orders and replies, presence, surveys, and the way to the floors.

A test can drive the plant with a `Backhaul` that has no network at all.
"""

__all__ = [
    "Backhaul",
    "FloorComparison",
    "FloorOrder",
    "FloorReply",
    "FloorSurvey",
    "Parts",
    "Presence",
    "lost_reply",
]

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints, Vector


@dataclass(frozen=True, slots=True)
class Parts:
    """How long the parts of a floor's round take; 0 for what never happened."""

    download: float = 0.0  #: [s]
    train: float = 0.0  #: [s]
    upload: float = 0.0  #: [s]

    @property
    def total(self) -> float:
        """The whole round of the floor [s]."""
        return self.download + self.train + self.upload


@dataclass(frozen=True, slots=True, eq=False)
class FloorOrder:
    """What the base station asks of the gateway of a floor that was selected."""

    floor: int  #: m
    channel: int  #: j
    power: float  #: [W] P_m
    cut: Ints  #: (n_m,) [1] l_n of the floor's devices
    frequency: Floats  #: (n_m,) [Hz] f_{m,n}
    predicted: Parts  #: by the cost model, with all devices of the floor
    download_rate: float  #: [bit/s] that the prediction rests on
    upload_rate: float  #: [bit/s]
    deadline: float  #: [s] after which the floor is lost
    iterations: int | None = None  #: [1] K_m; None: K


@dataclass(frozen=True, slots=True, eq=False)
class FloorReply:
    """What came of an order."""

    floor: int  #: m
    model: Vector | None  #: (P,) the floor's model, or its update if the precision asks for one; None: lost
    points: float  #: [1] sum of D~_n over the devices that took part
    loss: float  #: [1] their mean training loss
    took_part: Bools  #: (n_m,) devices whose work is in the model
    seconds: Parts  #: measured; those of a lost floor add up to how long the round waited for it
    gateway_energy: float | None = None  #: [J] measured; None: by the cost model
    device_energy: Floats | None = None  #: (n_m,) [J] measured, nan where it was not; None: by the cost model
    link_time: Floats | None = None  #: (n_m,) [s] measured on the devices' links; None: by the cost model
    reason: str = ""  #: why it was lost, for people


@dataclass(frozen=True, slots=True, eq=False)
class Presence:
    """Which machines are there at the start of a round, and the energy that they report."""

    floors: Bools  #: (M,) the gateway is there
    devices: Bools  #: (N,)
    gateway_energy: Floats  #: (M,) [J] for the round; nan: not reported
    device_energy: Floats  #: (N,) [J] likewise


@dataclass(frozen=True, slots=True, eq=False)
class FloorSurvey:
    """What the devices of a floor found of their gradients, each array (n_m,); nan for those that did not answer."""

    floor: int  #: m
    gradient: Vector  #: (P,) mean over the samples of the devices that answered
    samples: Floats  #: [1] D_n
    sigma: Floats  #: spread of the gradients of a device's samples
    norm: Floats  #: of the device's gradient
    smoothness: Floats  #: along the device's own gradient


@dataclass(frozen=True, slots=True, eq=False)
class FloorComparison:
    """Gradients of a floor's devices beside the mean of all, each array (n_m,); nan for those that did not answer."""

    floor: int  #: m
    delta: Floats  #: distance from the mean
    smoothness: Floats  #: along the mean


class Backhaul(Protocol):
    """The way to the floors."""

    def observe(self) -> Presence:
        """Who is there now."""

    def carry_out(self, index: int, orders: Sequence[FloorOrder], weights: Vector) -> Iterator[FloorReply]:
        """Give a round's orders and the weights (P,) to the floors; replies as they end.

        Every order gets a reply by its deadline.
        """

    def survey(self, index: int, weights: Vector, samples: int, deadline: float) -> Sequence[FloorSurvey]:
        """Gradients at the weights (P,), of at most so many samples per device, of floors that answer in time [s]."""

    def compare(self, index: int, gradient: Vector, deadline: float) -> Sequence[FloorComparison]:
        """What was surveyed in the round, beside the mean gradient (P,), of floors that answer in time [s]."""

    def settle(self, index: int, completed: Bools) -> None:
        """Tell the floors that a round is over, and which of them (M,) completed it."""


def lost_reply(order: FloorOrder, waited: Parts, reason: str) -> FloorReply:
    """The reply recorded for an order that was not carried out."""
    return FloorReply(order.floor, None, 0.0, math.nan, np.zeros(order.cut.size, bool), waited, reason=reason)
