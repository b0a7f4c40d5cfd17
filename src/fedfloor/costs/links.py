"""What crosses between a device and its gateway in a round, and what that costs in time and energy.

The paper lets it travel for free. Here the device receives its bottom layers at the start of the round and returns them
at the end. In every iteration it sends what its bottom puts out and receives the gradient of that. With cut 0 it has no
layers and sends its samples once per batch. Labels travel with the first tensor of a batch.
"""

__all__ = ["LinkCosts", "Links", "Traffic", "label_bits", "link_costs"]

from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints, read_only
from fedfloor.costs.precision import COUNTER_BITS


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Sizes of what a device and its gateway exchange; arrays have an entry for every cut l = 0..L."""

    values: Floats  #: (L+1,) [1] z_l, numbers per sample that cross the cut; z_0 is the sample itself, z_L is 0
    parameters_below: Floats  #: (L+1,) [1] p_l, numbers in the tensors of the first l layers
    iterations: int  #: K
    batches: int  #: batches per round: 1, or K if every iteration draws a new one
    value_bits: int = 32  #: [bit] s, of every number that crosses a cut >= 1
    tensor_bits: int = 0  #: [bit] that every tensor there has on top, for its scale
    sample_bits: int = 32  #: [bit] of every number of a sample
    batch_bits: int = 0  #: [bit] that every batch of samples has on top, for its scale
    label_bits: int = 8  #: [bit] of every label
    weight_bits_up: int = 32  #: [bit] of every weight that the device returns
    weight_bits_down: int = 32  #: [bit] of every weight that it receives
    counters_below: Floats | None = None  #: (L+1,) [1] whole numbers of the first l layers beside; None: there are none

    def __post_init__(self) -> None:
        read_only(self)

    def up_bits(self, batch: Floats) -> Floats:
        """Bits from devices with batches (N,) to their gateway in a round, for every cut, (N, L+1)."""
        bits = self._boundary(batch) + self._weights(self.weight_bits_up)
        bits[:, 0] = self.batches * (batch * self.values[0] * self.sample_bits + self.batch_bits)
        bits[:, :-1] += (self.batches * batch * self.label_bits)[:, None]  # who computes the loss needs the labels
        return bits

    def down_bits(self, batch: Floats) -> Floats:
        """Bits from the gateway to devices with batches (N,) in a round, for every cut, (N, L+1)."""
        bits = self._boundary(batch) + self._weights(self.weight_bits_down)
        bits[:, 0] = 0.0  # nothing is trained on the device
        return bits

    def _boundary(self, batch: Floats) -> Floats:
        """Bits of the tensors that cross each cut in one direction, all iterations, (N, L+1)."""
        bits = self.iterations * (batch[:, None] * self.values * self.value_bits + self.tensor_bits)
        bits[:, -1] = 0.0  # the device trains all layers
        return bits

    def _weights(self, weight_bits: int) -> Floats:
        """Bits of the first l layers in one direction, (L+1,); counters are sent as they are."""
        bits = self.parameters_below * weight_bits
        return bits if self.counters_below is None else bits + self.counters_below * COUNTER_BITS


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Links of N devices to their gateways, each array (N,)."""

    rate_up: Floats  #: [bit/s] inf: takes no time
    rate_down: Floats  #: [bit/s]
    device_up: Floats  #: [J/bit] spent by the device on what it sends
    device_down: Floats  #: [J/bit] spent by the device on what it receives
    gateway_up: Floats  #: [J/bit] spent by the gateway on what the device sends
    gateway_down: Floats  #: [J/bit] spent by the gateway on what it sends

    def __post_init__(self) -> None:
        read_only(self)


@dataclass(frozen=True, slots=True, eq=False)
class LinkCosts:
    """Time and energy of the links in a round; arrays have a row per device and a column per cut, (N, L+1)."""

    time: Floats  #: [s] sending and receiving, which add to the device's own computing
    device_energy: Floats  #: [J]
    gateway_energy: Floats  #: [J]

    def __post_init__(self) -> None:
        read_only(self)

    def minus(self, other: "LinkCosts") -> "LinkCosts":
        """The difference of two costs."""
        return LinkCosts(
            self.time - other.time,
            self.device_energy - other.device_energy,
            self.gateway_energy - other.gateway_energy,
        )

    def at(self, cut: Ints, device: Ints | None = None) -> "LinkCosts":
        """The same at the cuts (..., N) of all devices, or of the devices that are named, same shape as their cuts."""
        device = np.arange(cut.shape[-1]) if device is None else device
        return LinkCosts(self.time[device, cut], self.device_energy[device, cut], self.gateway_energy[device, cut])


def link_costs(traffic: Traffic, links: Links, batch: Floats) -> LinkCosts:
    """Time and energy of the links of devices with batches (N,), at every cut."""
    up, down = traffic.up_bits(batch), traffic.down_bits(batch)  # (N, L+1)
    return LinkCosts(
        time=up / links.rate_up[:, None] + down / links.rate_down[:, None],
        device_energy=up * links.device_up[:, None] + down * links.device_down[:, None],
        gateway_energy=up * links.gateway_up[:, None] + down * links.gateway_down[:, None],
    )


def label_bits(classes: int) -> int:
    """Bits of a label: whole bytes that can number the classes."""
    return 8 * max(1, -(-(classes - 1).bit_length() // 8))
