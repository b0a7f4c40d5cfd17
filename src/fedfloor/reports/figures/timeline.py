"""Timeline of one round; the page's script draws it."""

__all__ = ["FIGURE", "Timeline", "explore", "measure", "plot"]

from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.plots import BY_SCRIPT
from fedfloor.reports.measures.phases import phase_times
from fedfloor.reports.results import Results
from fedfloor.reports.sections import RUN


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """One round of the floors that were selected."""

    round: int  #: from 0, as in the log
    floors: Ints  #: (P,) indices
    channel: tuple[int | None, ...]  #: (P,)
    failure: tuple[str | None, ...]  #: (P,)
    delay: float  #: [s] of the round; inf without end
    end: Floats  #: (5, P) [s] of each phase, since the start of the round


def measure(run: RunArrays, index: int, phases: Floats) -> Timeline:
    """Phases of the round with this index, from 0; `phases` are the run's `phase_times`."""
    selected = np.flatnonzero(run.selected[index])
    channels, failures = run.channel[index, selected].tolist(), run.failure[index, selected].tolist()
    return Timeline(
        round=int(run.rounds[index]) - 1,
        floors=selected,
        channel=tuple(None if channel < 0 else channel for channel in channels),
        failure=tuple(None if place < 0 else run.causes[place] for place in failures),
        delay=float(run.delay[index]),
        end=np.cumsum(phases[:, index, selected], axis=0),
    )


def explore(run: RunArrays, at: Ints) -> dict[str, object]:
    """Timelines of these rounds, and the end of their common axis [s]."""
    phases = phase_times(run)
    timelines = [measure(run, index, phases) for index in at.tolist()]
    delays = run.delay[np.isfinite(run.delay)]
    longest = float(np.percentile(delays, 95)) if delays.size else 0.0  # a rare slow round gets an axis of its own
    rounds = [
        [entry.round, entry.floors, entry.channel, entry.failure, entry.end.T, entry.delay] for entry in timelines
    ]
    return {"timeline": rounds, "longest": longest}


def plot(_: Results) -> tuple[Panel, ...]:
    """For the page."""
    return panels_of(BY_SCRIPT)


FIGURE = Figure(
    name="timeline",
    position=80,
    section=RUN,
    title="Timeline of the round",
    caption="What every selected floor does when; the round ends with the longest bar.",
    wide=True,
    draw=None,
    plot=plot,
    explore=explore,
)
