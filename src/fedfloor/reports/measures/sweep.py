"""Delay and participation over V."""

__all__ = ["Tradeoff", "tradeoffs"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.reports.policies import spec_of
from fedfloor.reports.reading import Collection
from fedfloor.theory.tradeoff import TradeoffPoint


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


def tradeoffs(collection: Collection) -> tuple[Tradeoff, ...]:
    """Delay and participation over V: as measured by `fedfloor tradeoff`, and of ddsra runs with several V."""
    found = [_measured_tradeoff(collection.tradeoff)] if collection.tradeoff else []
    groups: dict[str, dict[float, tuple[float, float, str]]] = {}
    for series in collection.series:
        first = series.runs[0]
        policy = spec_of(first.policy)
        if policy is None:
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


def _measured_tradeoff(points: Sequence[TradeoffPoint]) -> Tradeoff:
    ordered = sorted(points, key=lambda point: point.v)
    return Tradeoff(
        "fedfloor tradeoff",
        v=_column([point.v for point in ordered]),
        delay=_column([point.mean_delay_s for point in ordered]),
        shortfall=_column([point.shortfall for point in ordered]),
        delay_bound=_column([point.delay_bound_s for point in ordered]),
        shortfall_bound=_column([point.shortfall_bound for point in ordered]),
    )


def _column(values: Sequence[float | None]) -> Floats:
    return np.array(values, dtype=float)  # null becomes nan
