"""Memory of absent floors: the last change of every floor stands in for those that do not take part."""

__all__ = ["with_absent_floors"]

import numpy as np

from fedfloor.training.aggregation.contract import Gathered, Memory, Step


def with_absent_floors(gathered: Gathered, memory: Memory, stale: float) -> Step:
    """Step by sum over S of s_m (Delta_m - b y_m) + b sum over all floors of p_m y_m; then y_m = Delta_m for S.

    S are the floors that completed the round, s_m their shares, p_m the floors' shares of all points, y_m the last
    change of a floor (0 before its first) and b is `stale`.
    """
    updates = {update.floor: update for update in gathered.updates()}
    total = gathered.change  # sum of s_m Delta_m
    for m, points in enumerate(gathered.points.tolist()):  # in this order, so that the sum is the same after a resume
        last = memory.get(_name(m))
        if last is not None:
            total += stale * (points - (updates[m].share if m in updates else 0.0)) * last.astype(np.float64)
    with np.errstate(over="ignore"):
        weights = (gathered.weights + total).astype(np.float32)
    return Step(weights, {**memory, **{_name(m): update.change for m, update in updates.items()}})


def _name(floor: int) -> str:
    """The name of a floor's last change in the memory."""
    return f"floor-{floor}"
