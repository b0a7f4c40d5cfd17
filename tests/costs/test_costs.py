"""Eq. (1)-(10) on small numbers, against the formulas written out by hand."""

import math

import numpy as np
import pytest

import fedfloor
from fedfloor.costs.compute import (
    computing_energy,
    exceeds,
    floor_maximum,
    floor_sum,
    round_delay,
    split_costs,
    training_time,
)
from fedfloor.costs.headline import Headline, headline
from fedfloor.costs.plant import Workload, arrays_of
from fedfloor.costs.radio import gain_of_rate, path_gain, transmit_time, upload_energy
from fedfloor.scenario import build, expand
from fedfloor.scenario.reading import parse
from tests.conftest import Table, small_table

WORKLOAD = Workload.from_layers(
    np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 40.0]), np.array([0.1, 0.2, 0.4]), local_iterations=5,
    model_bits=8.0, min_cut=0,
)  # fmt: skip


def headline_of(table: Table) -> Headline:
    return headline(build(expand(parse(table, "small"), "small"), "small"))


def test_transfer_time_is_shannons() -> None:  # Eq. (6), (7)
    seconds = transmit_time(3e8, 0.2, np.array([4e-10]), np.array([1e-13]), bandwidth=1e6, noise_density=4e-21)
    assert seconds[0] == pytest.approx(3e8 / (1e6 * math.log2(1 + 0.2 * 4e-10 / (1e6 * 4e-21 + 1e-13))))


@pytest.mark.parametrize("gain", [1e-16, 4e-10, 1e-3, 1.0])
@pytest.mark.parametrize("power", [1e-4, 0.2, 20.0])
def test_the_gain_of_a_rate_is_the_one_that_gives_it(gain: float, power: float) -> None:  # Eq. (6), (7) inverted
    interference = np.array([0.0, 1e-13, 1e-9])
    seconds = transmit_time(3e8, power, np.full(3, gain), interference, bandwidth=1e6, noise_density=4e-21)
    known = gain_of_rate(3e8 / seconds, power, interference, bandwidth=1e6, noise_density=4e-21)
    assert known == pytest.approx([gain] * 3, rel=1e-9)


def test_a_rate_beyond_all_radios_still_has_a_gain() -> None:
    rates = np.array([0.0, 1e9, 1e12, 1e300])
    gains = gain_of_rate(rates, 0.2, np.zeros(4), bandwidth=1e6, noise_density=4e-21)
    assert gains[0] == 0.0
    assert np.isfinite(gains).all()
    times = transmit_time(3e8, 0.2, gains[1:], np.zeros(3), bandwidth=1e6, noise_density=4e-21)
    assert np.all(times > 0.0)


def test_a_dead_link_takes_for_ever() -> None:
    times = transmit_time(
        1.0, np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]]), np.zeros((2, 1)), bandwidth=1, noise_density=1
    )
    assert np.all(np.isinf(times))


def test_gain_falls_with_distance() -> None:
    gain = path_gain(np.array([1.0, 10.0]), reference_gain=1e-3, reference_distance=1.0, exponent=2.0)
    assert gain == pytest.approx([1e-3, 1e-5])


def test_upload_energy_is_power_times_time() -> None:  # Eq. (8)
    assert upload_energy(np.array([0.2]), np.array([30.0]))[0] == pytest.approx(6.0)


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_the_halves_add_up_to_the_whole(cut: int) -> None:  # A_n + B_n, Eq. (4) + (5)
    split = split_costs(WORKLOAD, np.array([cut]), np.array([3.0]))
    assert split.bottom_flop[0] == 5 * 3 * sum([1, 2, 4][:cut])
    assert split.bottom_flop[0] + split.top_flop[0] == 5 * 3 * 7
    assert split.bottom_bytes[0] == pytest.approx(sum([10, 20, 40][:cut]) + 3 * sum([0.1, 0.2, 0.4][:cut]))
    assert split.bottom_bytes[0] + split.top_bytes[0] == pytest.approx(70 + 3 * 0.7)


def test_training_time_scales_both_halves_with_the_samples() -> None:  # Eq. (1), and the correction of Eq. (18)
    split = split_costs(WORKLOAD, np.array([2]), np.array([3.0]))
    seconds = training_time(split.bottom_flop, split.top_flop, np.array([10.0]), np.array([20.0]))
    assert seconds[0] == pytest.approx(15 * 3 / 10 + 15 * 4 / 20)


def test_nothing_on_the_gateway_takes_no_time_at_any_frequency() -> None:
    assert training_time(np.array([6.0]), np.array([0.0]), np.array([2.0]), np.array([0.0]))[0] == 3.0


def test_computing_energy_grows_with_the_square_of_the_frequency() -> None:  # Eq. (2), (3)
    once, twice = computing_energy(np.array([1e9]), np.array([1e9, 2e9]), np.array([1e-27]), np.array([16.0]))
    assert once == pytest.approx(1e-27 / 16 * 1e9 * 1e18)
    assert twice == pytest.approx(4 * once)


def test_floors_add_and_compare_their_devices() -> None:
    floor = np.array([0, 0, 2])
    assert floor_sum(np.array([1.0, 2.0, 4.0]), floor, 3).tolist() == [3, 0, 4]
    assert floor_maximum(np.array([1.0, 2.0, 4.0]), floor, 3).tolist() == [2, 0, 4]


def test_the_slowest_selected_floor_is_the_rounds_delay() -> None:  # Eq. (10)
    delay = np.array([3.0, 9.0, 5.0])
    assert round_delay(delay, np.array([True, False, True])) == 5.0
    assert round_delay(delay, np.zeros(3, dtype=bool)) == 0.0


def test_rounding_is_no_excess() -> None:
    assert exceeds(np.array([1.0 + 1e-12, 1.001, np.inf]), np.array([1.0, 1.0, np.inf])).tolist() == [
        False,
        True,
        False,
    ]


def test_plant_arrays_keep_the_order_of_the_scenario() -> None:
    plant = arrays_of(fedfloor.load("factory"))
    assert plant.devices.floor.tolist() == sorted(plant.devices.floor.tolist())
    assert plant.devices.on_floor(20).tolist() == [10] * 20


def test_headline_counts_the_whole_round() -> None:
    table = small_table()
    summary = headline_of(table)
    samples = sum(device["samples"] for floor in table["floors"] for device in floor["devices"])
    assert summary.parameters == 784 * 16 + 16 + 16 * 10 + 10
    assert summary.flop_per_round == pytest.approx(5 * 0.05 * samples * summary.flop_per_sample)
    assert (summary.at_least_cut.cut, summary.at_least_cut.affordable) == (1, 3)
    assert summary.obstacles == ()


def test_what_devices_need_is_that_of_the_smallest_cut_they_may_have() -> None:
    first = headline(fedfloor.load("quick", ["training.min_cut=0"])).at_least_cut
    whole = headline(fedfloor.load("quick", ["training.min_cut=2", "baseline.cut=2"])).at_least_cut
    assert (first.cut, whole.cut) == (1, 2)
    assert first.energy < whole.energy


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t["floors"][0]["gateway"].update(memory_gb=1e-9), "the gateway needs"),
        (lambda t: t["floors"][0]["gateway"].update(min_frequency_ghz=1e-3, max_energy_j=1e-30), "least frequency"),
        (lambda t: t["floors"][0]["gateway"].update(min_frequency_ghz=4.0, max_energy_j=1e-7), "least frequency"),
        (lambda t: t["floors"][0]["devices"][1].update(memory_gb=1e-9), "device p2 can afford no cut >= 1"),
        (lambda t: t["floors"][0]["devices"][1].update(max_energy_j=0.0), "device p2 can afford no cut >= 1"),
    ],
)
def test_headline_says_why_a_floor_can_never_take_part(change: object, reason: str) -> None:
    table = small_table()
    table["training"] = {"min_cut": 1}
    table["baseline"]["frequency_share"] = 1.0
    # full work on the devices is out of reach, so that the gateway has to take part
    for device in table["floors"][0]["devices"]:
        device["memory_gb"] = 1.175e-4
    change(table)  # type: ignore[operator]
    (obstacle,) = headline_of(table).obstacles
    assert obstacle.floor == "press"
    assert reason in obstacle.reason


@pytest.mark.parametrize("gain", [5e-324, 1e-300, 1e300])
def test_extreme_links_have_times_without_warnings(gain: float) -> None:
    (time,) = transmit_time(3e8, 0.2, np.array([gain]), np.array([0.0]), bandwidth=1e6, noise_density=4e-21)
    assert time > 0.0
    (mean,) = path_gain(np.array([1e-30]), reference_gain=1e50, reference_distance=1e30, exponent=10.0)
    assert np.isfinite(mean)
