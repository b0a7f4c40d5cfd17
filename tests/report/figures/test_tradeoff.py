"""Delay and shortfall over V."""

from pathlib import Path

import numpy as np

from fedfloor.report.figures.tradeoff import measure
from tests.report.logs import collection_of, simulated


def test_runs_with_several_v_make_a_tradeoff(tmp_path: Path) -> None:
    runs = [simulated(tmp_path, f"ddsra:v={v}") for v in (10, 0)] + [simulated(tmp_path, "random")]
    (sweep,) = measure(collection_of(*runs))
    assert sweep.v.tolist() == [0, 10]
    assert np.allclose(sweep.delay, [runs[1].summary.mean_delay, runs[0].summary.mean_delay])
    assert sweep.labels == (runs[1].label, runs[0].label)
    assert np.isnan(sweep.delay_bound).all()


def test_one_v_is_no_tradeoff_and_a_measured_one_is_kept(tmp_path: Path) -> None:
    run = simulated(tmp_path, "ddsra:v=1")
    assert measure(collection_of(run)) == ()
    point = {"v": 1.0, "mean_delay_s": 2.0, "shortfall": 0.1, "delay_bound_s": None, "shortfall_bound": 0.4}
    first = {**point, "v": 0.0, "shortfall_bound": None}
    (sweep,) = measure(collection_of(run, tradeoff=(point, first)))
    assert sweep.v.tolist() == [0, 1]
    assert np.isnan(sweep.delay_bound).all()
    assert sweep.shortfall_bound[1] == 0.4
