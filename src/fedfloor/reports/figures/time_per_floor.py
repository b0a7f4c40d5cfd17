"""Where the time of a floor's round goes."""

__all__ = ["FIGURE", "measure"]

from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.drawing.stacks import stacks_figure
from fedfloor.reports.measures.phases import PHASES, phase_times
from fedfloor.reports.measures.splits import Split, split_of
from fedfloor.reports.palette import PART_COLOURS


def measure(series: SeriesArrays) -> Split:
    """Time [s] of every floor in each phase of a round."""
    return split_of(series, PHASES, phase_times)


FIGURE = stacks_figure(measure, quantity="time", unit="s", colours=PART_COLOURS, links="link", position=60)
