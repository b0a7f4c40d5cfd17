"""What momentum costs: a velocity for every parameter, where the parameter is trained."""

from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.costs.compute import SplitCosts, split_of
from fedfloor.costs.plant import PlantArrays, arrays_of
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.scheduling.conversion import snapshot_of, state_of
from fedfloor.scheduling.snapshot import parse_snapshot
from fedfloor.scheduling.state import fixed_allocation
from fedfloor.scheduling.usage import usage_of

MOMENTUM = "training.momentum=0.9"


def costs(cut: int, *settings: str) -> tuple[SplitCosts, PlantArrays, Any]:
    scenario = fedfloor.load("quick", settings)
    plant = arrays_of(scenario)
    return split_of(plant, np.full(len(scenario.devices), cut)), plant, scenario


@pytest.mark.parametrize("cut", [0, 2, 4])
def test_exact_counts_bytes_and_flops_of_the_velocity_on_the_side_that_trains(cut: int) -> None:
    (before, _, scenario), (after, _, _) = costs(cut), costs(cut, MOMENTUM)
    parameters = [layer.parameters for layer in scenario.layers]
    below, above = sum(parameters[:cut]), sum(parameters[cut:])
    iterations = scenario.training.local_iterations
    assert after.bottom_bytes - before.bottom_bytes == pytest.approx(4.0 * below)
    assert after.top_bytes - before.top_bytes == pytest.approx(4.0 * above)
    assert after.bottom_flop == pytest.approx(before.bottom_flop + 2.0 * iterations * below)
    assert after.top_flop == pytest.approx(before.top_flop + 2.0 * iterations * above)


def test_the_paper_s_table_stays_as_it_is() -> None:
    (before, plain, _), (after, plant, _) = costs(2, "costs.model=paper"), costs(2, "costs.model=paper", MOMENTUM)
    assert plain.measured is plant.measured is None
    assert np.array_equal(before.bottom_bytes, after.bottom_bytes)
    assert np.array_equal(before.bottom_flop, after.bottom_flop)


def test_without_momentum_nothing_is_added() -> None:
    assert costs(2)[1].measured is None


def test_a_snapshot_keeps_the_costs_of_momentum() -> None:
    scenario = fedfloor.load("quick", [MOMENTUM])
    state = SimulatedPlant(scenario, simulated_rates(scenario)).observe()
    again = state_of(parse_snapshot(snapshot_of(state, 1.0), "snapshot"))
    channel = np.arange(state.plant.gateways.count) % scenario.radio.channels
    one, other = (usage_of(each, channel, fixed_allocation(each)) for each in (state, again))
    assert one.delay == pytest.approx(other.delay)
    assert one.device_bytes == pytest.approx(other.device_bytes)
