"""Who holds which data."""

import dataclasses

from fedfloor.report.arrays import lay_out_run
from fedfloor.report.figures.data_held import measure
from fedfloor.report.reading import ReadRun


def test_holdings_become_a_table_of_counts(real: ReadRun) -> None:
    entry = {"floor": "press", "name": "p1", "asked": 3, "held": 3, "classes": [1, 2]}
    data = measure(lay_out_run(dataclasses.replace(real, holding={"devices": [entry]})))
    assert data is not None
    assert data.counts.tolist() == [[1, 2]]
    assert (data.devices, data.floors) == (("p1",), ("press",))


def test_without_training_nobody_holds_data(real: ReadRun) -> None:
    assert measure(lay_out_run(real)) is None
