"""Participation rates from gradients on real machines, driven without a network."""

from pathlib import Path

import numpy as np
import pytest

from fedfloor.rounds.plants.learning import LearningPlant
from fedfloor.runs.planned import planned_run
from fedfloor.runs.train import job_of
from fedfloor.theory.participation import uniform_rates
from fedfloor.training.data.holding import Holding, gather
from fedfloor.workers.engine import Local
from tests.conftest import known
from tests.rounds.hall import ROUNDS, SETTINGS, Deployment

MORE = ("participation.rates=estimated", "participation.estimate_every=2", "participation.estimate_samples=8",
        "deploy.allow_gradients=true")  # fmt: skip


@pytest.fixture(scope="module")
def holding() -> Holding:
    return gather(planned_run("quick", "random", ROUNDS, overrides=SETTINGS, training=True).scenario)


def test_rates_are_those_of_the_simulator(holding: Holding) -> None:
    deployment = Deployment(holding, more=MORE)
    plant, _ = deployment.plant()
    scenario = deployment.planned.scenario
    simulated = LearningPlant(scenario, Local(job_of(scenario, "cpu"), holding.samples))
    expected, state = simulated.observe(), plant.observe()
    assert not np.allclose(expected.target_rate, uniform_rates(6, 3), rtol=1e-2)
    np.testing.assert_allclose(state.target_rate, expected.target_rate, rtol=1e-5)
    own, other = known(plant._estimates), simulated._estimates
    np.testing.assert_allclose(known(own.bound), known(other.bound), rtol=1e-5)
    for part in ("sigma", "delta", "smoothness", "gradient_norm"):
        np.testing.assert_allclose(getattr(own.statistics, part), getattr(other.statistics, part), rtol=1e-5)
    assert own.gradient_square == pytest.approx(other.gradient_square, rel=1e-5)


def test_who_is_absent_keeps_its_last_estimate_and_rates_are_uniform_until_every_floor_has_one(
    holding: Holding,
) -> None:
    plant, hall = Deployment(holding, more=MORE).plant()
    hall.away, hall.missing = {2}, {0, 5}
    estimates = known(plant._estimates)
    assert plant.observe().target_rate.tolist() == uniform_rates(6, 3).tolist()
    first = known(estimates.statistics)
    assert np.flatnonzero(np.isnan(first.sigma)).tolist() == [0, 5, 6, 7, 8]
    assert np.flatnonzero(np.isnan(known(estimates.bound))).tolist() == [2]
    hall.away, hall.missing, hall.mute = set(), {5, 6}, {(0, 1)}
    plant.weights[:] *= 0.9
    rates = plant.observe().target_rate
    second = known(estimates.statistics)
    assert second.delta[3:5].tolist() == first.delta[3:5].tolist()
    assert np.all(second.delta[9:] != first.delta[9:])
    assert np.flatnonzero(np.isnan(second.sigma)).tolist() == [5, 6]
    assert np.ptp(rates) > 0.01
    restored, _ = Deployment(holding, more=MORE).plant()
    restored.restore(plant.snapshot())
    assert known(restored._estimates).rates == pytest.approx(rates, rel=0, abs=0)


def test_an_estimate_is_in_the_timings_and_not_on_the_clock(holding: Holding, tmp_path: Path) -> None:
    driven, _, _ = Deployment(holding, more=MORE).run(tmp_path / "run")
    assert [timing.estimate_s is not None for timing in driven.timings] == [True, False, True, False]
    for record in driven.records:
        assert all(gateway.divergence_bound for gateway in record.gateways)
        predicted = [gateway.predicted_s for gateway in record.gateways if isinstance(gateway.predicted_s, float)]
        assert record.delay_s == pytest.approx(max(predicted))  # this hall takes just as long as the model says
    resumed, _, _ = Deployment(holding, more=MORE).run(tmp_path / "run", resume=True)
    assert len(resumed.records) == ROUNDS
