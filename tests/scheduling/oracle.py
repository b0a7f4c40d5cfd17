"""The round problem solved the slow way, and its constraints checked: nothing here uses a solver's code."""

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import lambertw

from fedfloor.costs.links import Links, Traffic
from fedfloor.costs.plant import Band, Devices, Gateways, PlantArrays, Workload
from fedfloor.scenario.file import Baseline
from fedfloor.scheduling.solver.solution import Solution
from fedfloor.scheduling.state import RoundState
from fedfloor.weather.draws import Weather

Array = npt.NDArray[np.float64]


def random_round(
    rng: np.random.Generator, *, most_floors: int = 4, devices: tuple[int, int] = (1, 3), least_layers: int = 1
) -> RoundState:
    """A small round, often tight in one resource or another; a floor has from `devices[0]` to `devices[1]` devices."""
    floors, channels, layers = rng.integers(1, most_floors + 1), rng.integers(1, 4), rng.integers(least_layers, 7)
    per_floor = rng.integers(devices[0], devices[1] + 1, floors)
    count = int(per_floor.sum())
    floor = np.repeat(np.arange(floors), per_floor)
    flop = rng.uniform(1e6, 9e7, layers) * (rng.random(layers) > 0.1)
    fixed, sample = rng.uniform(1e4, 1e7, layers), rng.uniform(1e3, 1e6, layers)
    batch = rng.integers(1, 100, count).astype(float)
    tight = rng.choice(["nothing", "memory", "frequency", "energy", "least frequency", "device", "all"])
    total = np.bincount(floor, weights=np.full(count, fixed.sum()) + batch * sample.sum(), minlength=floors)
    typical = fixed.sum() + 50 * sample.sum()
    scarce = tight in ("memory", "all")
    memory = total.astype(float) * (rng.uniform(0.2, 0.9, floors) if scarce else 2.0)
    top = rng.uniform(1e8, 4e8, floors) if tight in ("frequency", "all") else np.full(floors, 4e9)
    bottom = top * rng.uniform(0.3, 0.99, floors) if tight in ("least frequency", "all") else np.zeros(floors)
    energy = rng.uniform(0, 1.0 if tight in ("energy", "all") else 30.0, floors)
    gain = 4e-10 * rng.exponential(1.0, (2, floors, channels))
    device_energy = rng.uniform(0, 0.4 if tight == "device" else 5.0, count)
    if rng.random() < 0.15:
        energy[rng.integers(floors)] = 0.0
    if rng.random() < 0.15:
        gain[0, rng.integers(floors)] = 0.0
    return RoundState(
        index=0,
        seed=1,
        plant=PlantArrays(
            workload=Workload.from_layers(
                flop, fixed, sample, local_iterations=5, model_bits=(bits := rng.uniform(1e7, 3e8)),
                upload_bits=bits / int(rng.choice([1, 2, 4])), download_bits=bits / int(rng.choice([1, 2])),
                min_cut=int(rng.integers(0, min(2, int(layers)) + 1)) if rng.random() < 0.3 else 0,
            ),
            band=Band(1e6, 2e7, 4e-21, 1.0),
            gateways=Gateways(
                names=tuple(f"g{m}" for m in range(floors)),
                flops_per_cycle=np.full(floors, 32.0),
                switched_capacitance=np.full(floors, 1e-27),
                min_frequency=bottom,
                max_frequency=top,
                memory_bytes=memory,
                max_power=np.full(floors, 0.2),
            ),
            devices=Devices(
                names=tuple(f"d{n}" for n in range(count)),
                floor=floor,
                batch=batch,
                flops_per_cycle=np.full(count, 16.0),
                switched_capacitance=np.full(count, 1e-27),
                frequency=rng.uniform(1e8, 1e9, count),
                memory_bytes=rng.uniform(0.05 if tight == "device" else 0.5, 1.5, count) * typical,
            ),
        ),
        weather=Weather(
            uplink_gain=gain[0],
            downlink_gain=gain[1],
            uplink_interference=np.abs(rng.normal(0, 1e-13, (floors, channels))),
            downlink_interference=np.abs(rng.normal(0, 1e-13, (floors, channels))),
            gateway_energy=energy,
            device_energy=device_energy,
        ),
        queue=rng.choice([0.0, 1.0], floors) * rng.uniform(0, 5, floors),
        target_rate=np.full(floors, 0.5),
        last_loss=np.full(floors, np.nan),
        baseline=Baseline(cut=0, frequency_share=0.5),
    )  # fmt: skip


def linked(rng: np.random.Generator, state: RoundState) -> RoundState:
    """The same round with links between devices and gateways, from slow to free, whose traffic rises and falls."""
    work, count = state.plant.workload, state.plant.devices.batch.size
    coarse, twice = bool(rng.random() < 0.5), int(rng.random() < 0.3)
    traffic = Traffic(
        values=rng.uniform(1e1, 1e4, work.layers + 1) * np.append(np.ones(work.layers), 0.0),
        parameters_below=np.concatenate([[0.0], np.cumsum(rng.uniform(0.0, 1e6, work.layers))]),
        iterations=work.local_iterations,
        batches=work.local_iterations if twice else 1,
        value_bits=8 if coarse else 32,
        tensor_bits=32 if coarse else 0,
        sample_bits=int(rng.choice([8, 32])),
        weight_bits_down=int(rng.choice([16, 32])),
    )
    dear = rng.choice([0.0, 1e-9, 1e-7])
    links = Links(
        rate_up=np.where(rng.random(count) < 0.1, math.inf, 10 ** rng.uniform(5, 9, count)),
        rate_down=np.where(rng.random(count) < 0.1, math.inf, 10 ** rng.uniform(5, 9, count)),
        device_up=dear * rng.random(count),
        device_down=dear * rng.random(count),
        gateway_up=dear * rng.random(count),
        gateway_down=dear * rng.random(count) * (rng.random(count) < 0.8),
    )
    plant = dataclasses.replace(
        state.plant,
        workload=dataclasses.replace(work, traffic=traffic),
        devices=dataclasses.replace(state.plant.devices, links=links),
    )
    return dataclasses.replace(state, plant=plant)


def on_the_link(state: RoundState, n: int, cut: int) -> tuple[float, float, float]:
    """Seconds, joules of the device and joules of the gateway that the link of device n takes, bit by bit."""
    traffic, links, device = state.plant.workload.traffic, state.plant.devices.links, state.plant.devices
    if traffic is None or links is None:
        return 0.0, 0.0, 0.0
    numbers, batch, tensor = float(traffic.values[cut]), float(device.batch[n]), 0.0
    up = down = 0.0
    if cut == 0:
        up = traffic.batches * (batch * numbers * traffic.sample_bits + traffic.batch_bits)
    else:
        tensor = batch * numbers * traffic.value_bits + (traffic.tensor_bits if numbers else 0)
        up = traffic.iterations * tensor + traffic.parameters_below[cut] * traffic.weight_bits_up
        down = traffic.iterations * tensor + traffic.parameters_below[cut] * traffic.weight_bits_down
    if numbers:
        up += traffic.batches * batch * traffic.label_bits
    return (
        up / links.rate_up[n] + down / links.rate_down[n],
        up * links.device_up[n] + down * links.device_down[n],
        up * links.gateway_up[n] + down * links.gateway_down[n],
    )


def _device_options(state: RoundState, n: int) -> Iterator[tuple[float, float, float, float]]:
    """Device seconds, gateway FLOP, bytes and joules on the link of every cut the device can afford."""
    work, device = state.plant.workload, state.plant.devices
    flop, fixed, sample = (np.diff(x) for x in (work.flop_below, work.fixed_bytes_below, work.sample_bytes_below))
    for cut in range(work.min_cut, work.layers + 1):
        below = work.local_iterations * device.batch[n] * flop[:cut].sum()
        above = work.local_iterations * device.batch[n] * flop[cut:].sum()
        sending, spent, spent_above = on_the_link(state, n, cut)
        joules = device.switched_capacitance[n] / device.flops_per_cycle[n] * below * device.frequency[n] ** 2 + spent
        space = fixed[:cut].sum() + device.batch[n] * sample[:cut].sum()
        if joules <= state.weather.device_energy[n] * (1 + 1e-9) and space <= device.memory_bytes[n] * (1 + 1e-9):
            seconds = below / (device.flops_per_cycle[n] * device.frequency[n]) + sending
            yield seconds, above, fixed[cut:].sum() + device.batch[n] * sample[cut:].sum(), spent_above


def _upload(energy: Array, scale: float, noise: float, max_power: float) -> Array:
    """Least upload time with the energy, by Lambert's W."""
    with np.errstate(all="ignore"):
        ratio = scale * noise / energy
        log = -ratio - lambertw(-ratio * np.exp(-ratio), k=-1).real
        time = np.maximum(scale / log, scale / np.log1p(max_power / noise))
    return np.where((energy > 0) & (ratio < 1), time, np.inf)


def _training_energy(time: Array, seconds: Array, flop: Array, state: RoundState, m: int) -> Array:
    """Least energy of each combination (C, n) at its time (C,), f_min included; inf where too early or too fast."""
    gateways = state.plant.gateways
    phi, v = gateways.flops_per_cycle[m], gateways.switched_capacitance[m]
    spare = time[:, None] - seconds
    with np.errstate(all="ignore"):
        frequency = np.where(flop > 0, flop / (phi * spare), 0.0)
    too_early = np.any(np.where(flop > 0, spare <= 0, spare < -1e-12 * seconds), axis=1)
    frequency[too_early] = 0.0
    missing = gateways.min_frequency[m] - frequency.sum(axis=1)
    raise_them = (missing > 0) & np.all(flop > 0, axis=1)
    if np.any(raise_them):  # water level by bisection
        f, b = frequency[raise_them], flop[raise_them]
        low, high = np.zeros(len(f)), gateways.min_frequency[m] * b.max(axis=1)
        for _ in range(80):
            level = (low + high) / 2
            short = np.maximum(f, level[:, None] / b).sum(axis=1) < gateways.min_frequency[m]
            low, high = np.where(short, level, low), np.where(short, high, level)
        frequency[raise_them] = np.maximum(f, high[:, None] / b)
    energy = (v / phi * flop * frequency**2).sum(axis=1)
    too_fast = (frequency.sum(axis=1) > gateways.max_frequency[m] * (1 + 1e-12)) & np.any(flop > 0, axis=1)
    return np.where(too_early | too_fast, np.inf, energy)


def least_delay(state: RoundState, m: int, j: int) -> float:
    """Least delay of a floor on a channel over all combinations of cuts, golden section in T for each."""
    mine = np.flatnonzero(state.plant.devices.floor == m)
    combos = list(itertools.product(*(list(_device_options(state, int(n))) for n in mine)))
    fitting = [c for c in combos if sum(o[2] for o in c) <= state.plant.gateways.memory_bytes[m] * (1 + 1e-9)]
    weather, band, gateways = state.weather, state.plant.band, state.plant.gateways
    if not fitting or weather.uplink_gain[m, j] == 0 or weather.downlink_gain[m, j] == 0:
        return math.inf
    seconds, flop, spent = (np.array([[option[k] for option in combo] for combo in fitting]) for k in (0, 1, 3))
    work = state.plant.workload
    heard = band.downlink_bandwidth * band.noise_density + weather.downlink_interference[m, j]
    down = weather.downlink_gain[m, j] / heard
    download = work.download_bits / (band.downlink_bandwidth * math.log2(1 + band.base_station_power * down))
    noise = (band.uplink_bandwidth * band.noise_density + weather.uplink_interference[m, j]) / weather.uplink_gain[m, j]
    scale = work.upload_bits * math.log(2) / band.uplink_bandwidth

    def value(time: Array) -> Array:
        left = weather.gateway_energy[m] - spent.sum(axis=1) - _training_energy(time, seconds, flop, state, m)
        return time + _upload(left, scale, noise, gateways.max_power[m])

    start = seconds.max(axis=1)
    grid = start[:, None] + np.concatenate([[0.0], np.geomspace(1e-7, 1e7, 250)])
    values = np.stack([value(column) for column in grid.T], axis=1)
    at = values.argmin(axis=1)
    rows = np.arange(len(start))
    low, high = grid[rows, np.maximum(at - 1, 0)], grid[rows, np.minimum(at + 1, grid.shape[1] - 1)]
    best = values[rows, at]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(70):
        left, right = high - golden * (high - low), low + golden * (high - low)
        on_left, on_right = value(left), value(right)
        best = np.minimum(best, np.minimum(on_left, on_right))
        go_left = on_left < on_right
        low, high = np.where(go_left, low, left), np.where(go_left, right, high)
    return float(best.min()) + download


def best_objective(delay: Array, queue: Array, tradeoff: float) -> tuple[int, float]:
    """Most floors served and the least objective among those assignments, by trying all of them."""
    floors, channels = delay.shape
    best = (0, 0.0)
    for served in range(1, min(floors, channels) + 1):
        for group in itertools.combinations(range(floors), served):
            for places in itertools.permutations(range(channels), served):
                slowest = max(delay[m, j] for m, j in zip(group, places, strict=True))
                if slowest < math.inf:
                    objective = tradeoff * slowest - sum(queue[m] for m in group)
                    if served > best[0] or objective < best[1]:
                        best = (served, objective)
    return best


def broken_constraints(state: RoundState, solution: Solution) -> list[str]:
    """Every constraint and time of an answer, recomputed with plain arithmetic; what does not hold, in words."""
    plant, weather, work, decision = state.plant, state.weather, state.plant.workload, solution.decision
    assert decision.allocation is not None
    cut, frequency, power = decision.allocation.cut, decision.allocation.frequency, decision.allocation.power
    flop, fixed, sample = (np.diff(x) for x in (work.flop_below, work.fixed_bytes_below, work.sample_bytes_below))
    near, broken, slowest = 1 + 2e-9, [], 0.0
    used = [int(j) for j in decision.channel if j >= 0]
    if len(set(used)) != len(used) or any(j >= weather.uplink_gain.shape[1] for j in used):
        broken.append(f"C1-C3: channels {used}")
    for m in np.flatnonzero(decision.selected):
        j, name, gateways = decision.channel[m], plant.gateways.names[m], plant.gateways
        training = energy = space = hertz = 0.0
        for n in np.flatnonzero(plant.devices.floor == m):
            batch, device = plant.devices.batch[n], plant.devices
            below = work.local_iterations * batch * flop[: cut[n]].sum()
            above = work.local_iterations * batch * flop[cut[n] :].sum()
            speed = device.flops_per_cycle[n] * device.frequency[n]
            top = above / (gateways.flops_per_cycle[m] * frequency[n]) if above > 0 else 0.0
            sending, spent, spent_above = on_the_link(state, int(n), int(cut[n]))
            training = max(training, below / speed + sending + top)
            coefficient = device.switched_capacitance[n] / device.flops_per_cycle[n]
            joules = coefficient * below * device.frequency[n] ** 2 + spent
            held = fixed[: cut[n]].sum() + batch * sample[: cut[n]].sum()
            coefficient = gateways.switched_capacitance[m] / gateways.flops_per_cycle[m]
            energy += coefficient * above * frequency[n] ** 2 + spent_above
            space += fixed[cut[n] :].sum() + batch * sample[cut[n] :].sum()
            hertz += frequency[n]
            if not work.min_cut <= cut[n] <= work.layers:
                broken.append(f"C5: {device.names[n]} cut {cut[n]}")
            if held > device.memory_bytes[n] * near:
                broken.append(f"C7: {device.names[n]} holds {held}")
            if joules > weather.device_energy[n] * near:
                broken.append(f"C9: {device.names[n]} spends {joules}")
        band, up = plant.band, work.upload_bits
        heard = band.uplink_bandwidth * band.noise_density + weather.uplink_interference[m, j]
        upload = up * math.log(2) / (band.uplink_bandwidth * math.log1p(power[m] * weather.uplink_gain[m, j] / heard))
        at_gateway = band.downlink_bandwidth * band.noise_density + weather.downlink_interference[m, j]
        ratio = band.base_station_power * weather.downlink_gain[m, j] / at_gateway
        download = work.download_bits * math.log(2) / (band.downlink_bandwidth * math.log1p(ratio))
        energy += power[m] * upload
        slowest = max(slowest, download + training + upload)
        for label, amount, most in (
            ("C4 power", power[m], gateways.max_power[m]),
            ("C6 frequency", hertz, gateways.max_frequency[m]),
            ("C6 least frequency", gateways.min_frequency[m], hertz),
            ("C8 memory", space, gateways.memory_bytes[m]),
            ("C10 energy", energy, weather.gateway_energy[m]),
        ):
            if amount > most * near:
                broken.append(f"{label}: {name} {amount} > {most}")
        if power[m] <= 0:
            broken.append(f"C4: {name} has no power")
    if abs(slowest - solution.delay) > 1e-7 * max(slowest, 1e-9):
        broken.append(f"delay {solution.delay} is {slowest}")
    return broken


def wrong_optimum(state: RoundState, tradeoff: float, solution: Solution) -> list[str]:
    """What of an answer does not hold or is not optimal, in words, against all assignments of all combinations."""
    floors, channels = state.gain_up.shape
    delays = np.array([[least_delay(state, m, j) for j in range(channels)] for m in range(floors)])
    served, objective = best_objective(delays, state.queue, tradeoff)
    wrong, ours = broken_constraints(state, solution), int(solution.decision.selected.sum())
    if ours != served:
        wrong.append(f"serves {ours} floors of {served}")
    elif abs(solution.objective - objective) > 1e-6 * max(1.0, tradeoff * solution.delay):
        wrong.append(f"objective {solution.objective} is not {objective}")
    return wrong
