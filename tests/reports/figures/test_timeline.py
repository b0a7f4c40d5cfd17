"""The timeline of a round."""

import numpy as np

from fedfloor.reports.arrays import lay_out_run
from fedfloor.reports.figures.timeline import explore, measure
from fedfloor.reports.measures.phases import phase_times
from fedfloor.reports.reading import ReadRun
from tests.reports.logs import Record, changed


def test_a_timeline_goes_from_phase_to_phase(real: ReadRun) -> None:
    run = lay_out_run(real)
    for index in range(run.rounds.size):
        timeline = measure(run, index, phase_times(run))
        assert timeline.round == index
        selected = [gateway for gateway in real.records[index].gateways if gateway.selected]
        assert [run.floors[m] for m in timeline.floors] == [gateway.name for gateway in selected]
        assert list(timeline.channel) == [gateway.channel for gateway in selected]
        assert np.all(np.diff(timeline.end, axis=0, prepend=0.0) >= 0.0)
        assert np.isclose(timeline.end[-1].max(initial=0.0), run.delay[index])


def test_a_dead_link_has_no_end(real: ReadRun) -> None:
    def dead(t: int, record: Record) -> None:
        for entry in record["gateways"]:
            if entry["selected"]:
                entry["upload_s"] = None

    run = lay_out_run(changed(real, dead))
    assert np.isinf(measure(run, 0, phase_times(run)).end[-1]).all()


def test_a_single_round_is_enough(real: ReadRun) -> None:
    run = lay_out_run(changed(real, lambda *_: None, 1))
    assert explore(run, np.array([0]))["longest"] == run.delay[0]
