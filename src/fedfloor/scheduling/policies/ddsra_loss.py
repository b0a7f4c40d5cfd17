"""DDSRA whose queues also count losses: what power of choice prefers, with participation debts and short rounds."""

__all__ = ["DdsraLoss"]

from dataclasses import dataclass, replace
from typing import ClassVar

from fedfloor.references import check_setting
from fedfloor.scheduling.ranking import relative_losses
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class DdsraLoss:
    """As `ddsra`, but floors with a high last loss are owed more: Q_m + loss x L_m / mean L in place of Q_m."""

    tradeoff_setting: ClassVar[str] = "v"
    needs_training: ClassVar[bool] = True

    v: float = 1000.0  #: V, weight of the delay against the debts
    loss: float = 2.0  #: [rounds] what a floor with the mean loss is owed beside its queue

    def __post_init__(self) -> None:
        check_setting("v", self.v, 0.0, 1e30)
        check_setting("loss", self.loss, 0.0, 1e30)

    @property
    def tradeoff(self) -> float:
        """V as a float."""
        return float(self.v)

    def schedule(self, state: RoundState) -> Decision:
        """Decide one round."""
        from fedfloor.scheduling.solver.solve import best_decision  # noqa: PLC0415  # the compiler takes long to load

        debts = state.queue + self.loss * relative_losses(state.last_loss)
        return best_decision(replace(state, queue=debts), self.tradeoff)

    def first_delay(self) -> str:
        """Say that the solver is compiled first; empty if an earlier process has compiled it."""
        from fedfloor.scheduling.solver.solve import first_delay  # noqa: PLC0415  # the compiler takes long to load

        return first_delay("exact")
