"""The one loop: observe, schedule, execute, settle, record. It cannot tell which plant it drives."""

__all__ = ["FinishedRound", "Listener", "next_queue", "run_rounds"]

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedfloor.arrays import Bools, Floats
from fedfloor.costs.compute import round_delay
from fedfloor.rounds.outcome import Outcome
from fedfloor.rounds.past import history_of, result_of
from fedfloor.rounds.plants.contract import Plant
from fedfloor.rounds.record import RoundRecord, TimingRecord
from fedfloor.rounds.recording import record_of, timing_of
from fedfloor.scheduling.checking import decide
from fedfloor.scheduling.solver.compiling import catch_up
from fedfloor.scheduling.state import Decision, RoundState, Scheduler
from fedfloor.scheduling.traits import needs_history


@dataclass(frozen=True, slots=True, eq=False)
class FinishedRound:
    """One round, from what was seen to what came of it."""

    state: RoundState
    decision: Decision
    outcome: Outcome
    record: RoundRecord
    timing: TimingRecord
    last: bool  #: no round follows


class Listener(Protocol):
    """Hears of every round as it ends."""

    def hear(self, ended: FinishedRound) -> None:
        """Called once per round, in the order in which the listeners are given."""


def next_queue(queue: Floats, served: Bools, rate: Floats) -> Floats:
    """Participation debt Q_m(t+1), Eq. (14); all (M,)."""
    return np.maximum(queue - served + rate, 0.0)


def run_rounds(
    plant: Plant,
    scheduler: Scheduler,
    rounds: int,
    *,
    policy: str = "",
    clock: float = 0.0,
    earlier: Iterable[RoundRecord] = (),
    listeners: Sequence[Listener] = (),
    until: Callable[[RoundRecord], bool] = lambda _: False,
) -> Iterator[FinishedRound]:
    """Run at most `rounds` rounds, one by one, and end after the first whose record `until` accepts.

    `policy` is the name to be logged, `clock` [s] the simulated time at which the first of these rounds starts,
    `earlier` the rounds before it. The loop owns the history, as it owns the queues.
    """
    catch_up()  # many rounds are worth a compiler
    past = history_of(earlier, len(plant.scenario.floors)) if needs_history(scheduler) else None
    assert past is None or past.rounds == plant.index
    for left in range(rounds - 1, -1, -1):
        state = plant.observe()
        if past is not None:
            state = dataclasses.replace(state, history=past.history)
        begun = time.perf_counter()
        decision = decide(scheduler, state)
        solve_time = time.perf_counter() - begun
        outcome = plant.execute(decision)
        plant.settle(next_queue(state.queue, outcome.completed, state.target_rate))
        delay = round_delay(outcome.delay, decision.selected)
        clock += delay
        record = record_of(
            state, decision, outcome, policy=policy, delay=delay, clock=clock, with_weather=not plant.redraws_weather
        )
        if past is not None:
            past.add(result_of(record))
        timing = timing_of(state.index, solve_time, outcome.seconds)
        ended = FinishedRound(state, decision, outcome, record, timing, last=left == 0 or until(record))
        for listener in listeners:
            listener.hear(ended)
        yield ended
        if ended.last:
            return
