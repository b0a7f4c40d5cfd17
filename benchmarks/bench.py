"""`make bench`: one table, ratios measured in one run with both sides interleaved; `--large` adds the largest round."""

import argparse
import dataclasses
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

import fedfloor
from benchmarks import connections, deployed, flower, training
from fedfloor.costs.links import Links
from fedfloor.costs.plant import Devices, Gateways, PlantArrays, traffic_of
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.runs.plan import PlannedRound, export_snapshot
from fedfloor.scheduling.registry import PolicySpec, make_policy
from fedfloor.scheduling.solver.assignment import assign
from fedfloor.scheduling.solver.exact import least_delays
from fedfloor.scheduling.solver.packing import pack
from fedfloor.scheduling.solver.solve import solve
from fedfloor.scheduling.state import RoundState
from fedfloor.weather.draws import Weather

Row = tuple[str, str, str]


def seconds(work: Callable[[], object]) -> float:
    """Wall clock of one call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def interleaved(one: Callable[[int], object], other: Callable[[int], object], turns: int) -> tuple[float, float]:
    """Median seconds of two sides, taken in turn on the same inputs."""
    times = np.array([(seconds(lambda t=t: one(t)), seconds(lambda t=t: other(t))) for t in range(turns)])  # type: ignore[misc]
    return float(np.median(times[:, 0])), float(np.median(times[:, 1]))


def paper_states(many: int, preset: str = "paper-cifar10-random") -> list[RoundState]:
    """Rounds of the paper's setting with queues at random."""
    states = []
    for seed in range(many):
        plant = fedfloor.load(preset, seed=seed)
        state = SimulatedPlant(plant, simulated_rates(plant)).observe()
        queue = np.random.default_rng(seed).uniform(0, 3, state.queue.size)
        states.append(dataclasses.replace(state, queue=queue))
    return states


def grown(state: RoundState, floors: int, devices: int, channels: int, seed: int = 0) -> RoundState:
    """A round of any size with the figures of the campus preset, its memory slack."""
    rng = np.random.default_rng(seed)
    count = floors * devices

    def link() -> npt.NDArray[np.float64]:
        return 4e-10 * rng.exponential(1.0, (floors, channels))

    def noise() -> npt.NDArray[np.float64]:
        return np.abs(rng.normal(0.0, 1e-13, (floors, channels)))

    gateways = Gateways(
        names=tuple(f"g{m}" for m in range(floors)),
        flops_per_cycle=np.full(floors, 32.0),
        switched_capacitance=np.full(floors, 1e-27),
        min_frequency=np.zeros(floors),
        max_frequency=np.full(floors, 4e9 * devices / 2),
        memory_bytes=np.full(floors, 1e15),
        max_power=np.full(floors, 0.2),
    )
    fleet = Devices(
        names=tuple(f"d{n}" for n in range(count)),
        floor=np.repeat(np.arange(floors), devices),
        batch=rng.integers(1, 100, count).astype(float),
        flops_per_cycle=np.full(count, 16.0),
        switched_capacitance=np.full(count, 1e-27),
        frequency=rng.uniform(1e8, 1e9, count),
        memory_bytes=np.full(count, 2e9),
    )
    weather = Weather(
        uplink_gain=link(),
        downlink_gain=link(),
        uplink_interference=noise(),
        downlink_interference=noise(),
        gateway_energy=rng.uniform(0.0, 15.0 * devices, floors),
        device_energy=rng.uniform(0.0, 5.0, count),
    )
    return dataclasses.replace(
        state,
        plant=PlantArrays(state.plant.workload, state.plant.band, gateways, fleet),
        weather=weather,
        queue=rng.uniform(0, 3, floors),
        target_rate=np.full(floors, 0.5),
        last_loss=np.full(floors, np.nan),
    )


def exponent(sizes: list[int], make: Callable[[int], RoundState]) -> float:
    """Slope of log time over log size of the exact solver, the least of three times each."""
    times = []
    for size in sizes:
        state = make(size)
        packed, download = pack(state)
        times.append(min(seconds(lambda p=packed, d=download: least_delays(p, d)) for _ in range(3)))  # type: ignore[misc]
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def against_scip(states: list[RoundState]) -> Iterator[Row]:
    """The exact solver against the MINLP solver SCIP on the paper's rounds."""
    from tests.scheduling.scip_oracle import scip_objective  # noqa: PLC0415

    few, often = states[:5], 20
    many, scip = interleaved(
        lambda t: [solve(few[t], 1.0) for _ in range(often)], lambda t: scip_objective(few[t], 1.0), len(few)
    )
    ours = many / often
    yield (
        "paper's round: SCIP / exact",
        f"{scip / ours:,.0f}x",
        f"{scip:.2f} s / {1e3 * ours:.2f} ms, {len(few)} rounds",
    )


def against_paper(states: list[RoundState]) -> Iterator[Row]:
    """The exact solver against Algorithm 1, times and results."""
    exact, paper = interleaved(lambda t: solve(states[t], 1.0), lambda t: solve(states[t], 1.0, "paper"), len(states))
    pairs = [(solve(state, 1.0), solve(state, 1.0, "paper")) for state in states]
    equal = [(e.delay, p.delay) for e, p in pairs if e.decision.selected.sum() == p.decision.selected.sum()]
    gain = 1.0 - np.mean([e for e, _ in equal]) / np.mean([p for _, p in equal])
    yield "paper's round: Algorithm 1 / exact", f"{paper / exact:.2f}x", f"{1e3 * paper:.2f} ms / {1e3 * exact:.2f} ms"
    yield "  delay saved by exact, V = 1", f"{100 * gain:.0f} %", f"{len(equal)} of {len(states)} rounds served alike"


def campus() -> Iterator[Row]:
    """A thousand floors, and the assignment step on its own."""
    (state,) = paper_states(1, "campus")
    solve(state, 1.0)
    whole = min(seconds(lambda: solve(state, 1.0)) for _ in range(3))
    yield "campus round, 1,000 floors x 100 channels", f"{whole:.2f} s", "both cores, warm"
    delay = least_delays(*pack(state)).best
    limits = np.unique(delay[np.isfinite(delay)])
    sample = limits[:: max(1, limits.size // 20)]

    def hungarian(limit: float) -> None:
        linear_sum_assignment(np.where(delay <= limit, -state.queue[:, None] - 1e6, 0.0))

    each = float(np.median([seconds(lambda x=x: hungarian(x)) for x in sample]))  # type: ignore[misc]
    ours = min(seconds(lambda: assign(delay, state.queue, 1.0)) for _ in range(3))
    found = assign(delay, state.queue, 1.0)
    for limit in [
        *sample,
        found.delay,
    ]:  # the same value as the Hungarian method, and none of the sampled limits is better
        allowed = delay <= limit
        rows, columns = linear_sum_assignment(np.where(allowed, -state.queue[:, None] - 1e6, 0.0))
        kept = allowed[rows, columns]
        value = limit - state.queue[rows[kept]].sum()
        served = int((found.channel >= 0).sum())
        assert kept.sum() < served or found.objective <= value + 1e-9 * abs(value)
        assert limit != found.delay or abs(value - found.objective) <= 1e-9 * abs(value)
    note = f"{limits.size:,} limits x {1e3 * each:.1f} ms (20 measured) / {1e3 * ours:.0f} ms"
    yield "campus assignment: limits x scipy / ours", f"{limits.size * each / ours:,.0f}x", note


def with_links(state: RoundState, preset: str) -> RoundState:
    """The same round if every device has a link of 20 Mbit/s and 20 nJ/bit, each way and at both ends."""
    count = state.plant.devices.batch.size
    links = Links(np.full(count, 20e6), np.full(count, 20e6), *(np.full(count, 20e-9) for _ in range(4)))
    plant = dataclasses.replace(
        state.plant,
        workload=dataclasses.replace(state.plant.workload, traffic=traffic_of(fedfloor.load(preset))),
        devices=dataclasses.replace(state.plant.devices, links=links),
    )
    return dataclasses.replace(state, plant=plant)


def links() -> Iterator[Row]:
    """All delays of a round, from its state to the matrix, with device links against the same round without them."""
    for preset, often, turns in (("paper-cifar10-random", 50, 7), ("campus", 1, 3)):
        (free,) = paper_states(1, preset)
        linked = with_links(free, preset)

        def run(state: RoundState, often: int = often) -> None:
            for _ in range(often):
                least_delays(*pack(state))

        able = [int(np.isfinite(least_delays(*pack(state)).best).sum()) for state in (linked, free)]  # compiles, too
        long, short = interleaved(
            lambda _, run=run, state=linked: run(state),  # type: ignore[misc]
            lambda _, run=run, state=free: run(state),  # type: ignore[misc]
            turns,
        )
        note = f"{1e3 * long / often:.2f} ms / {1e3 * short / often:.2f} ms, {able[0]:,} / {able[1]:,} feasible pairs"
        yield f"{preset}: delays with device links / without", f"{long / short:.2f}x", note


def growth(state: RoundState) -> Iterator[Row]:
    """How time grows with devices and with floor-channel pairs, memory slack."""
    per_floor = exponent([8, 16, 32, 64, 128], lambda size: grown(state, 60, size, 20))
    yield "exponent in devices per floor, 8 to 128", f"{per_floor:.2f}", "60 floors x 20 channels"
    floors = exponent([50, 100, 200, 400, 800], lambda size: grown(state, size, 10, 20))
    yield "exponent in floors, 50 to 800", f"{floors:.2f}", "10 devices, 20 channels"
    channels = exponent([16, 32, 64, 128, 256], lambda size: grown(state, 60, 10, size))
    yield "exponent in channels, 16 to 256", f"{channels:.2f}", "60 floors, 10 devices"


def cold_plan(state: RoundState) -> Iterator[Row]:
    """The command line from start to answer; a round as small as this needs no compiler."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "round.json"
        export_snapshot(PlannedRound(state, 1.0, *make_policy(PolicySpec("ddsra"))), path)
        command = [sys.executable, "-m", "fedfloor", "plan", str(path), "--format", "json"]

        def run() -> None:
            subprocess.run(command, check=True, capture_output=True)

        run()
        yield "cold `fedfloor plan`, paper's round", f"{min(seconds(run) for _ in range(3)):.2f} s", "new process"


def large(state: RoundState) -> Iterator[Row]:
    """10,000 floors x 100 devices x 1,000 channels in memory."""
    huge = grown(state, 10_000, 100, 1_000)
    took = seconds(lambda: solve(huge, 1.0))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield "10,000 floors x 100 devices x 1,000 channels", f"{took:.0f} s", f"at most {most:.1f} GiB"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also the largest round, minutes and gigabytes")
    arguments = parser.parse_args()
    states = paper_states(100)
    for solver in ("exact", "paper"):
        solve(states[0], 1.0, solver)  # compile or load
    parts = [against_paper(states), campus(), links(), growth(states[0]), cold_plan(states[0]), against_scip(states)]
    parts += [training.rows(), connections.rows(), deployed.rows(), flower.rows()]
    if arguments.large:
        parts.append(large(states[0]))
    print(f"{'what':48} {'figure':>10}  how")
    for part in parts:
        for what, figure, how in part:
            print(f"{what:48} {figure:>10}  {how}", flush=True)


if __name__ == "__main__":
    main()
