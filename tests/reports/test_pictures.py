"""The folder of figures for papers: which there are, how they are written, and that nobody's settings change."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from fedfloor.reports.beside import Held, Holding
from fedfloor.reports.drawing.paper import line_style
from fedfloor.reports.palette import COLOURS, looks_of
from fedfloor.reports.pictures import draw_pictures, write_pictures
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.reports.registry import all_figures
from fedfloor.reports.results import results_of
from fedfloor.rounds.record import DeviceRecord, GatewayRecord
from fedfloor.scenario import Floor
from tests.reports.made_up import gathered, made_up

#: without training and without failures
PLAIN = {"delay", "participation", "time-per-floor", "energy-per-floor", "turns"}


def write(collection: Collection, folder: Path, *, pdf: bool = False) -> tuple[Path, ...]:
    return write_pictures(draw_pictures(results_of(collection), pdf=pdf), folder)


def names(paths: tuple[Path, ...]) -> set[str]:
    return {path.stem for path in paths}


def with_devices(collection: Collection) -> Collection:
    """Add what logs say of devices, data and divergence."""

    def with_usage(gateway: GatewayRecord, floor: Floor) -> GatewayRecord:
        devices = [DeviceRecord(name=device.name, cut=2, energy_j=0.5) for device in floor.devices]
        return replace(
            gateway,
            divergence=1.0 + gateway.target_rate,
            divergence_bound=50.0,
            devices=tuple(devices) if gateway.selected else (),
        )

    def with_records(run: ReadRun) -> ReadRun:
        floors = run.scenario.floors
        records = [replace(record, gateways=tuple(map(with_usage, record.gateways, floors))) for record in run.records]
        return replace(run, records=tuple(records))

    series = [replace(part, runs=tuple(map(with_records, part.runs))) for part in collection.series]
    return replace(collection, series=tuple(series))


def test_figures_without_data_are_left_out(tmp_path: Path) -> None:
    assert names(write(gathered(made_up("random")), tmp_path)) == PLAIN


@pytest.mark.slow
def test_every_figure_is_drawn_where_there_is_data(tmp_path: Path) -> None:
    runs = [
        made_up(policy, seed, accuracies=[0.1, 0.2, 0.3], failed=(0,), delay=8.0 + seed)
        for policy in ("ddsra:v=1,solver=exact", "ddsra:v=100,solver=exact", "random")
        for seed in (1, 2)
    ]
    runs = [replace(run, holding=Holding((Held("f", "d", (3, 0, 9)),)), bounds=()) for run in runs]
    written = write(with_devices(gathered(*runs)), tmp_path, pdf=True)
    only_of_numbers = {"error-rounds", "error-time"}  # of models that predict numbers, which have no accuracy
    assert names(written) == {figure.name for figure in all_figures() if figure.draw is not None} - only_of_numbers
    assert {path.suffix for path in written} == {".png", ".pdf"}
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in written}  # nothing half-written
    assert all(path.read_bytes().startswith(b"%PDF") for path in written if path.suffix == ".pdf")


def test_a_png_is_a_column_wide_at_200_dpi(tmp_path: Path) -> None:
    write(gathered(made_up("random"), made_up("round_robin", delay=12.0)), tmp_path)
    height, width, _ = imread(tmp_path / "delay.png").shape
    assert 3.2 * 200 < width < 3.7 * 200
    assert 300 < height < 3.5 * 200


def test_series_have_the_colours_of_okabe_and_ito(tmp_path: Path) -> None:
    write(gathered(made_up("random"), made_up("round_robin", delay=12.0)), tmp_path)
    pixels = (imread(tmp_path / "delay.png")[..., :3] * 255).round().astype(int).reshape(-1, 3)
    for colour in COLOURS[:2]:
        rgb = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
        assert (np.abs(pixels - rgb).max(axis=1) <= 2).sum() > 50


def test_the_first_35_series_look_different_on_the_page_and_in_print() -> None:
    looks = looks_of(str(index) for index in range(40))
    assert len({(look.colour, look.dash, look.symbol) for look in looks[:35]}) == 35
    assert len({(look.colour, str(look.linestyle), look.marker) for look in looks[:35]}) == 35
    for look in looks:
        assert (look.linestyle == "-") == (look.dash == "solid")
        assert line_style(look) == {"color": look.colour, "linestyle": look.linestyle, "marker": look.marker}


@pytest.mark.slow
def test_equal_runs_give_equal_files(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write(gathered(made_up("random")), tmp_path / folder, pdf=True)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_the_readers_settings_stay_as_they_are(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    write(gathered(made_up("random")), tmp_path)
    assert dict(mpl.rcParams) == before


def test_pyplot_is_not_loaded(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from tests.reports.made_up import *; "
    code += "from fedfloor.reports.pictures import *; from fedfloor.reports.results import *; "
    code += "draw_pictures(results_of(gathered(made_up('random')))); "
    code += "print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("delay", [float("inf"), 1e6])
def test_endless_and_long_rounds_do_not_stop_the_figures(delay: float, tmp_path: Path) -> None:
    written = write(gathered(made_up("random", delay=delay), made_up("round_robin")), tmp_path)
    assert "delay" in names(written)


def test_many_floors_and_many_series_fit(tmp_path: Path) -> None:
    runs = [made_up(f"own{k}", name="campus", rounds=2, delay=5.0 + k) for k in range(9)]
    assert names(write(gathered(*runs), tmp_path)) == PLAIN


def test_series_with_other_floors_are_no_hindrance(tmp_path: Path) -> None:
    first, other = made_up("random"), made_up("round_robin", name="quick")
    collection = Collection("mixed", (Series("a", (first,)), Series("b", (other,))), (), ())
    assert names(write(collection, tmp_path)) == PLAIN
