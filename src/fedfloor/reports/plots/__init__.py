"""Measures -> Plotly figures as plain dictionaries, ready for JSON; names are harmless in Plotly's own markup."""

__all__ = [
    "CAUSES",
    "MANY",
    "PARTS",
    "Figure",
    "Style",
    "accuracy_figure",
    "bound_figure",
    "data_figure",
    "delay_figure",
    "failures_figure",
    "participation_figure",
    "plain",
    "rates_figure",
    "split_figure",
    "spread",
    "styles",
    "tradeoff_figures",
]

from fedfloor.reports.plots.drawing import CAUSES, PARTS, Figure, Style, plain, spread, styles
from fedfloor.reports.plots.floors import (
    MANY,
    data_figure,
    failures_figure,
    participation_figure,
    rates_figure,
    split_figure,
)
from fedfloor.reports.plots.lines import accuracy_figure, delay_figure
from fedfloor.reports.plots.theorems import bound_figure, tradeoff_figures
