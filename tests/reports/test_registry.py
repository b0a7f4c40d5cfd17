"""One module per figure: each describes one, and page and folder contain what the modules say."""

import json
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.image import imread

from fedfloor.reports import figures
from fedfloor.reports.drawing.figure import Figure
from fedfloor.reports.page import write_page
from fedfloor.reports.pictures import draw_pictures, write_pictures
from fedfloor.reports.registry import all_figures
from fedfloor.reports.results import Results, results_of
from fedfloor.reports.sections import SECTIONS
from tests.reports.made_up import gathered, made_up, real

MODULES = [import_module(f"{figures.__name__}.{info.name}") for info in pkgutil.iter_modules(figures.__path__)]
#: a whole figure: the share of rounds in which a channel was used
TOY = '''
"""A figure that nobody has heard of."""

import numpy as np

from fedfloor.reports.drawing.figure import Figure, panels_of
from fedfloor.reports.drawing.paper import one_panel
from fedfloor.reports.drawing.plots import Plot
from fedfloor.reports.sections import DELAY

def measure(series):
    return np.mean([run.selected.mean() for run in series.runs])

def draw(results):
    figure, axes = one_panel()
    axes.bar([look.label for look, _ in results.measured(measure)], [share for _, share in results.measured(measure)])
    return figure

def plot(results):
    data = [
        {"type": "bar", "x": [look.label], "y": [share], "meta": {"s": look.index}}
        for look, share in results.measured(measure)
    ]
    return panels_of(Plot(data, {}))

FIGURE = Figure(
    name="toy", position=31, section=DELAY, title="A toy", caption="A toy's caption.", draw=draw, plot=plot
)
'''


@pytest.fixture(scope="module")
def results() -> Results:
    return results_of(gathered(made_up("random", failed=(0,)), made_up("round_robin", delay=12.0)))


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file more in the package of figures, and nothing else."""
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY, encoding="utf-8")
    monkeypatch.setattr(figures, "__path__", [*figures.__path__, str(folder)])


def page_of(results: Results, folder: Path) -> str:
    write_page(results, (), folder / "report.html")
    return (folder / "report.html").read_text(encoding="utf-8")


def plots_on(page: str) -> list[str]:
    """Ids of the elements that plots are drawn into, from top to bottom."""
    return re.findall(r'<div class="plot" id="fig-([^"]+)"', page)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_module_describes_exactly_one_figure(module: ModuleType) -> None:
    values = [name for name, value in vars(module).items() if isinstance(value, Figure)]
    assert values == ["FIGURE"]
    figure: Figure = module.FIGURE
    assert figure.draw is not None or figure.plot is not None
    assert figure.section in SECTIONS
    assert figure.title
    assert figure.caption.endswith(".")
    assert figure.missing == "" or figure.missing.endswith(".")


def test_names_and_positions_are_unique_and_figures_come_by_position() -> None:
    registry = all_figures()
    assert len(registry) == len(MODULES)
    assert len({figure.name for figure in registry}) == len(registry)
    positions = [figure.position for figure in registry]
    assert positions == sorted(set(positions))


def test_sections_have_figures_and_follow_each_other_as_figures_do() -> None:
    in_order = dict.fromkeys(figure.section for figure in all_figures())
    assert tuple(in_order) == SECTIONS
    assert len({section.id for section in SECTIONS}) == len(SECTIONS)


def test_the_page_has_a_card_for_every_panel_in_the_order_of_the_registry(results: Results, tmp_path: Path) -> None:
    page = page_of(results, tmp_path)
    panels = [
        (figure, panel)
        for figure in all_figures()
        for panel in (figure.plot(results) if figure.plot is not None else ())
        if panel.plot is not None or panel.choices
    ]
    expected = [panel.id or figure.name for figure, panel in panels]
    assert sorted(plots_on(page)) == sorted(expected)
    alone = [panel.id or figure.name for figure, panel in panels if panel.series is None]
    assert [plot for plot in plots_on(page) if plot in alone] == alone
    assert [plot for plot in plots_on(page) if plot not in alone] == ["time-0", "energy-0", "time-1", "energy-1"]
    drawn = {figure.section for figure, _ in panels}
    assert re.findall(r'<section id="([^"]+)"', page) == [section.id for section in SECTIONS if section in drawn]
    data = re.search(r'id="report-data">(.*?)</script>', page)
    assert data is not None
    assert list(json.loads(data[1])["figures"]) == [f"fig-{plot}" for plot in plots_on(page)]


def test_a_figure_without_data_is_not_drawn_and_the_foot_says_why_and_what_to_do(tmp_path: Path) -> None:
    page = page_of(results_of(gathered(made_up("random"))), tmp_path)
    assert page.count("<figure") == len(plots_on(page))
    assert re.search(r"<summary>\d+ figures have no data in these runs</summary>", page)
    for figure in all_figures():
        plotted = figure.plot is not None and figure.plot(results_of(gathered(made_up("random"))))
        sentence = re.sub(r"`([^`]+)`", r"<code>\1</code>", figure.missing)
        assert bool(plotted) != (bool(sentence) and sentence in page), figure.name


def test_a_figure_without_data_of_real_machines_gives_advice_that_fits_them(tmp_path: Path) -> None:
    page = page_of(results_of(gathered(real(made_up("random")))), tmp_path)
    assert "No model was tested yet: that happens after every <code>training.evaluate_every</code> rounds" in page
    assert "Real machines do not measure the divergence" in page
    assert "<code>--allow-class-counts</code> of the device" in page
    assert "fedfloor simulate" not in page
    assert "observe_every" not in page


def test_the_folder_has_the_figures_with_data_in_the_order_of_the_registry(results: Results, tmp_path: Path) -> None:
    steps: list[str] = []
    files = write_pictures(draw_pictures(results, on_figure=steps.append), tmp_path)
    assert steps == [figure.name for figure in all_figures() if figure.draw is not None]
    assert [path.stem for path in files] == [name for name in steps if (tmp_path / f"{name}.png").exists()]


@pytest.mark.usefixtures("toy")
def test_a_new_module_is_all_that_a_new_figure_needs(results: Results, tmp_path: Path) -> None:
    assert [figure.name for figure in all_figures()][4:6] == ["delay", "toy"]
    page = page_of(results, tmp_path)
    assert plots_on(page)[:2] == ["delay", "toy"]  # these runs have no accuracy
    assert "<h3>A toy</h3><p>A toy&#x27;s caption.</p>" in page
    files = write_pictures(draw_pictures(results), tmp_path / "figures")
    assert "toy" in [path.stem for path in files]
    assert imread(tmp_path / "figures" / "toy.png").size > 0
