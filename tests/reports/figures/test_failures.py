"""Failures by cause."""

import pytest

from fedfloor.reports.figures.failures import measure
from fedfloor.reports.reading import ReadRun
from tests.reports.logs import Record, changed, series_of


def test_failures_are_counted_over_all_seeds(real: ReadRun) -> None:
    def fail(t: int, record: Record) -> None:
        for entry in record["gateways"]:
            if entry["selected"]:
                entry |= {"completed": False, "failure": "energy" if t else "lost"}

    failing = changed(real, fail)
    failures = measure(series_of(failing, failing))
    assert dict(failures.counts) == {"energy": 10, "lost": 2}
    assert failures.selected == 12
    assert failures.share("lost") == pytest.approx(2 / 12)
    assert failures.share("memory") == 0.0
