"""Trade-off of Theorem 2: mean delay and participation shortfall over V, beside their bounds."""

__all__ = ["Measured", "TradeoffPoint", "tradeoff_points"]

from collections.abc import Sequence
from dataclasses import dataclass

from fedfloor.arrays import Floats
from fedfloor.theory.theorems import RATES_MET, participation_gap, utility_gap


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean delay and shortfall of a run with one V."""

    v: float
    mean_delay: float  #: [s]
    shortfall: float  #: largest gap between a floor's rate and its participation


@dataclass(frozen=True, slots=True)
class TradeoffPoint:
    """Measured values and bounds for one V."""

    v: float
    mean_delay_s: float | None  #: [s] None stands for infinity, which JSON cannot express
    shortfall: float  #: largest gap between a floor's rate and its participation
    delay_bound_s: float | None  #: [s] best delay of a run that met its rates, plus H/V; None without such a run
    shortfall_bound: float | None  #: Theorem 2; None if it is vacuous or no run met its rates


def tradeoff_points(runs: Sequence[Measured], rates: Floats, rounds: int, *, least_delay: float) -> list[TradeoffPoint]:
    """Corrected bounds of Theorem 2 beside runs over V, all with the same rates (M,) and number of rounds.

    The best delay is unknown, so the mean delay of the fastest run that met its rates is used instead. least_delay [s]
    is the mean over rounds of the fastest floor's delay.
    """
    best_delay = min((run.mean_delay for run in runs if run.shortfall <= RATES_MET), default=None)
    points = []
    for run in runs:
        delay_bound, shortfall_bound = None, None
        if best_delay is not None:
            gap = participation_gap(rates, run.v, rounds, best_delay=best_delay, least_delay=least_delay)
            delay_bound = best_delay + utility_gap(rates, run.v)
            shortfall_bound = gap if gap < float(rates.max()) else None
        points.append(TradeoffPoint(run.v, run.mean_delay, run.shortfall, delay_bound, shortfall_bound))
    return points
