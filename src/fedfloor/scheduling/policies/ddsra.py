"""Dynamic device scheduling and resource allocation: each round's drift plus penalty, minimised."""

__all__ = ["Ddsra"]

from dataclasses import dataclass
from typing import ClassVar

from fedfloor.scheduling.solver.solution import SOLVERS, Solution
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class Ddsra:
    """Minimises V x delay minus the queues served, with all resources allocated (Sec. V)."""

    tradeoff_setting: ClassVar[str] = "v"
    solver_setting: ClassVar[str] = "solver"

    v: float = 1000.0  #: V, weight of the delay against the participation debts
    solver: str = "exact"

    def __post_init__(self) -> None:
        if isinstance(self.v, bool | str) or not 0.0 <= self.v <= 1e30:
            raise ValueError(f"v must be a number from 0 to 1e30, got {self.v}")
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be {' or '.join(SOLVERS)}, got '{self.solver}'")

    @property
    def tradeoff(self) -> float:
        """V."""
        return float(self.v)

    @property
    def is_optimal(self) -> bool:
        """Whether decisions are global optima of their rounds."""
        return self.solver == "exact"

    def schedule(self, state: RoundState) -> Decision:
        """Decide one round."""
        return self.solution(state).decision

    def solution(self, state: RoundState) -> Solution:
        """The decision with its objective, the gap that is proven, and why floors are left out."""
        from fedfloor.scheduling.solver.solve import solve  # noqa: PLC0415  # the compiler takes long to load

        return solve(state, self.tradeoff, self.solver)

    def first_delay(self) -> str:
        """A sentence about compiling the solver, if no earlier process has done so."""
        from fedfloor.scheduling.solver.compiling import is_compiled  # noqa: PLC0415
        from fedfloor.scheduling.solver.exact import exact_plan  # noqa: PLC0415
        from fedfloor.scheduling.solver.paper import descended_plan  # noqa: PLC0415

        last = exact_plan if self.solver == "exact" else descended_plan  # of what a decision needs, compiled last
        return "" if is_compiled(last) else "the solver is compiled once, which takes a minute or more"
