"""The two figures of what tests gave, accuracy or error: against rounds, and against the time of rounds."""

__all__ = ["rounds_figure", "time_figure"]

from collections.abc import Callable
from typing import TYPE_CHECKING

from fedfloor.reports import sections
from fedfloor.reports.cells import smoothing_of, time_unit
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.lines import ROUNDS, Lines, band_note, draw_lines, plot_lines
from fedfloor.reports.drawing.scales import greatest
from fedfloor.reports.measures.tested import NOT_TESTED, NOT_TESTED_YET, over_rounds, over_time
from fedfloor.reports.results import Results
from fedfloor.reports.scores import Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_SECTIONS = {"accuracy": sections.ACCURACY, "error": sections.ERROR}


def rounds_figure(score: Score, *, position: int) -> Figure:
    """The figure of a score against rounds."""

    def lines(results: Results) -> Lines:
        curves = results.measured(over_rounds, score)
        return Lines(curves, x=ROUNDS, y=f"test {score.name}", percent=score.is_share)

    caption = f"{score.what}; {score.better} is better. {smoothing_of(score)}"
    return _figure(score, "rounds", caption, lines, position)


def time_figure(score: Score, *, position: int) -> Figure:
    """The figure of a score against the time of rounds."""

    def lines(results: Results) -> Lines:
        curves = results.measured(over_time, score)
        seconds, unit = time_unit(greatest(curve.x for _, curve in curves if curve is not None))
        scaled = [(look, None if curve is None else curve.divided(x=seconds)) for look, curve in curves]
        time = f"{results.collection.clock_name} [{unit}]"
        return Lines(scaled, x=time, y=f"test {score.name}", percent=score.is_share, steps=True)

    caption = f"{score.what} against the time that the rounds took; further left is faster."
    return _figure(score, "time", caption, lines, position)


def _figure(score: Score, over: str, caption: str, lines: Callable[[Results], Lines], position: int) -> Figure:
    def draw(results: Results) -> "Drawing | None":
        return draw_lines(lines(results))

    def plot(results: Results) -> tuple[Panel, ...]:
        return panels_of(plot_lines(lines(results)), note=band_note(results))

    return Figure(
        name=f"{score.name}-{over}",
        position=position,
        section=_SECTIONS[score.name],
        title=f"{score.title} against {over}",
        caption=caption,
        missing=NOT_TESTED,
        missing_real=NOT_TESTED_YET,
        draw=draw,
        plot=plot,
        applies=lambda results: score in results.collection.scores,
    )
