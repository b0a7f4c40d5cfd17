"""Accuracy against rounds: seeds together, long runs averaged."""

import dataclasses

import numpy as np
import pytest

from fedfloor.reports.drawing.plots import Plot
from fedfloor.reports.figures.accuracy_rounds import FIGURE
from fedfloor.reports.measures.tested import over_rounds
from fedfloor.reports.reading import ReadRun
from fedfloor.reports.results import results_of
from fedfloor.reports.statistics import final_score
from fedfloor.runs.about import About
from tests.conftest import known
from tests.reports.logs import series_of, with_columns
from tests.reports.made_up import gathered, made_up


def line_shapes(figure: Plot | None) -> list[object]:
    """How the points of every line are joined."""
    assert figure is not None
    lines = [trace["line"] for trace in figure.data]
    return [line["shape"] for line in lines if isinstance(line, dict)]


def test_the_curve_is_mean_least_and_greatest_of_the_seeds(real: ReadRun) -> None:
    one = with_columns(real, accuracy=[None, 0.2, None, 0.6])
    other = with_columns(real, accuracy=[None, 0.4])
    curve = over_rounds(series_of(one, other))
    assert curve is not None
    assert curve.x.tolist() == [2, 4]
    assert np.allclose(curve.mean, [0.3, 0.6])
    assert np.allclose(curve.low, [0.2, 0.6])
    assert np.allclose(curve.high, [0.4, 0.6])
    assert curve.runs.tolist() == [2, 1]  # the second run has not got further


def test_there_is_no_accuracy_without_training(real: ReadRun) -> None:
    assert over_rounds(series_of(real)) is None


def test_lines_of_long_runs_show_what_the_final_accuracy_is_a_mean_of() -> None:
    values = [0.1] * 20 + [0.2, 0.4, 0.6, 0.8] + [0.5] * 6
    run = made_up("random", rounds=30, accuracies=values)
    curve = over_rounds(series_of(run))
    assert curve is not None
    assert curve.mean[0] == pytest.approx(0.1)
    assert curve.mean[22] == pytest.approx((3 * 0.1 + 0.2 + 0.4 + 0.6) / 6)
    assert curve.mean[-1] == pytest.approx(final_score(run))


def test_points_are_joined_by_straight_lines() -> None:
    runs = [made_up("random", seed, accuracies=[0.1, 0.2, 0.3]) for seed in (1, 2)]
    (panel,) = known(FIGURE.plot)(results_of(gathered(*runs)))
    assert line_shapes(panel.plot) == ["linear"] * 3  # the line and the edges of its band
    assert panel.note == "Models were tested on the test set. Bands span the seeds."


def test_lines_of_runs_of_different_lengths_are_smoothed_alike() -> None:
    rising = [0.01 * at for at in range(100)]
    long, short = made_up("random", rounds=100, accuracies=rising), made_up("ddsra:v=1", rounds=10, accuracies=rising)
    (panel,) = known(FIGURE.plot)(results_of(gathered(long, short)))
    first, second = (np.asarray(trace["y"]) for trace in known(panel.plot).data)
    assert np.allclose(first[:10], second)
    assert panel.note.endswith(
        "Runs differ in length: all lines are smoothed over 2 rounds, as for the shortest of them."
    )
    (panel,) = known(FIGURE.plot)(results_of(gathered(long, made_up("ddsra:v=1", rounds=100, accuracies=rising))))
    assert "length" not in panel.note


@pytest.mark.parametrize(
    "other",
    [
        made_up("ddsra:v=1", rounds=10),  # a simulation of the same scenario
        made_up("ddsra:v=1", rounds=5, of=100, accuracies=[0.1]),  # a run that has just begun
    ],
    ids=["untested", "begun"],
)
def test_only_ended_runs_with_tests_decide_how_lines_are_smoothed(other: ReadRun) -> None:
    rising = [0.01 * at for at in range(100)]
    trained = made_up("random", rounds=100, accuracies=rising)
    (alone,) = known(FIGURE.plot)(results_of(gathered(trained)))
    (beside,) = known(FIGURE.plot)(results_of(gathered(trained, other)))
    expected, got = (np.asarray(known(panel.plot).data[0]["y"]) for panel in (alone, beside))
    assert np.array_equal(got, expected)
    assert beside.note == alone.note == "Models were tested on the test set."


def test_runs_without_tests_do_not_decide_who_tested() -> None:
    nodes = dataclasses.replace(made_up("random", accuracies=[0.1, 0.2]), about=About(tests="nodes"))
    (panel,) = known(FIGURE.plot)(results_of(gathered(nodes, made_up("ddsra:v=1"))))
    assert panel.note.startswith("Models were tested by the nodes of Flower")
