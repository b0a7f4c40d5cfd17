"""What a floor has learnt in a round: the mean of its devices' results, weighted by their points."""

__all__ = ["DeviceResult", "FloorResult", "floor_result"]

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fedfloor.arrays import Vector
from fedfloor.training.network.weights import average


@dataclass(frozen=True, slots=True, eq=False)
class DeviceResult:
    """What a device has learnt in a round."""

    points: float  #: [1] D~_n
    loss: float  #: [1] mean training loss
    weights: Vector  #: (P,)
    squared_loss: float = math.nan  #: [1] mean square of the losses of single samples; nan: not measured


@dataclass(frozen=True, slots=True, eq=False)
class FloorResult:
    """What a floor has learnt in a round."""

    points: float  #: [1] D_m, sum of D~_n over the devices that trained
    loss: float  #: [1] mean training loss
    rms_loss: float  #: [1] root mean square of the losses of single samples; nan: not measured
    model: Vector  #: (P,)


def floor_result(devices: Iterable[DeviceResult], size: int) -> FloorResult:
    """The result of a floor; results of devices are taken one by one, and their weights (size,) are not kept."""
    points: list[float] = []
    losses: list[float] = []
    squares: list[float] = []

    def models() -> Iterator[tuple[float, Vector]]:
        for device in devices:
            points.append(device.points)
            losses.append(device.points * device.loss)
            squares.append(device.points * device.squared_loss)
            yield device.points, device.weights

    model, total = average(models(), size), math.fsum(points)
    return FloorResult(total, math.fsum(losses) / total, math.sqrt(math.fsum(squares) / total), model)
