"""What a line of the study says: accuracies, times, and a run as the paper's claims judge it."""

__all__ = ["WINDOW", "JudgedLine", "accuracy_at", "after", "final_accuracy", "judged", "steadiness", "time_to"]

import functools
import math
from dataclasses import dataclass

import numpy as np

import fedfloor
from benchmarks.study.runs import Line
from fedfloor.reports import statistics
from fedfloor.reports.statistics import first_reaching, smoothed
from fedfloor.rounds.summary import FINAL_ROUNDS, FloorSummary, RunSummary
from fedfloor.scenario import Scenario

WINDOW = FINAL_ROUNDS  #: rounds over which curves are smoothed, whatever the length of the run


def final_accuracy(line: Line) -> float:
    """Final accuracy as reports have it."""
    value = statistics.final_score(judged(line))
    assert value is not None  # a line without tests is that of a run that failed
    return value


def steadiness(line: Line) -> float:
    """Steadiness as reports have it."""
    value = statistics.steadiness(judged(line))
    return math.nan if value is None else value


def time_to(line: Line, level: float) -> float:
    """Simulated time [s] until the smoothed accuracy reaches a level; nan if it never does."""
    rounds, clocks, values = line.curve
    reached = first_reaching(rounds, values, WINDOW, level - 1e-9)  # sums in another order round otherwise
    return math.nan if reached is None else float(clocks[reached])


def accuracy_at(line: Line, clock: float) -> float:
    """Smoothed accuracy at a simulated time [s], between two tests the line that joins them; nan after the run."""
    rounds, clocks, values = line.curve
    clock = round(clock, 1)  # as the clocks of tests are
    return float(np.interp(clock, clocks, smoothed(rounds, values, WINDOW), right=math.nan))


def after(line: Line, rounds: int) -> tuple[float, float]:
    """Simulated time [s] and smoothed accuracy after a number of rounds, between two tests the line that joins them."""
    clock = float(np.interp(rounds, line.curve[0], line.curve[1]))
    return clock, accuracy_at(line, clock)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedLine:
    """A line as `fedfloor.reports.statistics.Judged`."""

    scenario: Scenario
    policy: str
    summary: RunSummary
    tests: tuple[list[int], list[float]]


@functools.cache
def _scenario(name: str, seed: int) -> Scenario:
    return fedfloor.load(name, seed=seed)


def judged(line: Line) -> JudgedLine:
    """The run of a line; what the line does not keep is nan or empty."""
    scenario = _scenario(line.scenario, line.seed)
    shares = ([float(entry) for entry in text.split()] for text in (line.targets, line.picked, line.served))
    floors = tuple(
        FloorSummary(floor.name, target, picked, served, {})
        for floor, target, picked, served in zip(scenario.floors, *shares, strict=True)
    )
    summary = RunSummary(
        policy=line.policy,
        rounds=line.rounds,
        mean_delay=line.mean_delay_s,
        p95_delay=math.nan,
        clock=line.clock_s,
        mean_energy=line.mean_energy_j,
        selected=line.selected,
        completed=line.completed,
        failures={},
        shortfall=line.shortfall,
        floors=floors,
    )
    rounds, _, values = line.curve
    return JudgedLine(scenario, line.policy, summary, (rounds.tolist(), values.tolist()))
