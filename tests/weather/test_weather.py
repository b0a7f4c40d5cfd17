"""Draws: their distributions, their independence, and records in their place."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fedfloor
from fedfloor.errors import TraceError
from fedfloor.weather.draws import Climate, Purpose, climate_of, energy_arrivals, fading, interference, round_stream
from tests.conftest import Table, small_table

RNG_SEED = 20221115


def test_fading_is_exponential_with_unit_mean() -> None:
    draws = fading(np.ones(100), 500, np.random.default_rng(RNG_SEED)).ravel()
    assert draws.mean() == pytest.approx(1.0, abs=0.02)
    assert stats.kstest(draws, "expon").pvalue > 0.01


def test_fading_scales_with_the_mean_gain() -> None:
    draws = fading(np.array([1e-9, 4e-9]), 50_000, np.random.default_rng(RNG_SEED))
    assert draws.mean(axis=1) == pytest.approx([1e-9, 4e-9], rel=0.03)


def test_energy_arrivals_are_uniform() -> None:
    draws = energy_arrivals(np.full(50_000, 30.0), np.random.default_rng(RNG_SEED))
    assert stats.kstest(draws / 30.0, "uniform").pvalue > 0.01
    assert draws.max() <= 30.0


def test_interference_is_half_normal() -> None:
    draws = interference(np.full((100, 500), 2e-13), np.random.default_rng(RNG_SEED)).ravel()
    assert stats.kstest(draws / 2e-13, "halfnorm").pvalue > 0.01


def test_the_same_seed_gives_the_same_weather_and_rounds_differ() -> None:
    one, two = (climate_of(fedfloor.load("quick")) for _ in range(2))
    for field in dataclasses.fields(one.weather(3)):
        first, again, later = (
            getattr(weather, field.name) for weather in (one.weather(3), two.weather(3), one.weather(4))
        )
        assert np.array_equal(first, again)
        assert not np.array_equal(first, later)


def test_streams_of_different_purposes_are_uncorrelated() -> None:
    draws = np.array([round_stream(1, purpose, 0).random(2_000) for purpose in Purpose])
    correlation = np.corrcoef(draws) - np.eye(len(Purpose))
    assert np.abs(correlation).max() < 0.08


def test_a_round_can_be_drawn_on_its_own() -> None:
    climate = climate_of(fedfloor.load("quick"))
    later = climate.weather(7).uplink_gain
    for index in range(8):
        climate.weather(index)
    assert np.array_equal(later, climate.weather(7).uplink_gain)


def test_without_limits_energy_is_endless() -> None:
    weather = climate_of(fedfloor.load("quick", ["limits=false"])).weather(0)
    assert np.all(np.isinf(weather.gateway_energy))
    assert np.all(np.isinf(weather.device_energy))


def with_trace(write: Callable[[Table], Path], folder: Path, kind: str, lines: list[str]) -> Climate:
    (folder / "trace.csv").write_text("\n".join(lines) + "\n")
    return climate_of(fedfloor.load(write({**small_table(), "traces": {kind: "trace.csv"}})))


def test_a_recorded_gain_replaces_only_its_own_draw(write: Callable[[Table], Path], tmp_path: Path) -> None:
    rows = [f"{t},{m},{j},{t + 1}e-10" for t in range(5) for m in ("paint", "press") for j in (1, 0)]
    climate = with_trace(write, tmp_path, "uplink_gain", ["round,floor,channel,gain", *rows])
    drawn = climate_of(fedfloor.load(write(small_table())))
    assert np.array_equal(climate.weather(2).uplink_gain, np.full((2, 2), 3e-10))
    for name in ("downlink_gain", "uplink_interference", "gateway_energy", "device_energy"):
        assert np.array_equal(getattr(climate.weather(2), name), getattr(drawn.weather(2), name))


def test_recorded_energy_is_used_by_name(write: Callable[[Table], Path], tmp_path: Path) -> None:
    rows = [f"{t},{name},{joules}" for t in range(5) for name, joules in (("q1", 3), ("p2", 2), ("p1", 1))]
    climate = with_trace(write, tmp_path, "device_energy", ["round,device,energy_j", *rows])
    assert climate.weather(4).device_energy.tolist() == [1, 2, 3]


def test_a_round_beyond_the_record_is_refused(write: Callable[[Table], Path], tmp_path: Path) -> None:
    rows = [f"{t},{m},1.5" for t in range(5) for m in ("press", "paint")]
    climate = with_trace(write, tmp_path, "gateway_energy", ["round,floor,energy_j", *rows])
    assert climate.weather(4).gateway_energy.tolist() == [1.5, 1.5]
    with pytest.raises(TraceError, match=r"gateway_energy: has 5 rounds, but round 5 \(counted from 0\) is needed"):
        climate.weather(5)
