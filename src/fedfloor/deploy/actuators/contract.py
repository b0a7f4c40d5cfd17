"""What is decided for a machine in a round, and what every actuator can do with it."""

__all__ = ["Actuator", "Processes", "Setting", "carried_out"]

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from fedfloor.errors import DeploymentError

#: numbers of the processes that compute, asked for at the beginning of every round
Processes: TypeAlias = Callable[[], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Setting:
    """What is decided for one machine in one round."""

    frequency: float  #: [Hz]  f_n of a device, f^G of a gateway
    share: float  #: [1]   of the maximum frequency that the scenario gives the machine
    power: float | None = None  #: [W]   P_m of a gateway; None: a device, which has no choice
    steps: tuple[float, ...] = ()  #: [s]   modelled seconds of each step of computing, in their order

    def __post_init__(self) -> None:
        """Refuse numbers that no machine can be set to; they come from another machine."""
        ranges = {
            "frequency": (self.frequency, math.inf),
            "share": (self.share, 1.0 + 1e-9),
            "power": (self.power or 0.0, math.inf),
            **{f"steps[{index}]": (seconds, math.inf) for index, seconds in enumerate(self.steps)},
        }
        for name, (value, most) in ranges.items():
            if not 0.0 <= value <= most or value == math.inf:
                limit = "finite" if most == math.inf else "at most 1"
                problem = f"must be at least 0 and {limit}, got {value:g}"
                raise DeploymentError(f"decision: {name}: {problem}. Correct the policy that decides")


class Actuator(Protocol):
    """Carries out the settings of one machine.

    A round calls `begin`, then `step` after every piece of computing, then `end`. Use one actuator for each sequence
    of steps: a gateway that computes for several devices at once has one for each of them.
    """

    def problem(self) -> str | None:
        """Say in a sentence why it cannot work on this machine, and what to do; None if it can. Called at the start."""

    def begin(self, setting: Setting) -> None:
        """Carry out what was decided for this round. If it raises an error, everything is as before."""

    async def step(self, seconds: float, *, began: float | None = None) -> None:
        """Note that a piece of computing is done that takes `seconds` in the model; it may wait here.

        `began` is the reading of `time.monotonic()` when the piece began; None: when the piece before it ended. A
        machine that has waited for others in between gives it, so that the waiting does not count as computing.
        """

    def end(self) -> None:
        """End the round and restore what `begin` has changed; without a round it does nothing."""


@contextmanager
def carried_out(actuator: Actuator, setting: Setting) -> Iterator[None]:
    """Carry out a setting until the block ends, also by an error."""
    actuator.begin(setting)
    try:
        yield
    finally:
        actuator.end()
