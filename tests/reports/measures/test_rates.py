"""Derived and observed participation rates."""

import numpy as np

from fedfloor.reports.measures.rates import rates
from fedfloor.reports.reading import ReadRun
from fedfloor.theory.participation import participation_rates
from tests.reports.logs import observed, series_of


def test_observed_rates_follow_the_formula_of_the_derived_ones(real: ReadRun) -> None:  # Eq. (13), paper Fig. 2
    entry = rates(series_of(observed(real, {0: [1.0, 3.0], 3: [2.0, 2.0]}, [5.0, 9.0])))
    assert entry is not None
    mean = (participation_rates(np.array([1.0, 3.0]), 1) + participation_rates(np.array([2.0, 2.0]), 1)) / 2
    assert np.allclose(entry.observed, mean)
    assert np.allclose(entry.derived, [0.8, 0.2])


def test_without_observation_there_are_no_rates(real: ReadRun) -> None:
    assert rates(series_of(real)) is None
    assert rates(series_of(observed(real, {}, [5.0, 9.0]))) is None  # only the bound


def test_seeds_without_observation_do_not_count(real: ReadRun) -> None:
    run = observed(real, {0: [1.0, 3.0]}, [5.0, 9.0])
    alone, both = rates(series_of(run)), rates(series_of(run, real))
    assert alone is not None
    assert both is not None
    assert np.allclose(alone.derived, both.derived)
