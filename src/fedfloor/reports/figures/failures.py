"""Floors that were selected and failed, by cause."""

__all__ = ["FIGURE", "Failures", "draw", "measure", "plot"]

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.paper import in_percent, legend_above, legend_name, one_panel, part_style
from fedfloor.reports.drawing.plots import Plot, Trace, harmless, names_axis, titled
from fedfloor.reports.palette import TURN_COLOURS
from fedfloor.reports.results import Results
from fedfloor.reports.sections import FAILURES
from fedfloor.reports.words import cause_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True, slots=True, eq=False)
class Failures:
    """Floor-rounds that failed, in all runs of a series."""

    counts: Mapping[str, int]  #: by cause, most frequent first
    selected: int  #: floor-rounds

    def share(self, cause: str) -> float:
        """Share of the selected floor-rounds that failed for this cause."""
        return self.counts.get(cause, 0) / max(self.selected, 1)


def measure(series: SeriesArrays) -> Failures:
    """Failures of all runs, by cause."""
    counts: Counter[str] = Counter()
    for run in series.runs:
        counts.update(run.run.summary.failures)
    return Failures(dict(counts.most_common()), sum(int(run.selected.sum()) for run in series.runs))


def _colour(cause: str) -> str:
    """As in the grid of floors and rounds."""
    return TURN_COLOURS.get(f"failed: {cause}", TURN_COLOURS["failed"])


def draw(results: Results) -> "Drawing | None":
    """For papers: a bar for every series, stacked by cause."""
    measures = results.measured(measure)
    causes = sorted({cause for _, failures in measures for cause in failures.counts})
    if not causes:
        return None
    figure, axes = one_panel(0.8 + 0.24 * len(measures))
    left = np.zeros(len(measures))
    for index, cause in enumerate(causes):
        shares = np.array([failures.share(cause) for _, failures in measures])
        axes.barh(
            np.arange(len(measures)),
            shares,
            0.65,
            left=left,
            label=cause_words(cause),
            **part_style(_colour(cause), index),
        )
        left += shares
    axes.set_yticks(range(len(measures)), [legend_name(look.label) for look, _ in measures])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    in_percent(axes.xaxis)
    axes.set(xlabel="failed, of the floors selected", xlim=(0, None))
    legend_above(figure, axes)
    return figure


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page: bars of all series beside each other for every cause."""
    measures = results.measured(measure)
    causes = list(dict.fromkeys(cause for _, failures in measures for cause in failures.counts))
    if not causes:
        return ()
    data: list[Trace] = [
        {
            "type": "bar",
            "name": harmless(look.label),
            "x": list(range(len(causes))),
            "y": [failures.share(cause) for cause in causes],
            "customdata": [[failures.counts.get(cause, 0), failures.selected] for cause in causes],
            "marker": {"color": look.colour},
            "hovertemplate": "%{y:.1%}: %{customdata[0]} of %{customdata[1]} selected floor-rounds",
            "meta": {"s": look.index},
        }
        for look, failures in measures
    ]
    spare = max(0.6, (4 - len(causes)) / 2)  # so that the bar of a single cause is not as wide as the page
    names = names_axis([cause_words(cause) for cause in causes])
    layout = {
        "barmode": "group",
        "showlegend": True,
        "xaxis": names | {"range": [-spare, len(causes) - 1 + spare]},
        "yaxis": titled("share of selected floor-rounds") | {"tickformat": ".0%", "rangemode": "tozero"},
    }
    return panels_of(Plot(data, layout, height=280))


FIGURE = Figure(
    name="failures",
    position=110,
    section=FAILURES,
    title="Failures by cause",
    caption="Share of the selected floor-rounds that failed, all seeds together; lower is better.",
    missing="No floor failed in any of these runs.",
    wide=True,
    draw=draw,
    plot=plot,
)
