"""Training runs of the study: what each of them is, its line in the CSV file, and many of them side by side."""

__all__ = ["LINES", "Line", "Run", "finished", "train"]

import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fedfloor
from benchmarks.studies import PLACE, append, commit
from fedfloor.arrays import Floats, Ints
from fedfloor.errors import FailedRunError
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import summarise

LINES = PLACE / "docs" / "studies" / "learning.csv"


@dataclass(frozen=True, slots=True)
class Run:
    """One training run, as `fedfloor run` takes it."""

    scenario: str
    policy: str
    settings: str  #: entries of --set, separated by spaces
    seed: int
    rounds: int

    @property
    def command(self) -> str:
        """The command that repeats it."""
        sets = "".join(f" --set {entry}" for entry in self.settings.split())
        return f"fedfloor run {self.scenario} --policy {self.policy} --seed {self.seed} --rounds {self.rounds}{sets}"


@dataclass(frozen=True, slots=True)
class Line:
    """One finished run; lists have spaces between their entries."""

    scenario: str
    policy: str
    settings: str
    seed: int
    rounds: int
    mean_delay_s: float
    clock_s: float  #: simulated time of the run
    mean_energy_j: float  #: per round
    selected: int  #: floor-rounds
    completed: int  #: floor-rounds
    shortfall: float  #: largest of any floor
    served: str  #: share of rounds that every floor completed
    picked: str  #: share of rounds in which every floor was selected
    targets: str  #: mean target rate of every floor
    tests: str  #: every test as rounds:clock:accuracy
    wall_s: float  #: time that the run took on one core
    command: str
    commit: str

    @property
    def failed(self) -> bool:
        """Whether the run ended without a result, as one whose loss was not finite."""
        return not self.tests

    @property
    def run(self) -> Run:
        """What ran."""
        return Run(self.scenario, self.policy, self.settings, self.seed, self.rounds)

    @property
    def curve(self) -> tuple[Ints, Floats, Floats]:
        """Numbers of rounds (k,), simulated times (k,) [s] and accuracies (k,) of all tests."""
        parts = [entry.split(":") for entry in self.tests.split()]
        rounds, clocks, values = ([row[column] for row in parts] for column in range(3))
        return np.array(rounds, dtype=int), np.array(clocks, dtype=float), np.array(values, dtype=float)


def finished(run: Run, ran: str) -> Line:
    """Train one run in this process; `ran` is the commit."""
    begun, sets = time.perf_counter(), run.settings.split()
    try:
        records = fedfloor.run(run.scenario, run.policy, run.rounds, seed=run.seed, overrides=sets, workers=1).records
    except FailedRunError as error:
        print(f"{run.command}: {error}", file=sys.stderr)
        return _failed(run, time.perf_counter() - begun, ran)
    summary = summarise(records)
    return Line(
        scenario=run.scenario,
        policy=run.policy,
        settings=run.settings,
        seed=run.seed,
        rounds=run.rounds,
        mean_delay_s=summary.mean_delay,
        clock_s=summary.clock,
        mean_energy_j=summary.mean_energy,
        selected=summary.selected,
        completed=summary.completed,
        shortfall=summary.shortfall,
        served=_joined([floor.completed_rate for floor in summary.floors]),
        picked=_joined([floor.selected_rate for floor in summary.floors]),
        targets=_joined([floor.target_rate for floor in summary.floors]),
        tests=" ".join(_test(record) for record in records if record.accuracy is not None),
        wall_s=round(time.perf_counter() - begun, 1),
        command=run.command,
        commit=ran,
    )


def _failed(run: Run, seconds: float, ran: str) -> Line:
    """The line of a run without a result."""
    nan, unknown = math.nan, ""
    return Line(
        run.scenario, run.policy, run.settings, run.seed, run.rounds, mean_delay_s=nan, clock_s=nan, mean_energy_j=nan,
        selected=0, completed=0, shortfall=nan, served=unknown, picked=unknown, targets=unknown, tests=unknown,
        wall_s=round(seconds, 1), command=run.command, commit=ran,
    )  # fmt: skip


def _joined(values: Sequence[float]) -> str:
    return " ".join(f"{value:.4g}" for value in values)


def _test(record: RoundRecord) -> str:
    return f"{record.round + 1}:{record.clock:.1f}:{record.accuracy:.4f}"


def train(runs: Sequence[Run], workers: int, path: Path = LINES) -> Iterator[Line]:
    """Train runs, several at the same time.

    Every line is written as soon as its run has finished, so a stop loses only what is under way. A run that fails, as
    one whose loss is not finite, has a line without tests, so that it counts as failed and is not repeated.
    """
    ran = commit()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # read by the processes when they start
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            tasks = [pool.submit(finished, run, ran) for run in runs]
            for task in as_completed(tasks):
                line = task.result()
                append(path, line)
                yield line
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
