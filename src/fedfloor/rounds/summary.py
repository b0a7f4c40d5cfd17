"""A run in a few numbers: what the table after a simulation shows."""

__all__ = ["FloorSummary", "RunSummary", "summarise"]

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedfloor.rounds.record import GatewayRecord, RoundRecord


@dataclass(frozen=True, slots=True)
class FloorSummary:
    """One floor over a run."""

    name: str
    target_rate: float  #: mean over the rounds
    selected_rate: float  #: share of rounds in which the floor was selected
    completed_rate: float  #: share of rounds in which its model was averaged
    failures: Mapping[str, int]  #: by cause


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run."""

    policy: str
    rounds: int
    mean_delay: float  #: [s]
    p95_delay: float  #: [s]
    clock: float  #: [s] simulated time of the whole run
    mean_energy: float  #: [J] per round, gateways and devices
    completed: int  #: floor-rounds
    failures: Mapping[str, int]  #: floor-rounds by cause
    shortfall: float  #: largest amount by which a floor stays below its target rate
    floors: tuple[FloorSummary, ...]


def summarise(records: Sequence[RoundRecord]) -> RunSummary:
    """The summary of at least one record."""
    delays = [record.delay for record in records]
    rows = list(zip(*(record.gateways for record in records), strict=True))  # one tuple of rounds per floor
    floors = tuple(_floor(entries) for entries in rows)
    failures: Counter[str] = Counter()
    for floor in floors:
        failures.update(floor.failures)
    return RunSummary(
        policy=records[-1].policy,
        rounds=len(records),
        mean_delay=float(np.mean(delays)),
        p95_delay=float(np.percentile(delays, 95, method="inverted_cdf")),
        clock=records[-1].clock,
        mean_energy=sum(entry.floor_energy for entries in rows for entry in entries) / len(records),
        completed=sum(entry.completed for entries in rows for entry in entries),
        failures=dict(failures),
        shortfall=max(0.0, *(floor.target_rate - floor.completed_rate for floor in floors)),
        floors=floors,
    )


def _floor(entries: Sequence[GatewayRecord]) -> FloorSummary:
    rounds = len(entries)
    return FloorSummary(
        name=entries[0].name,
        target_rate=sum(entry.target_rate for entry in entries) / rounds,
        selected_rate=sum(entry.selected for entry in entries) / rounds,
        completed_rate=sum(entry.completed for entry in entries) / rounds,
        failures=dict(Counter(entry.failure for entry in entries if entry.failure)),
    )
