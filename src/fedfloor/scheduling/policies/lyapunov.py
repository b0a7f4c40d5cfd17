"""Sampling by Lyapunov optimisation (Perazzone et al., arXiv 2503.00569): draw floors, weight updates by 1/q."""

__all__ = ["Lyapunov", "power_debts"]

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedfloor.arrays import Bools, Floats
from fedfloor.references import check_setting
from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.sampling import sampled, within_channels
from fedfloor.scheduling.state import Decision, RoundState, known_history
from fedfloor.streams import PolicyStream, policy_stream


@dataclass(frozen=True, slots=True)
class Lyapunov(Selecting):
    """Floors drawn with probabilities that fall with delay and power; their models weigh the inverse (Lyapunov)."""

    needs_history: ClassVar[bool] = True

    v: float = 1000.0  #: V, weight of delay and convergence against the debts of power
    convergence: float = 10.0  #: [s] lambda, weight of the convergence term 1/q against a second of delay
    power_share: float = 0.5  #: of the maximum power that a gateway may spend in the mean over rounds

    def __post_init__(self) -> None:
        Selecting.__post_init__(self)
        check_setting("v", self.v, 1e-9, 1e30)
        check_setting("convergence", self.convergence, 1e-9, 1e30)
        check_setting("power_share", self.power_share, 0.0, 1.0)

    def schedule(self, state: RoundState) -> Decision:
        """Draw floors by systematic sampling, which keeps their probabilities and never exceeds the channels."""
        chance, rng = self.chances(state), policy_stream(state.seed, state.index, PolicyStream.LYAPUNOV)
        decision = self.served(state, sampled(chance, state.channels, rng))
        weight = np.where(decision.selected, 1.0 / np.maximum(chance, 1e-12), 0.0)
        return Decision(decision.channel, decision.allocation, weight)

    def chances(self, state: RoundState) -> Floats:
        """Probability of every floor, (M,): q = min(1, sqrt(lambda V/(V t + Z P))), scaled down to J if they exceed it.

        This q minimises V (q t + lambda/q) + Z q P, the penalty plus the drift of a floor.
        """
        gateways = state.plant.gateways
        share = 1.0 if self.allocation == "exact" else state.baseline.power_share
        power = share * gateways.max_power
        debt = power_debts(known_history(state).recent.selected, power, self.power_share * gateways.max_power)
        delay = self.delays(state).min(axis=1)
        chance = np.minimum(np.sqrt(self.convergence * self.v / (self.v * delay + debt * power)), 1.0)
        return within_channels(chance, state.channels)


def power_debts(selected: Bools, power: Floats, allowed: Floats) -> Floats:
    """Virtual queues Z (M,) [W] after rounds (R, M): Z = max(Z + selected P - allowed, 0), from 0 on."""
    debt = np.zeros(power.size)
    for row in selected:
        debt = np.maximum(debt + row * power - allowed, 0.0)
    return debt
