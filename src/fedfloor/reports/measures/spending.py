"""Where the time and the energy of a floor's round go, and where networks are cut."""

__all__ = [
    "PHASES",
    "SPENDERS",
    "Cuts",
    "Split",
    "Timeline",
    "cuts",
    "energy_split",
    "phase_times",
    "time_split",
    "timeline",
]

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.compute import floor_sum, split_costs, training_time
from fedfloor.costs.radio import upload_energy
from fedfloor.reports.arrays import RunArrays, SeriesArrays
from fedfloor.reports.measures.seeds import floors_of, mean_known

#: a floor's round, in this order
PHASES = ("download", "device", "gateway", "upload")
#: who spends a floor's energy
SPENDERS = ("devices", "gateway computing", "gateway transmitting")


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Where a floor's round goes, mean over the rounds in which it was picked; nan for floors that never were."""

    floors: tuple[str, ...]
    parts: tuple[str, ...]  #: (K,) PHASES or SPENDERS
    values: Floats  #: (K, M) [s] or [J]
    picked: Ints  #: (M,) floor-rounds behind the mean


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """One round of the floors that were picked, from the start of the round."""

    round: int  #: from 1
    floors: tuple[str, ...]  #: (P,)
    channel: tuple[int | None, ...]  #: (P,)
    failure: tuple[str | None, ...]  #: (P,)
    end: Floats  #: (4, P) [s] of each of PHASES


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """How many layers stay on each device."""

    devices: tuple[str, ...]
    rounds: Ints  #: (T,) from 1
    cut: Floats  #: (N, T) nan where the floor was not picked
    mean: Floats  #: (N,) over the rounds in which it was; nan if it never was


def phase_times(run: RunArrays) -> Floats:
    """Time [s] of every floor in each of PHASES, (4, T, M); 0 where not picked.

    `train_s` is the slowest device's: its own part follows from its cut and speed, the rest is its gateway's.
    """
    device = np.minimum(np.where(run.train > 0.0, _device_part(run), 0.0), run.train)
    with np.errstate(invalid="ignore"):
        gateway = np.where(np.isfinite(run.train), run.train - device, np.inf)
    phases = np.stack([run.download, device, gateway, run.upload])
    return np.where(run.selected, phases, 0.0)


def time_split(series: SeriesArrays) -> Split:
    """Where a round's time goes [s], floor by floor."""
    return _split(series, PHASES, phase_times)


def energy_split(series: SeriesArrays) -> Split:
    """Where a round's energy goes [J], floor by floor; a gateway that ran out is taken to have sent first."""
    return _split(series, SPENDERS, _energies)


def timeline(run: RunArrays, index: int, phases: Floats | None = None) -> Timeline:
    """The phases of one round, index from 0, for `phase_times(run)`."""
    times = (phase_times(run) if phases is None else phases)[:, index]
    picked = np.flatnonzero(run.selected[index])
    end = np.cumsum(times[:, picked], axis=0)
    entries = [run.run.records[index].gateways[m] for m in picked]
    return Timeline(
        round=int(run.rounds[index]),
        floors=tuple(run.floors[m] for m in picked),
        channel=tuple(entry.channel for entry in entries),
        failure=tuple(entry.failure for entry in entries),
        end=end,
    )


def cuts(run: RunArrays) -> Cuts:
    """Cut of every device in every round."""
    return Cuts(run.devices, run.rounds, run.cut.T, mean_known(run.cut, ~np.isnan(run.cut)))


def _device_part(run: RunArrays) -> Floats:
    """The slowest device's own part of the training time [s], (T, M)."""
    devices, gateways = run.plant.devices, run.plant.gateways
    cut = np.where(np.isnan(run.cut), 0.0, run.cut).astype(np.int64)  # (T, N)
    split = split_costs(run.plant.workload, cut, devices.batch)
    own_speed = devices.flops_per_cycle * devices.frequency
    gateway_speed = gateways.flops_per_cycle[devices.floor] * run.frequency
    own = training_time(split.bottom_flop, np.zeros(cut.shape), own_speed, gateway_speed)
    whole = training_time(split.bottom_flop, split.top_flop, own_speed, gateway_speed)
    whole = np.where(np.isnan(whole), -1.0, whole)
    ends = np.cumsum(devices.on_floor(gateways.count))
    parts = np.zeros(run.train.shape)
    for m, (begin, end) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
        slowest = begin + whole[:, begin:end].argmax(axis=1)
        parts[:, m] = own[np.arange(cut.shape[0]), slowest]
    return parts


def _energies(run: RunArrays) -> Floats:
    """Energy [J] of every floor by SPENDERS, (3, T, M); 0 where not picked."""
    floors = run.plant.gateways.count
    spent = np.nan_to_num(run.device_energy)
    devices = np.stack([floor_sum(row, run.plant.devices.floor, floors) for row in spent])
    gateway = np.nan_to_num(run.energy)
    sent = np.isfinite(run.power) & np.isfinite(run.upload)
    on_air = upload_energy(np.where(sent, run.power, 0.0), np.where(sent, run.upload, 0.0))
    on_air = np.minimum(on_air, gateway)
    return np.stack([devices, np.asarray(gateway - on_air), np.asarray(on_air)])


def _split(series: SeriesArrays, parts: tuple[str, ...], of_run: Callable[[RunArrays], Floats]) -> Split:
    floors = floors_of(series)
    place = {name: index for index, name in enumerate(floors)}
    total, picked = np.zeros((len(parts), len(floors))), np.zeros(len(floors), dtype=np.int64)
    for run in series.runs:
        at = [place[name] for name in run.floors]
        total[:, at] += np.where(run.selected, of_run(run), 0.0).sum(axis=1)
        picked[at] += run.selected.sum(axis=0)
    mean = np.divide(total, picked, out=np.full(total.shape, np.nan), where=picked > 0)
    return Split(floors, parts, mean, picked)
