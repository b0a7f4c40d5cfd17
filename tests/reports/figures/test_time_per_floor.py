"""Where the time of a floor's round goes."""

from pathlib import Path

import numpy as np

from fedfloor.reports.figures.time_per_floor import FIGURE, measure
from fedfloor.reports.reading import ReadRun
from fedfloor.reports.results import results_of
from tests.conftest import known
from tests.reports.logs import Record, changed, series_of, simulated
from tests.reports.made_up import gathered, made_up


def test_the_cut_decides_who_trains(tmp_path: Path) -> None:
    for cut, device, gateway in ((0, False, True), (2, True, False), (1, True, True)):
        split = measure(series_of(simulated(tmp_path, "round_robin", cut=cut)))
        times = dict(zip(split.parts, split.values, strict=True))
        assert (np.nanmin(times["device"]) > 0.0) == device
        assert (np.nanmax(times["gateway"]) > 1e-15) == gateway


def test_a_floor_that_never_was_picked_has_no_split(real: ReadRun) -> None:
    def never(t: int, record: Record) -> None:
        record["gateways"][1] |= {"selected": False, "completed": False, "failure": None}

    split = measure(series_of(changed(real, never)))
    assert np.isnan(split.values[:, 1]).all()
    assert not np.isnan(split.values[:, 0]).any()


def test_every_series_has_a_panel_and_a_series_without_picks_an_empty_one() -> None:
    idle = made_up("random", selected=[False] * len(made_up("random").scenario.floors))
    panels = known(FIGURE.plot)(results_of(gathered(idle, made_up("round_robin"))))
    assert [(panel.id, panel.title, panel.series) for panel in panels] == [
        ("time-0", "Time: random", 0),
        ("time-1", "Time: round_robin", 1),
    ]
    assert [panel.plot is None for panel in panels] == [True, False]
