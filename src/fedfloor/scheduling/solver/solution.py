"""Solution of a round, the same type for every solver."""

__all__ = ["SOLVERS", "Solution"]

from dataclasses import dataclass
from types import MappingProxyType

from fedfloor.scheduling.state import Decision

#: name of a solver -> its description in one line
SOLVERS = MappingProxyType(
    {"exact": "global optimum of the round with a proven gap", "paper": "Algorithm 1 of the paper with corrections"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A decision, how good it is proven to be, and why floors are left out."""

    decision: Decision
    delay: float  #: [s] tau
    objective: float  #: V tau - sum of the queues served; 0 if no floor is served
    gap: float | None  #: (objective - proven bound)/max(1, V tau); None if nothing is proven
    reasons: tuple[str | None, ...]  #: (M,) why a floor is left out; None if it is served
