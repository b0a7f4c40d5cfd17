"""The round solvers: optimal against enumeration, feasible against an independent checker, sound on the edges."""

import dataclasses
import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linear_sum_assignment

import fedfloor
from fedfloor.costs.compute import round_delay
from fedfloor.costs.plant import Gateways
from fedfloor.errors import FedfloorError
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.scheduling.checking import check_decision
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.solver import solve as solving
from fedfloor.scheduling.solver.assignment import assign
from fedfloor.scheduling.solver.coupled import enumerated_minimum, searched_minimum
from fedfloor.scheduling.solver.exact import least_delays
from fedfloor.scheduling.solver.packing import floor_budget, floor_link, floor_options, pack
from fedfloor.scheduling.solver.pieces import fastest_time, quickest_pieces
from fedfloor.scheduling.solver.solution import Solution
from fedfloor.scheduling.solver.solve import solve
from fedfloor.scheduling.solver.uplink import Link, best_upload, upload_power
from fedfloor.scheduling.state import IDLE, RoundState
from fedfloor.scheduling.usage import usage_of
from tests.conftest import known
from tests.scheduling.oracle import best_objective, broken_constraints, least_delay, random_round, wrong_optimum

ROUNDS = 208
BLOCK = 26


def paper_state(seed: int, *, preset: str = "paper-cifar10-random", queues: bool = True) -> RoundState:
    plant = fedfloor.load(preset, seed=seed)
    state = SimulatedPlant(plant, simulated_rates(plant)).observe()
    queue = np.random.default_rng(seed).uniform(0, 3, state.queue.size) if queues else state.queue
    return dataclasses.replace(state, queue=queue)


def with_gateways(state: RoundState, **changes: npt.NDArray[np.float64]) -> RoundState:
    gateways: Gateways = dataclasses.replace(state.plant.gateways, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(state, plant=dataclasses.replace(state.plant, gateways=gateways))


@pytest.mark.parametrize(
    "first", [0, BLOCK, *(pytest.param(first, marks=pytest.mark.slow) for first in range(2 * BLOCK, ROUNDS, BLOCK))]
)
def test_exact_equals_full_enumeration(first: int) -> None:
    for seed in range(first, first + BLOCK):
        rng = np.random.default_rng(seed)
        state, tradeoff = random_round(rng), float(rng.choice([0.0, 0.01, 1.0, 100.0]))
        found = solve(state, tradeoff)
        assert wrong_optimum(state, tradeoff, found) == [], seed
        assert found.gap == 0.0


@pytest.mark.parametrize("solver", ["exact", "paper"])
@pytest.mark.parametrize("preset", ["paper-cifar10-random", "quick", "factory", "line"])
def test_every_answer_keeps_every_constraint(solver: str, preset: str) -> None:
    for seed in range(12):
        state = paper_state(seed, preset=preset)
        assert broken_constraints(state, solve(state, 1.0, solver)) == []


@pytest.mark.parametrize("solver", ["exact", "paper"])
def test_answers_to_odd_rounds_keep_every_constraint(solver: str) -> None:
    for seed in range(1000, 1300):
        rng = np.random.default_rng(seed)
        state = random_round(rng)
        work = state.plant.workload
        if seed % 3 == 0:  # next to nothing in the last layer
            flop = np.diff(work.flop_below)
            flop[-1] = 10 ** rng.uniform(0, 4)
            below = np.concatenate([[0.0], np.cumsum(flop)])
            state = dataclasses.replace(
                state, plant=dataclasses.replace(state.plant, workload=dataclasses.replace(work, flop_below=below))
            )
        if seed % 5 == 0:  # a base station next door
            gain = np.minimum(state.weather.uplink_gain * 1e6, 1.0)
            state = dataclasses.replace(state, weather=dataclasses.replace(state.weather, uplink_gain=gain))
        found = solve(state, 1.0, solver)
        assert broken_constraints(state, found) == [], seed
        check_decision(state, found.decision)


def test_compiled_code_is_kept_by_the_state_of_its_sources() -> None:
    from fedfloor.scheduling.solver import cache

    assert "solver-" in cache.FOLDER
    assert cache.find_folder() == cache.FOLDER


def test_exact_is_never_behind_the_papers_algorithm() -> None:
    better = 0
    for seed in range(125):
        plant = fedfloor.load("paper-cifar10-random", seed=seed)
        driver = SimulatedPlant(plant, simulated_rates(plant))
        for index in range(8):
            driver.index = index
            rng = np.random.default_rng([seed, index])
            state = dataclasses.replace(driver.observe(), queue=rng.uniform(0, 4, 6))
            tradeoff = float(rng.choice([0.01, 1.0, 1000.0]))
            ours, theirs = solve(state, tradeoff), solve(state, tradeoff, "paper")
            counts = int(ours.decision.selected.sum()), int(theirs.decision.selected.sum())
            assert counts[0] >= counts[1]
            if counts[0] == counts[1]:
                assert ours.objective <= theirs.objective + 1e-9 * max(1.0, abs(theirs.objective))
                better += ours.objective < theirs.objective - 1e-6 * abs(theirs.objective)
    assert better > 500  # of 1,000 rounds


def crowded_state(devices: int, share: float, seed: int = 0) -> RoundState:
    """One floor with many devices whose gateway has only a share of the memory that cut 0 asks for."""
    state = paper_state(seed)
    rng = np.random.default_rng(seed)
    old = state.plant.devices
    batch = rng.integers(5, 60, devices).astype(float)
    many = dataclasses.replace(
        old,
        names=tuple(f"d{n}" for n in range(devices)),
        floor=np.zeros(devices, dtype=np.int64),
        batch=batch,
        flops_per_cycle=np.full(devices, 16.0),
        switched_capacitance=np.full(devices, 1e-27),
        frequency=rng.uniform(1e8, 1e9, devices),
        memory_bytes=np.full(devices, 2e9),
    )
    work = state.plant.workload
    memory = share * float(np.sum(work.fixed_bytes_below[-1] + batch * work.sample_bytes_below[-1]))
    one = {f.name: getattr(state.plant.gateways, f.name)[:1] for f in dataclasses.fields(state.plant.gateways)}
    gateways = Gateways(**{**one, "memory_bytes": np.array([memory])})
    weather = {f.name: getattr(state.weather, f.name)[:1] for f in dataclasses.fields(state.weather)}
    weather |= {"device_energy": rng.uniform(1, 5, devices), "gateway_energy": np.array([25.0])}
    return dataclasses.replace(
        state,
        plant=dataclasses.replace(state.plant, gateways=gateways, devices=many),
        weather=dataclasses.replace(state.weather, **weather),
        queue=np.ones(1),
        target_rate=np.ones(1),
        last_loss=np.full(1, np.nan),
    )


@pytest.mark.parametrize("devices", [20, 50])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("frequency", [4e9, 20e9])
@pytest.mark.parametrize("energy", [2.0, 25.0])
def test_many_devices_that_compete_have_a_tiny_proven_gap(
    devices: int, share: float, frequency: float, energy: float
) -> None:
    state = crowded_state(devices, share, seed=devices)
    gateways = dataclasses.replace(state.plant.gateways, max_frequency=np.array([frequency]))
    state = dataclasses.replace(
        state,
        plant=dataclasses.replace(state.plant, gateways=gateways),
        weather=dataclasses.replace(state.weather, gateway_energy=np.array([energy])),
    )
    found = solve(state, 1.0)
    assert found.gap is not None
    assert found.gap <= 1e-6
    assert broken_constraints(state, found) == []


@pytest.mark.parametrize("seed", range(4))
def test_the_search_brackets_what_enumeration_finds(seed: int) -> None:
    state = crowded_state(4, 0.4, seed)  # 50,625 combinations of cuts: few enough to try them all
    packed, _ = pack(state)
    options, budget = floor_options(packed, 0), floor_budget(packed, 0)
    earliest = fastest_time(options, quickest_pieces(options), budget.max_frequency)
    a, w, choice = np.empty(4), np.empty(4), np.zeros(4, np.int64)
    for j in range(3):
        link = floor_link(packed, 0, j)
        tried = enumerated_minimum(options, budget, link, 0.0, choice, a, w).value
        value, _, proven = searched_minimum(earliest, options, budget, link, 0.0, choice, a, w)
        assert proven <= tried * (1 + 1e-12)
        assert value >= tried * (1 - 1e-12)
        assert value - proven <= 1e-6 * value


@pytest.mark.parametrize("tradeoff", [0.0, 0.01, 1.0, 1e3])
def test_assignment_equals_all_thresholds_with_the_hungarian_method(tradeoff: float) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        floors, channels = rng.integers(1, 9), rng.integers(1, 6)
        delay = rng.uniform(1, 50, (floors, channels))
        delay[rng.random(delay.shape) < 0.3] = math.inf
        queue = rng.uniform(0, 5, floors) * (rng.random(floors) > 0.3)
        found = assign(delay, queue, tradeoff)
        best, most = math.inf, 0
        for limit in np.unique(delay[np.isfinite(delay)]):
            allowed = delay <= limit
            rows, columns = linear_sum_assignment(np.where(allowed, -queue[:, None] - 1e3, 0.0))
            kept = allowed[rows, columns]
            objective = tradeoff * limit - queue[rows[kept]].sum()
            if kept.sum() > most or (kept.sum() == most and objective < best):
                best, most = objective, int(kept.sum())
        assert int((found.channel != IDLE).sum()) == most
        assert found.objective == pytest.approx(best if most else 0.0, abs=1e-9 * max(1.0, tradeoff * 50))


def test_ties_go_to_the_smaller_delay_and_then_the_lower_index() -> None:
    delay = np.array([[5.0, 9.0], [5.0, 7.0], [5.0, 7.0]])
    found = assign(delay, np.zeros(3), 0.0)
    assert (found.delay, found.channel.tolist()) == (7.0, [0, 1, IDLE])


def test_upload_time_spends_exactly_its_energy() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        link = Link(10 ** rng.uniform(0, 3), 10 ** rng.uniform(-6, 1), 10 ** rng.uniform(-3, 1.2))
        energy = link.least * (1 + 10 ** rng.uniform(-5, 4))
        upload, slope = best_upload(energy, link)
        power = upload_power(upload, link)
        if slope == 0.0:
            assert upload == pytest.approx(link.scale / link.most_log)
            assert power * upload <= energy * (1 + 1e-9)
        else:
            assert power * upload == pytest.approx(energy, rel=1e-9)
            step = 1e-4 * (energy - link.least)
            more, less = best_upload(energy + step, link)[0], best_upload(energy - step, link)[0]
            assert more == pytest.approx(link.scale / link.most_log) or (more - less) / (2 * step) == pytest.approx(
                slope, rel=1e-3
            )


# edges


def test_one_floor_one_device_one_layer() -> None:
    rng = np.random.default_rng(0)
    while True:
        state = random_round(rng)
        small = state.gain_up.shape == (1, 1) and state.plant.devices.floor.size == state.plant.workload.layers == 1
        if small and state.weather.gateway_energy[0] > 1:
            break
    found = solve(state, 1.0)
    assert found.objective == pytest.approx(best_objective(np.array([[least_delay(state, 0, 0)]]), state.queue, 1.0)[1])


def test_a_round_in_which_nobody_can_be_served_passes() -> None:
    state = paper_state(1)
    empty = dataclasses.replace(state, weather=dataclasses.replace(state.weather, gateway_energy=np.zeros(6)))
    for solver in ("exact", "paper"):
        found = solve(empty, 1000.0, solver)
        assert (found.delay, found.objective, int(found.decision.selected.sum())) == (0.0, 0.0, 0)
    assert all(
        reason is not None and "energy of the gateway: needs more than" in reason
        for reason in solve(empty, 1.0).reasons
    )


def test_queues_grow_when_nobody_can_be_served() -> None:
    poor = ["floors.0.gateway.max_energy_j=0", "floors.1.gateway.max_energy_j=0"]
    run = fedfloor.simulate("quick", "ddsra", rounds=3, overrides=poor)
    assert [record.delay_s for record in run.records] == [0.0, 0.0, 0.0]
    assert [record.gateways[0].queue for record in run.records] == pytest.approx([0.0, 0.9, 1.8])


def test_zero_gain_leaves_a_floor_out_and_says_so() -> None:
    state = paper_state(2)
    gain = state.weather.uplink_gain.copy()
    gain[4] = 0.0
    found = solve(dataclasses.replace(state, weather=dataclasses.replace(state.weather, uplink_gain=gain)), 1.0)
    assert found.reasons[4] == "infeasible: radio: no channel delivers in both directions"
    assert int(found.decision.selected.sum()) == 3


@pytest.mark.parametrize("tradeoff", [1e-300, 1e30])
@pytest.mark.parametrize("gain", [5e-324, 1e-300, 1e-290, 1e-30, 1.0, 1e300])
def test_extreme_gains_give_finite_answers(gain: float, tradeoff: float) -> None:  # warnings are errors
    state = paper_state(2)
    for limited in (True, False):
        energy = state.weather.gateway_energy if limited else np.full_like(state.weather.gateway_energy, np.inf)
        for links in (("uplink_gain",), ("downlink_gain",), ("uplink_gain", "downlink_gain")):
            gains = {key: np.full_like(state.gain_up, gain) for key in links}
            weather = dataclasses.replace(state.weather, gateway_energy=energy, **gains)
            extreme = dataclasses.replace(state, weather=weather)
            exact, paper = solve(extreme, tradeoff), solve(extreme, tradeoff, "paper")
            assert exact.decision.selected.sum() >= paper.decision.selected.sum()
            for found in (exact, paper):
                assert math.isfinite(found.objective)
                assert math.isfinite(found.delay)
                assert not any("inf " in (reason or "") for reason in found.reasons)
                usage = usage_of(extreme, found.decision.channel, known(found.decision.allocation))
                assert round_delay(usage.delay, found.decision.selected) == pytest.approx(found.delay, rel=1e-7)
                assert not (usage.short_of_energy | usage.short_of_memory).any()


@pytest.mark.parametrize("energy", [1e-4, 1e-20, 1e-30, 1e-40])
def test_training_that_takes_ages_is_found_by_both_solvers(energy: float) -> None:
    state = paper_state(2)
    weather = dataclasses.replace(
        state.weather,
        uplink_gain=np.full_like(state.gain_up, 1e100),
        gateway_energy=np.full_like(state.weather.gateway_energy, energy),
    )
    slow = dataclasses.replace(state, weather=weather)
    exact, paper = solve(slow, 1.0), solve(slow, 1.0, "paper")
    assert exact.decision.selected.sum() == 3 >= paper.decision.selected.sum()
    assert broken_constraints(slow, exact) == []


def test_more_channels_than_floors_serves_every_floor() -> None:
    plant = fedfloor.load("paper-cifar10-random", ["radio.channels=9"])
    found = solve(SimulatedPlant(plant, simulated_rates(plant)).observe(), 1.0)
    assert int(found.decision.selected.sum()) == 6


@pytest.mark.parametrize("tradeoff", [0.0, 1e12])
def test_extreme_tradeoffs_have_their_limits(tradeoff: float) -> None:
    state = paper_state(3)
    delays = least_delays(*pack(state)).best
    found = solve(state, tradeoff)
    if tradeoff:
        fastest = min(
            max(delays[m, j] for m, j in zip(group, places, strict=True))
            for group in itertools.combinations(range(6), 3)
            for places in itertools.permutations(range(3))
        )
        assert found.delay == pytest.approx(fastest)
    else:
        assert found.objective == pytest.approx(-np.sort(state.queue)[-3:].sum())


def test_a_device_that_can_afford_no_cut_is_named() -> None:
    state = paper_state(1)
    work = dataclasses.replace(state.plant.workload, min_cut=5)
    energy = state.weather.device_energy.copy()
    energy[2] = 0.0
    poor = dataclasses.replace(
        state,
        plant=dataclasses.replace(state.plant, workload=work),
        weather=dataclasses.replace(state.weather, device_energy=energy),
    )
    reason = solve(poor, 1.0).reasons[1]
    assert reason is not None
    assert reason.startswith("infeasible: energy of floor-2.device-1: cut 5 needs")


def test_a_gateway_without_memory_is_named() -> None:
    state = paper_state(1)
    memory = state.plant.gateways.memory_bytes.copy()
    memory[0] = 1.0
    poor = with_gateways(state, memory_bytes=memory)
    energy = np.full(12, 1e-3)  # deep cuts are out of reach, so the gateway has to hold something
    poor = dataclasses.replace(poor, weather=dataclasses.replace(poor.weather, device_energy=energy))
    assert "memory of the gateway: needs" in str(solve(poor, 1.0).reasons[0])


def test_without_limits_the_fastest_allocation_is_found() -> None:
    plant = fedfloor.load("paper-cifar10-random", ["limits=false"])
    state = SimulatedPlant(plant, simulated_rates(plant)).observe()
    found: Solution = solve(state, 1000.0)
    assert found.gap == 0.0
    served = found.decision.selected
    assert found.decision.allocation is not None
    assert found.decision.allocation.power[served] == pytest.approx(0.2)
    assert broken_constraints(state, found) == []


@pytest.mark.parametrize("solver", ["exact", "paper"])
def test_a_round_is_decided_without_explaining_it_and_as_it_is_explained(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = [random_round(np.random.default_rng([5, seed])) for seed in range(10)]
    explained = [Ddsra(v=1.0, solver=solver).solution(state).decision for state in states]
    monkeypatch.setattr(solving, "reasons", None)
    monkeypatch.setattr(solving, "_gap", None)
    for state, solution in zip(states, explained, strict=True):
        decision = Ddsra(v=1.0, solver=solver).schedule(state)
        assert np.array_equal(decision.channel, solution.channel)
        assert decision.allocation is not None
        assert solution.allocation is not None
        for key in ("cut", "frequency", "power"):
            assert np.array_equal(getattr(decision.allocation, key), getattr(solution.allocation, key))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"v": -1.0}, r"v must be a number from 0 to 1e\+30, got -1.0"),
        ({"v": math.inf}, r"v must be a number from 0 to 1e\+30, got inf"),
        ({"v": "fast"}, r"v must be a number from 0 to 1e\+30, got .fast."),
        ({"v": None}, r"v must be a number from 0 to 1e\+30, got None"),
        ({"solver": "cplex"}, "solver must be exact or paper, got 'cplex'"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as raised:
        Ddsra(**settings)  # type: ignore[arg-type]
    assert isinstance(raised.value, FedfloorError)


def test_participation_meets_its_targets_at_small_v() -> None:
    from fedfloor.rounds.summary import summarise

    summary = summarise(fedfloor.simulate("paper-cifar10-random", "ddsra:v=0.01", rounds=400).records)
    assert summary.shortfall <= 0.03
    assert summary.completed == 1200
