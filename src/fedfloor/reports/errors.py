"""The table of models that predict numbers: their errors on the test set."""

__all__ = ["error_table"]

from fedfloor.reports.cells import LAST_TESTS, Table, score_cell
from fedfloor.reports.reading import Collection, Series
from fedfloor.reports.scores import ERROR
from fedfloor.reports.statistics import final_score, interval


def error_table(collection: Collection) -> Table | None:
    """One row per series that predicts numbers: its errors on the test set; None without any."""
    rows = tuple(row for series in collection.series if series.score is ERROR and (row := _row(series)))
    if not rows:
        return None
    note = (
        "Root mean square error on the test set, in the unit of what is predicted; the lower, the better. The final "
        f"error is {LAST_TESTS}."
    )
    return Table("error on the test set", ("policy", "seed numbers", "final error", "least error"), rows, note)


def _row(series: Series) -> tuple[str, ...]:
    finals = [value for run in series.runs if (value := final_score(run)) is not None]
    if not finals:
        return ()
    least = interval([min(run.tests[1]) for run in series.runs if run.tests[1]])
    seeds = ", ".join(str(run.scenario.seed) for run in series.runs)
    return series.label, seeds, score_cell(ERROR, interval(finals)), score_cell(ERROR, least)
