"""Least upload time for an amount of energy, in closed form except for one scalar root.

With P the power, x = P h/(B N_0 + i) and y = ln(1 + x), an upload takes c/y seconds, c = gamma ln 2 / B, and P c/y
joules. Both are monotone in P: more energy gives more power and less time. An energy e > e_min gives y by
y/(exp(y) - 1) = e_min/e, where e_min = c (B N_0 + i)/h is the energy of an endless upload.
"""

__all__ = ["Link", "best_upload", "shortest_energy", "shortest_upload", "upload_power"]

import math
from typing import NamedTuple

from fedfloor.scheduling.solver.compiling import compiled


class Link(NamedTuple):
    """Uplink of a floor on a channel."""

    scale: float  #: [s] c
    least: float  #: [J] e_min
    most_log: float  #: [1] y at the maximum power


@compiled
def _log_snr(ratio: float, spare: float) -> float:
    """Solve y/(exp(y) - 1) = ratio for y > 0, with spare = 1 - ratio in (0, 1) free of cancellation."""
    if spare < 1e-4:  # a power series, because the differences below would cancel
        return spare * (2.0 + spare * (2.0 / 3.0 + spare * (4.0 / 9.0)))
    # e^y - 1 = y e^{y/2} sinh(y/2)/(y/2) >= y e^{y/2}, so the start lies right of the root of a concave function,
    # from where Newton's steps never overshoot.
    y = -2.0 * math.log(ratio)
    for _ in range(60):
        step = (math.log1p(y / ratio) - y) / (1.0 / (ratio + y) - 1.0)
        y -= step
        if step <= 1e-14 * y:
            break
    return y


@compiled
def shortest_upload(link: Link) -> float:
    """Upload time [s] at the maximum power; inf on a dead link."""
    return link.scale / link.most_log if link.most_log > 0.0 else math.inf


@compiled
def shortest_energy(link: Link) -> float:
    """Energy [J] of an upload at the maximum power."""
    return link.least * math.expm1(link.most_log) / link.most_log


@compiled
def best_upload(energy: float, link: Link) -> tuple[float, float]:
    """Least upload time [s] with an energy [J], and its derivative [s/J]; (inf, -inf) if the energy is too small."""
    if not energy > link.least * (1.0 + 1e-12) or link.most_log <= 0.0:
        return math.inf, -math.inf
    ratio = link.least / energy
    if link.most_log / math.expm1(link.most_log) >= ratio:  # the maximum power is affordable
        return link.scale / link.most_log, 0.0
    y = _log_snr(ratio, (energy - link.least) / energy)
    # d(upload)/d(energy) = c ratio/(y^2 e) dy/d(ratio); for small y the quotient is -2 (1 + y/3)
    above = math.expm1(y)
    if y > 300.0:  # the square below would overflow, and 1 is nothing beside e^y
        slope = above / (1.0 - y)
    else:
        slope = above * above / (above - y * (above + 1.0)) if y > 1e-4 else -2.0 * (1.0 + y / 3.0)
    return link.scale / y, link.scale * ratio / (y * y * energy) * slope


@compiled
def upload_power(upload: float, link: Link) -> float:
    """Power [W] of an upload that takes a time [s]."""
    return link.least / link.scale * math.expm1(link.scale / upload)
