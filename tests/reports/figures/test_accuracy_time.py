"""Accuracy against simulated time: which runs a point is about."""

import dataclasses

import numpy as np

from fedfloor.reports.figures.accuracy_time import FIGURE
from fedfloor.reports.measures.tested import over_time
from fedfloor.reports.reading import ReadRun
from fedfloor.reports.results import results_of
from tests.conftest import known
from tests.reports.figures.test_accuracy_rounds import line_shapes
from tests.reports.logs import series_of, with_columns
from tests.reports.made_up import gathered, made_up


def test_runs_keep_their_last_tested_value(real: ReadRun) -> None:
    clock = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    one = with_columns(real, accuracy=[0.1, None, 0.5, None, None, None], clock_s=clock)
    other = with_columns(real, accuracy=[None, 0.3, None, None, None, None], clock_s=clock)
    curve = over_time(series_of(one, other))
    assert curve is not None
    assert curve.x.tolist() == [2, 3, 6]  # from where both have been tested
    assert np.allclose(curve.mean, [0.2, 0.4, 0.4])


def test_an_unfinished_run_counts_up_to_its_last_round(real: ReadRun) -> None:
    one = with_columns(real, accuracy=[0.2] * 6, clock_s=[1.0, 2, 3, 4, 5, 6])
    unfinished = with_columns(real, accuracy=[0.4, 0.4], clock_s=[1.0, 2.0])
    curve = over_time(series_of(one, unfinished))
    assert curve is not None
    assert curve.runs.tolist() == [2, 2, 1, 1, 1, 1]
    assert np.allclose(curve.mean, [0.3, 0.3, 0.2, 0.2, 0.2, 0.2])


def test_seeds_are_averaged_until_the_first_of_them_ends(real: ReadRun) -> None:
    slow = with_columns(real, accuracy=[0.2] * 6, clock_s=[2.0, 4, 6, 8, 10, 12])
    fast = with_columns(real, accuracy=[0.4] * 6, clock_s=[1.0, 2, 3, 4, 5, 6])
    curve = over_time(series_of(slow, fast))
    assert curve is not None
    assert curve.x.tolist() == [2, 3, 4, 5, 6]
    assert curve.runs.tolist() == [2] * 5


def test_a_run_that_ended_early_is_averaged_like_a_finished_one(real: ReadRun) -> None:
    whole = with_columns(real, accuracy=[0.2] * 6, clock_s=[1.0, 2, 3, 4, 5, 6])
    early = with_columns(real, accuracy=[0.4, 0.4], clock_s=[1.0, 2.0])
    assert not early.finished
    curve = over_time(series_of(whole, dataclasses.replace(early, bounds=())))
    assert curve is not None
    assert curve.x.tolist() == [1, 2]
    assert np.allclose(curve.mean, 0.3)


def test_seeds_that_never_overlap_have_no_mean_over_time(real: ReadRun) -> None:
    early = with_columns(real, accuracy=[0.4] * 6, clock_s=[1.0, 2, 3, 4, 5, 6])
    late = with_columns(real, accuracy=[None, *[0.2] * 5], clock_s=[3.0, 7, 8, 9, 10, 11])
    assert over_time(series_of(early, late)) is None


def test_long_curves_are_put_on_a_grid(real: ReadRun) -> None:
    run = with_columns(real, accuracy=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], clock_s=[1.0, 2, 3, 4, 5, 6])
    curve = over_time(series_of(run), limit=3)
    assert curve is not None
    assert curve.x.tolist() == [1, 3.5, 6]
    assert np.allclose(curve.mean, [0.1, 0.3, 0.6])


def test_there_is_no_accuracy_without_training(real: ReadRun) -> None:
    assert over_time(series_of(real)) is None


def test_lines_are_steps_on_the_page_too() -> None:
    runs = [made_up("random", seed, accuracies=[0.1, 0.2, 0.3]) for seed in (1, 2)]
    (panel,) = known(FIGURE.plot)(results_of(gathered(*runs)))
    assert line_shapes(panel.plot) == ["hv"] * 3  # the line and the edges of its band
    assert panel.note.endswith("Bands span the seeds. A line over several seeds ends where the first of them ends.")
    (panel,) = known(FIGURE.plot)(results_of(gathered(runs[0])))
    assert panel.note == "Models were tested on the test set."
