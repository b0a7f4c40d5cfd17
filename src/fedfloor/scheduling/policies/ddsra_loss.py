"""DDSRA whose queues also count losses: what power of choice prefers, with participation debts and short rounds."""

__all__ = ["DdsraLoss"]

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.references import check_setting
from fedfloor.scheduling.policies.ddsra import Ddsra
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
        return self._ddsra.schedule(replace(state, queue=state.queue + self.loss * relative_losses(state.last_loss)))

    def first_delay(self) -> str:
        """Say that the solver is compiled first; empty if an earlier process has compiled it."""
        return self._ddsra.first_delay()

    @property
    def _ddsra(self) -> Ddsra:
        return Ddsra(self.v)


def relative_losses(loss: Floats) -> Floats:
    """Last training losses (M,) over their mean size; floors without one, which nobody knows yet, have the highest."""
    known = loss[~np.isnan(loss)]
    if not known.any():  # none yet, or all of them 0
        return np.ones(loss.size)
    relative = loss / np.abs(known).mean()
    return np.asarray(np.nan_to_num(relative, nan=float(np.nanmax(relative))))
