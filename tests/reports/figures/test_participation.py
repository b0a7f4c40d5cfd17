"""Achieved and target participation."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from fedfloor.reports.figures.participation import measure, plot
from fedfloor.reports.reading import ReadRun
from fedfloor.reports.results import results_of
from tests.reports.logs import POLICIES, changed, series_of, simulated
from tests.reports.made_up import gathered, made_up


@pytest.mark.parametrize("policy", POLICIES)
def test_participation_is_that_of_the_summary(policy: str, tmp_path: Path) -> None:
    run = simulated(tmp_path, policy)
    participation = measure(series_of(run))
    assert participation.floors == ("press", "paint")
    assert np.allclose(participation.achieved, [floor.completed_rate for floor in run.summary.floors])
    assert np.allclose(participation.target, [floor.target_rate for floor in run.summary.floors])


def test_floors_are_matched_by_name_where_seeds_differ(real: ReadRun) -> None:
    floors = tuple(
        floor.model_copy(update={"name": {"press": "mill"}.get(floor.name, floor.name)})
        for floor in real.scenario.floors
    )
    scenario = real.scenario.model_copy(update={"floors": floors})
    other = dataclasses.replace(real, scenario=scenario, records=tuple(real.records))
    participation = measure(series_of(real, other))
    assert participation.floors == ("press", "paint", "mill")
    assert np.allclose(participation.achieved[0], participation.achieved[2])


def test_a_single_round_is_enough(real: ReadRun) -> None:
    assert measure(series_of(changed(real, lambda *_: None, 1))).achieved.shape == (2,)


@pytest.mark.parametrize(("scenario", "kind"), [("quick", "Bars"), ("campus", "Each dot is a floor")])
def test_the_note_says_what_the_page_draws(scenario: str, kind: str) -> None:
    (panel,) = plot(results_of(gathered(made_up("random", name=scenario, rounds=2))))
    assert panel.note.startswith(kind)
