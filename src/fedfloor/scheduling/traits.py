"""What a policy may tell about itself beside deciding; a policy that tells nothing has the defaults.

needs_training      True for a policy that decides by training losses, which a simulation does not have
needs_history       True for a policy that decides by earlier rounds, which are then in `state.history`
needs_sample_losses True for a policy that needs the root mean square of sample losses in that history
tradeoff            V of a policy that weighs delay against participation; None for others
is_optimal          True if every decision minimises the objective of the round, which Theorem 2 assumes
solution(state)     the decision with its objective, the proven gap and the reasons why floors are left out
first_delay()       what takes long before the first decision, as a sentence; empty if nothing does
tradeoff_setting    name of the setting that holds V
solver_setting      name of the setting that chooses between solvers
"""

__all__ = [
    "PolicyKind",
    "first_delay",
    "is_optimal",
    "kind_of",
    "needs_history",
    "needs_sample_losses",
    "needs_training",
    "solution_of",
    "tradeoff_of",
]

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fedfloor.errors import PolicyError
from fedfloor.references import asked
from fedfloor.scheduling.solver.solution import Solution
from fedfloor.scheduling.state import RoundState, Scheduler

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """What the class of a policy tells, before it is made."""

    tradeoff_setting: str | None = None
    solver_setting: str | None = None


def kind_of(policy_class: type[object]) -> PolicyKind:
    """What a policy's class tells."""
    return PolicyKind(
        _told(policy_class, "tradeoff_setting", None, lambda value: value),
        _told(policy_class, "solver_setting", None, lambda value: value),
    )


def needs_training(policy: Scheduler) -> bool:
    """Whether the policy decides by training losses."""
    return _told(policy, "needs_training", False, bool)


def needs_history(policy: Scheduler) -> bool:
    """Whether the policy decides by earlier rounds."""
    return _told(policy, "needs_history", False, bool) or needs_sample_losses(policy)


def needs_sample_losses(policy: Scheduler) -> bool:
    """Whether the policy decides by the root mean square of the losses of single samples."""
    return _told(policy, "needs_sample_losses", False, bool)


def tradeoff_of(policy: Scheduler) -> float | None:
    """V of the policy; None if it does not weigh delay against participation."""
    return _told(policy, "tradeoff", None, lambda value: None if value is None else float(value))


def is_optimal(policy: Scheduler) -> bool:
    """Whether every decision of the policy minimises the objective of the round."""
    return _told(policy, "is_optimal", False, bool)


def solution_of(policy: Scheduler, state: RoundState) -> Solution | None:
    """The decision with what is proven about it; None if the policy only decides."""
    solution = _told(policy, "solution", None, lambda solve: solve(state) if callable(solve) else None)
    return solution if isinstance(solution, Solution) else None


def first_delay(policy: Scheduler) -> str:
    """What takes long before the first decision; empty if nothing does."""
    return _told(policy, "first_delay", None, lambda explain: str(explain()) if callable(explain) else "")


def _told(policy: object, name: str, default: object, reading: Callable[[Any], Answer]) -> Answer:
    """What is read from an attribute of a policy or its class; an error in a user's policy names its line."""
    kind = policy if isinstance(policy, type) else type(policy)
    label = f"policy {kind.__name__}: {name} cannot be used"
    return asked(lambda: reading(getattr(policy, name, default)), label, PolicyError)
