"""One TOML file becomes one plant: groups, distributions, units, overrides, presets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.runs.planned import resolve
from fedfloor.scenario import LayerSpec, Scenario, ScenarioFile, build, expand, resolved_toml
from fedfloor.scenario.catalogue import COST_MODELS, NETWORKS
from fedfloor.scenario.layers import unchained
from fedfloor.scenario.model import Costs
from fedfloor.scenario.numbers import Choice, Normal, Range, Uniform, draw
from fedfloor.scenario.reading import parse, starter
from fedfloor.scenario.schema import scenario_schema
from fedfloor.units import FROM_SUFFIX, dbm_to_watt, split_suffix, to_si
from tests.conftest import PRESETS, Table, small_table


def loaded(table: Table) -> Scenario:
    return build(expand(parse(table, "small"), "small"), "small")


def test_keys_are_read_in_their_unit() -> None:
    plant = loaded(small_table())
    gateway, device = plant.floors[0].gateway, plant.floors[0].devices[0]
    assert gateway.max_power == pytest.approx(0.2)
    assert gateway.max_frequency == 4e9
    assert (gateway.memory_bytes, device.memory_bytes) == (2e9, 1e9)
    assert plant.radio.noise_density == pytest.approx(10 ** (-174 / 10) * 1e-3)
    assert plant.radio.reference_gain == pytest.approx(1e-3)
    assert (plant.radio.uplink_bandwidth, plant.radio.downlink_bandwidth) == (1e6, 2e7)


@pytest.mark.parametrize(
    ("key", "value", "si"),
    [("a_ghz", 2, 2e9), ("a_mw", 3, 3e-3), ("a_dbm", 30, 1.0), ("a_db", 20, 100.0), ("a_gb", 1, 1e9), ("a", 7, 7)],
)
def test_a_suffix_converts_to_si(key: str, value: float, si: float) -> None:
    assert to_si(key, value) == pytest.approx(si)


def test_the_longest_suffix_wins() -> None:
    assert split_suffix("noise_dbm_per_hz") == ("noise", "dbm_per_hz")
    assert dbm_to_watt(0) == 1e-3
    assert all(np.isfinite(convert(1.0)) for convert in FROM_SUFFIX.values())


def test_groups_number_their_floors_and_devices() -> None:
    table = small_table()
    table["floors"][0] |= {"name": "hall", "count": 2}
    table["floors"][0]["devices"] = [{**table["floors"][1]["devices"][0], "name": "cam", "count": 2}]
    table["floors"][1] |= {"name": "hall", "count": 1}
    plant = loaded(table)
    assert [floor.name for floor in plant.floors] == ["hall-1", "hall-2", "hall-3"]
    assert [device.name for device in plant.devices] == [
        "hall-1.cam-1", "hall-1.cam-2", "hall-2.cam-1", "hall-2.cam-2", "hall-3.q1",
    ]  # fmt: skip


def test_a_device_given_one_by_one_keeps_its_name() -> None:
    assert [device.name for device in loaded(small_table()).devices] == ["p1", "p2", "q1"]


def test_a_list_gives_one_value_each() -> None:
    table = small_table()
    table["floors"][0]["devices"] = [{**table["floors"][0]["devices"][0], "count": 3, "samples": [5, 6, 7]}]
    assert [device.samples for device in loaded(table).floors[0].devices] == [5, 6, 7]


def test_interference_has_a_value_per_channel() -> None:
    table = small_table()
    table["floors"][0]["gateway"]["uplink_interference_w"] = {"uniform": [0, 2e-13]}
    drawn = loaded(table).floors[0].gateway.uplink_interference
    assert len(set(drawn)) == 2
    assert all(0 < value <= 2e-13 for value in drawn)


def test_hardware_gives_what_a_device_leaves_out() -> None:
    table = small_table()
    keys = ("frequency_ghz", "flops_per_cycle", "switched_capacitance", "memory_gb", "max_energy_j")
    device = table["floors"][1]["devices"][0]
    table["hardware"] = {"plc": {key: device.pop(key) for key in keys}}
    device |= {"hardware": "plc", "frequency_ghz": 0.9}
    found = loaded(table).floors[1].devices[0]
    assert (found.frequency, found.memory_bytes) == (0.9e9, 1e9)


def test_the_same_seed_draws_the_same_plant_and_another_seed_another() -> None:
    assert fedfloor.load("paper-cifar10-random") == fedfloor.load("paper-cifar10-random")
    one, two = fedfloor.load("paper-cifar10-random"), fedfloor.load("paper-cifar10-random", seed=99)
    assert one.devices[0].frequency != two.devices[0].frequency


def test_a_change_in_one_key_leaves_the_other_draws_alone() -> None:
    one = fedfloor.load("paper-cifar10-random")
    two = fedfloor.load("paper-cifar10-random", ["floors.0.devices.0.samples={uniform = [1, 50]}"])
    assert [d.samples for d in one.devices] != [d.samples for d in two.devices]
    assert [d.frequency for d in one.devices] == [d.frequency for d in two.devices]
    assert [f.gateway for f in one.floors] == [f.gateway for f in two.floors]


@pytest.mark.parametrize("preset", ["quick", "paper-svhn", "factory", "line"])
def test_the_resolved_file_gives_the_same_plant_to_the_last_bit(preset: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(resolved_toml(resolve(preset)), encoding="utf-8")
    assert fedfloor.load(path) == fedfloor.load(preset)


def test_a_precision_of_32_bits_is_no_precision(tmp_path: Path) -> None:
    table = small_table()
    absent = resolved_toml(expand(parse(table, "t"), "t"))
    given = {**table, "precision": {"upload": 32, "download": 32, "boundary": 32}}
    assert resolved_toml(expand(parse(given, "t"), "t")) == absent
    assert "precision" not in absent
    (tmp_path / "t.toml").write_text(resolved_toml(expand(parse({**table, "precision": {"upload": 8}}, "t"), "t")))
    assert fedfloor.load(tmp_path / "t.toml").precision.upload == 8


def test_a_deploy_section_with_its_defaults_is_none(tmp_path: Path) -> None:
    table = small_table()
    absent = resolved_toml(expand(parse(table, "t"), "t"))
    for given in ({}, {"allow_samples": False, "gains": "weather", "deadline_factor": 3, "deadline_margin_s": 10.0}):
        assert resolved_toml(expand(parse({**table, "deploy": given}, "t"), "t")) == absent
    assert "deploy" not in absent
    (tmp_path / "t.toml").write_text(resolved_toml(expand(parse({**table, "deploy": {"gains": "measured"}}, "t"), "t")))
    assert fedfloor.load(tmp_path / "t.toml").deploy.gains == "measured"


def test_distributions_stay_in_range() -> None:
    rng, positive = np.random.default_rng(0), Range(above=0)
    assert np.all(draw(Uniform(0.0, 1.0), 10_000, positive, rng) > 0)
    assert np.all(draw(Normal(0.5, 1.0), 10_000, positive, rng) > 0)
    assert set(draw(Choice((1.0, 4.0)), 100, positive, rng)) == {1.0, 4.0}
    counts = draw(Uniform(1.0, 3.0), 1_000, Range(at_least=1, whole=True), rng)
    assert set(counts) == {1.0, 2.0, 3.0}
    assert set(draw(Normal(2.0, 1.0), 500, Range(at_least=1, at_most=3, whole=True), rng)) == {1.0, 2.0, 3.0}


def test_uniform_draws_are_uniform() -> None:
    values = draw(Uniform(2.0, 6.0), 20_000, Range(above=0), np.random.default_rng(1))
    assert values.mean() == pytest.approx(4.0, abs=0.03)
    assert values.std() == pytest.approx(4 / np.sqrt(12), abs=0.02)


def test_overrides_reach_sections_and_lists(write: Callable[[Table], Path]) -> None:
    path = write(small_table())
    changes = ["training.local_iterations=3", "floors.1.gateway.memory_gb=7", "costs.model=paper", "limits=false"]
    plant = fedfloor.load(path, changes, seed=5, rounds=9)
    assert (plant.training.local_iterations, plant.floors[1].gateway.memory_bytes) == (3, 7e9)
    assert (plant.costs.model, plant.limits, plant.seed, plant.rounds) == ("paper", False, 5, 9)


def test_an_override_of_the_model_infers_its_layers_anew(write: Callable[[Table], Path]) -> None:
    plant = fedfloor.load(write(small_table()), ["model.width=0.5"])
    assert plant.layers[0].output == (64,)


def test_costs_may_describe_another_width_than_the_trained_one(write: Callable[[Table], Path]) -> None:
    plant = fedfloor.load(write(small_table()), ["costs.width=2.0", "model.width=0.25"])
    assert (plant.model.width, plant.layers[0].output) == (0.25, (256,))


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_carry_the_layers_of_their_network(preset: str) -> None:
    from fedfloor.training.network.description import infer_layers

    plant = fedfloor.load(preset)
    width = plant.costs.width if plant.costs.width is not None else plant.model.width
    assert infer_layers(plant.model, Costs(width=width)) == plant.layers


@pytest.mark.parametrize(
    ("preset", "floors", "devices", "channels"),
    [("quick", 6, 18, 3), ("paper-cifar10", 6, 12, 3), ("paper-svhn", 6, 12, 3), ("factory", 20, 200, 6),
     ("paper-cifar10-random", 6, 12, 3), ("paper-svhn-random", 6, 12, 3), ("paper-cifar10-fast", 6, 12, 3),
     ("campus", 1000, 10_000, 100), ("line", 5, 21, 3)],
)  # fmt: skip
def test_presets_have_their_size(preset: str, floors: int, devices: int, channels: int) -> None:
    plant = fedfloor.load(preset)
    assert (len(plant.floors), len(plant.devices), plant.radio.channels) == (floors, devices, channels)


@pytest.mark.parametrize(("preset", "classes"), [("factory", 4), ("line", 3)])
def test_hardware_classes_of_presets_have_sources(preset: str, classes: int) -> None:
    file = ScenarioFile.model_validate(_preset_table(preset))
    assert len(file.hardware) == classes
    assert all(entry.source for entry in file.hardware.values())


@pytest.mark.parametrize(
    ("preset", "varied"), [("paper-cifar10", (0, 3, 4)), ("paper-svhn", (0,))], ids=["cifar10", "svhn"]
)
def test_the_papers_plant_is_fixed_and_as_sec_vii_says(preset: str, varied: tuple[int, ...]) -> None:
    plant, other = fedfloor.load(preset, seed=1), fedfloor.load(preset, seed=2)
    assert (plant.floors, plant.plant_seed) == (other.floors, other.plant_seed)
    assert plant.plant_seed is not None  # who holds what is fixed too
    classes = [floor.classes_per_device or 0 for floor in plant.floors]
    assert all(8 <= classes[m] <= 10 if m in varied else 1 <= classes[m] <= 3 for m in range(6))
    distances = [floor.gateway.distance for floor in plant.floors]
    assert distances[3] == max(distances) == 2000.0
    assert np.mean([device.samples for device in plant.devices]) == pytest.approx(1000, rel=0.1)


def test_the_fast_preset_is_the_papers_plant_with_the_best_setting_of_the_study() -> None:
    from benchmarks.study.parts import BEST

    fast, plain = fedfloor.load("paper-cifar10-fast"), fedfloor.load("paper-cifar10")
    assert (fast.floors, fast.plant_seed, fast.layers) == (plain.floors, plain.plant_seed, plain.layers)
    best = fedfloor.load("paper-cifar10", BEST.settings)
    for part in ("training", "precision", "aggregation", "participation", "radio", "costs", "baseline"):
        assert getattr(fast, part) == getattr(best, part)
    name, _, settings = BEST.policy.partition(":")
    assert (fast.policy.name, f"v={fast.policy.settings['v']:g}") == (name, settings)


@pytest.mark.parametrize("preset", ["paper-cifar10", "paper-svhn", "paper-cifar10-random", "paper-svhn-random"])
def test_the_paper_presets_are_the_papers_setting(preset: str) -> None:
    plant = fedfloor.load(preset)
    assert all(len(floor.devices) == 2 for floor in plant.floors)
    assert plant.floors[0].classes_per_device == 10
    if preset.endswith("random"):
        assert all(1 <= (floor.classes_per_device or 0) <= 5 for floor in plant.floors[1:])
    assert all(0 < device.samples <= 2000 and 0.1e9 <= device.frequency <= 1e9 for device in plant.devices)
    assert all(1000 <= floor.gateway.distance <= 2000 for floor in plant.floors)
    assert {floor.gateway.max_energy for floor in plant.floors} == {30.0}
    assert {device.max_energy for device in plant.devices} == {5.0}
    assert (plant.training.local_iterations, plant.training.learning_rate, plant.training.batch_fraction) == (
        5,
        0.01,
        0.05,
    )
    assert (plant.costs.model, len(plant.layers), plant.rounds) == ("paper", 14, 300)


def test_the_starter_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "plant.toml"
    path.write_text(starter(), encoding="utf-8")
    assert [floor.name for floor in fedfloor.load(path).floors] == ["press-shop", "hall-1", "hall-2", "hall-3"]


def test_the_catalogue_names_what_there_is() -> None:
    from fedfloor.costs.layers import COST_MODELS as IMPLEMENTED
    from fedfloor.training.network.models import MODELS

    assert set(NETWORKS) == set(MODELS)
    assert set(COST_MODELS) == set(IMPLEMENTED)


def test_a_flatten_lets_shapes_chain() -> None:
    conv = LayerSpec(name="c", kind="convolution", input=(1, 4, 4), output=(2, 4, 4), kernel=(3, 3))
    linear = LayerSpec(name="l", kind="linear", input=(32,), output=(3,))
    assert unchained([conv, linear]) is not None
    assert unchained([conv.model_copy(update={"attached": ("flatten",)}), linear]) is None


def test_a_batch_is_at_least_one_point() -> None:
    device = loaded(small_table()).devices[0]
    assert (device.batch(0.05), device.batch(0.001)) == (5, 1)


def test_the_schema_describes_every_key() -> None:
    schema: Any = scenario_schema()
    for name in ("RadioFile", "GatewayGroup", "DeviceGroup", "Training", "Model", "Baseline"):
        for key, entry in schema["$defs"][name]["properties"].items():
            assert entry.get("description") or "$ref" in json.dumps(entry), f"{name}.{key}"


def _preset_table(name: str) -> Table:
    import tomllib
    from importlib import resources

    return tomllib.loads((resources.files("fedfloor.scenario") / "presets" / f"{name}.toml").read_text())


def test_a_range_judges_an_array_as_it_judges_its_values() -> None:
    values = np.array([-1.0, 0.0, 1e-91, 1e-89, 0.5, 1.0, 2.0, 1e31, np.nan, np.inf])
    for allowed in (Range(above=0), Range(at_least=0), Range(at_least=0.5, at_most=1.0), Range()):
        assert allowed.holds(values).tolist() == [allowed.holds(float(value)) for value in values]
