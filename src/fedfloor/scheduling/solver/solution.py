"""A round solved, whatever solved it."""

__all__ = ["SOLVERS", "Solution"]

from dataclasses import dataclass
from types import MappingProxyType

from fedfloor.scheduling.state import Decision

#: solvers by name, with one line each
SOLVERS = MappingProxyType(
    {"exact": "global optimum of the round with a proven gap", "paper": "Algorithm 1 of the paper with its repairs"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A decision with what is proven about it."""

    decision: Decision
    delay: float  #: [s] tau
    objective: float  #: V tau - sum of the queues served; 0 if nobody is
    gap: float | None  #: (objective - proven bound)/max(1, V tau); None where nothing is proven
    reasons: tuple[str | None, ...]  #: (M,) why a floor is left out
