"""Every random stream by its name: one seed gives each purpose draws of its own, which no other purpose changes.

A draw is addressed by what it is for, such as a round, a device and an iteration, so that it can be drawn again on its
own. The numbers never change, because they determine what a seed draws.
"""

__all__ = [
    "PolicyStream",
    "Stream",
    "dropout_seed",
    "first_weights_seed",
    "key_stream",
    "policy_stream",
    "run_stream",
    "stream_seed",
]

import zlib
from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What is drawn in a run beside decisions, and what addresses a draw."""

    WEATHER = 1  #: purpose, round
    BATCH = 2  #: round, device, iteration
    BOUNDARY = 3  #: rounding of what crosses a cut: round, device, iteration
    UPLOAD = 4  #: rounding of a floor's update: round, floor
    DROPOUT = 5  #: in a half of a network: round, device, half, iteration


class PolicyStream(IntEnum):
    """Policies that draw; `random` was first and has no number."""

    PARTICIPATION = 3
    POWER_OF_CHOICE = 4
    TIFL = 5
    LYAPUNOV = 6
    OORT = 7


def run_stream(seed: int, stream: Stream, *address: int) -> np.random.Generator:
    """Random numbers of a run for one purpose, at one address."""
    return np.random.default_rng(_sequence(seed, stream, address))


def stream_seed(seed: int, stream: Stream, *address: int) -> int:
    """The same as `run_stream`, as the seed of another generator than NumPy's."""
    return int(_sequence(seed, stream, address).generate_state(1)[0])


def policy_stream(seed: int, index: int, policy: PolicyStream | None = None) -> np.random.Generator:
    """Random numbers of a policy in round `index`: new ones in every round, the same ones on replay."""
    return np.random.default_rng([seed, index] if policy is None else [seed, index, int(policy)])


def key_stream(seed: int, path: str) -> np.random.Generator:
    """Random numbers for one key of the scenario, independent of every other key."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(path.encode()),)))


def dropout_seed(seed: int, index: int, device: int) -> int:
    """Seed of the dropout of a device that trains in the whole network, in round `index`."""
    return int(np.random.SeedSequence([seed, index, device]).generate_state(1)[0])


def first_weights_seed(seed: int) -> int:
    """Seed of the weights before the first round."""
    return zlib.crc32(b"initial weights") ^ seed


def _sequence(seed: int, stream: Stream, address: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(int(stream), *address))
