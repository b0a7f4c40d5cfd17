"""How long a floor spends in each phase of its round."""

__all__ = ["PHASES", "phase_times"]

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.costs.compute import split_costs, training_time
from fedfloor.reports.arrays import RunArrays

#: of a floor's round, in this order
PHASES = ("download", "device", "gateway", "upload")


def phase_times(run: RunArrays) -> Floats:
    """Time [s] of every floor in each of PHASES, (4, T, M); 0 where not selected.

    `train_s` is the time of the slowest device. Its own part follows from its cut and speed; the rest is the gateway's.
    """
    device = np.minimum(np.where(run.train > 0.0, _device_time(run), 0.0), run.train)
    with np.errstate(invalid="ignore"):
        gateway = np.where(np.isfinite(run.train), run.train - device, np.inf)
    phases = np.stack([run.download, device, gateway, run.upload])
    return np.where(run.selected, phases, 0.0)


def _device_time(run: RunArrays) -> Floats:
    """Time [s] that the slowest device of every floor trains itself, (T, M)."""
    devices, gateways = run.plant.devices, run.plant.gateways
    cut = np.where(np.isnan(run.cut), 0.0, run.cut).astype(np.int64)  # (T, N)
    split = split_costs(run.plant.workload, cut, devices.batch)
    own_speed = devices.flops_per_cycle * devices.frequency
    gateway_speed = gateways.flops_per_cycle[devices.floor] * run.frequency
    own = training_time(split.bottom_flop, np.zeros(cut.shape), own_speed, gateway_speed)
    whole = training_time(split.bottom_flop, split.top_flop, own_speed, gateway_speed)
    whole = np.where(np.isnan(whole), -1.0, whole)
    ends = np.cumsum(devices.on_floor(gateways.count))
    times = np.zeros(run.train.shape)
    for m, (begin, end) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
        slowest = begin + whole[:, begin:end].argmax(axis=1)
        times[:, m] = own[np.arange(cut.shape[0]), slowest]
    return times
