"""What every floor did in every round."""

from dataclasses import replace

import numpy as np

from fedfloor.reports.arrays import lay_out_run
from fedfloor.reports.figures.turns import draw, explore, measure
from fedfloor.reports.palette import COLOURS, DARK_TURN_COLOURS, PART_COLOURS, TURN_COLOURS
from fedfloor.reports.results import results_of
from tests.reports.made_up import gathered, made_up

NAMES = list(TURN_COLOURS)


def test_floors_wait_finish_or_fail_for_a_cause() -> None:
    run = lay_out_run(made_up("random", rounds=3, selected=[True, True, True, False, False, False], failed=[1]))
    turns = measure(run)
    assert turns.shape == (6, 3)
    assert [NAMES[turn] for turn in turns[:, 0]] == ["done", "failed: energy", "done", "waited", "waited", "waited"]
    assert np.asarray(explore(run, np.array([0, 2]))["turns"]).shape == (6, 2)


def test_a_cause_that_nobody_knows_is_still_a_failure() -> None:
    run = made_up("random", rounds=1)
    floor = replace(run.records[0].gateways[0], completed=False, failure="<b>")
    strange = replace(run.records[0], gateways=(floor, *run.records[0].gateways[1:]))
    assert NAMES[measure(lay_out_run(replace(run, records=(strange,))))[0, 0]] == "failed"


def test_the_picture_names_only_what_occurs() -> None:
    drawing = draw(results_of(gathered(made_up("random", failed=[0]))))
    assert drawing is not None
    legends = [*drawing.legends, *(axes.get_legend() for axes in drawing.axes)]
    names = [entry.get_text() for legend in legends if legend is not None for entry in legend.get_texts()]
    assert names == ["waited", "done", "failed: energy"]


def test_no_colour_means_two_things() -> None:
    every = [*COLOURS, *PART_COLOURS.values(), *TURN_COLOURS.values(), *DARK_TURN_COLOURS.values()]
    assert len({colour.lower() for colour in every}) == len(every)
