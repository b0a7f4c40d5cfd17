"""How the scale of the inputs is agreed: from sums, never from samples."""

__all__ = ["added", "agreed", "checked_inputs", "checked_sums"]

from collections.abc import Sequence

import numpy as np

from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.messages import Inputs, Sums
from fedfloor.training.network import built


def checked_sums(sums: Sums, channels: int, devices: int) -> Sums:
    """The sums of another machine, if they can be those of so many channels and at most so many devices."""
    if sums.sum.shape != (channels,) or sums.square_sum.shape != (channels,) or sums.count < 1:
        raise LinkError(f"Sums: expected those of samples with {channels} channels.")
    if not 1 <= sums.devices <= devices:
        raise LinkError(f"Sums: of {sums.devices} devices, expected 1 to {devices}.")
    return sums


def checked_inputs(message: Inputs, channels: int) -> built.Inputs:
    """The scale that another machine has sent, if it is one for so many channels."""
    mean, deviation = message.mean, message.deviation
    if mean.shape != (channels,) or deviation.shape != (channels,) or not np.all(deviation > 0.0):
        raise LinkError(f"Inputs: expected the mean and the deviation of {channels} channels, all deviations above 0.")
    return built.Inputs(mean, deviation)


def added(sums: Sequence[Sums]) -> Sums:
    """The sums of several machines together."""
    return Sums(
        sum(entry.count for entry in sums),
        np.sum([entry.sum for entry in sums], axis=0),
        np.sum([entry.square_sum for entry in sums], axis=0),
        sum(entry.devices for entry in sums),
    )


def agreed(sums: Sequence[Sums]) -> built.Inputs:
    """Mean and deviation of all samples; a channel that never changes keeps its scale."""
    total = added(sums)
    mean = total.sum / total.count
    deviation = np.sqrt(np.maximum(total.square_sum / total.count - mean**2, 0.0))
    return built.Inputs(mean, np.where(deviation > 0.0, deviation, 1.0))
