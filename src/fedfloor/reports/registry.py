"""All figures of a report: every module of the package `figures` describes one."""

__all__ = ["all_figures"]

import pkgutil
from importlib import import_module

from fedfloor.reports import figures
from fedfloor.reports.drawing.figure import Figure


def all_figures() -> tuple[Figure, ...]:
    """Figures of all modules of `reports/figures`, by position."""
    names = [module.name for module in pkgutil.iter_modules(figures.__path__, f"{figures.__name__}.")]
    return tuple(sorted((_figure_of(name) for name in names), key=lambda figure: figure.position))


def _figure_of(module: str) -> Figure:
    figure = import_module(module).FIGURE
    assert isinstance(figure, Figure), f"{module}: FIGURE must be a Figure"
    return figure
