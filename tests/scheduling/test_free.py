"""Free iterations: the most that fits the time and the energy of a round, by trying all of them."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.costs.compute import round_delay
from fedfloor.costs.plant import arrays_of
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_outcome, simulated_rates
from fedfloor.scheduling.policies.random import RandomScheduler
from fedfloor.scheduling.policies.round_robin import RoundRobinScheduler
from fedfloor.scheduling.state import RoundState, fixed_allocation
from fedfloor.scheduling.usage import usage_of

MOST = 6


def states(scenario: Any, rounds: int) -> list[RoundState]:
    plant, found = SimulatedPlant(scenario, simulated_rates(scenario)), []
    for index in range(rounds):
        plant.index = index
        found.append(plant.observe())
    return found


@pytest.mark.parametrize("preset", ["quick", "line"])  # `line` has links
@pytest.mark.parametrize("redraw", ["false", "true"])
def test_costs_with_more_iterations_are_those_of_a_scenario_with_a_larger_k(preset: str, redraw: str) -> None:
    own = fedfloor.load(preset, [f"training.redraw_batch={redraw}", "training.extra_iterations=3"])
    (state,) = states(own, 1)
    k = own.training.local_iterations
    longer = arrays_of(fedfloor.load(preset, [f"training.redraw_batch={redraw}", f"training.local_iterations={k + 3}"]))
    channel = np.arange(state.plant.gateways.count) % own.radio.channels
    allocation = fixed_allocation(state)
    found = usage_of(state, channel, allocation, np.full(channel.size, 3))
    expected = usage_of(dataclasses.replace(state, plant=longer), channel, allocation)
    for entry in dataclasses.fields(found):
        one, other = getattr(found, entry.name), getattr(expected, entry.name)
        assert (one is None) == (other is None)
        assert one is None or one == pytest.approx(other), entry.name


@pytest.mark.parametrize("preset", ["quick", "line"])
def test_floors_do_the_most_iterations_that_fit_and_the_round_takes_no_longer(preset: str) -> None:
    plain = fedfloor.load(preset)
    free = fedfloor.load(preset, [f"training.extra_iterations={MOST}"])
    k, seen = plain.training.local_iterations, set()
    for before, after in zip(states(plain, 8), states(free, 8), strict=True):
        for scheduler in (RandomScheduler(), RoundRobinScheduler()):
            decision = scheduler.schedule(before)
            fixed, found = simulated_outcome(before, decision), simulated_outcome(after, decision)
            assert fixed.iterations is None
            assert found.iterations is not None
            end = round_delay(fixed.delay, decision.selected)
            assert round_delay(found.delay, decision.selected) == end
            assert np.array_equal(found.completed, fixed.completed)
            assert found.failure == fixed.failure
            for m in range(len(plain.floors)):
                best = 0
                for extra in range(MOST + 1) if fixed.completed[m] else ():
                    need = usage_of(after, decision.channel, found.allocation, np.full(len(plain.floors), extra))
                    if need.delay[m] <= end and not need.short_of_energy[m]:
                        best = extra
                assert found.iterations[m] == k + best
                seen.add(best)
    assert len(seen) > 1
