"""How near predicted training times are to measured ones on this machine: `python -m benchmarks.predicted`.

Rounds of split training are timed half by half, at every cut, with two batches that the profile has and one between
them. Profiles and rounds take turns, so that a machine that becomes slower slows down both.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedfloor.arrays import Floats
from fedfloor.costs.layers import layer_costs
from fedfloor.costs.measured import half_cycles
from fedfloor.runs.measure import Target, measured_profile, model_target
from fedfloor.training.measuring import CLOCK, pinned
from fedfloor.training.network.built import memory_format_of, network_of
from fedfloor.training.network.split import halves, sgd_step

ITERATIONS = 5  #: K
MEASURED, TIMED = (10, 50), (10, 30, 50)  #: batches of the profile and of the rounds
TURNS, ROUNDS = 16, 4  #: profiles, and rounds with every cut and batch after each of them
clock: Callable[[], float] = getattr(time, CLOCK)


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """Seconds of a round, each (B, L+1): one row per batch, one column per cut; 0 for a half without layers."""

    device: Floats
    gateway: Floats


def timed_round(bottom: nn.Sequential, top: nn.Sequential, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Seconds of the device and of the gateway in one round: the steps of `training.halves`, with a clock between."""
    below, above = list(bottom.parameters()), list(top.parameters())
    device = gateway = 0.0
    for _ in range(ITERATIONS):
        begin = clock()
        sent = bottom(x)
        middle = clock()
        received = sent.detach().requires_grad_(sent.requires_grad)
        loss = functional.cross_entropy(top(received), y)
        loss.backward()  # type: ignore[no-untyped-call]
        sgd_step(above, 0.0)
        end = clock()
        device += middle - begin
        gateway += end - middle
        if sent.requires_grad:
            begin = clock()
            sent.backward(received.grad)
            sgd_step(below, 0.0)
            device += clock() - begin
    return device, gateway


def whole_round(network: nn.Sequential, x: Tensor, y: Tensor) -> float:
    """Seconds of one round in which one machine trains all layers."""
    parameters = list(network.parameters())
    begin = clock()
    for _ in range(ITERATIONS):
        functional.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
        sgd_step(parameters, 0.0)
    return clock() - begin


def timed_rounds(target: Target, repeats: int) -> list[Halves]:
    """Seconds of rounds with every batch and cut, in random order."""
    network = network_of(target.model, seed=0)
    layout = memory_format_of(network)
    network = network.to(memory_format=layout)  # type: ignore[call-overload]
    network.train()
    cuts = len(target.layers) + 1
    splits = [halves(network, cut) for cut in range(cuts)]
    inputs = [
        (torch.randn(batch, *target.model.input).contiguous(memory_format=layout), torch.randint(10, (batch,)))
        for batch in TIMED
    ]
    rng, rounds = np.random.default_rng(), []
    for _ in range(repeats + 1):
        device, gateway = np.zeros((len(TIMED), cuts)), np.zeros((len(TIMED), cuts))
        for at in rng.permutation(len(TIMED) * cuts).tolist():
            b, cut = divmod(at, cuts)
            if cut in (0, cuts - 1):
                (gateway if cut == 0 else device)[b, cut] = whole_round(network, *inputs[b])
            else:
                device[b, cut], gateway[b, cut] = timed_round(*splits[cut], *inputs[b])
        rounds.append(Halves(device, gateway))
    return rounds[1:]  # the first warms up


def predicted(target: Target) -> Halves:
    """Seconds of a round by a profile that is measured now."""
    profile = measured_profile(target, seconds=2.5)
    cycles = half_cycles(profile, target.layers, np.array(TIMED, float), ITERATIONS)
    return Halves(cycles.bottom / profile.frequency_hz, cycles.top / profile.frequency_hz)


def flop_of(target: Target, cost_model: str) -> Floats:
    """FLOPs of every half that has layers, in the order of `points`."""
    flop = layer_costs(target.layers, cost_model).flop
    below = np.concatenate([[0.0], np.cumsum(flop)])
    batch = ITERATIONS * np.array(TIMED, float)[:, None]
    return points(Halves(batch * below, batch * (below[-1] - below)))


def points(seconds: Halves) -> Floats:
    """All halves that have layers: devices at the cuts 1..L, gateways at the cuts 0..L-1."""
    return np.concatenate([seconds.device[:, 1:].ravel(), seconds.gateway[:, :-1].ravel()])


def best_fit(flop: Floats, seconds: Floats) -> Floats:
    """Predictions with the one speed that gives the least median error: the best case for counted FLOPs."""
    speeds = flop / seconds
    errors = [np.median(np.abs(flop / speed / seconds - 1.0)) for speed in speeds]
    return np.asarray(flop / speeds[int(np.argmin(errors))], dtype=float)


def median_of(rounds: Sequence[Halves]) -> Halves:
    """Median over rounds or profiles."""
    return Halves(
        np.median([entry.device for entry in rounds], axis=0), np.median([entry.gateway for entry in rounds], axis=0)
    )


def report(name: str, prediction: Floats, truth: Floats) -> None:
    """Print the errors of a prediction."""
    error = np.abs(prediction / truth - 1.0)
    low, middle, high, most = 100.0 * np.quantile(error, [0.25, 0.5, 0.75, 1.0])
    signed = 100.0 * np.median(prediction / truth - 1.0)
    print(f"  {name:30} median {middle:5.1f} %  quartiles {low:5.1f} .. {high:5.1f} %  largest {most:6.1f} %"
          f"  median with sign {signed:+6.1f} %")  # fmt: skip


def main() -> None:
    """Print the errors of predicted round times for the CNN of `quick` and for the MLP."""
    torch.set_num_threads(1)
    for name in ("cnn", "mlp"):
        target = model_target(name, None, MEASURED)
        profiles: list[Halves] = []
        rounds: list[Halves] = []
        for _ in range(TURNS):
            profiles.append(predicted(target))
            with pinned():
                rounds += timed_rounds(target, ROUNDS)
        median = median_of(rounds)
        truth = points(median)
        each = np.array([points(entry) for entry in rounds])
        spread = (np.quantile(each, 0.75, axis=0) - np.quantile(each, 0.25, axis=0)) / truth
        count = f"{len(truth)} halves, {len(rounds)} rounds of K = {ITERATIONS}"
        print(f"{name}: {count}; between the quartiles of a half's rounds lie {100 * np.median(spread):.0f} %")
        report("measured, median profile", points(median_of(profiles)), truth)
        single = [100.0 * np.median(np.abs(points(profile) / truth - 1.0)) for profile in profiles]
        low, middle, high = np.quantile(single, [0.25, 0.5, 0.75])
        print(f"  measured, single profiles      median {middle:5.1f} %  quartiles {low:5.1f} .. {high:5.1f} %")
        for cost_model in ("exact", "paper"):
            report(f"{cost_model}, best speed", best_fit(flop_of(target, cost_model), truth), truth)
        for side in ("device", "gateway"):
            guess, real = getattr(median_of(profiles), side), getattr(median, side)
            print(f"  {side}, predicted / measured, cuts 0..{len(target.layers)}")
            for b, batch in enumerate(TIMED):
                ratios = [f"{p / t:5.2f}" if t else "    -" for p, t in zip(guess[b], real[b], strict=True)]
                print(f"    batch {batch:3}: {' '.join(ratios)}")


if __name__ == "__main__":
    main()
