"""Rounds of a plant of real processes against the simulator's training time for the same work; part of `make bench`.

The plant is that of `fedfloor local-plant quick`: base station, gateways and devices, all on this machine, over mutual
TLS. Both sides train the same floors with the same batches from the same weights, in turn: some rounds of one, then the
same rounds of the other. A deployed round is everything from observing to settling except the evaluation.
"""

__all__ = ["rows"]

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedfloor.deploy.authority import BASE_STATION
from fedfloor.deploy.certificates import Role
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.local import Machines
from fedfloor.deploy.options import LocalOptions
from fedfloor.deploy.station import Station, StationOptions
from fedfloor.deploy.tasks import floor_tasks
from fedfloor.rounds.loop import FinishedRound, run_rounds
from fedfloor.rounds.plants.deployed import DeployedPlant
from fedfloor.rounds.plants.learning import LearningPlant
from fedfloor.runs.planned import planned_run
from fedfloor.runs.train import job_of
from fedfloor.training.data.holding import gather
from fedfloor.workers.engine import engine_for
from fedfloor.workers.processes import cores

Row = tuple[str, str, str]
OVERRIDES = ("training.min_cut=1", "baseline.cut=1", "participation.rates=uniform")
BLOCKS, EACH = 6, 5  #: the first block warms up; rounds in each


def in_rounds(rounds: Iterator[FinishedRound]) -> tuple[float, float]:
    """Seconds of the next rounds as a whole without evaluation, and their seconds of training."""
    begun, evaluated, trained = time.perf_counter(), 0.0, 0.0
    for _ in range(EACH):
        timing = next(rounds).timing
        evaluated += timing.evaluate_s or 0.0
        trained += timing.train_s or 0.0
    return time.perf_counter() - begun - evaluated, trained


def rows(*, together: bool = False) -> Iterator[Row]:
    """Start the plant and measure."""
    many = BLOCKS * EACH
    planned = planned_run("quick", "random", many, overrides=[*OVERRIDES], training=True)
    holding = gather(planned.scenario)
    scenario, workers = holding.scenario, cores()
    with Machines(planned, LocalOptions(together=together), own=False) as machines:
        credentials = Credentials(Path(machines.folder_of(Role.SERVER, BASE_STATION)), Role.SERVER)
        with Station(floor_tasks(scenario), StationOptions("127.0.0.1:0", credentials, 300.0)) as station:
            machines.start(station.port)
            inputs = station.agree()
            station.announce(inputs)
            samples = dataclasses.replace(holding.samples, mean=inputs.mean, deviation=inputs.deviation)
            with engine_for(job_of(scenario, "cpu"), samples, workers) as engine:
                real = run_rounds(DeployedPlant(scenario, engine, station), planned.scheduler, many)
                simulated = run_rounds(LearningPlant(scenario, engine), planned.scheduler, many)
                times = np.array([(in_rounds(real)[0], in_rounds(simulated)[1]) for _ in range(BLOCKS)])[1:] / EACH
    ratios = times[:, 0] / times[:, 1]
    real_s, simulated_s = np.median(times, axis=0)
    note = f"{real_s:.3f} s / {simulated_s:.3f} s, {ratios.min():.2f} to {ratios.max():.2f} in {len(ratios)} parts"
    yield "deployed round, `quick` at cut 1, TLS / simulator's training", f"{np.median(ratios):.2f}x", note
