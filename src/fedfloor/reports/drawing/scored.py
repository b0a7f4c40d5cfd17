"""The two figures of what tests gave, accuracy or error: against rounds, and against the time of rounds."""

__all__ = ["rounds_figure", "time_figure"]

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fedfloor.reports.cells import smoothing_of, time_unit
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.lines import ROUNDS, Lines, band_note, draw_lines, plot_lines
from fedfloor.reports.drawing.scales import greatest
from fedfloor.reports.measures.tested import NOT_TESTED, NOT_TESTED_YET, over_rounds, over_time
from fedfloor.reports.reading import ReadRun
from fedfloor.reports.results import Results
from fedfloor.reports.scores import Score
from fedfloor.reports.statistics import window_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def rounds_figure(score: Score, *, position: int) -> Figure:
    """The figure of a score against rounds."""

    def lines(results: Results) -> Lines:
        curves = results.measured(partial(over_rounds, window=_window(results, score)), score)
        return Lines(curves, x=ROUNDS, y=_axis(results, score), percent=score.is_share)

    caption = f"{score.what} in tests; {score.better} is better. {smoothing_of(score)}"
    return _figure(score, "rounds", caption, lines, position)


def time_figure(score: Score, *, position: int) -> Figure:
    """The figure of a score against the time of rounds."""

    def lines(results: Results) -> Lines:
        curves = results.measured(partial(over_time, window=_window(results, score)), score)
        seconds, unit = time_unit(greatest(curve.x for _, curve in curves if curve is not None))
        scaled = [(look, None if curve is None else curve.divided(x=seconds)) for look, curve in curves]
        time = f"{results.collection.clock_name} [{unit}]"
        return Lines(scaled, x=time, y=_axis(results, score), percent=score.is_share, steps=True)

    caption = f"{score.what} in tests against the time that the rounds took; further left is faster."
    return _figure(score, "time", caption, lines, position)


def _window(results: Results, score: Score) -> int:
    """Number of rounds over which all lines of a figure are smoothed: one for all, because a longer one lags behind."""
    return window_of(*_decisive(results, score))


def _window_note(results: Results, score: Score) -> str:
    """Sentence on the window of runs of different lengths; empty if all have the same."""
    window = _window(results, score)
    if all(window_of(run) == window for run in _decisive(results, score)):
        return ""
    how = "no line is smoothed" if window == 1 else f"all lines are smoothed over {window} rounds"
    return f"Runs differ in length: {how}, as for the shortest of them."


def _axis(results: Results, score: Score) -> str:
    """Title of the axis of a score."""
    return {True: f"{score.name} on nodes", False: f"test {score.name}", None: score.name}[_is_by_nodes(results, score)]


def _test_note(results: Results, score: Score) -> str:
    """Sentence on the data that models were tested on."""
    by_nodes = "by the nodes of Flower, on data of their own, and averaged by the strategy"
    return {
        True: f"Models were tested {by_nodes}.",
        False: "Models were tested on the test set.",
        None: f"Some runs were tested on the test set, others {by_nodes}: their lines do not compare.",
    }[_is_by_nodes(results, score)]


def _is_by_nodes(results: Results, score: Score) -> bool | None:
    """Whether the nodes of Flower tested the models; None if those of some runs only."""
    kinds = {run.about.tests == "nodes" for run in _tested(results, score)}
    return None if len(kinds) > 1 else kinds == {True}


def _decisive(results: Results, score: Score) -> list[ReadRun]:
    """Runs whose lengths decide how lines are smoothed: those that have ended, or all before any has."""
    tested = _tested(results, score)
    return [run for run in tested if run.ended] or tested


def _tested(results: Results, score: Score) -> list[ReadRun]:
    """Runs with a test of this score; a simulation has none, and a run that has just begun none yet."""
    runs = (run.run for series in results.series if series.score is score for run in series.runs)
    return [run for run in runs if run.tests[1]]


def _figure(score: Score, over: str, caption: str, lines: Callable[[Results], Lines], position: int) -> Figure:
    def draw(results: Results) -> "Drawing | None":
        return draw_lines(lines(results))

    def plot(results: Results) -> tuple[Panel, ...]:
        end = "A line over several seeds ends where the first of them ends."
        ends = end if over == "time" and results.several_seeds else ""
        notes = (_test_note(results, score), _window_note(results, score), band_note(results), ends)
        return panels_of(plot_lines(lines(results)), note=" ".join(filter(None, notes)))

    return Figure(
        name=f"{score.name}-{over}",
        position=position,
        section=score.section,
        title=f"{score.title} against {over}",
        caption=caption,
        missing=NOT_TESTED,
        missing_real=NOT_TESTED_YET,
        draw=draw,
        plot=plot,
        applies=lambda results: score in results.collection.scores,
    )
