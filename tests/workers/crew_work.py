"""Pieces of work that the tests of crews hand out."""

import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedfloor.errors import PolicyError
from fedfloor.scheduling.state import IDLE, Decision, RoundState

Tell = Callable[[Any], None]


class StubbornError(Exception):
    """One that cannot travel between processes."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def count(tell: Tell, upto: int) -> None:
    for number in range(upto):
        tell(number)


def fail(tell: Tell, how: str) -> None:
    tell("begun")
    if how == "stubborn":
        raise StubbornError(1, 2)
    raise ValueError(how)


def die(tell: Tell) -> None:
    tell("begun")
    os.kill(os.getpid(), signal.SIGKILL)


def linger(tell: Tell, note: Path) -> None:
    note.write_text(f"{os.getpid()} {tempfile.mkdtemp()}")
    tell("begun")
    time.sleep(60)


def chatter(tell: Tell, note: Path) -> None:
    note.write_text(f"{os.getpid()} {tempfile.mkdtemp()}")
    while True:
        tell("still here")


@dataclass(frozen=True, slots=True)
class Dies:
    """A policy whose process is lost in the fourth round, whenever it gets there."""

    def schedule(self, state: RoundState) -> Decision:
        if state.index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return Decision(channel=np.full(state.gain_up.shape[0], IDLE))


@dataclass(frozen=True, slots=True)
class Refuses:
    """A policy that never decides."""

    def schedule(self, state: RoundState) -> Decision:
        raise PolicyError(f"this policy refuses round {state.index}")
