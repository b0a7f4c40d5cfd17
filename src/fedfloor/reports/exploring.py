"""Single runs for the report page's script: timelines, cuts and where everything stands, thinned where it is much."""

__all__ = ["explored", "kept_runs"]

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfloor.arrays import Ints
from fedfloor.reports import measures
from fedfloor.reports.arrays import RunArrays, SeriesArrays
from fedfloor.reports.plots import plain, spread

_NUMBERS = 500_000  #: that the figures of single runs may hold together; a number is about eight bytes
_ROUNDS = 1000  #: of a run that can be chosen
_LEAST_ROUNDS = 20  #: rather than fewer of every run, runs are left out
_ROWS = 300  #: devices whose cuts are shown one by one; beyond that floors take their place


def kept_runs(laid_out: Sequence[SeriesArrays]) -> list[tuple[int, RunArrays]]:
    """Runs that can be looked at one by one, with their series; where not all fit, every series keeps its first."""
    every = [(seed, index, run) for index, series in enumerate(laid_out) for seed, run in enumerate(series.runs)]
    every.sort(key=lambda entry: entry[:2])
    kept: list[tuple[int, int, RunArrays]] = []
    left = float(_NUMBERS)
    for seed, index, run in every:
        left -= _LEAST_ROUNDS * _per_round(run)
        if left >= 0.0 or not kept:
            kept.append((index, seed, run))
    return [(index, run) for index, _, run in sorted(kept, key=lambda entry: entry[:2])]


def _per_round(run: RunArrays) -> float:
    """Numbers that a round of a run adds to the page."""
    rows = len(run.devices) if len(run.devices) <= _ROWS else len(run.floors)
    return float(7.0 * run.selected.sum(axis=1).mean() + 0.4 * rows)


def explored(laid_out: Sequence[SeriesArrays]) -> tuple[dict[str, Any], list[str]]:
    """Single runs as the page's script takes them, and what was left out."""
    kept = kept_runs(laid_out)
    plants: dict[str, int] = {}
    runs, thinned = [], []
    for index, run in kept:
        limit = int(_NUMBERS / len(kept) / max(_per_round(run), 1.0))
        at = spread(run.rounds.size, max(2, min(_ROUNDS, limit)))
        if at.size < run.rounds.size:
            thinned.append("Of long runs, the timeline, the map and the cuts show some of the rounds, evenly spread.")
        if len(run.devices) > _ROWS:
            thinned.append("Cuts of very many devices are shown as means of their floors.")
        plant = json.dumps(_plant(run))
        runs.append({"s": index, "plant": plants.setdefault(plant, len(plants)), **_rounds_of(run, at)})
    left_out = sum(len(series.runs) for series in laid_out) - len(kept)
    if left_out:
        thinned.append(f"{left_out} runs cannot be looked at one by one, to keep the page small.")
    return {"runs": runs, "plants": [json.loads(plant) for plant in plants]}, thinned


def _plant(run: RunArrays) -> dict[str, Any]:
    found = measures.plant_map(run.run.scenario)
    reach = np.abs(np.concatenate([found.floor_xy, found.device_xy])).max()
    shown = {
        "floors": found.floors,
        "devices": found.devices,
        "of": found.floor_of,
        "fx": found.floor_xy[:, 0],
        "fy": found.floor_xy[:, 1],
        "dx": found.device_xy[:, 0],
        "dy": found.device_xy[:, 1],
        "distance": found.distance,
        "reach": float(reach),
    }
    return {key: plain(value) for key, value in shown.items()}


def _rounds_of(run: RunArrays, at: Ints) -> dict[str, Any]:
    """A run's chosen rounds: timeline and cuts, -1 where not picked."""
    phases = measures.phase_times(run)
    place = {name: m for m, name in enumerate(run.floors)}
    timeline = []
    for t in at.tolist():
        one = measures.timeline(run, t, phases)
        timeline.append([one.round, [place[name] for name in one.floors], one.channel, one.failure, one.end.T])
    found = measures.cuts(run)
    cut, mean, by_floor = found.cut, found.mean, len(run.devices) > _ROWS
    if by_floor:
        first = np.searchsorted(run.plant.devices.floor, np.arange(len(run.floors)))
        count = run.plant.devices.on_floor(len(run.floors))
        cut = np.add.reduceat(cut, first, axis=0) / count[:, None]  # (M, T)
        mean = np.add.reduceat(mean, first) / count
    delays = run.delay[np.isfinite(run.delay)]
    longest = float(np.percentile(delays, 95)) if delays.size else 0.0  # a rare slow round has an axis of its own
    shown = np.where(np.isnan(cut[:, at]), -1.0, cut[:, at])
    layers = len(run.run.scenario.layers)
    return {
        "timeline": timeline,
        "cuts": shown,
        "mean": mean,
        "byFloor": by_floor,
        "longest": longest,
        "layers": layers,
    }
