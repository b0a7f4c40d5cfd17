"""Rounds in which devices and gateways pay for what they exchange: decided, exported, logged and replayed."""

import copy
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.costs.plant import MeasuredCosts
from fedfloor.errors import SnapshotError
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_outcome, simulated_rates
from fedfloor.scheduling.conversion import snapshot_of, state_of
from fedfloor.scheduling.snapshot import parse_snapshot
from fedfloor.scheduling.solver.coupled import combinations
from fedfloor.scheduling.solver.exact import ENUMERATED
from fedfloor.scheduling.solver.packing import floor_options, pack
from fedfloor.scheduling.solver.solve import solve
from fedfloor.scheduling.state import Decision, RoundState, fixed_allocation
from fedfloor.scheduling.usage import training_usage
from tests.scheduling.oracle import broken_constraints, linked, on_the_link, random_round, wrong_optimum

ROUNDS = 208
BLOCK = 13
WIFI = [
    "hardware.controller.link={rate_up_mbps=0.5, rate_down_mbps=1, device_up_nj_per_bit=20, gateway_up_nj_per_bit=10}"
]


def wireless(*overrides: str) -> RoundState:
    """First round of the quick preset with links."""
    plant = fedfloor.load("quick", overrides=[*WIFI, *overrides])
    return SimulatedPlant(plant, simulated_rates(plant)).observe()


def snapshot(state: RoundState) -> dict[str, Any]:
    """A snapshot as its file has it."""
    table: dict[str, Any] = json.loads(json.dumps(snapshot_of(state, 1.0), default=float))
    return table


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(BLOCK, ROUNDS, BLOCK))]
)
def test_exact_equals_full_enumeration_with_links_and_precision(first: int) -> None:
    coarse = 0
    for seed in range(first, first + BLOCK):
        rng = np.random.default_rng(seed)
        state, tradeoff = linked(rng, random_round(rng)), float(rng.choice([0.0, 0.01, 1.0, 100.0]))
        solution = solve(state, tradeoff)
        assert wrong_optimum(state, tradeoff, solution) == [], seed
        assert solution.gap == 0.0
        work = state.plant.workload
        coarse += work.model_bits not in (work.upload_bits, work.download_bits)
    assert coarse > 0.15 * BLOCK


@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 16))])
def test_exact_equals_full_enumeration_with_many_devices_and_links(block: int) -> None:
    rng, rounds = np.random.default_rng([block, 5]), 0
    while rounds < 3:
        state = linked(rng, random_round(rng, most_floors=1, devices=(4, 5), least_layers=4))
        if combinations(floor_options(pack(state)[0], 0).many, ENUMERATED) <= ENUMERATED:
            continue
        rounds += 1
        solution = solve(state, 1.0)
        assert wrong_optimum(state, 1.0, solution) == [], rounds
        assert (gap := solution.gap) is not None
        assert gap <= (2e-6 if state.plant.gateways.min_frequency[0] == 0.0 else 0.05), rounds


def test_algorithm_1_keeps_every_constraint_and_is_never_ahead_with_links() -> None:
    for seed in range(1000):
        rng = np.random.default_rng([3, seed])
        state = linked(rng, random_round(rng))
        ours, theirs = solve(state, 1.0), solve(state, 1.0, "paper")
        assert broken_constraints(state, theirs) == [], seed
        served, others = int(ours.decision.selected.sum()), int(theirs.decision.selected.sum())
        assert served >= others, seed
        if served == others:
            assert ours.objective <= theirs.objective + 1e-6 * max(1.0, theirs.delay), seed


def test_a_floor_takes_as_long_as_its_slowest_device_with_its_link() -> None:
    state = wireless()
    allocation = fixed_allocation(state)
    usage, free = (
        training_usage(entry, allocation.cut, allocation.frequency)
        for entry in (state, dataclasses.replace(state, plant=_without_links(state)))
    )
    assert usage.link_time is not None
    assert free.link_time is None
    by_hand = [on_the_link(state, n, int(cut)) for n, cut in enumerate(allocation.cut)]
    assert usage.link_time == pytest.approx([entry[0] for entry in by_hand])
    assert usage.device_energy - free.device_energy == pytest.approx([entry[1] for entry in by_hand])
    gateway = np.bincount(state.plant.devices.floor, [entry[2] for entry in by_hand])
    assert usage.gateway_energy - free.gateway_energy == pytest.approx(gateway)
    assert np.all(usage.time > free.time)


def test_a_slow_link_moves_the_cut_and_a_fast_one_does_not() -> None:
    slow = wireless("training.min_cut=1", "baseline.cut=1")  # samples would be the cheapest to send
    fast = _scaled(slow, 1e15)
    free = dataclasses.replace(slow, plant=_without_links(slow))
    cuts = [_cuts(state) for state in (slow, fast, free)]
    assert cuts[0] != cuts[2]
    assert cuts[1] == cuts[2]


def test_a_round_with_links_is_exported_and_decided_alike() -> None:
    state = wireless()
    again = state_of(parse_snapshot(snapshot(state), "round.json"))
    ours, theirs = solve(state, 1.0), solve(again, 1.0)
    assert ours.objective == theirs.objective
    assert ours.decision.channel.tolist() == theirs.decision.channel.tolist()


def test_the_answer_of_plan_names_the_time_on_the_link() -> None:
    answer = fedfloor.plan(snapshot(wireless()))
    served = next(gateway for gateway in answer["gateways"] if gateway["channel"] is not None)
    assert all(device["link_s"] > 0.0 for device in served["devices"])
    assert max(device["link_s"] for device in served["devices"]) < served["train_s"]


def test_links_that_cost_nothing_add_no_key() -> None:
    plant = fedfloor.load("quick")
    table = snapshot(SimulatedPlant(plant, simulated_rates(plant)).observe())
    assert "traffic" not in table
    assert not {"parameters", "boundary_per_sample"} & table["layers"][0].keys()
    assert not {"link", "cycles", "bytes"} & table["gateways"][0]["devices"][0].keys()
    answer = fedfloor.plan(table)
    assert all("link_s" not in device for gateway in answer["gateways"] for device in gateway["devices"])


def test_measured_cycles_decide_in_place_of_flops() -> None:
    state = wireless()
    work, devices, gateways = state.plant.workload, state.plant.devices, state.plant.gateways
    points = (work.local_iterations * devices.batch)[:, None]
    same = MeasuredCosts(
        bottom_cycles=points * work.flop_below / devices.flops_per_cycle[:, None],
        top_cycles=points * (work.flop_below[-1] - work.flop_below) / gateways.flops_per_cycle[devices.floor][:, None],
        bottom_bytes=work.fixed_bytes_below + devices.batch[:, None] * work.sample_bytes_below,
        top_bytes=work.fixed_bytes_below[-1] - work.fixed_bytes_below
        + devices.batch[:, None] * (work.sample_bytes_below[-1] - work.sample_bytes_below),
    )  # fmt: skip
    measured = dataclasses.replace(state, plant=dataclasses.replace(state.plant, measured=same))
    assert solve(measured, 1.0).objective == pytest.approx(solve(state, 1.0).objective, rel=1e-9)
    slower = dataclasses.replace(same, bottom_cycles=1e3 * same.bottom_cycles)
    hard = dataclasses.replace(state, plant=dataclasses.replace(state.plant, measured=slower))
    assert _cuts(hard) == [0] * len(_cuts(hard))
    again = state_of(parse_snapshot(snapshot(measured), "round.json"))
    assert solve(again, 1.0).objective == solve(measured, 1.0).objective


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("traffic",), None, r"traffic: is missing, but gateways\[0\].devices\[0\].link needs it"),
        (("layers", 2, "parameters"), None, r"layers\[2\].parameters: is missing, but gateways\[0\]"),
        (("layers", 0, "boundary_per_sample"), -1, r"layers\[0\].boundary_per_sample: must be >= 0, got -1"),
        (("gateways", 0, "devices", 0, "link", "up_bps"), 0, r"devices\[0\].link.up_bps: must be >= 1e-30, got 0"),
        (("gateways", 0, "devices", 0, "link", "up_bps"), math.nan, r"link.up_bps: must be finite, got nan"),
        (("gateways", 0, "devices", 0, "link", "speed"), 1, r"link.speed: unknown key"),
        (("traffic", "value_bits"), 0, r"traffic.value_bits: must be >= 1, got 0"),
        (("gateways", 1, "devices", 0, "cycles"), {"device": [1.0], "gateway": [1.0]}, r"device: must have 7 val"),
    ],
)  # fmt: skip
def test_wrong_links_of_a_snapshot_are_named(path: tuple[str | int, ...], value: Any, expected: str) -> None:
    table = copy.deepcopy(snapshot(wireless()))
    place: Any = table
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(SnapshotError, match=expected):
        parse_snapshot(table, "round.json")


def test_the_log_names_the_time_on_the_link_and_a_round_is_replanned(tmp_path: Path) -> None:
    run = fedfloor.simulate("quick", rounds=3, overrides=WIFI, out=tmp_path / "run")
    devices = [device for record in run.records for gateway in record.gateways for device in gateway.devices]
    assert all(isinstance(device.link_s, float) and device.link_s > 0.0 for device in devices)
    answer = fedfloor.plan(tmp_path / "run", round=2)
    assert answer["delay_s"] == run.records[2].delay_s


def test_a_device_that_cannot_pay_for_its_link_fails_for_energy() -> None:
    state = _scaled(wireless(), 1.0, joules=1e6)
    channel = np.array([0, 1, 2, -1, -1, -1])
    outcome = simulated_outcome(state, Decision(channel))
    assert outcome.failure[:3] == ("energy",) * 3
    solution = solve(state, 1.0)
    assert not solution.decision.selected.any()
    sent = min(on_the_link(state, 0, cut)[1] for cut in range(state.plant.workload.layers + 1))
    assert f"energy of assembly.camera-1: cut 0 needs {sent:.4g} J" in str(solution.reasons[0])


def _cuts(state: RoundState) -> list[int]:
    decision = solve(state, 1000.0).decision
    assert decision.allocation is not None
    cuts: list[int] = decision.allocation.cut[decision.selected[state.plant.devices.floor]].tolist()
    return cuts


def _without_links(state: RoundState) -> Any:
    return dataclasses.replace(state.plant, devices=dataclasses.replace(state.plant.devices, links=None))


def _scaled(state: RoundState, rate: float, *, joules: float = 0.0) -> RoundState:
    """The same round with links so many times as fast, and energies so many times as high."""
    links = state.plant.devices.links
    assert links is not None
    links = dataclasses.replace(
        links,
        rate_up=rate * links.rate_up,
        rate_down=rate * links.rate_down,
        device_up=joules * links.device_up,
        gateway_up=joules * links.gateway_up,
    )
    devices = dataclasses.replace(state.plant.devices, links=links)
    return dataclasses.replace(state, plant=dataclasses.replace(state.plant, devices=devices))
