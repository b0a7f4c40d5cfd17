"""Runs -> the arrays that figures show: the one home of these computations, for pictures and page alike.

`lay_out(collection)` reads every log once; everything else is a pure function of what it returns. Unknown is nan,
endless is inf.
"""

__all__ = [
    "PHASES",
    "SPENDERS",
    "Curve",
    "Cuts",
    "DataHeld",
    "Divergence",
    "Failures",
    "Participation",
    "PlantMap",
    "Rates",
    "RunArrays",
    "SeriesArrays",
    "Split",
    "Timeline",
    "Tradeoff",
    "accuracy_over_rounds",
    "accuracy_over_time",
    "cuts",
    "data_held",
    "delay_over_rounds",
    "divergence",
    "energy_split",
    "failures",
    "lay_out",
    "lay_out_run",
    "participation",
    "phase_times",
    "plant_map",
    "rates",
    "time_split",
    "timeline",
    "tradeoffs",
]

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.costs.compute import floor_sum, split_costs, training_time
from fedfloor.costs.radio import upload_energy
from fedfloor.errors import FedfloorError
from fedfloor.participation import participation_rates
from fedfloor.reporting.arrays import RunArrays, SeriesArrays, column_of, lay_out, lay_out_run
from fedfloor.reporting.reading import Collection
from fedfloor.scenario import Scenario
from fedfloor.scheduling.registry import parse_policy

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: a floor's round, in this order
PHASES = ("download", "device", "gateway", "upload")
#: who spends a floor's energy
SPENDERS = ("devices", "gateway computing", "gateway transmitting")
_RING = 8  #: devices that stand in one circle around their gateway; more fill a disc


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A line with its band over seeds, each array (X,)."""

    x: Floats
    mean: Floats
    low: Floats  #: least over the runs
    high: Floats  #: greatest over the runs
    runs: Ints  #: how many runs got this far


@dataclass(frozen=True, slots=True, eq=False)
class Participation:
    """How often floors took part, mean over seeds, each array (M,)."""

    floors: tuple[str, ...]
    target: Floats  #: [1]
    selected: Floats  #: [1] share of rounds
    achieved: Floats  #: [1] share of rounds whose model was averaged


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Participation rates from the bound and from what was observed (paper Fig. 2), mean over seeds, each (M,)."""

    floors: tuple[str, ...]
    derived: Floats  #: [1]
    observed: Floats  #: [1]
    observations: int  #: rounds that were observed, all runs


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """Theorem 1: bound and measurement of every floor in every observed round, each array (P,)."""

    floors: tuple[str, ...]  #: (M,)
    floor: Ints  #: index into floors
    round: Ints  #: from 1
    seed: Ints
    measured: Floats
    bound: Floats

    @property
    def broken(self) -> int:
        """How often a measurement is above its bound."""
        return int(np.sum(self.measured > self.bound))


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
    start: Floats  #: (4, P) [s] of each of PHASES
    end: Floats  #: (4, P) [s]


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """How many layers stay on each device."""

    devices: tuple[str, ...]
    rounds: Ints  #: (T,) from 1
    cut: Floats  #: (N, T) nan where the floor was not picked
    mean: Floats  #: (N,) over the rounds in which it was; nan if it never was


@dataclass(frozen=True, slots=True, eq=False)
class Failures:
    """Floor-rounds that failed, all runs of a series."""

    counts: Mapping[str, int]  #: by cause
    selected: int  #: floor-rounds that were picked


@dataclass(frozen=True, slots=True, eq=False)
class Tradeoff:
    """Delay and participation over V, each array (X,), V ascending."""

    name: str
    v: Floats
    delay: Floats  #: [s] mean of the rounds
    shortfall: Floats  #: [1] worst of the floors
    delay_bound: Floats  #: [s] nan where there is none
    shortfall_bound: Floats  #: [1] nan where there is none
    labels: tuple[str, ...] = ()  #: (X,) series behind each point, where it is of these runs


@dataclass(frozen=True, slots=True, eq=False)
class DataHeld:
    """Who holds which data."""

    devices: tuple[str, ...]
    floors: tuple[str, ...]  #: of each device
    counts: Ints  #: (N, C) samples of each class


@dataclass(frozen=True, slots=True, eq=False)
class PlantMap:
    """Where things stand [m], the base station at (0, 0): true distances, angles made up."""

    floors: tuple[str, ...]
    floor_xy: Floats  #: (M, 2)
    distance: Floats  #: (M,)
    devices: tuple[str, ...]
    device_xy: Floats  #: (N, 2)
    floor_of: Ints  #: (N,)


def accuracy_over_rounds(series: SeriesArrays) -> Curve | None:
    """Test accuracy against rounds; None without training."""
    points = [_tested(run, run.rounds.astype(float)) for run in series.runs]
    grid = np.unique(np.concatenate([x for x, _ in points]))
    if grid.size == 0:
        return None
    values = np.full((len(points), grid.size), np.nan)
    for row, (x, y) in zip(values, points, strict=True):
        row[np.searchsorted(grid, x)] = y
    return _band(grid, values)


def accuracy_over_time(series: SeriesArrays, points: int = 400) -> Curve | None:
    """Test accuracy against simulated time [s]; None if nothing was tested.

    Every run keeps its last tested value, an unfinished one as far as it has come; the curve begins with the last to
    be tested.
    """
    runs = [run for run in series.runs if _tested(run, run.clock)[0].size]
    if not runs:
        return None
    tested = [_tested(run, run.clock) for run in runs]
    ends = [math.inf if run.run.finished else float(run.clock[-1]) for run in runs]
    last = [float(run.clock[-1]) for run in runs if run.clock[-1] < math.inf]
    grid = np.unique(np.concatenate([*(x for x, _ in tested), last]))
    grid = grid[grid >= max(x[0] for x, _ in tested)]
    if grid.size > points:
        grid = np.linspace(grid[0], grid[-1], points)
    values = np.full((len(tested), grid.size), np.nan)
    for row, (x, y), end in zip(values, tested, ends, strict=True):
        known = grid <= end
        row[known] = y[np.searchsorted(x, grid[known], side="right") - 1]
    return _band(grid, values)


def delay_over_rounds(series: SeriesArrays) -> Curve:
    """Simulated time [s] that rounds have taken together."""
    longest = max((run.rounds for run in series.runs), key=len)
    values = np.full((len(series.runs), longest.size), np.nan)
    for row, run in zip(values, series.runs, strict=True):
        row[: run.clock.size] = run.clock
    return _band(longest.astype(float), values)


def participation(series: SeriesArrays) -> Participation:
    """Achieved and wanted participation of every floor."""
    floors = _floors_of(series)
    return Participation(
        floors,
        target=_over_seeds(series, floors, lambda run: run.target.mean(axis=0)),
        selected=_over_seeds(series, floors, lambda run: run.selected.mean(axis=0)),
        achieved=_over_seeds(series, floors, lambda run: run.completed.mean(axis=0)),
    )


def rates(series: SeriesArrays) -> Rates | None:
    """Rates as derived and as they would follow from the observed divergence, Eq. (13) both; None if none was seen."""
    seen = SeriesArrays(series.label, tuple(run for run in series.runs if _observed(run).size))
    if not seen.runs:
        return None
    floors = _floors_of(seen)
    return Rates(
        floors,
        derived=_over_seeds(seen, floors, lambda run: run.target.mean(axis=0)),
        observed=_over_seeds(seen, floors, _observed_rates),
        observations=sum(_observed(run).size for run in seen.runs),
    )


def divergence(series: SeriesArrays) -> Divergence | None:
    """Theorem 1's bound beside what was measured; None if nothing was, or no bound is known."""
    floors = _floors_of(series)
    found: list[Floats] = []
    for run in series.runs:
        t, m = np.nonzero(np.isfinite(run.divergence) & np.isfinite(run.bound))
        index = np.array([floors.index(name) for name in run.floors])
        seed = np.full(t.size, run.run.scenario.seed)
        found.append(np.stack([index[m], run.rounds[t], seed, run.divergence[t, m], run.bound[t, m]]))
    floor, rounds, seeds, measured, bound = np.concatenate(found, axis=1)
    if measured.size == 0:
        return None
    return Divergence(floors, floor.astype(int), rounds.astype(int), seeds.astype(int), measured, bound)


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
    entries = [run.run.records[index]["gateways"][m] for m in picked]
    return Timeline(
        round=int(run.rounds[index]),
        floors=tuple(run.floors[m] for m in picked),
        channel=tuple(entry.get("channel") for entry in entries),
        failure=tuple(entry["failure"] for entry in entries),
        start=np.concatenate([np.zeros((1, picked.size)), end[:-1]]),
        end=end,
    )


def cuts(run: RunArrays) -> Cuts:
    """Cut of every device in every round."""
    return Cuts(run.devices, run.rounds, run.cut.T, _mean(run.cut, ~np.isnan(run.cut)))


def failures(series: SeriesArrays) -> Failures:
    """What went wrong, by cause, most frequent first."""
    counts: Counter[str] = Counter()
    for run in series.runs:
        counts.update(run.run.summary.failures)
    return Failures(dict(counts.most_common()), sum(int(run.selected.sum()) for run in series.runs))


def tradeoffs(collection: Collection) -> tuple[Tradeoff, ...]:
    """Delay and participation over V: as measured by `fedfloor tradeoff`, and of ddsra runs with several V."""
    points_of = [point for point in collection.tradeoff if isinstance(point.get("v"), int | float)]
    found = [_measured_tradeoff(points_of)] if points_of else []
    groups: dict[str, dict[float, tuple[float, float, str]]] = {}
    for series in collection.series:
        first = series.runs[0]
        try:
            policy = parse_policy(first.policy)
        except FedfloorError:
            continue
        settings = dict(policy.settings)
        v = settings.pop("v", None)
        if policy.name == "ddsra" and isinstance(v, int | float):
            others = ",".join(
                f"{key}={value}" for key, value in settings.items() if (key, value) != ("solver", "exact")
            )
            name = "ddsra" + (f":{others}" if others else "") + (f" [{first.variant}]" if first.variant else "")
            delay = float(np.mean([run.summary.mean_delay for run in series.runs]))
            shortfall = float(np.mean([run.summary.shortfall for run in series.runs]))
            groups.setdefault(name, {})[float(v)] = (delay, shortfall, series.label)
    for name, points in groups.items():
        if len(points) > 1:
            ordered = sorted(points)
            delays = np.array([points[one][0] for one in ordered])
            shortfalls = np.array([points[one][1] for one in ordered])
            labels = tuple(points[one][2] for one in ordered)
            unknown = np.full(len(ordered), np.nan)
            found.append(
                Tradeoff(f"these runs of {name}", np.array(ordered), delays, shortfalls, unknown, unknown, labels)
            )
    return tuple(found)


def data_held(run: RunArrays) -> DataHeld | None:
    """Samples per device and class; None without training."""
    entries = (run.run.holding or {}).get("devices")
    if not entries:
        return None
    return DataHeld(
        devices=tuple(entry["name"] for entry in entries),
        floors=tuple(entry["floor"] for entry in entries),
        counts=np.array([entry["classes"] for entry in entries], dtype=np.int64),
    )


def plant_map(scenario: Scenario) -> PlantMap:
    """Floors at their true distance, evenly around the base station; devices around their floor."""
    distance = np.array([floor.gateway.distance for floor in scenario.floors])
    angle = np.pi / 2 - 2.0 * np.pi * np.arange(distance.size) / distance.size  # from the top, clockwise
    floor_xy = distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    apart = 2.0 * distance.min() * math.sin(math.pi / max(distance.size, 2))
    reach = min(0.4 * apart, 0.2 * float(distance.max()))
    counts = [len(floor.devices) for floor in scenario.floors]
    floor_of = np.repeat(np.arange(distance.size), counts)
    around = np.concatenate([_around(count, start) for count, start in zip(counts, angle.tolist(), strict=True)])
    return PlantMap(
        floors=tuple(floor.name for floor in scenario.floors),
        floor_xy=floor_xy,
        distance=distance,
        devices=tuple(device.name for device in scenario.devices),
        device_xy=floor_xy[floor_of] + reach * around,
        floor_of=floor_of,
    )


def _around(count: int, start: float) -> Floats:
    """Places of a floor's devices in the unit disc, (count, 2): a circle, or a sunflower of many; the first aside."""
    n = np.arange(count, dtype=float)
    ring = count <= _RING
    radius: Floats = np.ones(count) if ring else np.sqrt((n + 0.5) / count)
    angle: Floats = start + math.pi / 2.0 + n * (2.0 * math.pi / count if ring else math.pi * (3.0 - math.sqrt(5.0)))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _tested(run: RunArrays, x: Floats) -> tuple[Floats, Floats]:
    known = np.isfinite(run.accuracy) & np.isfinite(x)
    return x[known], run.accuracy[known]


def _band(x: Floats, values: Floats) -> Curve:
    """Mean, least and greatest over runs (R, X)."""
    known = ~np.isnan(values)
    low = np.where(known, values, np.inf).min(axis=0)
    high = np.where(known, values, -np.inf).max(axis=0)
    return Curve(x, _mean(values, known), low, high, known.sum(axis=0))


def _mean(values: Floats, known: Bools) -> Floats:
    """Mean over the first axis of what is known, nan where nothing is."""
    count = known.sum(axis=0)
    total: Floats = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0), dtype=float)


def _floors_of(series: SeriesArrays) -> tuple[str, ...]:
    """Floors of all seeds, in the order they are met."""
    return tuple(dict.fromkeys(name for run in series.runs for name in run.floors))


def _over_seeds(series: SeriesArrays, floors: Sequence[str], of_run: Callable[[RunArrays], Floats]) -> Floats:
    """Mean over runs of a figure (..., M) per floor; floors are matched by name."""
    place = {name: index for index, name in enumerate(floors)}
    rows = []
    for run in series.runs:
        value = of_run(run)
        row = np.full((*value.shape[:-1], len(floors)), np.nan)
        row[..., [place[name] for name in run.floors]] = value
        rows.append(row)
    values = np.stack(rows)
    return _mean(values, ~np.isnan(values))


def _observed(run: RunArrays) -> Ints:
    """Rounds, from 0, whose divergence was measured."""
    return np.flatnonzero(np.isfinite(run.divergence).any(axis=1))


def _observed_rates(run: RunArrays) -> Floats:
    """Mean over the observed rounds of Eq. (13) with the observed divergence, (M,)."""
    channels = run.run.scenario.radio.channels
    found = [participation_rates(run.divergence[t], channels) for t in _observed(run)]
    return np.asarray(np.mean(found, axis=0), dtype=float)


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
    floors = _floors_of(series)
    place = {name: index for index, name in enumerate(floors)}
    total, picked = np.zeros((len(parts), len(floors))), np.zeros(len(floors), dtype=np.int64)
    for run in series.runs:
        at = [place[name] for name in run.floors]
        total[:, at] += np.where(run.selected, of_run(run), 0.0).sum(axis=1)
        picked[at] += run.selected.sum(axis=0)
    mean = np.divide(total, picked, out=np.full(total.shape, np.nan), where=picked > 0)
    return Split(floors, parts, mean, picked)


def _measured_tradeoff(points: Sequence[Mapping[str, Any]]) -> Tradeoff:
    ordered = sorted(points, key=lambda point: float(point["v"]))
    return Tradeoff(
        "fedfloor tradeoff",
        v=column_of(ordered, "v"),
        delay=column_of(ordered, "mean_delay_s"),
        shortfall=column_of(ordered, "shortfall"),
        delay_bound=column_of(ordered, "delay_bound_s"),
        shortfall_bound=column_of(ordered, "shortfall_bound"),
    )
