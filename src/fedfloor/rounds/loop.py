"""The one loop: observe, schedule, execute, record; it cannot tell which plant it drives."""

__all__ = ["Outcome", "PlantDriver", "RoundRecord", "decide", "next_queue", "run_rounds"]

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fedfloor.arrays import Bools, Floats
from fedfloor.costs.compute import round_delay
from fedfloor.errors import FedfloorError, PolicyError
from fedfloor.references import where_raised
from fedfloor.scheduling.checking import check_decision
from fedfloor.scheduling.state import Allocation, Decision, RoundState, Scheduler
from fedfloor.scheduling.usage import FloorFigures


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What came of a decision."""

    figures: FloorFigures  #: what the round asked for; what never happened is 0
    allocation: Allocation  #: how the floors took part
    completed: Bools  #: (M,) the floor's model was averaged
    failure: tuple[str | None, ...]  #: (M,) `energy`, `memory`, `lost`, or None
    delay: Floats  #: (M,) [s] how long the round waited for the floor
    gateway_energy: Floats  #: (M,) [J] spent
    device_energy: Floats  #: (N,) [J] spent
    loss: Floats  #: (M,) [1] training loss; nan without training
    accuracy: float | None = None  #: of the global model, on rounds that evaluate
    test_loss: float | None = None
    per_floor: Mapping[str, Floats] = field(default_factory=dict)  #: more figures for the log, (M,) each


@dataclass(frozen=True, slots=True, eq=False)
class RoundRecord:
    """One round from what was seen to what came of it."""

    state: RoundState
    decision: Decision
    outcome: Outcome
    delay: float  #: [s] tau(t)
    clock: float  #: [s] simulated time at the end of the round
    solve_time: float  #: [s] wall clock of the decision


class PlantDriver(Protocol):
    """A plant that rounds can be run on."""

    def observe(self) -> RoundState:
        """What a scheduler may know at the start of the round."""

    def execute(self, decision: Decision) -> Outcome:
        """Carry the decision out."""

    def settle(self, queue: Floats) -> None:
        """Close the round with the queues (M,) of the next one."""


def next_queue(queue: Floats, served: Bools, rate: Floats) -> Floats:
    """Participation debt Q_m(t+1), Eq. (14); all (M,)."""
    return np.maximum(queue - served + rate, 0.0)


def run_rounds(plant: PlantDriver, scheduler: Scheduler, rounds: int, *, clock: float = 0.0) -> Iterator[RoundRecord]:
    """Run rounds one by one; `clock` is the simulated time [s] at which they start."""
    for _ in range(rounds):
        state = plant.observe()
        begun = time.perf_counter()
        decision = decide(scheduler, state)
        took = time.perf_counter() - begun
        outcome = plant.execute(decision)
        plant.settle(next_queue(state.queue, outcome.completed, state.target_rate))
        delay = round_delay(outcome.delay, decision.selected)
        clock += delay
        yield RoundRecord(state, decision, outcome, delay, clock, took)


def decide(scheduler: Scheduler, state: RoundState) -> Decision:
    """The policy's decision, checked; what goes wrong in a user's policy is named with its place."""
    try:
        decision = scheduler.schedule(state)
    except FedfloorError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the policy is the user's and may do anything
        name = type(scheduler).__name__
        raise PolicyError(f"policy {name}: schedule failed in round {state.index}: {where_raised(error)}") from error
    check_decision(state, decision)
    return decision
