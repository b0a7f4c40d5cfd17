"""One round as one convex MINLP for SCIP, all floors, channels and cuts at once: shares no code with the solvers.

Seconds, joules, GHz and Gcycles. Of every floor m on channel j with y = ln(1 + P h/(B N0 + i)):

- upload: time u = c/y, energy e_min g(y), with c = gamma ln 2/B and g(y) = (e^y - 1)/y = integral of e^(ty) over t in
  [0, 1]. SCIP is given its Gauss-Legendre sum, which equals it to 1e-13 and which it knows to be convex.
- device n has s = T - sum_l a_l x_l left for its upper half of w = sum_l w_l x_l cycles: f s >= w and e >= v w f^2.
  With binary x and h = w f these are the cones f s >= (sum_l sqrt(w_l) x_l)^2, h s >= w^2 and w e >= v h^2.
- what belongs to a pair or floor is 0 where it is not served, so there is no big M except the horizon.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from pyscipopt import Expr, Model, Variable, exp, quicksum

from fedfloor.scheduling.state import RoundState
from tests.scheduling.oracle import on_the_link

GIGA = 1e9
HORIZONS = (300.0, 3e3, 3e4)  #: [s] a round's longest; the next is tried until longer ones are worse
NEAR = 1 + 1e-9
POINTS, WEIGHTS = ((np.polynomial.legendre.leggauss(12) + np.array([[1.0], [0.0]])) / 2).tolist()

SETTINGS = {
    "numerics/feastol": 1e-9,
    "separating/maxroundsroot": 3,  # what follows costs more here than the branching it saves
    "separating/maxrounds": 1,
    "propagating/obbt/freq": -1,
    "presolving/maxrestarts": 0,
    "heuristics/mpec/freq": -1,
    "heuristics/rens/freq": -1,
    "parallel/maxnthreads": 1,
    "lp/threads": 1,
}


class Optimum(NamedTuple):
    """What SCIP found and what it proved; both inf if no decision uses every channel."""

    objective: float
    bound: float


class _Cut(NamedTuple):
    seconds: float  #: on the device
    cycles: float  #: [Gcycle] on the gateway
    space: float  #: [GB] on the gateway
    joules: float  #: of the gateway, on the link


@dataclass(frozen=True)
class _Pair:
    """A floor on a channel: whether it is served, and its variables, 0 if not."""

    served: Variable
    training: Variable  #: [s]
    delay: Expr  #: [s]
    energy: Expr  #: [J] of the upload


def scip_objective(state: RoundState, tradeoff: float, *, time_limit: float = 300, gap: float = 2e-8) -> Optimum:
    """Least V tau - sum of the queues served, over all decisions in which each channel serves a floor; V > 0."""
    most = float(np.sort(state.queue)[::-1][: state.gain_up.shape[1]].sum())
    for horizon in HORIZONS:
        best = _within(state, tradeoff, horizon, time_limit, gap)
        if tradeoff * horizon - most >= best.objective:
            return best
    assert best.objective == math.inf, f"nothing proven of rounds longer than {horizon} s"
    return best


def _within(state: RoundState, tradeoff: float, horizon: float, time_limit: float, gap: float) -> Optimum:
    """The optimum among rounds that take no longer than the horizon."""
    floors, channels = state.gain_up.shape
    model, unit = Model(), max(1.0, tradeoff)
    model.hideOutput()
    model.setParams({**SETTINGS, "limits/time": time_limit, "limits/gap": gap, "limits/absgap": gap})
    slowest = model.addVar("tau", ub=horizon)
    pairs: dict[tuple[int, int], _Pair] = {}
    for m in range(floors):
        cuts = [list(_cuts(state, int(n))) for n in np.flatnonzero(state.plant.devices.floor == m)]
        here = {(m, j): _add_pair(model, state, m, j, horizon) for j in range(channels) if _connected(state, m, j)}
        if here and all(cuts):
            _add_floor(model, state, m, list(here.values()), cuts, horizon)
            pairs |= here
    for j in range(channels):
        mine = [pair for (_, k), pair in pairs.items() if k == j]
        if not mine:
            return Optimum(math.inf, math.inf)
        model.addCons(quicksum(pair.served for pair in mine) == 1)
        model.addCons(quicksum(pair.delay for pair in mine) <= slowest)
        for pair in mine:  # the row above says so already, but SCIP prunes better with both
            model.addCons(pair.delay <= slowest)
    queues = quicksum(state.queue[m] / unit * pair.served for (m, _), pair in pairs.items())
    model.setObjective(tradeoff / unit * slowest - queues)
    model.optimize()
    status = model.getStatus()
    if status == "infeasible":
        return Optimum(math.inf, math.inf)
    assert status in ("optimal", "gaplimit"), f"SCIP: {status} between {model.getDualbound()}, {model.getPrimalbound()}"
    return Optimum(unit * model.getPrimalbound(), unit * model.getDualbound())


def _connected(state: RoundState, m: int, j: int) -> bool:
    weather = state.weather
    return bool(weather.uplink_gain[m, j] > 0 and weather.downlink_gain[m, j] > 0 and weather.gateway_energy[m] > 0)


def _add_pair(model: Model, state: RoundState, m: int, j: int, horizon: float) -> _Pair:
    """Download and upload of a floor on a channel."""
    weather, band, work = state.weather, state.plant.band, state.plant.workload
    heard = band.downlink_bandwidth * band.noise_density + weather.downlink_interference[m, j]
    ratio = band.base_station_power * weather.downlink_gain[m, j] / heard
    download = work.download_bits / (band.downlink_bandwidth * math.log2(1 + ratio))
    noise = (band.uplink_bandwidth * band.noise_density + weather.uplink_interference[m, j]) / weather.uplink_gain[m, j]
    scale = work.upload_bits * math.log(2) / band.uplink_bandwidth
    most_log = math.log1p(state.plant.gateways.max_power[m] / noise)
    most = math.expm1(most_log) / most_log
    quadrature = sum(weight * math.exp(point * most_log) for point, weight in zip(POINTS, WEIGHTS, strict=True))
    assert abs(quadrature / most - 1) < 1e-13

    served = model.addVar(f"served {m} {j}", vtype="B")
    training = model.addVar(f"training {m} {j}", ub=horizon)
    upload = model.addVar(f"upload {m} {j}", ub=horizon)
    log = model.addVar(f"log {m} {j}", ub=most_log)
    factor = model.addVar(f"factor {m} {j}", ub=min(most, state.weather.gateway_energy[m] / (scale * noise)))
    for variable in (training, upload, log, factor):
        model.addCons(variable <= variable.getUbOriginal() * served)
    model.addCons(upload >= scale / most_log * served)
    model.addCons(upload * log >= scale * served * served)
    factor_sum = quicksum(weight * exp(point * log) for point, weight in zip(POINTS, WEIGHTS, strict=True))
    model.addCons(factor >= factor_sum - 1 + served)  # the sum is 1 where the logarithm is 0
    return _Pair(served, training, training + upload + download * served, scale * noise * factor)


def _cuts(state: RoundState, n: int) -> Iterator[_Cut]:
    """Every cut the device can afford, by the paper's formulas."""
    work, device = state.plant.workload, state.plant.devices
    batch, gateway = device.batch[n], int(device.floor[n])
    flop, fixed, sample = (np.diff(x) for x in (work.flop_below, work.fixed_bytes_below, work.sample_bytes_below))
    for cut in range(work.min_cut, work.layers + 1):
        below = work.local_iterations * batch * flop[:cut].sum()
        above = work.local_iterations * batch * flop[cut:].sum()
        sending, spent, spent_above = on_the_link(state, n, cut)
        joules = device.switched_capacitance[n] / device.flops_per_cycle[n] * below * device.frequency[n] ** 2 + spent
        space = fixed[:cut].sum() + batch * sample[:cut].sum()
        if joules <= state.weather.device_energy[n] * NEAR and space <= device.memory_bytes[n] * NEAR:
            yield _Cut(
                seconds=below / (device.flops_per_cycle[n] * device.frequency[n]) + sending,
                cycles=above / state.plant.gateways.flops_per_cycle[gateway] / GIGA,
                space=(fixed[cut:].sum() + batch * sample[cut:].sum()) / GIGA,
                joules=spent_above,
            )


def _add_floor(
    model: Model, state: RoundState, m: int, pairs: list[_Pair], cuts: list[list[_Cut]], horizon: float
) -> None:
    """Training of a floor's devices, and what they share: gateway memory, frequency and energy."""
    gateways = state.plant.gateways
    capacitance = gateways.switched_capacitance[m] * GIGA**3
    bottom, top = gateways.min_frequency[m] / GIGA, gateways.max_frequency[m] / GIGA
    served = model.addVar(f"served {m}", vtype="B")
    model.addCons(served == quicksum(pair.served for pair in pairs))
    training = quicksum(pair.training for pair in pairs)
    energies: list[Expr] = [pair.energy for pair in pairs]
    frequencies, spaces = [], []
    for n, options in enumerate(cuts):
        name = f"{m} {n}"
        chosen = [model.addVar(f"cut {name} {k}", vtype="B") for k in range(len(options))]
        pick = list(zip(chosen, options, strict=True))
        most = max(option.cycles for option in options)
        left = model.addVar(f"left {name}", ub=horizon)
        root = model.addVar(f"root {name}", ub=math.sqrt(most))
        cycles = model.addVar(f"cycles {name}", ub=most)
        effort = model.addVar(f"effort {name}", ub=most * top)  # cycles times frequency
        frequency = model.addVar(f"frequency {name}", ub=top)
        energy = model.addVar(f"energy {name}", ub=capacitance * most * top**2)
        model.addCons(quicksum(chosen) == served)
        model.addCons(left == training - quicksum(option.seconds * x for x, option in pick))
        model.addCons(left >= quicksum(option.cycles / top * x for x, option in pick))
        model.addCons(root == quicksum(math.sqrt(option.cycles) * x for x, option in pick))
        model.addCons(cycles == quicksum(option.cycles * x for x, option in pick))
        model.addCons(frequency * left >= root * root)
        model.addCons(effort * left >= cycles * cycles)
        model.addCons(cycles * energy >= capacitance * effort * effort)
        if bottom > 0:  # the frequency may be above what the time asks for; free of charge where there are no cycles
            parts = [model.addVar(f"frequency {name} {k}", ub=top) for k in range(len(options))]
            for x, part in zip(chosen, parts, strict=True):
                model.addCons(part <= top * x)
            model.addCons(frequency == quicksum(parts))
            model.addCons(effort >= quicksum(o.cycles * part for o, part in zip(options, parts, strict=True)))
        for variable in (left, frequency, effort, energy):
            model.addCons(variable <= variable.getUbOriginal() * served)
        energies += [energy, *(option.joules * x for x, option in pick)]
        frequencies.append(frequency)
        spaces += [option.space * x for x, option in pick]
    model.addCons(quicksum(frequencies) <= top * served)
    model.addCons(quicksum(frequencies) >= bottom * served)
    if math.isfinite(gateways.memory_bytes[m]):
        model.addCons(quicksum(spaces) <= gateways.memory_bytes[m] / GIGA * NEAR * served)
    if math.isfinite(state.weather.gateway_energy[m]):
        model.addCons(quicksum(energies) <= state.weather.gateway_energy[m] * served)
