"""Notices policies that keep state on themselves, which neither a resumed run nor a replayed round would have."""

__all__ = ["KEEPS_STATE", "StateWatch"]

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedfloor.errors import PolicyError
from fedfloor.references import different_attribute
from fedfloor.rounds.loop import FinishedRound
from fedfloor.scheduling.checking import decide
from fedfloor.scheduling.state import Decision, Scheduler

#: key of a checkpoint whose policy was found to keep state
KEEPS_STATE = "policy_keeps_state"
_LOG = logging.getLogger(__name__)


@dataclass
class StateWatch:
    """Compares decisions with those of a new policy: in the second round, and in rounds that leave a checkpoint.

    A policy whose attributes are no longer those of a new one is compared in every round from then on. What it keeps
    may be a cache, which changes no decision, or a counter, which changes one in a later round.
    """

    policy: str  #: for the message
    scheduler: Scheduler  #: the policy
    fresh: Callable[[], Scheduler]  #: a new object with the same settings
    every: int  #: rounds between two checkpoints
    found: bool = False  #: the policy keeps state
    changed: bool = False  #: its attributes are not those of a new object

    def hear(self, ended: FinishedRound) -> None:
        """Compare if it is time, and warn once."""
        number = ended.state.index + 1
        if self.found or not (self.changed or number == 2 or number % self.every == 0 or ended.last):
            return
        again = self.fresh()
        self.changed = self.changed or bool(different_attribute(self.scheduler, again))
        try:
            self.found = not _same(decide(again, ended.state), ended.decision)
        except PolicyError:  # it misses what an earlier round has left
            self.found = True
        if self.found:
            problem = f"policy {self.policy}: decides round {ended.state.index} otherwise than a new object of it"
            reason = "so it keeps state on itself, which is lost when the run is resumed or the round is decided again"
            _LOG.warning("%s, %s. Decide by `state` alone: docs/policies.md", problem, reason)


def _same(one: Decision, other: Decision) -> bool:
    """Whether two decisions are the same to the last bit."""
    pairs = [(one.channel, other.channel), (one.weight, other.weight)]
    if one.allocation is not None and other.allocation is not None:
        names = ("cut", "frequency", "power")
        pairs += [(getattr(one.allocation, name), getattr(other.allocation, name)) for name in names]
    elif one.allocation is not other.allocation:
        return False
    return all(first is second or _equal(first, second) for first, second in pairs)


def _equal(one: object, other: object) -> bool:
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.array_equal(one, other, equal_nan=True)
