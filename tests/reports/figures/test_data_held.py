"""Who holds which data."""

import dataclasses

from fedfloor.reports.arrays import lay_out_run
from fedfloor.reports.beside import Held
from fedfloor.reports.figures.data_held import measure
from fedfloor.reports.reading import ReadRun


def test_holdings_become_a_table_of_counts(real: ReadRun) -> None:
    data = measure(lay_out_run(dataclasses.replace(real, holding=(Held("press", "p1", (1, 2)),))))
    assert data is not None
    assert data.counts.tolist() == [[1, 2]]
    assert (data.devices, data.floors) == (("p1",), ("press",))


def test_without_training_nobody_holds_data(real: ReadRun) -> None:
    assert measure(lay_out_run(real)) is None
