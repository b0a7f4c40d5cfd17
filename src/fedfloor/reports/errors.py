"""Errors of models that predict numbers, in place of the accuracy of those that predict classes."""

__all__ = ["error_table", "final_error"]

from collections.abc import Sequence

from fedfloor.reports.cells import Table, with_interval
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.reports.statistics import interval, window_of
from fedfloor.rounds.summary import FINAL_ROUNDS, root_mean_square


def _tests(run: ReadRun) -> list[tuple[int, float]]:
    """After how many rounds the model was tested, and its root mean square error; empty if it predicts classes."""
    if not run.scenario.training.predicts_numbers:
        return []
    return [(record.round + 1, root_mean_square(record.loss)) for record in run.records if record.loss is not None]


def final_error(run: ReadRun) -> float | None:
    """Mean error in the tests of the last rounds, those of the final accuracy; None without any."""
    tests = _tests(run)
    values = [error for at, error in tests if at > tests[-1][0] - window_of(run)]
    return sum(values) / len(values) if values else None


def error_table(collection: Collection) -> Table | None:
    """One row per series that predicts numbers: its errors on the test set; None without any."""
    rows = tuple(row for series in collection.series if (row := _row(series)))
    if not rows:
        return None
    note = (
        "Root mean square error on the test set, in the unit of what is predicted; the lower, the better. The final "
        f"error is the mean of the tests of the last {FINAL_ROUNDS} rounds, or of the last fifth of a run of fewer "
        f"than {5 * FINAL_ROUNDS} rounds."
    )
    return Table("error on the test set", ("policy", "seed numbers", "final error", "least error"), rows, note)


def _row(series: Series) -> tuple[str, ...]:
    tests: Sequence[list[tuple[int, float]]] = [test for run in series.runs if (test := _tests(run))]
    finals = [value for run in series.runs if (value := final_error(run)) is not None]
    if not finals:
        return ()
    least = interval([min(error for _, error in test) for test in tests])
    seeds = ", ".join(str(run.scenario.seed) for run in series.runs)
    return series.label, seeds, with_interval(interval(finals)), with_interval(least)
