"""Delay and shortfall over V."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedfloor.reports.figures.tradeoff import _v_axis, measure, plot
from fedfloor.reports.results import results_of
from fedfloor.theory.tradeoff import TradeoffPoint
from tests.reports.logs import collection_of, simulated


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
    point = TradeoffPoint(1.0, 2.0, 0.1, None, 0.4)
    first = replace(point, v=0.0, shortfall_bound=None)
    (sweep,) = measure(collection_of(run, tradeoff=(point, first)))
    assert sweep.v.tolist() == [0, 1]
    assert np.isnan(sweep.delay_bound).all()
    assert sweep.shortfall_bound[1] == 0.4


def test_bounds_are_spoken_of_only_where_there_are_any(tmp_path: Path) -> None:
    run = simulated(tmp_path, "ddsra:v=1")
    without = TradeoffPoint(1.0, 2.0, 0.1, None, None)
    for point, (delay, shortfall) in (
        (without, ("Should fall as V grows. No bounds: no run met its rates.", "should grow with V.")),
        (replace(without, delay_bound_s=3.0), ("and stay below its bound. Dotted lines are", "should grow with V.")),
        (replace(without, shortfall_bound=0.4), ("No bounds", "should grow with V. Dotted lines are bounds")),
    ):
        notes = [panel.note for panel in plot(results_of(collection_of(run, tradeoff=(point,))))]
        assert delay in notes[0]
        assert shortfall in notes[1]


@pytest.mark.parametrize("most", [1e-2, 1e0, 1e1, 1e5, 1e6])
def test_the_axis_of_v_names_its_largest_value_and_has_room_for_all(most: float) -> None:
    axis = _v_axis(np.array([0.0, 1e-2, most]), 1e-3)
    labels = list(axis["ticktext"])  # type: ignore[call-overload]
    assert labels[0] == "0"
    assert labels[-1] == f"{most:g}"
    assert len(labels) <= 6
    assert axis["tickangle"] == 0
