"""Test error of models that predict numbers against rounds."""

__all__ = ["FIGURE"]

from fedfloor.reports.drawing.scored import rounds_figure
from fedfloor.reports.scores import ERROR

FIGURE = rounds_figure(ERROR, position=12)
