"""Rounds of a plant of real processes against the simulator's training time for the same work; part of `make bench`.

The plant is that of `fedfloor local-plant quick`: base station, gateways and devices, all on this machine, over mutual
TLS. Both sides train the same floors with the same batches from the same weights, in turn: some rounds of one, then the
same rounds of the other. A deployed round is everything from observing to settling except the evaluation.

What crosses the cuts has to get from one process to the other, whatever the program. After each part the same bytes go
there and back over raw TCP, without TLS, without a check and in one connection. The processor seconds of training and
of this are the least that a plant on one machine can reach; a goal below their ratio cannot be met.

On a busy machine the plant gets a larger share of the cores, because it has more processes, and raw TCP a smaller one:
then the seconds on the clock say nothing, and the first ratio may even be below the second. The seconds that processors
were busy, which the last two rows compare, do not depend on that; they include evaluations.
"""

__all__ = ["rows"]

import dataclasses
import math
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from tests.deploy.programs import descendants

from benchmarks.connections import raw_echo, raw_round_trip
from fedfloor.arrays import Floats
from fedfloor.deploy.authority import BASE_STATION
from fedfloor.deploy.certificates import Role
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.local import LocalMachines
from fedfloor.deploy.options import LocalOptions
from fedfloor.deploy.station import Station, StationOptions
from fedfloor.deploy.tasks import DeviceTask, floor_tasks
from fedfloor.rounds.loop import FinishedRound, run_rounds
from fedfloor.rounds.plants.deployed import DeployedPlant
from fedfloor.rounds.plants.learning import LearningPlant
from fedfloor.runs.planned import planned_run
from fedfloor.runs.train import job_of
from fedfloor.training.data.holding import gather
from fedfloor.training.network.built import BuiltNetwork
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


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """What some rounds took, per round."""

    whole_s: float  #: without evaluation
    trained_s: float
    busy_s: float  #: of processors


@dataclasses.dataclass(frozen=True, slots=True)
class Crossing:
    """How many numbers cross the cut of each device in one direction of a step, and how often."""

    tasks: Mapping[str, DeviceTask]
    network: BuiltNetwork

    def steps(self, ended: FinishedRound) -> Iterator[int]:
        """Numbers of every step of a round."""
        for gateway in ended.record.gateways:
            for device in gateway.devices if gateway.selected else ():
                task = self.tasks[device.name]
                yield from [task.batch * math.prod(self.network.crossing[device.cut])] * task.local_iterations


def in_rounds(rounds: Iterator[FinishedRound], ended: list[FinishedRound]) -> Part:
    """Run the next rounds and note them."""
    begun, before, evaluated, trained = time.perf_counter(), busy(), 0.0, 0.0
    for _ in range(EACH):
        ended.append(next(rounds))
        evaluated += ended[-1].timing.evaluate_s or 0.0
        trained += ended[-1].timing.train_s or 0.0
    whole = time.perf_counter() - begun - evaluated
    return Part(whole / EACH, trained / EACH, (busy() - before) / EACH)


def over_raw_tcp(connection: socket.socket, counts: list[int]) -> Part:
    """Send the numbers of steps there and back."""
    values = np.random.default_rng(0).normal(size=max(counts)).astype(np.float32)
    back, before = memoryview(bytearray(values.nbytes)), busy()
    took = math.fsum(raw_round_trip(connection, values[:count], back[: 4 * count]) for count in counts)
    return Part(took / EACH, 0.0, (busy() - before) / EACH)


def rows(*, together: bool = False) -> Iterator[Row]:
    """Start the plant and measure."""
    many = BLOCKS * EACH
    planned = planned_run("quick", "random", many, overrides=[*OVERRIDES], training=True)
    holding = gather(planned.scenario)
    scenario, workers = holding.scenario, cores()
    floors = floor_tasks(scenario)
    tasks = {task.name: task for floor in floors for task in floor.devices}
    parts: list[tuple[Part, Part, Part]] = []
    sent: list[float] = []  # [MB] per round
    with LocalMachines(planned, LocalOptions(together=together), own=False) as machines, raw_echo() as connection:
        credentials = Credentials(Path(machines.folder_of(Role.SERVER, BASE_STATION)), Role.SERVER)
        with Station(floors, StationOptions("127.0.0.1:0", credentials, 300.0)) as station:
            machines.start(station.port)
            inputs = station.agree()
            station.announce(inputs)
            samples = dataclasses.replace(holding.samples, mean=inputs.mean, deviation=inputs.deviation)
            with engine_for(job_of(scenario, "cpu"), samples, workers) as engine:
                real = run_rounds(DeployedPlant(scenario, engine, station), planned.scheduler, many)
                simulated = run_rounds(LearningPlant(scenario, engine), planned.scheduler, many)
                crossing = Crossing(tasks, BuiltNetwork(floors[0].devices[0].model, 0))
                for _ in range(BLOCKS):
                    ended: list[FinishedRound] = []
                    ours, theirs = in_rounds(real, ended), in_rounds(simulated, [])
                    counts = [count for each in ended for count in crossing.steps(each)]
                    parts.append((ours, theirs, over_raw_tcp(connection, counts)))
                    sent.append(8e-6 * sum(counts) / EACH)
    for what, times in (
        ("deployed round / simulator's training, TLS", [(a.whole_s, b.trained_s, c.whole_s) for a, b, c in parts[1:]]),
        ("processor seconds, deployed / simulated", [(a.busy_s, b.busy_s, c.busy_s) for a, b, c in parts[1:]]),
    ):
        yield from compared(what, np.array(times), float(np.mean(sent[1:])))


def compared(what: str, times: Floats, megabytes: float) -> Iterator[Row]:
    """Rows of a measure: the plant, and the least that it could reach; times (parts, 3) [s] per round."""
    real_s, simulated_s, raw_s = np.median(times, axis=0)
    for name, ratios, took in (
        (what, times[:, 0] / times[:, 1], f"{real_s:.3f} s / {simulated_s:.3f} s, `quick` at cut 1"),
        (
            "  least: training + raw TCP / training",
            1.0 + times[:, 2] / times[:, 1],
            f"{raw_s:.3f} s for the {megabytes:.0f} MB across the cuts + {simulated_s:.3f} s",
        ),
    ):
        spread = f"{ratios.min():.2f}x to {ratios.max():.2f}x in {len(ratios)} parts"
        yield name, f"{np.median(ratios):.2f}x", f"{took}; {spread}"
