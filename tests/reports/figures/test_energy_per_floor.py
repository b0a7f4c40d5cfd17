"""Where the energy of a floor's round goes, against the log's own sums."""

from pathlib import Path

import numpy as np
import pytest

from fedfloor.reports.drawing.paper import name_floors, one_panel
from fedfloor.reports.figures.energy_per_floor import measure
from fedfloor.reports.reading import ReadRun
from tests.reports.logs import POLICIES, Record, changed, series_of, simulated


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_spenders_add_up_to_what_was_logged(policy: str, cut: int, tmp_path: Path) -> None:
    run = simulated(tmp_path, policy, cut=cut)
    split = measure(series_of(run))
    selected = split.selected > 0
    total = float((split.values[:, selected].sum(axis=0) * split.selected[selected]).sum())
    assert np.isclose(total, run.summary.mean_energy * run.summary.rounds)


def test_a_dead_link_costs_finite_energy(real: ReadRun) -> None:
    def dead(t: int, record: Record) -> None:
        for entry in record["gateways"]:
            if entry["selected"]:
                entry["upload_s"] = None

    assert np.isfinite(measure(series_of(changed(real, dead))).values).all()


@pytest.mark.parametrize("floors", [1, 20, 22, 40, 60])
def test_the_first_and_the_last_floor_are_named_in_print(floors: int) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    names = [f"floor-{at}" for at in range(floors)]
    _, axes = one_panel()
    name_floors(axes, names, inches=3.0)
    shown = [label.get_text() for label in axes.get_xticklabels()]
    assert (shown[0], shown[-1]) == (names[0], names[-1])
    assert len(shown) <= 21
