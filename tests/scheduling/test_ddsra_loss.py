"""DDSRA whose queues also count losses, against its rule on rounds made by hand."""

import dataclasses

import numpy as np
import pytest

import fedfloor
from fedfloor.errors import PolicyError
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.policies.ddsra_loss import DdsraLoss
from fedfloor.scheduling.ranking import relative_losses
from fedfloor.scheduling.registry import make_policy, parse_policy
from fedfloor.scheduling.state import IDLE, RoundState
from tests.scheduling.rounds import made_round

UNKNOWN = float("nan")


def served(policy: Ddsra | DdsraLoss, state: RoundState) -> list[int]:
    return np.flatnonzero(policy.schedule(state).channel != IDLE).tolist()


def test_a_floor_with_a_high_loss_is_served_before_one_with_the_same_queue() -> None:
    state = made_round([1.0] * 4, 2, queue=np.ones(4), last_loss=np.array([0.5, 2.0, 0.1, 1.0]))
    assert served(DdsraLoss(v=0.0), state) == [1, 3]


def test_a_loss_counts_in_rounds_beside_the_queue() -> None:
    losses = np.array([1.0, 3.0])  # 0.5 and 1.5 times their mean
    for debt, floor in ((1.9, 1), (2.1, 0)):  # 2 x 0.5 + debt against 2 x 1.5
        assert served(DdsraLoss(v=0.0, loss=2.0), made_round([1.0] * 2, 1, queue=np.array([debt, 0.0]),
                                                            last_loss=losses)) == [floor]  # fmt: skip


def test_seconds_weigh_against_losses_as_they_do_against_queues() -> None:
    losses = np.array([1.0, 3.0])
    for v, floor in ((1.9, 1), (2.1, 0)):  # one second against 2 x (1.5 - 0.5) rounds
        state = made_round([1.0, 2.0], 1, last_loss=losses)
        on_devices = dataclasses.replace(state.plant.workload, min_cut=1)  # so that delays are those of the devices
        state = dataclasses.replace(state, plant=dataclasses.replace(state.plant, workload=on_devices))
        assert served(DdsraLoss(v=v, loss=2.0), state) == [floor]


def test_a_floor_that_nobody_knows_counts_as_the_worst() -> None:
    assert relative_losses(np.array([1.0, UNKNOWN, 3.0])).tolist() == [0.5, 1.5, 1.5]
    assert relative_losses(np.full(3, UNKNOWN)).tolist() == [1.0] * 3
    assert relative_losses(np.array([0.0, UNKNOWN])).tolist() == [1.0] * 2
    assert relative_losses(np.array([-3.0, 1.0])).tolist() == [-1.5, 0.5]  # a loss of Flower may be negative


def test_without_weight_of_losses_it_is_ddsra() -> None:
    scenario = fedfloor.load("quick")
    plant = SimulatedPlant(scenario, simulated_rates(scenario))
    rng = np.random.default_rng(0)
    for _ in range(20):
        state = plant.observe()
        floors = state.floors
        state = dataclasses.replace(state, queue=rng.uniform(0, 3, floors), last_loss=rng.uniform(0, 3, floors))
        ours, other = DdsraLoss(v=1.0, loss=0.0).schedule(state), Ddsra(v=1.0).schedule(state)
        assert np.array_equal(ours.channel, other.channel)
        weighed = DdsraLoss(v=1.0, loss=2.0).schedule(state)
        assert weighed.selected.sum() == other.selected.sum()  # losses never cost a floor its channel
        plant.execute(ours)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"loss must be a number from 0 to 1e\+30, got -1"):
        make_policy(parse_policy("ddsra_loss:loss=-1"))
