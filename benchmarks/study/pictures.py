"""Pictures of the study: accuracy against simulated time, published against ours."""

__all__ = ["draw_sooner"]

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.study.measures import WINDOW, accuracy_at
from benchmarks.study.parts import BEST, FAST_ROUNDS, PAPER, PUBLISHED
from benchmarks.study.runs import Line, Run
from benchmarks.study.tables import seeds_of
from fedfloor.reports.drawing.lines import Lines, draw_lines
from fedfloor.reports.measures.curves import Curve, band
from fedfloor.reports.palette import looks_of
from fedfloor.reports.pictures import in_print, save_picture


def draw_sooner(lines: Mapping[Run, Line], folder: Path) -> list[Path]:
    """One picture per data set, `faster-cifar10.png` and so on, if there are runs."""
    paths = []
    for scenario in PAPER:
        published = list(seeds_of(lines, PUBLISHED, scenario, 300).values())
        ours = list(seeds_of(lines, BEST, scenario, FAST_ROUNDS).values())
        if not published or not ours:
            continue
        looks = looks_of(["ddsra as published", "fedfloor, all levers"])
        curves = [_curve(published).divided(x=60.0), _curve(ours).divided(x=60.0)]
        with in_print():
            drawing = draw_lines(
                Lines(list(zip(looks, curves, strict=True)), "simulated time [min]", "test accuracy", percent=True)
            )
            assert drawing is not None
            paths.append(save_picture(drawing, folder / f"faster-{scenario.removeprefix('paper-')}.png"))
    return paths


def _curve(every: list[Line], points: int = 200) -> Curve:
    """Smoothed accuracy over simulated time [s], from the first whole window to the end of the first run."""
    begins = [float(np.interp(WINDOW, line.curve[0], line.curve[1])) for line in every]
    grid = np.linspace(max(begins), min(line.curve[1][-1] for line in every), points)
    return band(grid, np.array([[accuracy_at(line, clock) for clock in grid.tolist()] for line in every]))
