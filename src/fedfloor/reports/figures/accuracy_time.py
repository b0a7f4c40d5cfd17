"""Test accuracy against the time of rounds."""

__all__ = ["FIGURE"]

from fedfloor.reports.drawing.scored import time_figure
from fedfloor.reports.scores import ACCURACY

FIGURE = time_figure(ACCURACY, position=20)
