"""Dynamic device scheduling and resource allocation (DDSRA): drift plus penalty, minimised in every round."""

__all__ = ["Ddsra"]

from dataclasses import dataclass
from typing import ClassVar

from fedfloor.references import check_choice, check_setting
from fedfloor.scheduling.solver.solution import SOLVERS, Solution
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class Ddsra:
    """Minimises V x delay minus the queues of the floors served; allocates all resources (paper, Sec. V)."""

    tradeoff_setting: ClassVar[str] = "v"
    solver_setting: ClassVar[str] = "solver"

    v: float = 1000.0  #: V, weight of the delay against the participation debts
    solver: str = "exact"

    def __post_init__(self) -> None:
        check_setting("v", self.v, 0.0, 1e30)
        check_choice("solver", self.solver, SOLVERS)

    @property
    def tradeoff(self) -> float:
        """V as a float."""
        return float(self.v)

    @property
    def is_optimal(self) -> bool:
        """Whether every decision is a global optimum of its round."""
        return self.solver == "exact"

    def schedule(self, state: RoundState) -> Decision:
        """Decide one round."""
        from fedfloor.scheduling.solver.solve import best_decision  # noqa: PLC0415  # the compiler takes long to load

        return best_decision(state, self.tradeoff, self.solver)

    def solution(self, state: RoundState) -> Solution:
        """Decision with its objective, its proven gap and the reasons why floors are left out."""
        from fedfloor.scheduling.solver.solve import solve  # noqa: PLC0415  # the compiler takes long to load

        return solve(state, self.tradeoff, self.solver)

    def first_delay(self) -> str:
        """Say that the solver is compiled first; empty if an earlier process has compiled it."""
        from fedfloor.scheduling.solver.solve import first_delay  # noqa: PLC0415  # the compiler takes long to load

        return first_delay(self.solver)
