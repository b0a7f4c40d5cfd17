"""`fedfloor tradeoff`: ddsra simulated for many V on the same weather."""

__all__ = ["STEPS", "Tradeoff", "is_quick", "measure_tradeoff", "shortened"]

from collections.abc import Callable, Sequence
from dataclasses import astuple, fields

import numpy as np

from fedfloor.notebooks.cards import Curve, card, curves, html_table
from fedfloor.notebooks.frames import DataFrame, frame_of
from fedfloor.rounds.loop import run_rounds
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.rounds.summary import summarise
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.theory.tradeoff import Measured, TradeoffPoint, tradeoff_points

#: 0, half decades from 0.001 to 10, decades from 100 to 100,000
STEPS = (0.0, *(round(10 ** (k / 2), 6) for k in range(-6, 3)), 1e2, 1e3, 1e4, 1e5)

_ROUNDS = 200  #: of a quick look
_PAIRS = 100  #: floors x channels up to which the trade-off takes seconds


class Tradeoff(tuple[TradeoffPoint, ...]):
    """The points of a trade-off over V, smallest V first."""

    __slots__ = ()

    def to_pandas(self) -> DataFrame:
        """The points as a data frame, one row for every V. Needs the extra 'notebook'."""
        return frame_of({entry.name: [getattr(point, entry.name) for point in self] for entry in fields(TradeoffPoint)})

    def _repr_html_(self) -> str:
        columns = ("V", "mean delay [s]", "delay bound [s]", "shortfall", "shortfall bound")
        rows = [astuple(point) for point in self]
        table = html_table(columns, [(v, delay, bound, short, most) for v, delay, short, bound, most in rows])
        ends = [(point.shortfall, point.mean_delay_s) for point in self if point.mean_delay_s is not None]
        line = Curve([at for at, _ in ends], [delay for _, delay in ends])
        return card("ddsra over V", table, curves([line], "worst shortfall", "mean delay [s]"))


def is_quick(scenario: Scenario) -> bool:
    """Whether the trade-off of a scenario takes seconds."""
    return len(scenario.floors) * scenario.radio.channels <= _PAIRS


def shortened(scenario: Scenario) -> Scenario:
    """The scenario with as many rounds as a quick look at its trade-off needs."""
    return scenario.model_copy(update={"rounds": min(scenario.rounds, _ROUNDS)})


def measure_tradeoff(
    scenario: Scenario, steps: Sequence[float] = STEPS, *, on_round: Callable[[], None] = lambda: None
) -> list[TradeoffPoint]:
    """Simulate ddsra for every V on the same weather, and put the bounds of Theorem 2 beside the results."""
    from fedfloor.scheduling.solver.solve import fastest_delay  # noqa: PLC0415  # the compiler takes long to load

    rates = simulated_rates(scenario)
    runs: list[Measured] = []
    fastest: list[float] = []
    for step in steps:
        records = []
        for ended in run_rounds(SimulatedPlant(scenario, rates), Ddsra(v=step), scenario.rounds, policy="ddsra"):
            records.append(ended.record)
            if not runs:  # the weather is the same for every V
                fastest.append(fastest_delay(ended.state))
            on_round()
        summary = summarise(records)
        runs.append(Measured(step, summary.mean_delay, summary.shortfall))
    return tradeoff_points(runs, rates, scenario.rounds, least_delay=float(np.mean(fastest)))
