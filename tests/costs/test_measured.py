"""Measured costs of halves: interpolation, sums over layers, speeds of kinds, and plants that use them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.costs.compute import computing_energy, split_of, split_of_device, training_time
from fedfloor.costs.hardware import HardwareProfile, profile_text, switched_capacitance
from fedfloor.costs.headline import headline
from fedfloor.costs.layers import exact_costs, layer_costs
from fedfloor.costs.measured import (
    fitted_rates,
    half_bytes,
    half_cycles,
    interpolated,
    is_measured,
    layer_seconds,
)
from fedfloor.costs.plant import arrays_of, split_costs, workload_of
from fedfloor.scenario.layers import LayerSpec
from tests.conftest import Table, known
from tests.costs.profiles import LAYERS, profile_of

Write = Callable[..., Path]
BATCHES = np.array([1.0, 10.0, 23.0, 50.0, 200.0])


def test_between_measured_batches_values_are_numpys_interpolation() -> None:
    rng = np.random.default_rng(0)
    measured, values = [4, 9, 10, 31], rng.uniform(1, 2, (4, 3))
    batch = np.linspace(4, 31, 50)
    expected = np.stack([np.interp(batch, measured, column) for column in values.T], axis=1)
    assert np.allclose(interpolated(batch, measured, values), expected, rtol=1e-12)


def test_outside_measured_batches_values_lie_on_the_nearest_line() -> None:
    values = np.array([[3.0], [5.0], [9.0]])
    assert interpolated(np.array([5.0, 50.0]), [10, 20, 30], values)[:, 0].tolist() == [2.0, 17.0]


def test_batches_outside_the_measured_ones_are_never_free() -> None:
    steep, falling = np.array([[1.0], [9.0]]), np.array([[9.0], [1.0]])
    assert interpolated(np.array([5.0]), [10, 20], steep)[0, 0] == 0.5  # in proportion to the smallest
    assert interpolated(np.array([21.0, 1000.0]), [10, 20], falling)[:, 0].tolist() == [1.0, 1.0]  # as the largest
    assert interpolated(np.array([5.0]), [10, 20], falling)[0, 0] == 13.0


def test_one_measured_batch_means_values_in_proportion() -> None:
    assert interpolated(np.array([5.0, 20.0]), [10], np.array([[4.0]]))[:, 0].tolist() == [2.0, 8.0]


def test_cycles_of_the_halves_are_the_layers_seconds_times_the_frequency() -> None:
    profile = profile_of(frequency=2e9, step=2e-4)
    cycles = half_cycles(profile, LAYERS, np.array([30.0]), 5)
    first, second = 1e-4 + 3e-4, 2e-4 + 3e-4
    assert cycles.bottom[0] == pytest.approx([0.0, 1e10 * (first + 2e-4), 1e10 * (first + second + 2e-4)])
    assert cycles.top[0] == pytest.approx([1e10 * (first + second + 2e-4), 1e10 * (second + 2e-4), 0.0])


def test_deeper_cuts_never_take_cycles_from_the_device_or_give_some_to_the_gateway() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        times = {(index, batch): rng.uniform(1e-5, 1e-3) for index in range(2) for batch in (10, 50)}
        profile = profile_of(seconds=partial(lambda times, index, batch: times[index, batch], times))
        cycles = half_cycles(profile, LAYERS, BATCHES, 1)
        assert np.all(np.diff(cycles.bottom) >= 0)
        assert np.all(np.diff(cycles.top) <= 0)
        assert np.all(cycles.top >= 0)


def test_layers_of_another_network_count_if_they_are_equal() -> None:
    wider = LayerSpec(name="middle", kind="linear", input=(16,), output=(20,))
    network = [LAYERS[0].model_copy(update={"name": "renamed"}), wider]
    profile = profile_of()
    assert is_measured(profile, network).tolist() == [True, False]
    seconds = layer_seconds(profile, network, BATCHES)
    assert np.array_equal(seconds[:, 0], layer_seconds(profile, LAYERS, BATCHES)[:, 0])
    assert seconds[:, 1] == pytest.approx(exact_costs(network).flop[1] * BATCHES / 1e9)


def test_the_first_layer_stands_for_no_layer_further_up() -> None:
    square = LayerSpec(name="linear1", kind="linear", input=(8,), output=(8,))
    profile = profile_of([square])
    assert is_measured(profile, [square, square.model_copy(update={"name": "linear2"})]).tolist() == [True, False]


def square(name: str) -> LayerSpec:
    return LayerSpec(name=name, kind="linear", input=(8,), output=(8,))


def test_equal_layers_of_one_network_keep_their_own_times() -> None:
    network = [square("first"), square("second"), square("third")]
    profile = profile_of(network, seconds=lambda index, batch: 1e-3 * (index + 1))
    assert layer_seconds(profile, network, np.array([10.0]))[0] == pytest.approx([1e-3, 2e-3, 3e-3])


def test_a_layer_of_another_network_has_the_mean_time_of_its_equals() -> None:
    profile = profile_of([square(f"layer{i}") for i in range(3)], seconds=lambda index, batch: 1e-3 * (index + 1))
    assert layer_seconds(profile, [square("a"), square("b")], np.array([10.0]))[0] == pytest.approx([1e-3, 2.5e-3])


def test_a_layer_that_passes_no_error_down_stands_for_no_other_even_above_a_pooling() -> None:
    pool = LayerSpec(name="pool", kind="max_pooling", input=(1, 4, 2), output=(1, 2, 1), kernel=(2, 2),
                     attached=("flatten",))  # fmt: skip
    head = LayerSpec(name="head", kind="linear", input=(2,), output=(2,))
    profile = profile_of([pool, head])
    assert is_measured(profile, [head, head.model_copy(update={"name": "above"})]).tolist() == [True, False]


def test_memory_is_measured_for_the_same_network_and_counted_for_another() -> None:
    profile = profile_of()
    held = half_bytes(profile, LAYERS, np.array([30.0]), "exact")
    assert held.bottom[0] == pytest.approx([0.0, 1e5 + 300, 2e5 + 300])
    assert held.top[0] == pytest.approx([1e6 + 600, 5e5 + 600, 0.0])
    other = [LAYERS[0].model_copy(update={"attached": ()}), LAYERS[1]]
    costs = layer_costs(other, "paper")
    counted = half_bytes(profile, other, np.array([30.0]), "paper")
    assert counted.bottom[0, -1] == counted.top[0, 0] == np.sum(costs.fixed_bytes + 30 * costs.sample_bytes)


def test_a_machine_of_constant_speed_is_found_again_without_error() -> None:
    batches = (10, 50)
    seconds = np.outer(batches, exact_costs(LAYERS).flop) / 3e9
    rate = fitted_rates(LAYERS, batches, seconds)["linear"]
    assert rate.flop_per_s == pytest.approx(3e9)
    assert rate.error == pytest.approx(0.0, abs=1e-12)
    assert rate.layers == 2
    seconds[:, 1] *= 2  # half as fast: between the two speeds, and both are off
    assert fitted_rates(LAYERS, batches, seconds)["linear"].error == pytest.approx(1 / 3)


def test_measured_power_is_the_energy_of_the_cycles_over_their_time() -> None:
    power, measured_at, cycles = 4.0, 1.5e9, np.array([3e9])
    capacitance = np.array([switched_capacitance(power, measured_at)])
    one = np.ones(1)
    energy = computing_energy(cycles, np.array([measured_at]), capacitance, one)
    assert energy[0] == pytest.approx(power * cycles[0] / measured_at)


def with_profiles(table: Table, write: Write, device: HardwareProfile | None, gateway: HardwareProfile | None) -> Path:
    """A scenario whose first device and first gateway have profiles."""
    path = write(table)
    for name, profile in (("device.json", device), ("gateway.json", gateway)):
        if profile is not None:
            (path.parent / name).write_text(profile_text(profile))
    if device is not None:
        table["floors"][0]["devices"][0]["profile"] = "device.json"
    if gateway is not None:
        table["floors"][0]["gateway"]["profile"] = "gateway.json"
    return write(table)


def test_device_and_gateway_use_their_own_profiles_and_others_their_data_sheets(table: Table, write: Write) -> None:
    slow, fast = profile_of(frequency=1e9), profile_of(frequency=4e9, step=1e-5)
    scenario = fedfloor.load(with_profiles(table, write, slow, fast))
    plant = arrays_of(scenario)
    measured, counted = plant.measured, split_costs(workload_of(scenario), np.arange(3), plant.devices.batch[:, None])
    assert measured is not None
    batch = plant.devices.batch
    assert np.array_equal(measured.bottom_cycles[0], half_cycles(slow, LAYERS, batch, 5).bottom[0])
    assert np.array_equal(measured.bottom_bytes[0], half_bytes(slow, LAYERS, batch, "exact").bottom[0])
    assert np.array_equal(measured.top_cycles[:2], half_cycles(fast, LAYERS, batch, 5).top[:2])
    assert np.array_equal(measured.bottom_cycles[1:], counted.bottom_flop[1:] / 16)
    assert np.array_equal(measured.top_cycles[2], counted.top_flop[2] / 32)
    assert np.array_equal(measured.top_bytes[2], counted.top_bytes[2])


@pytest.mark.parametrize("cost_model", ["exact", "paper"])
def test_momentum_adds_the_velocity_to_measured_bytes_and_nothing_to_measured_times(
    table: Table, write: Write, cost_model: str
) -> None:
    path = with_profiles(table, write, profile_of(), profile_of())
    settings = [f"costs.model={cost_model}"]
    plain, rolling = (
        known(arrays_of(fedfloor.load(path, [*settings, *more])).measured) for more in ((), ("training.momentum=0.9",))
    )
    velocity = 4.0 * np.cumsum([0, *(layer.parameters for layer in LAYERS)])
    assert rolling.bottom_bytes[0] == pytest.approx(plain.bottom_bytes[0] + velocity)
    assert rolling.top_bytes[:2] == pytest.approx(plain.top_bytes[:2] + velocity[-1] - velocity)
    assert np.array_equal(rolling.bottom_cycles[0], plain.bottom_cycles[0])
    assert np.array_equal(rolling.top_cycles[:2], plain.top_cycles[:2])


def test_a_plant_without_profiles_has_no_measured_costs(table: Table, write: Write) -> None:
    assert arrays_of(fedfloor.load(write(table))).measured is None


def test_a_profile_that_says_what_the_data_sheet_says_changes_no_round(table: Table, write: Write) -> None:
    plain = write(table, "plain.toml")
    workload = workload_of(fedfloor.load(plain))
    flop, fixed, sample = workload.flop_below, workload.fixed_bytes_below, workload.sample_bytes_below

    def sheet(flops_per_cycle: float) -> HardwareProfile:
        return profile_of(
            seconds=lambda index, batch: float(batch * np.diff(flop)[index] / flops_per_cycle / 2e9),
            step=0.0,
            memory=lambda index, batch: (
                float(fixed[index + 1] + batch * sample[index + 1]),
                float(fixed[-1] - fixed[index] + batch * (sample[-1] - sample[index])),
            ),
        )

    measured = with_profiles(table, write, sheet(16), sheet(32))
    for policy in ("ddsra:v=10", "ddsra:v=10,solver=paper", "round_robin"):
        one = fedfloor.read(fedfloor.simulate(plain, policy, rounds=5), per="device")
        other = fedfloor.read(fedfloor.simulate(measured, policy, rounds=5), per="device")
        assert one["cut"] == other["cut"]
        assert one["energy_j"] == pytest.approx(other["energy_j"], rel=1e-9)
        assert one["memory_bytes"] == pytest.approx(other["memory_bytes"], rel=1e-9)


def test_time_and_energy_follow_the_decided_frequency(table: Table, write: Write) -> None:
    plant = arrays_of(fedfloor.load(with_profiles(table, write, profile_of(), profile_of())))
    assert plant.measured is not None
    cut = np.ones(3, np.int64)
    split = split_of(plant, cut)
    speeds = plant.gateways.flops_per_cycle[plant.devices.floor] * 1e9
    seconds = training_time(split.bottom_flop, split.top_flop, plant.devices.flops_per_cycle * 0.5e9, speeds)
    expected = plant.measured.bottom_cycles[0, 1] / 0.5e9 + plant.measured.top_cycles[0, 1] / 1e9
    assert seconds[0] == pytest.approx(expected)
    devices = plant.devices
    energy = computing_energy(
        split.bottom_flop, devices.frequency, devices.switched_capacitance, devices.flops_per_cycle
    )
    assert energy[0] == pytest.approx(1e-27 * plant.measured.bottom_cycles[0, 1] * 0.5e9**2)
    for n in range(3):
        alone = split_of_device(plant, n, np.array([1]))
        assert alone.bottom_flop[0] == split.bottom_flop[n]
        assert alone.top_bytes[0] == split.top_bytes[n]


def test_a_hardware_class_gives_its_profile_to_its_devices(table: Table, write: Write) -> None:
    table["hardware"] = {"plc": {key: table["floors"][1]["devices"][0].pop(key) for key in (
        "frequency_ghz", "flops_per_cycle", "switched_capacitance", "memory_gb", "max_energy_j")}}  # fmt: skip
    table["hardware"]["plc"]["profile"] = "device.json"
    table["floors"][1]["devices"][0]["hardware"] = "plc"
    path = with_profiles(table, write, profile_of(), None)
    assert [device.profile for device in fedfloor.load(path).devices] == [
        path.parent / "device.json", None, path.parent / "device.json",
    ]  # fmt: skip


def test_a_run_folder_finds_its_profile_from_anywhere(
    table: Table, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_profiles(table, write, profile_of(), profile_of())
    monkeypatch.chdir(tmp_path)
    fedfloor.simulate("plant.toml", "ddsra:v=10", rounds=2, out="run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    answer: Any = fedfloor.plan(tmp_path / "run", round=1)
    logged = json.loads((tmp_path / "run" / "rounds.jsonl").read_text().splitlines()[1])
    assert answer["delay_s"] == logged["delay_s"]


def test_check_names_batches_that_were_not_measured(table: Table, write: Write) -> None:
    table["training"] = {"batch_fraction": 0.05}  # 5 of 100 samples
    table["floors"][1]["devices"][0] |= {"samples": 400, "profile": "device.json"}
    (source, _) = headline(fedfloor.load(with_profiles(table, write, profile_of(), None))).cost_sources
    assert source.measured_batches == (10, 50)
    assert source.other_batches == (5,)


def test_a_floor_is_able_if_any_affordable_cut_spares_its_gateway_memory(table: Table, write: Write) -> None:
    """The peak of the gateway's half need not fall with the cut."""
    table["floors"][0]["devices"] = table["floors"][0]["devices"][:1]
    peaks = profile_of(memory=lambda index, batch: (1e3, 1e8) if index == 0 else (5e9, 5e9))
    assert headline(fedfloor.load(with_profiles(table, write, peaks, peaks))).obstacles == ()  # at cut 0
    table["training"] = {"min_cut": 1}
    (obstacle,) = headline(fedfloor.load(with_profiles(table, write, peaks, peaks))).obstacles
    assert obstacle.reason == "the gateway needs at least 5 GB for cuts that its devices afford, it has 2 GB"


def test_check_says_what_rests_on_measurements(table: Table, write: Write) -> None:
    sources = headline(fedfloor.load(with_profiles(table, write, profile_of(), None))).cost_sources
    assert [(source.devices, source.gateways, source.layers, source.memory) for source in sources] == [
        (1, 0, 2, True), (2, 2, 0, False),
    ]  # fmt: skip
    assert sources[0].machine == "abacus"
    assert sources[1].profile is None
