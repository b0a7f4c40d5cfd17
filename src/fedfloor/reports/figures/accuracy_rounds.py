"""Test accuracy against rounds, Fig. 3 and 4 of the paper."""

__all__ = ["FIGURE"]

from fedfloor.reports.drawing.scored import rounds_figure
from fedfloor.reports.scores import ACCURACY

FIGURE = rounds_figure(ACCURACY, position=10)
