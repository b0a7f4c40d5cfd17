"""Cuts of the devices, round by round."""

from dataclasses import replace

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
    assert np.array_equal(cuts.usual, np.ones(3))
    assert np.array_equal(cuts.raw_share, np.zeros(3))


def test_the_share_of_raw_samples_is_that_of_the_rounds_with_a_cut(real: ReadRun) -> None:
    run = lay_out_run(real)
    cut = np.where(np.isnan(run.cut), np.nan, [2.0, 0.0, 1.0])
    cut[np.flatnonzero(run.selected[:, 0])[0], 0] = 0.0  # once, where the first device has another cut otherwise
    cut[:, 2] = np.nan
    cuts = measure(replace(run, cut=cut))
    assert np.array_equal(cuts.usual, [2.0, 0.0, np.nan], equal_nan=True)
    assert np.allclose(cuts.raw_share, [1 / run.selected[:, 0].sum(), 1.0, np.nan], equal_nan=True)


def test_of_very_many_devices_a_floor_shows_the_least_cut() -> None:
    run = lay_out_run(made_up("random", name="campus", rounds=2))
    cut = np.full(run.cut.shape, 2.0)
    cut[1, 0] = 0.0
    entry = explore(replace(run, cut=cut), np.array([0, 1]))
    assert entry["byFloor"]
    cuts = np.asarray(entry["cuts"])
    assert cuts.shape == (len(run.floors), 2)
    assert (cuts == 0.0).sum() == 1
    assert cuts[0, 1] == 0.0
    assert np.asarray(entry["rawShare"])[0] == 0.5
