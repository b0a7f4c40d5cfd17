"""Dynamic device scheduling and resource allocation: each round's drift plus penalty, minimised."""

__all__ = ["Ddsra"]

from dataclasses import dataclass

from fedfloor.scheduling.solver.solve import SOLVERS, Solution, solve
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class Ddsra:
    """Minimises V x delay minus the queues served, with all resources allocated (Sec. V)."""

    v: float = 1000.0  #: V, weight of the delay against the participation debts
    solver: str = "exact"

    def __post_init__(self) -> None:
        if isinstance(self.v, bool | str) or not 0.0 <= self.v <= 1e30:
            raise ValueError(f"v must be a number from 0 to 1e30, got {self.v}")
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be {' or '.join(SOLVERS)}, got '{self.solver}'")

    def schedule(self, state: RoundState) -> Decision:
        """Decide one round."""
        return self.solution(state).decision

    def solution(self, state: RoundState) -> Solution:
        """The decision with its objective, the gap that is proven, and why floors are left out."""
        return solve(state, float(self.v), self.solver)
