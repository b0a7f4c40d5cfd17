"""How long a floor spends in each phase of its round."""

__all__ = ["PHASES", "phase_times"]

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.costs.compute import split_of, training_time
from fedfloor.reports.arrays import RunArrays

#: of a floor's round, in this order
PHASES = ("download", "device", "link", "gateway", "upload")


def phase_times(run: RunArrays) -> Floats:
    """Time [s] of every floor in each of PHASES, (5, T, M); 0 where not selected.

    `train_s` is the time of the slowest device. Its own part follows from its cut and speed, and that of its link from
    its cut; the rest is the gateway's.
    """
    computing, sending = _device_times(run)
    device = np.minimum(np.where(run.train > 0.0, computing, 0.0), run.train)
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isfinite(run.train), run.train - device, np.inf)
        link = np.minimum(np.where(run.train > 0.0, sending, 0.0), rest)
        gateway = np.where(np.isfinite(rest), rest - link, np.inf)
    phases = np.stack([run.download, device, link, gateway, run.upload])
    return np.where(run.selected, phases, 0.0)


def _device_times(run: RunArrays) -> tuple[Floats, Floats]:
    """Time [s] that the slowest device of every floor computes itself, and time on its link, (T, M) each."""
    devices, gateways = run.plant.devices, run.plant.gateways
    cut = np.where(np.isnan(run.cut), 0.0, run.cut).astype(np.int64)  # (T, N)
    split = split_of(run.plant, cut)
    own_speed = devices.flops_per_cycle * devices.frequency
    gateway_speed = gateways.flops_per_cycle[devices.floor] * run.frequency
    own = training_time(split.bottom_flop, np.zeros(cut.shape), own_speed, gateway_speed)
    link = np.zeros(cut.shape) if run.plant.link_costs is None else run.plant.link_costs.at(cut).time
    whole = training_time(split.bottom_flop, split.top_flop, own_speed, gateway_speed) + link
    whole = np.where(np.isnan(whole), -1.0, whole)
    ends = np.cumsum(devices.on_floor(gateways.count))
    computing, sending = np.zeros(run.train.shape), np.zeros(run.train.shape)
    for m, (begin, end) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
        slowest = begin + whole[:, begin:end].argmax(axis=1)
        at = (np.arange(cut.shape[0]), slowest)
        computing[:, m], sending[:, m] = own[at], link[at]
    return computing, sending
