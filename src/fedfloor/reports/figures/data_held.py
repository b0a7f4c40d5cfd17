"""Samples of every class that each device holds."""

__all__ = ["FIGURE", "DataHeld", "draw", "measure", "plot"]

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.arrays import Ints
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.drawing.figure import Figure, Panel
from fedfloor.reports.drawing.paper import colour_bar, legend_name, name_devices, one_panel
from fedfloor.reports.drawing.plots import ROWS, Plot, Trace, harmless, names_axis, titled
from fedfloor.reports.results import Results
from fedfloor.reports.sections import DATA

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_CHOICES = 12  #: distributions that the page offers


@dataclass(frozen=True, slots=True, eq=False)
class DataHeld:
    """How the data is distributed."""

    devices: tuple[str, ...]
    floors: tuple[str, ...]  #: of each device
    counts: Ints  #: (N, C) samples of each class
    classes: tuple[str, ...]  #: (C,) names, or numbers


def measure(run: RunArrays) -> DataHeld | None:
    """Samples per device and class; None without training."""
    holding = run.run.holding
    if holding is None or not holding.devices:
        return None
    counts = np.array([device.classes for device in holding.devices], dtype=np.int64)
    return DataHeld(
        devices=tuple(device.name for device in holding.devices),
        floors=tuple(device.floor for device in holding.devices),
        counts=counts,
        classes=holding.labels or tuple(map(str, range(counts.shape[1]))),
    )


def _distributions(results: Results) -> list[tuple[RunArrays, DataHeld]]:
    """Different distributions, each with its first run."""
    by_content: dict[str, tuple[RunArrays, DataHeld]] = {}
    for run in (run for series in results.series for run in series.runs):
        data = measure(run)
        if data is not None:
            by_content.setdefault(json.dumps([data.devices, data.counts.tolist(), data.classes]), (run, data))
    return list(by_content.values())


def draw(results: Results) -> "Drawing | None":
    """For papers: the first distribution; white where a device holds no sample."""
    distributions = _distributions(results)
    if not distributions:
        return None
    _, data = distributions[0]
    figure, axes = one_panel(min(6.0, 1.0 + 0.15 * len(data.devices)))
    most = max(1, int(data.counts.max()))
    image = axes.imshow(
        np.ma.masked_equal(data.counts, 0),
        aspect="auto",
        interpolation="nearest",
        cmap="Blues",
        vmin=-0.25 * most,  # so that a few samples are not white
        vmax=most,
    )
    name_devices(axes, data.devices)
    step = math.ceil(len(data.classes) / 20)
    names = [legend_name(name) for name in data.classes[::step]]
    axes.set_xticks(range(0, len(data.classes), step), names, rotation=90 if max(map(len, names)) > 3 else 0)
    axes.set_xlabel("class")
    colour_bar(figure, axes, image, "samples held").ax.set_ylim(0, most)
    return figure


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page: a choice of distributions."""
    distributions = _distributions(results)[:_CHOICES]
    choices = tuple((_name(run), _plot(data)) for run, data in distributions)
    return (Panel(None, choices=choices),) if choices else ()


def _name(run: RunArrays) -> str:
    variant = f" [{run.run.variant}]" if run.run.variant else ""
    return f"seed {run.run.scenario.seed}{variant}"


def _plot(data: DataHeld) -> Plot:
    """A row for every device, or for every floor if devices are very many."""
    rows, counts, omission = data.devices, data.counts, ""
    if len(rows) > ROWS:
        omission = f"{len(rows)} devices are too many for one figure: rows are floors."
        rows = tuple(dict.fromkeys(data.floors))
        counts = np.array([data.counts[[name == floor for name in data.floors]].sum(axis=0) for floor in rows])
    classes = len(data.classes)
    grid: Trace = {
        "type": "heatmap",
        "z": [[count or None for count in row] for row in counts.tolist()],
        "hoverongaps": False,
        "x": np.arange(classes),
        "y": np.arange(len(rows)),
        "text": [[f"{harmless(name)}<br>class {harmless(of)}" for of in data.classes] for name in rows],
        "hovertemplate": "%{text}: %{z} samples<extra></extra>",
        "xgap": 1,
        "ygap": 1 if len(rows) <= 60 else 0,
        "colorbar": {"title": {"text": "samples"}, "thickness": 12, "outlinewidth": 0},
        "meta": {"scale": "count"},
    }
    layout = {
        "xaxis": titled("class") | names_axis(data.classes, limit=20) | {"showgrid": False},
        "yaxis": names_axis(rows, limit=40) | {"autorange": "reversed", "showgrid": False},
        "hovermode": "closest",
    }
    return Plot([grid], layout, height=min(900, 140 + 18 * len(rows)), omission=omission)


FIGURE = Figure(
    name="data",
    position=130,
    section=DATA,
    title="Samples of every class",
    caption="The stronger the colour, the more samples of the class a device holds.",
    missing="No run here says who holds which data: training with `fedfloor run` writes it to `holding.json`.",
    missing_real="No device has told how many samples of each class it holds: that needs `deploy.allow_class_counts` "
    "in the scenario and `--allow-class-counts` of the device.",
    wide=True,
    draw=draw,
    plot=plot,
)
