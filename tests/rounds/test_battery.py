"""Batteries: what a round leaves over is there in the next one, up to the capacity, and replays from the log."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.errors import RunLogError, ScenarioError
from fedfloor.rounds.loop import run_rounds
from fedfloor.rounds.plants.simulated import SimulatedPlant, carried_over, simulated_rates
from fedfloor.runs.logged import logged_round
from fedfloor.runs.planned import resolve
from fedfloor.scenario import resolved_toml
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.registry import make_policy, parse_policy
from fedfloor.weather.draws import climate_of
from tests.conftest import Table, small_table

POOR = ["floors.0.gateway.max_energy_j=0.1", "floors.1.gateway.max_energy_j=0.1", "baseline.cut=1"]
BATTERY = ["battery.gateway_capacity_j=0.3", "battery.device_capacity_j=0.05"]
POLICIES = ["ddsra:v=1", "random", "delay_driven"]


def test_what_is_left_over_is_kept_up_to_the_capacity() -> None:
    found = carried_over(
        np.array([5.0, 5.0, 1.0, np.inf]), np.array([1.0, 4.5, 1.0, np.inf]), capacity=np.array([2.0, 2.0, 2.0, 2.0])
    )
    assert found.tolist() == [2.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("policy", POLICIES)
def test_arrivals_are_spent_kept_or_lost(policy: str) -> None:
    plant = fedfloor.load("quick", [*BATTERY, *POOR])
    driver, climate = SimulatedPlant(plant, simulated_rates(plant)), climate_of(plant)
    arrived, spent, lost = np.zeros(18), np.zeros(18), np.zeros(18)
    level = driver.device_level
    assert not level.any()
    assert not driver.gateway_level.any()
    for record in run_rounds(driver, make_policy(parse_policy(policy))[1], 40):
        weather, drawn = record.state.weather, climate.weather(record.state.index)
        assert np.array_equal(weather.device_energy, drawn.device_energy + level)
        assert np.all(record.outcome.device_energy <= weather.device_energy)
        assert np.all(record.outcome.gateway_energy <= weather.gateway_energy)
        assert np.all((driver.gateway_level >= 0.0) & (driver.gateway_level <= 0.3))
        assert np.all((driver.device_level >= 0.0) & (driver.device_level <= 0.05))
        left = weather.device_energy - record.outcome.device_energy
        assert np.array_equal(driver.device_level, np.minimum(left, 0.05))
        arrived += drawn.device_energy
        spent += record.outcome.device_energy
        lost += left - driver.device_level
        level = driver.device_level
    assert arrived == pytest.approx(spent + lost + level)
    assert spent.any()
    assert lost.any()


@pytest.mark.parametrize("policy", POLICIES)
def test_every_logged_round_replays_with_what_its_batteries_held(policy: str, tmp_path: Path) -> None:
    run = fedfloor.simulate("quick", policy, rounds=12, overrides=[*BATTERY, *POOR], out=tmp_path / "run")
    plant = fedfloor.load("quick", [*BATTERY, *POOR])
    driver = SimulatedPlant(plant, simulated_rates(plant))
    live = [record.state for record in run_rounds(driver, make_policy(parse_policy(policy))[1], 12)]
    for record in run.records:
        index = record.round
        replayed = logged_round(tmp_path / "run", index).state.weather
        assert np.array_equal(replayed.gateway_energy, live[index].weather.gateway_energy)
        assert np.array_equal(replayed.device_energy, live[index].weather.device_energy)
        found = fedfloor.plan(tmp_path / "run", round=index)
        for logged, planned in zip(record.gateways, found["gateways"], strict=True):
            assert planned["channel"] == logged.channel
            assert planned["failure"] == logged.failure
            assert planned["energy_budget_j"] == logged.energy_budget_j
            for one, other in zip(logged.devices, planned["devices"], strict=True):
                assert (one.name, one.energy_budget_j) == (other["name"], other["energy_budget_j"])


@pytest.mark.parametrize("off", [[], ["limits=false"]])
def test_no_battery_an_empty_one_and_endless_energy_leave_the_same_log(off: list[str], tmp_path: Path) -> None:
    logs = []
    cases: list[list[str]] = [[], ["battery.gateway_capacity_j=0", "battery.device_capacity_j=0"], ["battery={}"]]
    if off:  # without limits the size does not matter
        cases.append(BATTERY)
    for number, extra in enumerate(cases):
        folder = tmp_path / str(number)
        fedfloor.simulate("quick", "ddsra:v=1", rounds=8, overrides=[*off, *extra], out=folder)
        fedfloor.plan(folder, round=7)
        logs.append((folder / "rounds.jsonl").read_bytes())
    assert all(log == logs[0] for log in logs)


def test_without_a_battery_a_round_has_what_arrives_and_no_more() -> None:
    plant = fedfloor.load("quick")
    climate = climate_of(plant)
    for record in run_rounds(SimulatedPlant(plant, simulated_rates(plant)), Ddsra(v=1.0), 5):
        drawn, seen = climate.weather(record.state.index), record.state.weather
        assert np.array_equal(seen.gateway_energy, drawn.gateway_energy)
        assert np.array_equal(seen.device_energy, drawn.device_energy)
    assert "battery" not in resolved_toml(resolve("quick"))


def test_saved_energy_serves_floors_that_arrivals_alone_do_not() -> None:
    completed = [
        sum(gateway.completed for record in run.records for gateway in record.gateways)
        for run in (
            fedfloor.simulate("quick", "random", rounds=30, overrides=[*POOR, *extra]) for extra in ([], BATTERY)
        )
    ]
    assert completed[1] > completed[0]


def test_executing_twice_spends_once() -> None:
    plant = fedfloor.load("quick", BATTERY)
    levels = []
    for times in (1, 2):
        driver = SimulatedPlant(plant, simulated_rates(plant))
        decision = Ddsra(v=1.0).schedule(driver.observe())
        for _ in range(times):
            driver.execute(decision)
        driver.settle(driver.queue)
        levels.append(driver.gateway_level)
    assert np.array_equal(levels[0], levels[1])


def capacities(battery: Table, write: Callable[[Table], Path]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    held = fedfloor.load(write({**small_table(), "battery": battery})).battery
    return held.gateway_capacity, held.device_capacity


def test_capacities_are_given_for_all_one_by_one_or_drawn(write: Callable[[Table], Path]) -> None:
    assert capacities({"gateway_capacity_j": 2}, write) == ((2.0, 2.0), (0.0, 0.0, 0.0))
    assert capacities({"device_capacity_j": [1, 2, 3]}, write) == ((0.0, 0.0), (1.0, 2.0, 3.0))
    _, drawn = capacities({"device_capacity_j": {"uniform": [1, 2]}}, write)
    assert len(set(drawn)) == 3
    assert all(1 < capacity <= 2 for capacity in drawn)


def test_the_resolved_file_holds_the_same_battery(write: Callable[[Table], Path], tmp_path: Path) -> None:
    path = write({**small_table(), "battery": {"device_capacity_j": {"normal": [1.0, 0.5]}}})
    again = tmp_path / "resolved.toml"
    again.write_text(resolved_toml(resolve(path)), encoding="utf-8")
    assert fedfloor.load(again) == fedfloor.load(path)


@pytest.mark.parametrize(
    ("battery", "expected"),
    [
        ({"gateway_capacity_j": -1}, r"battery\.gateway_capacity_j: must be >= 0, got -1"),
        ({"device_capacity_j": [1, 2]}, r"battery\.device_capacity_j: has 2 values for 3"),
        ({"gateway_capacity": 1}, r"battery\.gateway_capacity: the unit is missing"),
        ({"gateway_capacity_wh": 1}, r"battery\.gateway_capacity_wh: wrong unit .* `gateway_capacity_j = 3600`"),
        ({"capacity_j": 1}, r"battery\.capacity_j: unknown key"),
        (5, r"battery: must be a table"),
    ],
)
def test_a_wrong_battery_is_named(battery: Any, expected: str, write: Callable[[Table], Path]) -> None:
    with pytest.raises(ScenarioError, match=expected):
        fedfloor.load(write({**small_table(), "battery": battery}))


def spender(rounds: Any) -> Any:
    return next(gateway for gateway in rounds[0]["gateways"] if gateway["selected"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda rounds: spender(rounds).update(energy_j="x"),
            r"line 1: gateways\[3\]\.energy_j: must be a number, got 'x'",
        ),
        (
            lambda rounds: spender(rounds).pop("devices"),
            r"line 1: gateways\[3\]\.devices: must be the 3 devices.*, got 0",
        ),
        (
            lambda rounds: spender(rounds)["devices"].pop(),
            r"line 1: gateways\[3\]\.devices: must be the 3 devices.*, got 2",
        ),
        (
            lambda rounds: spender(rounds).update(devices=[5]),
            r"line 1: gateways\[3\]\.devices\[0\]: must be a table, got 5",
        ),
        (lambda rounds: spender(rounds).update(energy_j=0.0), "disagree about the energy"),
        (
            lambda rounds: rounds[0].update(round=7),
            "line 1: round: must be 0, because rounds are logged one after the other, got 7",
        ),
        (lambda rounds: spender(rounds[2:])["devices"][0].update(energy_budget_j=1.0), "disagree about the energy"),
    ],
)
def test_a_ledger_that_was_changed_is_not_replayed(change: Callable[[Any], Any], expected: str, tmp_path: Path) -> None:
    large = ["battery.gateway_capacity_j=100", "battery.device_capacity_j=100"]
    fedfloor.simulate("quick", "random", rounds=3, overrides=large, out=tmp_path / "run")
    log = tmp_path / "run" / "rounds.jsonl"
    rounds = [json.loads(line) for line in log.read_text().splitlines()]
    change(rounds)
    log.write_text("".join(json.dumps(entry) + "\n" for entry in rounds))
    with pytest.raises(RunLogError, match=expected):
        fedfloor.plan(tmp_path / "run", round=2)
