"""How a hop is shaped: its rate as arguments of `tc`, and as departure times of pieces of data."""

__all__ = ["UNSHAPED", "Rates", "departure", "tbf_arguments"]

import math
from dataclasses import dataclass

_HEADERS = 66  #: [byte] of Ethernet, IPv4 and TCP with timestamps, in every packet
_PACKET = 1514  #: [byte] of the largest packet
_BURST_S = 1e-3  #: [s] of sending that a timer may wake up late
_LIMIT = 16 * 2**20  #: [byte] that may wait; more than one message, so that no packet is lost


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a hop with two ends, for what programs send: headers of TCP and below do not count."""

    down: float  #: [bit/s] towards the device; inf: as fast as the machine can
    up: float  #: [bit/s] towards the base station


UNSHAPED = Rates(math.inf, math.inf)


def tbf_arguments(rate: float) -> list[str]:
    """Arguments of `tc qdisc replace dev DEVICE root` for a rate [bit/s] without headers.

    The negative overhead takes the headers off the length of every packet. It works for single packets only, so the
    devices must not send several as one (`gso_max_segs 1`). The bucket holds two packets, or a millisecond of sending:
    what it lets pass at once is missing in the measured time.
    """
    assert 0.0 < rate < math.inf
    burst = max(2 * _PACKET, math.ceil(rate * _BURST_S / 8.0))
    stab = ["stab", "overhead", str(-_HEADERS), "linklayer", "ethernet"]
    return [*stab, "tbf", "rate", f"{round(rate)}bit", "burst", str(burst), "limit", str(_LIMIT)]


def departure(previous: float, arrived: float, size: int, rate: float) -> float:
    """When the last of `size` bytes has left a link [s], given when they arrived and when it was free before."""
    return max(previous, arrived) + 8.0 * size / rate
