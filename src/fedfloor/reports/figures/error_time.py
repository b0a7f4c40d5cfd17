"""Test error of models that predict numbers against the time of rounds."""

__all__ = ["FIGURE"]

from fedfloor.reports.drawing.scored import time_figure
from fedfloor.reports.scores import ERROR

FIGURE = time_figure(ERROR, position=22)
