"""The figure of a grid: its panels, and what stands below them."""

import pytest

from fedfloor.reports.grids import draw_grid
from fedfloor.runs.vary import Cell, Grid
from tests.reports.made_up import made_up


@pytest.mark.parametrize(
    ("count", "named"), [(3, [0, 1, 2]), (500, [0, 45, 91, 136, 181, 227, 272, 318, 363, 408, 454, 499])]
)
def test_some_of_many_values_are_named_with_the_first_and_the_last(count: int, named: list[int]) -> None:
    summary = made_up("random", rounds=1).summary
    cells = tuple(Cell({"seed": value}, "random", summary, None) for value in range(count))
    figure = draw_grid(Grid("plant", ("seed",), cells))
    assert [axes.get_ylabel() for axes in figure.axes][2:] == ["energy per round [J]", "worst shortfall"]
    for axes in figure.axes:
        assert [label.get_text() for label in axes.get_xticklabels()] == list(map(str, named))
        assert axes.get_xticks().tolist() == named
