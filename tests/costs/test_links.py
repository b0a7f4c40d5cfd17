"""What crosses between a device and its gateway, counted by hand, and what it costs."""

import dataclasses
import math
import tomllib
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.costs.links import Links, Traffic, label_bits, link_costs
from fedfloor.costs.plant import arrays_of, traffic_of
from fedfloor.errors import ScenarioError
from fedfloor.scenario import Scenario, build, expand, resolved_toml
from fedfloor.scenario.reading import parse
from fedfloor.scenario.resolved import DeviceLink
from tests.conftest import Table, small_table

TRAFFIC = Traffic(
    values=np.array([100.0, 40.0, 60.0, 0.0]), parameters_below=np.array([0.0, 7.0, 7.0, 1000.0]), iterations=5,
    batches=1,
)  # fmt: skip
WIFI = {"rate_up_mbps": 20, "rate_down_mbps": 40, "device_up_nj_per_bit": 5, "gateway_up_nj_per_bit": 2}


def built(table: Table) -> Scenario:
    return build(expand(parse(table, "small"), "small"), "small")


def test_a_device_sends_activations_and_weights_and_gets_gradients_and_weights() -> None:
    (up,), (down,) = TRAFFIC.up_bits(np.array([3.0])), TRAFFIC.down_bits(np.array([3.0]))
    assert up[1] == 5 * 3 * 40 * 32 + 7 * 32 + 3 * 8
    assert down[1] == 5 * 3 * 40 * 32 + 7 * 32


def test_with_cut_0_a_device_sends_its_samples_once_and_gets_nothing() -> None:
    assert TRAFFIC.up_bits(np.array([3.0]))[0, 0] == 3 * 100 * 32 + 3 * 8
    assert TRAFFIC.down_bits(np.array([3.0]))[0, 0] == 0


def test_a_new_batch_in_every_iteration_is_sent_every_time() -> None:
    redrawn = dataclasses.replace(TRAFFIC, batches=5)
    assert redrawn.up_bits(np.array([3.0]))[0, 0] == 5 * (3 * 100 * 32 + 3 * 8)
    assert redrawn.up_bits(np.array([3.0]))[0, 1] == TRAFFIC.up_bits(np.array([3.0]))[0, 1] + 4 * 3 * 8  # labels
    assert np.array_equal(redrawn.down_bits(np.array([3.0])), TRAFFIC.down_bits(np.array([3.0])))


def test_a_device_that_trains_all_layers_exchanges_only_weights() -> None:
    assert TRAFFIC.up_bits(np.array([3.0]))[0, 3] == TRAFFIC.down_bits(np.array([3.0]))[0, 3] == 1000 * 32


def test_the_last_cut_is_known_by_its_place_and_not_by_what_crosses_it() -> None:
    odd = dataclasses.replace(TRAFFIC, values=np.array([100.0, 0.0, 60.0, 9.0]), tensor_bits=32)
    (up,), (down,) = odd.up_bits(np.array([3.0])), odd.down_bits(np.array([3.0]))
    assert up[1] == 5 * 32 + 7 * 32 + 3 * 8
    assert up[3] == down[3] == 1000 * 32


def test_the_statistics_of_batch_norm_travel_with_the_weights() -> None:
    table = small_table()
    table["floors"][0]["link"] = WIFI
    table["model"]["layers"][0]["attached"] = ["batch_norm", "activation"]
    table["precision"] = {"download": 16}
    traffic = traffic_of(built(table))
    weights = 784 * 16 + 16 + 4 * 16  # matrix, bias; batch norm's weight, bias, mean and variance
    assert traffic.up_bits(np.array([3.0]))[0, 1] == 5 * 3 * 16 * 32 + 32 * (weights + 1) + 3 * 8
    assert traffic.down_bits(np.array([3.0]))[0, 1] == 5 * 3 * 16 * 32 + 16 * weights + 32  # the counter stays exact


def test_precision_counts_numbers_scales_samples_and_weights_apart() -> None:
    coarse = dataclasses.replace(
        TRAFFIC, value_bits=8, tensor_bits=32, sample_bits=8, batch_bits=32, weight_bits_down=16
    )
    (up,), (down,) = coarse.up_bits(np.array([3.0])), coarse.down_bits(np.array([3.0]))
    assert up[0] == 3 * 100 * 8 + 32 + 3 * 8
    assert up[2] == 5 * (3 * 60 * 8 + 32) + 7 * 32 + 3 * 8
    assert down[2] == 5 * (3 * 60 * 8 + 32) + 7 * 16
    assert down[3] == 1000 * 16


def test_time_and_energy_follow_from_bits() -> None:
    links = Links(*(np.array([value]) for value in (1e3, 2e3, 1e-3, 2e-3, 3e-3, 4e-3)))
    batch = np.array([3.0])
    costs, (up,), (down,) = (
        link_costs(TRAFFIC, links, batch), TRAFFIC.up_bits(batch), TRAFFIC.down_bits(batch),
    )  # fmt: skip
    assert costs.time[0] == pytest.approx(up / 1e3 + down / 2e3)
    assert costs.device_energy[0] == pytest.approx(up * 1e-3 + down * 2e-3)
    assert costs.gateway_energy[0] == pytest.approx(up * 3e-3 + down * 4e-3)
    assert costs.at(np.array([2])).time == pytest.approx([costs.time[0, 2]])


@pytest.mark.parametrize(("classes", "bits"), [(2, 8), (10, 8), (256, 8), (257, 16), (65_537, 24)])
def test_a_label_takes_whole_bytes(classes: int, bits: int) -> None:
    assert label_bits(classes) == bits


def test_the_traffic_of_a_scenario_is_that_of_its_layers() -> None:
    scenario = fedfloor.load("quick")
    traffic, layers = traffic_of(scenario), scenario.layers
    assert traffic.values.tolist() == [28 * 28, *(layer.output_size for layer in layers[:-1]), 0]
    assert traffic.parameters_below[-1] == sum(layer.parameters for layer in layers)
    assert (traffic.iterations, traffic.batches) == (scenario.training.local_iterations, 1)
    redrawn = fedfloor.load("quick", overrides=["training.redraw_batch=true"])
    assert traffic_of(redrawn).batches == redrawn.training.local_iterations


def test_a_link_is_given_per_device_hardware_class_or_floor() -> None:
    table = small_table()
    own, shared, plain = table["floors"][0]["devices"][0], table["floors"][0]["devices"][1], table["floors"][1]
    table["hardware"] = {"pi": {**_hardware(own), "link": WIFI}}
    own["hardware"] = "pi"
    shared["link"] = {"rate_up_mbps": 1}
    plain["link"] = {"rate_up_mbps": 30, "rate_down_mbps": 60}
    plain["devices"] = [{**plain["devices"][0], "name": "cam", "count": 3}]
    by_class, by_device, *by_floor = [device.link for device in built(table).devices]
    assert by_class == DeviceLink(rate_up=2e7, rate_down=4e7, device_up=5e-9, gateway_up=2e-9)
    assert by_device == DeviceLink(rate_up=1e6)
    assert by_floor == [DeviceLink(rate_up=1e7, rate_down=2e7)] * 3  # a third each


def test_who_has_a_link_of_its_own_leaves_the_shared_medium_to_the_others() -> None:
    table = small_table()
    table["floors"][0]["link"] = {"rate_up_mbps": 8}
    table["floors"][0]["devices"][0]["link"] = {"rate_up_mbps": 1}
    links = [device.link for device in built(table).floors[0].devices]
    assert [link.rate_up for link in links if link] == [1e6, 8e6]


@pytest.mark.parametrize("link", [{}, {"rate_up_mbps": math.inf, "rate_down_mbps": math.inf}])
def test_a_device_with_a_free_link_of_its_own_does_not_share_the_medium(link: Table) -> None:
    table = small_table()
    table["floors"][0]["link"] = {"rate_up_mbps": 8}
    table["floors"][0]["devices"][0]["link"] = link
    file = expand(parse(table, "small"), "small")
    for plant in (build(file, "small"), build(parse(tomllib.loads(resolved_toml(file)), "again"), "again")):
        assert [device.link for device in plant.floors[0].devices] == [None, DeviceLink(rate_up=8e6)]


def test_a_resolved_scenario_gives_the_same_links() -> None:
    table = small_table()
    table["floors"][0]["link"] = {"rate_up_mbps": {"uniform": [1, 9]}, "device_up_nj_per_bit": 3.3}
    table["floors"][1]["devices"][0]["link"] = WIFI
    file = expand(parse(table, "small"), "small")
    again = build(parse(tomllib.loads(resolved_toml(file)), "again"), "again")
    assert [device.link for device in again.devices] == [device.link for device in build(file, "small").devices]


@pytest.mark.parametrize(
    "link", [{}, {"rate_up_mbps": math.inf, "rate_down_mbps": math.inf}, {"device_up_nj_per_bit": 0}]
)
def test_a_link_that_costs_nothing_counts_as_absent(link: Table) -> None:
    table = small_table()
    plain = resolved_toml(expand(parse(table, "small"), "small"))
    table["floors"][0]["link"] = table["floors"][1]["devices"][0]["link"] = link
    assert resolved_toml(expand(parse(table, "small"), "small")) == plain
    assert arrays_of(built(table)).link_costs is None


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("rate_up_mbps", 0, r"floors\[0\]\.link\.rate_up_mbps: must be > 0, got 0. Give a positive rate"),
        ("rate_up_mbps", 1e-300, r"rate_up_mbps: must be > 1e-90, got 1e-300. Give a positive rate"),
        ("device_up_nj_per_bit", 1e-300, r"device_up_nj_per_bit: must be 0 or > 1e-90, got 1e-300. Change the value"),
        ("rate_up_mbps", -1.5, r"rate_up_mbps: must be > 0, got -1.5"),
        ("rate_down_mbps", math.nan, r"rate_down_mbps: must be finite, got nan"),
        ("rate_down_mbps", -math.inf, r"rate_down_mbps: must be finite, got -inf"),
        ("rate_up_mbps", {"uniform": [1, math.inf]}, r"rate_up_mbps: must be finite, got inf"),
        ("device_up_nj_per_bit", -1, r"device_up_nj_per_bit: must be >= 0, got -1"),
        ("device_up_nj_per_bit", math.inf, r"device_up_nj_per_bit: must be finite, got inf"),
        ("rate_up_kbps", 500, r"rate_up_kbps: wrong unit suffix 'kbps', got 500. Write `rate_up_mbps = 0.5`"),
        ("rate_upp_mbps", 5, r"rate_upp_mbps: unknown key. Did you mean 'rate_up_mbps'"),
    ],
)  # fmt: skip
def test_wrong_links_are_named(key: str, value: Any, expected: str) -> None:
    table = small_table()
    table["floors"][0]["link"] = {key: value}
    with pytest.raises(ScenarioError, match=expected):
        built(table)


def _hardware(device: Table) -> Table:
    keys = ("frequency_ghz", "flops_per_cycle", "switched_capacitance", "memory_gb", "max_energy_j")
    return {key: device[key] for key in keys}
