"""Device by device: where networks are cut and which data are held."""

__all__ = ["cuts", "data_held"]

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfloor.reports import measures
from fedfloor.reports.figures.canvas import Laid, name_devices, one_panel, scale_beside
from fedfloor.reports.statistics import reference_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def cuts(laid: Laid) -> "Figure | None":
    """Cut of every device over rounds, of the series that others are held against; white where not picked."""
    index = laid.collection.series.index(reference_of(laid.collection.series))
    run = laid.series[index].runs[0]
    found = measures.cuts(run)
    if not np.isfinite(found.cut).any():
        return None
    figure, axes = one_panel(min(6.0, 1.0 + 0.15 * len(found.devices)))
    place = (0.5, found.rounds[-1] + 0.5, len(found.devices) - 0.5, -0.5)
    shades: dict[str, Any] = {"cmap": "viridis", "vmin": 0, "vmax": len(run.run.scenario.layers)}
    image = axes.imshow(found.cut, aspect="auto", interpolation="nearest", extent=place, **shades)
    name_devices(axes, found.devices)
    axes.set(xlabel="round", title=f"{laid.names[index]}, seed {run.run.scenario.seed}")
    scale_beside(figure, axes, image, "layers on the device")
    return figure


def data_held(laid: Laid) -> "Figure | None":
    """Who holds what: samples per device and class, of the first run that trained; white is none."""
    runs = [run for series in laid.series for run in series.runs]
    found = next((held for run in runs if (held := measures.data_held(run)) is not None), None)
    if found is None:
        return None
    figure, axes = one_panel(min(6.0, 1.0 + 0.15 * len(found.devices)))
    most = max(1, int(found.counts.max()))
    shades: dict[str, Any] = {"cmap": "Blues", "vmin": -0.25 * most, "vmax": most}  # a few samples are not white
    image = axes.imshow(np.ma.masked_equal(found.counts, 0), aspect="auto", interpolation="nearest", **shades)
    name_devices(axes, found.devices)
    axes.set_xticks(range(0, found.counts.shape[1], math.ceil(found.counts.shape[1] / 20)))
    axes.set_xlabel("class")
    scale_beside(figure, axes, image, "samples held").ax.set_ylim(0, most)
    return figure
