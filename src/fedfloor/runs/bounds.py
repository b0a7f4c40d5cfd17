"""The theorems beside what a training run measured."""

__all__ = ["run_bounds"]

from collections.abc import Sequence

import numpy as np

from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import summarise
from fedfloor.runs.replay import replayed
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.state import Scheduler
from fedfloor.scheduling.traits import is_optimal, tradeoff_of
from fedfloor.theory.bounds import (
    Bound,
    Convergence,
    delay_bounds,
    divergence_statement,
    loss_statement,
    stationarity_statement,
)

_FEW_PAIRS = 1_000  #: floors x channels up to which the least delay of every round is computed for Theorem 2


def run_bounds(
    scenario: Scenario, scheduler: Scheduler, records: Sequence[RoundRecord], convergence: Convergence | None
) -> tuple[Bound, ...]:
    """What Theorems 1 to 4 say of the whole run, however often it was resumed."""
    rates = np.array([gateway.target_rate for gateway in records[-1].gateways])
    statements = [_divergence(records)]
    tradeoff = tradeoff_of(scheduler) if is_optimal(scheduler) else None
    if tradeoff is not None:
        summary = summarise(records)
        statements += delay_bounds(
            rates,
            tradeoff,
            summary.rounds,
            mean_delay=summary.mean_delay,
            least_delay=_least_delay(scenario, records),
            shortfall=summary.shortfall,
            failed=any(summary.failures.values()),
        )
    if convergence is not None and _is_plain(scenario, records):
        statements.append(stationarity_statement(rates, len(records), convergence))
    statements.append(loss_statement())
    return tuple(statement for statement in statements if statement is not None)


def _is_plain(scenario: Scenario, records: Sequence[RoundRecord]) -> bool:
    """Whether a run is what Theorem 4 is about: plain SGD with K iterations, and models averaged by their points."""
    training, aggregation = scenario.training, scenario.aggregation
    plain = training.momentum == 0.0 and training.extra_iterations == 0 and training.schedule == "constant"
    weighted = any(isinstance(gateway.weight, float) for record in records for gateway in record.gateways)
    return plain and (aggregation.rule, aggregation.weights) == ("mean", "points") and not weighted


def _divergence(records: Sequence[RoundRecord]) -> Bound | None:
    pairs = [
        (gateway.divergence, gateway.divergence_bound)
        for record in records
        for gateway in record.gateways
        if isinstance(gateway.divergence, float) and isinstance(gateway.divergence_bound, float)
    ]
    bounded = [(measured, bound) for measured, bound in pairs if bound > 0.0]
    return divergence_statement([measured for measured, _ in bounded], [bound for _, bound in bounded])


def _least_delay(scenario: Scenario, records: Sequence[RoundRecord]) -> float:
    """Mean over the rounds of the fastest floor's delay [s]; 0, which bounds it too, for large plants."""
    from fedfloor.scheduling.solver.solve import fastest_delay  # noqa: PLC0415  # the compiler takes long to load

    if len(scenario.floors) * scenario.radio.channels > _FEW_PAIRS:
        return 0.0
    return float(np.mean([fastest_delay(state) for state in replayed(scenario, records)]))
