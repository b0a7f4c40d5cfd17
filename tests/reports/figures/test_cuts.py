"""Cuts of the devices, round by round."""

import numpy as np

from fedfloor.reports.arrays import lay_out_run
from fedfloor.reports.figures.cuts import explore, measure
from fedfloor.reports.reading import ReadRun
from tests.reports.made_up import made_up


def test_cuts_are_unknown_where_a_floor_was_not_picked(real: ReadRun) -> None:
    run = lay_out_run(real)
    cuts = measure(run)
    selected = run.selected[:, run.plant.devices.floor].T
    assert cuts.cut.shape == (3, 6)
    assert np.array_equal(np.isnan(cuts.cut), ~selected)
    assert np.allclose(cuts.mean, 1.0)


def test_very_many_devices_become_means_of_their_floors() -> None:
    run = lay_out_run(made_up("random", name="campus", rounds=2))
    entry = explore(run, np.array([0, 1]))
    assert entry["byFloor"]
    assert np.asarray(entry["cuts"]).shape == (len(run.floors), 2)
