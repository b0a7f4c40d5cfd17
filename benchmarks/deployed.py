"""Rounds of a plant of real processes against the simulator's training time for the same work; part of `make bench`.

The plant is that of `fedfloor local-plant quick`: base station, gateways and devices, all on this machine, over mutual
TLS. Both sides train the same floors with the same batches from the same weights, in turn: some rounds of one, then the
same rounds of the other. A deployed round is everything from observing to settling except the evaluation.

On a busy machine the plant gets a larger share of the cores, because it has more processes. The seconds that processors
were busy, which the second row compares, do not depend on that; they include evaluations.
"""

__all__ = ["rows"]

import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tests.deploy.programs import descendants

from fedfloor.deploy.authority import BASE_STATION
from fedfloor.deploy.certificates import Role
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.local import LocalMachines
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


def busy() -> float:
    """Seconds that processors were busy for this process and all that it has started."""
    ticks = 0
    for number in (os.getpid(), *descendants(os.getpid())):
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def in_rounds(rounds: Iterator[FinishedRound]) -> tuple[float, float, float]:
    """Seconds of the next rounds: as a whole without evaluation, of training, and of busy processors."""
    begun, before, evaluated, trained = time.perf_counter(), busy(), 0.0, 0.0
    for _ in range(EACH):
        timing = next(rounds).timing
        evaluated += timing.evaluate_s or 0.0
        trained += timing.train_s or 0.0
    return time.perf_counter() - begun - evaluated, trained, busy() - before


def rows(*, together: bool = False) -> Iterator[Row]:
    """Start the plant and measure."""
    many = BLOCKS * EACH
    planned = planned_run("quick", "random", many, overrides=[*OVERRIDES], training=True)
    holding = gather(planned.scenario)
    scenario, workers = holding.scenario, cores()
    with LocalMachines(planned, LocalOptions(together=together), own=False) as machines:
        credentials = Credentials(Path(machines.folder_of(Role.SERVER, BASE_STATION)), Role.SERVER)
        with Station(floor_tasks(scenario), StationOptions("127.0.0.1:0", credentials, 300.0)) as station:
            machines.start(station.port)
            inputs = station.agree()
            station.announce(inputs)
            samples = dataclasses.replace(holding.samples, mean=inputs.mean, deviation=inputs.deviation)
            with engine_for(job_of(scenario, "cpu"), samples, workers) as engine:
                real = run_rounds(DeployedPlant(scenario, engine, station), planned.scheduler, many)
                simulated = run_rounds(LearningPlant(scenario, engine), planned.scheduler, many)
                parts = [(in_rounds(real), in_rounds(simulated)) for _ in range(BLOCKS)][1:]
    for what, ours, theirs in (
        ("deployed round / simulator's training, TLS", 0, 1),
        ("processor seconds, deployed / simulated", 2, 2),
    ):
        times = np.array([(one[ours], other[theirs]) for one, other in parts]) / EACH
        ratios = times[:, 0] / times[:, 1]
        real_s, simulated_s = np.median(times, axis=0)
        spread = f"{ratios.min():.2f}x to {ratios.max():.2f}x in {len(ratios)} parts"
        yield what, f"{np.median(ratios):.2f}x", f"{real_s:.3f} s / {simulated_s:.3f} s, `quick` at cut 1; {spread}"
