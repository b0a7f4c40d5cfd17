"""The trade-off of Theorem 2 measured: mean delay and participation shortfall over V, with the bounds beside them."""

__all__ = ["STEPS", "TradeoffPoint", "is_quick", "measure", "shortened"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedfloor.rounds.loop import run_rounds
from fedfloor.runs.folder import round_record
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.solver.solve import fastest_delay
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.rounds.summary import summarise
from fedfloor.theory.theorems import RATES_MET, participation_gap, utility_gap

#: 0, half decades from 0.001 to 10, decades from 100 to 100,000
STEPS = (0.0, *(round(10 ** (k / 2), 6) for k in range(-6, 3)), 1e2, 1e3, 1e4, 1e5)

_ROUNDS = 200  #: of a quick look
_PAIRS = 100  #: floors x channels of plants whose trade-off takes seconds


@dataclass(frozen=True, slots=True)
class TradeoffPoint:
    """One V."""

    v: float
    mean_delay_s: float  #: [s]
    shortfall: float  #: largest gap between a floor's rate and its participation
    delay_bound_s: float | None  #: [s] best delay of a run that met its rates, plus H/V; None without such a run
    shortfall_bound: float | None  #: Theorem 2; None if it is vacuous or no run met its rates


def is_quick(scenario: Scenario) -> bool:
    """Whether the trade-off of a plant takes seconds."""
    return len(scenario.floors) * scenario.radio.channels <= _PAIRS


def shortened(scenario: Scenario) -> Scenario:
    """The scenario with as many rounds as a quick look at its trade-off needs."""
    return scenario.model_copy(update={"rounds": min(scenario.rounds, _ROUNDS)})


def measure(
    scenario: Scenario, steps: Sequence[float] = STEPS, *, on_round: Callable[[], None] = lambda: None
) -> list[TradeoffPoint]:
    """Simulate ddsra for every V on the same weather, then put the repaired bounds beside what was measured.

    The best delay is unknown; the mean delay of the fastest run that met its rates takes its place. The least delay is
    the mean over rounds of the fastest floor's.
    """
    rates = simulated_rates(scenario)
    measured: list[tuple[float, float, float]] = []
    fastest = 0.0
    for step in steps:
        plant, least = SimulatedPlant(scenario, rates), []
        records = []
        for record in run_rounds(plant, Ddsra(v=step), scenario.rounds):
            records.append(round_record(record, "ddsra"))
            if not measured:
                least.append(fastest_delay(record.state))
            on_round()
        fastest = float(np.mean(least)) if least else fastest
        summary = summarise(records)
        measured.append((step, summary.mean_delay, summary.shortfall))
    met = [delay for _, delay, shortfall in measured if shortfall <= RATES_MET]
    points = []
    for step, delay, shortfall in measured:
        bounds: tuple[float | None, float | None] = (None, None)
        if met:
            gap = participation_gap(rates, step, scenario.rounds, best_delay=min(met), least_delay=fastest)
            bounds = (min(met) + utility_gap(rates, step), gap if gap < float(rates.max()) else None)
        points.append(TradeoffPoint(step, delay, shortfall, *bounds))
    return points
