"""Who holds which data."""

import dataclasses

from fedfloor.reports.arrays import lay_out_run
from fedfloor.reports.beside import Held, Holding
from fedfloor.reports.figures.data_held import draw, measure, plot
from fedfloor.reports.reading import ReadRun
from fedfloor.reports.results import results_of
from tests.conftest import known
from tests.reports.logs import collection_of


def test_holdings_become_a_table_of_counts(real: ReadRun) -> None:
    holding = Holding((Held("press", "p1", (1, 2)),))
    data = known(measure(lay_out_run(dataclasses.replace(real, holding=holding))))
    assert data.counts.tolist() == [[1, 2]]
    assert (data.devices, data.floors, data.classes) == (("p1",), ("press",), ("0", "1"))


def test_classes_that_have_names_are_shown_with_them(real: ReadRun) -> None:
    holding = Holding((Held("press", "p1", (1, 2)),), ("worn", "<new>"))
    results = results_of(collection_of(dataclasses.replace(real, holding=holding)))
    (panel,) = plot(results)
    ((_, shown),) = panel.choices
    assert shown.layout["xaxis"]["ticktext"] == ["worn", "&lt;new&gt;"]  # type: ignore[index]
    assert shown.data[0]["text"] == [["p1<br>class worn", "p1<br>class &lt;new&gt;"]]
    drawing = known(draw(results))
    assert [label.get_text() for label in drawing.axes[0].get_xticklabels()] == ["worn", "<new>"]


def test_without_training_nobody_holds_data(real: ReadRun) -> None:
    assert measure(lay_out_run(real)) is None
