"""Allocations of selecting policies: the exact one against ddsra and all assignments, cut rules by hand."""

import dataclasses
import itertools

import numpy as np
import pytest

from fedfloor.costs.compute import affordable
from fedfloor.costs.plant import Workload
from fedfloor.errors import SettingError
from fedfloor.rounds.plants.simulated import simulated_outcome
from fedfloor.scenario.file import Baseline
from fedfloor.scheduling.allocating import allocated, floor_delays
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.policies.delay_driven import DelayDriven
from fedfloor.scheduling.solver.exact import least_delays
from fedfloor.scheduling.solver.packing import floor_options, pack
from fedfloor.scheduling.state import RoundState, fixed_allocation
from fedfloor.scheduling.usage import usage_of
from tests.scheduling.oracle import best_objective, linked, random_round
from tests.scheduling.rounds import made_round


def test_an_allocation_that_does_not_exist_is_refused() -> None:
    state = random_round(np.random.default_rng(0))
    decision = allocated(state, np.array([0]), allocation="dtfl")
    assert decision.allocation is not None
    with pytest.raises(SettingError, match=r"allocation must be fixed, exact, one_cut or dtfl, got 'one-cut'"):
        allocated(state, np.array([0]), allocation="one-cut")
    with pytest.raises(SettingError, match=r"got 'one-cut'"):
        floor_delays(state, "one-cut")


@pytest.mark.parametrize("seed", range(25))
def test_delay_driven_with_the_exact_allocation_is_ddsra_that_weighs_only_delay(seed: int) -> None:
    state = random_round(np.random.default_rng(seed))
    ours, solution = DelayDriven(allocation="exact").schedule(state), Ddsra(v=1e30).solution(state)
    assert ours.allocation is not None
    assert ours.selected.sum() == solution.decision.selected.sum()
    assert usage_of(state, ours.channel, ours.allocation).delay.max() == pytest.approx(solution.delay, rel=1e-9)


@pytest.mark.parametrize("seed", range(25))
def test_the_exact_allocation_serves_chosen_floors_with_the_least_delay(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    state = random_round(rng)
    floors, channels = state.gain_up.shape
    chosen = np.sort(rng.choice(floors, size=min(floors, channels), replace=False))
    decision = allocated(state, chosen, "exact")
    delay = least_delays(*pack(state)).best
    served, least = best_objective(delay[chosen], np.zeros(chosen.size), 1.0)
    assert decision.allocation is not None
    assert set(np.flatnonzero(decision.selected)) <= set(chosen.tolist())
    assert decision.selected.sum() == served
    outcome = simulated_outcome(state, decision)
    assert np.array_equal(outcome.completed, decision.selected)  # nobody fails
    assert outcome.delay.max() == pytest.approx(least, rel=1e-7)


@pytest.mark.parametrize("seed", range(20))
def test_the_solver_offers_only_cuts_that_a_device_affords(seed: int) -> None:
    rng = np.random.default_rng(seed)
    state = random_round(rng)
    state = linked(rng, state) if seed % 2 else state
    plant, packed = state.plant, pack(state)[0]
    cuts = np.arange(plant.workload.min_cut, plant.workload.layers + 1)
    every = np.broadcast_to(cuts[:, None], (cuts.size, plant.devices.floor.size))
    affords = affordable(plant, every, state.weather.device_energy)  # (C, N)
    for m in range(state.floors):
        options = floor_options(packed, m)
        for n, cut, count in zip(np.flatnonzero(plant.devices.floor == m), options.cut, options.many, strict=True):
            offered = np.isin(cuts, cut[:count])
            assert offered.any() == affords[:, n].any()
            assert affords[offered, n].all()


def two_layers(frequencies: list[float], *, channels: int = 2) -> RoundState:
    """Floors with one device each and a network of two layers with 1 and 3 FLOPs per sample, batches of 12."""
    state = made_round([1.0] * len(frequencies), channels, data=[12] * len(frequencies))
    plant = state.plant
    work = Workload.from_layers(
        np.array([1.0, 3.0]), np.array([10.0, 10.0]), np.zeros(2), local_iterations=1, model_bits=1e-9, min_cut=0
    )
    devices = dataclasses.replace(plant.devices, frequency=np.array(frequencies))
    gateways = dataclasses.replace(plant.gateways, max_frequency=np.full(len(frequencies), 12.0))
    return dataclasses.replace(
        state,
        plant=dataclasses.replace(plant, workload=work, devices=devices, gateways=gateways),
        baseline=Baseline(cut=0, frequency_share=1.0),
    )


def test_dtfl_gives_devices_the_deepest_cut_that_delays_nobody() -> None:
    # Gateway 12 FLOP/s. Cut 0: 48/12 = 4 s above. Cut 1: 12/f below, 36/12 = 3 s above. Cut 2: 48/f below.
    # f = 4: T = 4, 3, 12; f = 16: T = 4, 3, 3; f = 1: T = 4, 12, 48.
    state = two_layers([4.0, 16.0, 1.0])
    pair = allocated(state, np.array([0, 1]), "dtfl").allocation
    assert pair is not None
    assert pair.cut[:2].tolist() == [1, 2]  # T* = 3: cut 1, and the deepest one of two that take 3 s
    slow = allocated(state, np.array([0, 2]), "dtfl").allocation
    assert slow is not None
    assert slow.cut[[0, 2]].tolist() == [1, 0]  # T* = 4
    alone = floor_delays(state, "dtfl")[:, 0]
    assert alone == pytest.approx([3.0 + 3.0, 3.0, 4.0])  # the halves of a device train one after the other


def test_dtfl_uses_cuts_that_devices_can_afford() -> None:
    state = two_layers([4.0, 16.0, 1.0])
    devices = dataclasses.replace(state.plant.devices, memory_bytes=np.array([1e9, 15.0, 5.0]))  # cuts 2, 1 and 0
    state = dataclasses.replace(state, plant=dataclasses.replace(state.plant, devices=devices))
    allocation = allocated(state, np.array([0, 1]), "dtfl").allocation
    assert allocation is not None
    assert allocation.cut[:2].tolist() == [1, 1]


def test_one_cut_is_the_best_of_all_single_cuts() -> None:
    # f = 4: 4 s, 3 + 3 s, 12 s; f = 16: 4 s, 0.75 + 3 s, 3 s; f = 1: 4 s, 15 s, 48 s.
    state = two_layers([4.0, 16.0, 32.0])
    both = allocated(state, np.array([0, 1]), "one_cut").allocation
    assert both is not None
    assert set(both.cut.tolist()) == {0}
    fast = allocated(state, np.array([1, 2]), "one_cut").allocation
    assert fast is not None
    assert set(fast.cut.tolist()) == {2}  # 3 s and 1.5 s
    assert floor_delays(state, "one_cut")[:, 0] == pytest.approx([4.0, 3.0, 1.5])


def test_one_cut_lets_floors_complete_before_it_saves_time() -> None:
    state = two_layers([16.0, 16.0])
    weather = dataclasses.replace(state.weather, device_energy=np.zeros(2))  # the devices cannot compute at all
    allocation = allocated(dataclasses.replace(state, weather=weather), np.array([0, 1]), "one_cut").allocation
    assert allocation is not None
    assert set(allocation.cut.tolist()) == {0}
    assert floor_delays(dataclasses.replace(state, weather=weather), "one_cut")[:, 0] == pytest.approx([4.0, 4.0])


def test_one_cut_beats_every_single_cut_on_random_rounds() -> None:
    compared = [_compared_cuts(seed) for seed in range(10)]
    assert sum(compared) > 0


def _compared_cuts(seed: int) -> int:
    """Number of allocations with a single cut that every floor can complete, none of which is faster than ours."""
    state, compared = random_round(np.random.default_rng(seed)), 0
    chosen = np.arange(min(state.floors, state.channels))
    ours = simulated_outcome(state, allocated(state, chosen, "one_cut"))
    for cut, places in itertools.product(
        range(state.plant.workload.min_cut, state.plant.workload.layers + 1),
        itertools.permutations(range(state.channels), chosen.size),
    ):
        allocation = dataclasses.replace(fixed_allocation(state), cut=np.full(state.plant.devices.floor.size, cut))
        channel = np.full(state.floors, -1)
        channel[chosen] = places
        usage = usage_of(state, channel, allocation)
        if not (usage.short_of_energy | usage.short_of_memory)[chosen].any() and np.isfinite(usage.delay).all():
            compared += 1
            assert ours.completed.sum() == chosen.size
            assert ours.delay[chosen].max() <= usage.delay[chosen].max() * (1 + 1e-9)
    return compared
