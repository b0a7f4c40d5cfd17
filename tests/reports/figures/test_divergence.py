"""Divergence beside its bound."""

from fedfloor.reports.figures.divergence import measure
from fedfloor.reports.reading import ReadRun
from tests.reports.logs import observed, series_of


def test_divergence_stands_beside_its_bound(real: ReadRun) -> None:  # Theorem 1
    divergence = measure(series_of(observed(real, {0: [1.0, 10.0], 2: [None, 3.0]}, [5.0, 9.0])))
    assert divergence is not None
    assert divergence.measured.tolist() == [1.0, 10.0, 3.0]
    assert divergence.bound.tolist() == [5.0, 9.0, 9.0]
    assert divergence.round.tolist() == [0, 0, 2]  # as in the log
    assert [divergence.floors[m] for m in divergence.floor] == ["press", "paint", "paint"]
    assert divergence.exceeded == 1


def test_without_observation_there_is_no_divergence(real: ReadRun) -> None:
    assert measure(series_of(real)) is None
    assert measure(series_of(observed(real, {}, [5.0, 9.0]))) is None  # only the bound
