"""Cumulative delay."""

import math

import numpy as np

from fedfloor.reports.arrays import lay_out_run
from fedfloor.reports.figures.delay import measure
from fedfloor.reports.reading import ReadRun
from tests.reports.logs import changed, series_of, with_columns


def test_cumulative_delay_is_the_clock_and_endless_is_inf(real: ReadRun) -> None:
    one = with_columns(real, clock_s=[1.0, 3.0, None], delay_s=[1.0, 2.0, None])
    other = with_columns(real, clock_s=[2.0, 4.0])
    curve = measure(series_of(one, other))
    assert np.allclose(curve.mean[:2], [1.5, 3.5])
    assert math.isinf(curve.mean[2])
    assert math.isinf(lay_out_run(one).delay[2])


def test_a_single_round_is_enough(real: ReadRun) -> None:
    assert measure(series_of(changed(real, lambda *_: None, 1))).x.tolist() == [1]
