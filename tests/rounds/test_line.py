"""The preset whose cuts depend on the links between devices and gateways."""

import dataclasses

import numpy as np
import pytest

import fedfloor
from fedfloor.arrays import Ints
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.scheduling.solver.solve import solve
from fedfloor.scheduling.state import RoundState

ROUNDS = 12
IDLE_CUT = -1


def rounds() -> list[RoundState]:
    """First rounds of the preset, whatever was decided before."""
    scenario = fedfloor.load("line")
    plant, states = SimulatedPlant(scenario, simulated_rates(scenario)), []
    for index in range(ROUNDS):
        plant.index = index
        states.append(plant.observe())
    return states


def without_links(state: RoundState) -> RoundState:
    """The same round if what devices and gateways exchange cost nothing."""
    devices = dataclasses.replace(state.plant.devices, links=None)
    return dataclasses.replace(state, plant=dataclasses.replace(state.plant, devices=devices))


def cuts(state: RoundState) -> Ints:
    """Cuts that the exact solver decides, (N,); IDLE_CUT where the floor is not selected."""
    decision = solve(state, 1.0).decision
    assert decision.allocation is not None
    return np.where(decision.selected[state.plant.devices.floor], decision.allocation.cut, IDLE_CUT)


def test_devices_and_rounds_get_different_cuts() -> None:
    decided = np.array([cuts(state) for state in rounds()])  # (T, N)
    assert set(decided[decided != IDLE_CUT].tolist()) >= {2, 4, 6}
    changing = [len(set(column[column != IDLE_CUT].tolist())) > 1 for column in decided.T]
    assert 0 < sum(changing) < len(changing)


def test_free_links_would_move_the_cuts_before_the_first_pooling() -> None:
    shared = 0
    for state in rounds():
        paid, free = cuts(state), cuts(without_links(state))
        both = (paid != IDLE_CUT) & (free != IDLE_CUT)
        shared += int(both.sum())
        assert np.all(paid[both] >= free[both])  # a link can only be a reason to send less
        assert 1 not in paid
        assert 1 in free[both]
    assert shared > 0


@pytest.mark.slow
def test_a_few_rounds_of_line_learn() -> None:
    overrides = ["participation.rates=uniform", "training.evaluate_every=10"]
    done = fedfloor.run("line", rounds=10, overrides=overrides)
    assert done.accuracy is not None
    assert done.accuracy > 0.4
    links = [device.link_s for record in done.records for gateway in record.gateways for device in gateway.devices]
    assert all(isinstance(seconds, float) and seconds > 0.0 for seconds in links)
