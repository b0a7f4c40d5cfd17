"""Figures for papers: which there are, how they are written, and that nobody's settings change."""

import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from fedfloor.reports import measures, plots
from fedfloor.reports.arrays import lay_out
from fedfloor.reports.figures import FIGURES, draw_figures
from fedfloor.reports.figures.canvas import look
from fedfloor.reports.palette import COLOURS
from fedfloor.reports.reading import Collection, Series
from tests.reports.made_up import gathered, made_up

#: without training and without failures
PLAIN = {"delay", "participation", "time-per-floor", "energy-per-floor"}


def names(paths: tuple[Path, ...]) -> set[str]:
    return {path.stem for path in paths}


def with_devices(collection: Collection) -> Collection:
    """Add what logs say of devices, data and divergence."""
    for run in collection.runs:
        for record in run.records:
            for floor, entry in zip(run.scenario.floors, record["gateways"], strict=True):
                entry |= {"divergence": 1.0 + entry["target_rate"], "divergence_bound": 50.0}
                if entry["selected"]:
                    figures = {
                        "gateway_frequency_hz": 1e9,
                        "energy_j": 0.5,
                        "energy_budget_j": 1.0,
                        "memory_bytes": 1e6,
                    }
                    entry["devices"] = [{"name": device.name, "cut": 2, **figures} for device in floor.devices]
    return collection


def test_figures_without_data_are_left_out(tmp_path: Path) -> None:
    assert names(draw_figures(gathered(made_up("random")), tmp_path)) == PLAIN


@pytest.mark.slow
def test_every_figure_is_drawn_where_there_is_data(tmp_path: Path) -> None:
    runs = [
        made_up(policy, seed, accuracies=[0.1, 0.2, 0.3], failed=(0,), delay=8.0 + seed)
        for policy in ("ddsra:v=1,solver=exact", "ddsra:v=100,solver=exact", "random")
        for seed in (1, 2)
    ]
    held = {"devices": [{"floor": "f", "name": "d", "classes": [3, 0, 9]}]}
    runs = [type(run)(run.folder, run.scenario, run.policy, "", run.records, run.summary, held, ()) for run in runs]
    written = draw_figures(with_devices(gathered(*runs)), tmp_path, pdf=True)
    assert names(written) == set(FIGURES)
    assert {path.suffix for path in written} == {".png", ".pdf"}
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in written}  # nothing half-written
    assert all(path.read_bytes().startswith(b"%PDF") for path in written if path.suffix == ".pdf")


def test_a_png_is_a_column_wide_at_200_dpi(tmp_path: Path) -> None:
    draw_figures(gathered(made_up("random"), made_up("round_robin", delay=12.0)), tmp_path)
    height, width, _ = imread(tmp_path / "delay.png").shape
    assert 3.2 * 200 < width < 3.7 * 200
    assert 300 < height < 3.5 * 200


def test_series_have_the_colours_of_okabe_and_ito(tmp_path: Path) -> None:
    draw_figures(gathered(made_up("random"), made_up("round_robin", delay=12.0)), tmp_path)
    pixels = (imread(tmp_path / "delay.png")[..., :3] * 255).round().astype(int).reshape(-1, 3)
    for colour in COLOURS[:2]:
        rgb = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
        assert (np.abs(pixels - rgb).max(axis=1) <= 2).sum() > 50


def test_a_series_looks_the_same_on_the_page_and_in_pictures() -> None:
    pairs = {"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "cross": "P", "x": "X", "star": "*"}
    styles = plots.styles([str(index) for index in range(40)])
    for index, style in enumerate(styles):
        picture = look(index)
        assert (picture["color"], picture["marker"]) == (style.colour, pairs[style.symbol])
        assert (picture["linestyle"] == "-") == (style.dash == "solid")
    assert len({(style.colour, style.dash, style.symbol) for style in styles[:35]}) == 35


def test_accuracy_against_time_goes_in_steps_on_the_page_too() -> None:
    runs = [made_up("random", seed, accuracies=[0.1, 0.2, 0.3]) for seed in (1, 2)]
    (series,) = lay_out(gathered(*runs))
    curve, looks = measures.accuracy_over_time(series), plots.styles([series.label])
    over_time = plots.accuracy_figure([curve], looks, over_time=True)
    over_rounds = plots.accuracy_figure([measures.accuracy_over_rounds(series)], looks, over_time=False)
    assert over_time is not None
    assert over_rounds is not None
    assert [trace["line"]["shape"] for trace in over_time.data] == ["hv"] * 3  # the line and the edges of its band
    assert [trace["line"]["shape"] for trace in over_rounds.data] == ["linear"] * 3


@pytest.mark.slow
def test_equal_runs_give_equal_files(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        draw_figures(gathered(made_up("random")), tmp_path / folder, pdf=True)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_the_readers_settings_stay_as_they_are(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    draw_figures(gathered(made_up("random")), tmp_path)
    assert dict(mpl.rcParams) == before


def test_pyplot_is_not_loaded(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from tests.reports.made_up import *; "
    code += "from fedfloor.reports.figures import draw_figures; "
    code += (
        f"draw_figures(gathered(made_up('random')), Path({str(tmp_path)!r})); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("delay", [float("inf"), 1e6])
def test_endless_and_long_rounds_do_not_stop_the_figures(delay: float, tmp_path: Path) -> None:
    written = draw_figures(gathered(made_up("random", delay=delay), made_up("round_robin")), tmp_path)
    assert "delay" in names(written)


def test_many_floors_and_many_series_fit(tmp_path: Path) -> None:
    runs = [made_up(f"own{k}", name="campus", rounds=2, delay=5.0 + k) for k in range(9)]
    assert names(draw_figures(gathered(*runs), tmp_path)) == PLAIN


def test_series_with_other_floors_are_no_hindrance(tmp_path: Path) -> None:
    first, other = made_up("random"), made_up("round_robin", name="quick")
    collection = Collection("mixed", (Series("a", (first,)), Series("b", (other,))), (), ())
    assert names(draw_figures(collection, tmp_path)) == PLAIN
