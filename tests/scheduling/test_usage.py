"""A round's figures against the paper's formulas written out with plain numbers, device by device."""

import itertools
import math
import sys
from typing import Any

import numpy as np
import pytest

from fedfloor.costs.layers import layer_costs
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.rounds.record import DeviceRecord, GatewayRecord, RoundRecord
from fedfloor.rounds.summary import summarise
from fedfloor.scenario import Scenario, build, expand
from fedfloor.scenario.reading import parse
from fedfloor.scheduling.allocating import allocated
from fedfloor.scheduling.state import IDLE, Allocation, Decision, RoundState, fixed_allocation
from fedfloor.scheduling.usage import link_times, objective_of, training_usage, usage_of
from tests.conftest import known, small_table


def plant(**precision: int) -> Scenario:
    """Uneven floors, interference everywhere, no two figures alike."""
    table = {**small_table(), "precision": precision}
    table["radio"] |= {"channels": 3, "uplink_bandwidth_mhz": 1.5, "downlink_bandwidth_mhz": 18.0}
    for m, floor in enumerate(table["floors"]):
        floor["gateway"] |= {"distance_m": 1000 + 300 * m, "flops_per_cycle": 24 + 8 * m, "max_power_mw": 150 + 50 * m}
        floor["gateway"] |= {"uplink_interference_w": {"uniform": [1e-13, 3e-13]}}
        floor["gateway"] |= {
            "downlink_interference_w": {"uniform": [4e-13, 9e-13]},
            "switched_capacitance": (1 + m) * 1e-27,
        }
        for n, device in enumerate(floor["devices"]):
            device |= {"samples": 300 + 100 * n + 50 * m, "frequency_ghz": 0.3 + 0.2 * n + 0.1 * m}
            device |= {"flops_per_cycle": 4 + 2 * n, "switched_capacitance": (2 + n) * 1e-27}
    table["baseline"] = {"cut": 1, "frequency_share": 0.4, "power_share": 0.7}
    return build(expand(parse(table, "t"), "t"), "t")


def observed(**precision: int) -> tuple[Scenario, SimulatedPlant, RoundState]:
    scenario = plant(**precision)
    driver = SimulatedPlant(scenario, simulated_rates(scenario))
    return scenario, driver, driver.observe()


CHANNEL = np.array([2, 0])
ALLOCATION = Allocation(cut=np.array([1, 2, 0]), frequency=np.array([1.1e9, 0.0, 2.3e9]), power=np.array([0.11, 0.17]))


def by_hand(scenario: Scenario, state: RoundState, m: int) -> dict[str, Any]:
    """Eq. (1)-(9) for one floor, without any function of the package but the layer costs."""
    costs, radio, gateway = layer_costs(scenario.layers, "exact"), scenario.radio, scenario.floors[m].gateway
    j, weather = CHANNEL[m], state.weather
    tensors, precision = (784 * 16, 16, 16 * 10, 10), scenario.precision
    up_bits = sum(precision.upload * size + (32 if precision.upload < 32 else 0) for size in tensors)
    first = sum(len(floor.devices) for floor in scenario.floors[:m])
    times, joules, spaces, top_joules, top_space = [], [], [], 0.0, 0.0
    for i, device in enumerate(scenario.floors[m].devices):
        n, batch = first + i, max(1, round(0.05 * device.samples))
        cut, f = ALLOCATION.cut[n], ALLOCATION.frequency[n]
        below = sum(costs.flop[:cut]) * batch * scenario.training.local_iterations
        above = sum(costs.flop[cut:]) * batch * scenario.training.local_iterations
        on_gateway = above / (gateway.flops_per_cycle * f) if above else 0.0
        times.append(below / (device.flops_per_cycle * device.frequency) + on_gateway)
        joules.append(device.switched_capacitance / device.flops_per_cycle * below * device.frequency**2)
        spaces.append(sum(costs.fixed_bytes[:cut]) + batch * sum(costs.sample_bytes[:cut]))
        top_joules += gateway.switched_capacitance / gateway.flops_per_cycle * above * f**2
        top_space += sum(costs.fixed_bytes[cut:]) + batch * sum(costs.sample_bytes[cut:])
    noise_down = radio.downlink_bandwidth * radio.noise_density + weather.downlink_interference[m, j]
    noise_up = radio.uplink_bandwidth * radio.noise_density + weather.uplink_interference[m, j]
    power = ALLOCATION.power[m]
    upload = up_bits / (radio.uplink_bandwidth * math.log2(1 + power * weather.uplink_gain[m, j] / noise_up))
    snr_down = radio.base_station_power * weather.downlink_gain[m, j] / noise_down
    return {
        "download": precision.download * sum(tensors) / (radio.downlink_bandwidth * math.log2(1 + snr_down)),
        "training": max(times),
        "upload": upload,
        "gateway_energy": top_joules + power * upload,
        "gateway_bytes": top_space,
        "device_energy": joules,
        "device_bytes": spaces,
    }


@pytest.mark.parametrize("precision", [{}, {"upload": 16}, {"upload": 8, "download": 16}, {"boundary": 8}], ids=str)
@pytest.mark.parametrize("m", [0, 1])
def test_figures_are_those_of_the_paper(m: int, precision: dict[str, int]) -> None:  # Eq. (1)-(9)
    scenario, _, state = observed(**precision)
    found, wanted = usage_of(state, CHANNEL, ALLOCATION), by_hand(scenario, state, m)
    mine = state.plant.devices.floor == m
    for name in ("download", "training", "upload", "gateway_energy", "gateway_bytes"):
        assert getattr(found, name)[m] == pytest.approx(wanted[name], rel=1e-12), name
    for name in ("device_energy", "device_bytes"):
        assert getattr(found, name)[mine] == pytest.approx(wanted[name], rel=1e-12), name
    assert found.delay[m] == pytest.approx(wanted["download"] + wanted["training"] + wanted["upload"])


def test_an_outcome_has_the_figures_of_its_decision() -> None:
    scenario, driver, state = observed()
    outcome = driver.execute(Decision(CHANNEL, ALLOCATION))
    for m in range(2):
        wanted = by_hand(scenario, state, m)
        spent = min(wanted["gateway_energy"], state.weather.gateway_energy[m])
        assert outcome.gateway_energy[m] == pytest.approx(spent)
        enough = wanted["gateway_energy"] <= state.weather.gateway_energy[m]
        devices = state.plant.devices.floor == m
        enough &= bool(np.all(np.array(wanted["device_energy"]) <= state.weather.device_energy[devices]))
        assert outcome.completed[m] == enough


def test_floors_without_a_channel_ask_for_nothing() -> None:
    _, _, state = observed()
    found = usage_of(state, np.array([IDLE, 1]), ALLOCATION)
    for name in ("download", "training", "upload", "gateway_energy", "gateway_bytes"):
        assert getattr(found, name)[0] == 0.0
    assert found.device_energy[:2].tolist() == [0.0, 0.0]


def test_the_fixed_allocation_splits_frequency_and_scales_power() -> None:
    scenario, _, state = observed()
    fixed = fixed_allocation(state)
    assert fixed.frequency == pytest.approx([0.4 * 4e9 / 2, 0.4 * 4e9 / 2, 0.4 * 4e9])
    assert fixed.power == pytest.approx([0.7 * floor.gateway.max_power for floor in scenario.floors])
    assert fixed.cut.tolist() == [1, 1, 1]


def test_baselines_take_the_channels_of_least_total_delay() -> None:
    _, _, state = observed()
    fixed = fixed_allocation(state)
    links, training = link_times(state, fixed.power), training_usage(state, fixed.cut, fixed.frequency).time
    delay = links.download + links.upload + training[:, None]
    best = min(itertools.permutations(range(3), 2), key=lambda places: delay[0, places[0]] + delay[1, places[1]])
    assert allocated(state, np.array([0, 1])).channel.tolist() == list(best)


@pytest.mark.parametrize(("key", "cause"), [("max_energy_j", "energy"), ("memory_gb", "memory")])
def test_one_device_that_lacks_something_fails_its_floor(key: str, cause: str) -> None:
    table = small_table()
    table["floors"][0]["devices"][1][key] = 1e-9
    scenario = build(expand(parse(table, "t"), "t"), "t")
    driver = SimulatedPlant(scenario, simulated_rates(scenario))
    state = driver.observe()
    outcome = driver.execute(Decision(np.array([0, 1])))
    assert outcome.failure[0] == cause
    assert not outcome.completed[0]
    assert np.all(outcome.device_energy <= state.weather.device_energy)


@pytest.mark.parametrize(("way", "delay_counts"), [("uplink_gain", True), ("downlink_gain", False)])
@pytest.mark.parametrize("limits", [True, False])
def test_a_dead_link_loses_its_floor_but_not_the_round(
    way: str, delay_counts: bool, limits: bool, tmp_path: Any
) -> None:
    import fedfloor

    rows = [f"{t},{m},{j},{0 if m == 'press' else 1e-9}" for t in range(5) for m in ("press", "paint") for j in (0, 1)]
    (tmp_path / "gain.csv").write_text("\n".join(["round,floor,channel,gain", *rows]))
    import tomli_w

    (tmp_path / "s.toml").write_text(tomli_w.dumps({**small_table(), "limits": limits, "traces": {way: "gain.csv"}}))
    run = fedfloor.simulate(tmp_path / "s.toml", "round_robin")
    for record in run.records:
        press = record.gateways[0]
        assert (press.failure, press.completed, press.upload_s) == ("lost", False, 0.0)
        assert (known(press.delay_s) > 0) == delay_counts
        assert math.isfinite(record.delay)
    assert math.isfinite(summarise(run.records).mean_energy)


def test_a_summary_adds_up_what_the_log_says() -> None:
    def gateway(name: str, *, completed: bool, failure: str | None, energy: float) -> GatewayRecord:
        return GatewayRecord(
            name=name, selected=completed or failure is not None, completed=completed, failure=failure, delay_s=1.0,
            energy_j=energy, queue=0.0, target_rate=0.6, loss=None,
            devices=(DeviceRecord(name="d", cut=0, energy_j=0.5),),
        )  # fmt: skip

    records = [
        RoundRecord(
            round=t - 1, policy="p", delay_s=float(t), clock_s=float(t * (t + 1) / 2), accuracy=None, loss=None,
            gateways=(
                gateway("a", completed=t > 1, failure=None if t > 1 else "energy", energy=1.0),
                gateway("b", completed=True, failure=None, energy=2.0),
            ),
        )
        for t in range(1, 21)
    ]  # fmt: skip
    summary = summarise(records)
    assert (summary.rounds, summary.completed, dict(summary.failures)) == (20, 39, {"energy": 1})
    assert (summary.mean_delay, summary.p95_delay, summary.clock) == (10.5, 19.0, 210.0)
    assert summary.mean_energy == pytest.approx(4.0)
    assert summary.shortfall == 0.0
    assert [floor.completed_rate for floor in summary.floors] == [0.95, 1.0]


def test_a_finite_delay_has_a_finite_objective() -> None:
    assert objective_of(2.0, 3.0, 1.0) == 5.0
    assert objective_of(1e30, 1e290, 1.0) == sys.float_info.max
    assert objective_of(1.0, math.inf, 1.0) == math.inf
    assert objective_of(0.0, math.inf, 1.0) == -1.0
