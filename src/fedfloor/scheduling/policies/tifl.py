"""TiFL (Chai et al., HPDC 2020): tiers of equally fast floors, one of which is drawn in every round."""

__all__ = ["TiFL", "tier_chances"]

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.references import check_setting
from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.history import History
from fedfloor.scheduling.state import Decision, RoundState, known_history
from fedfloor.streams import PolicyStream, policy_stream


@dataclass(frozen=True, slots=True)
class TiFL(Selecting):
    """Floors of one tier of equally fast ones; tiers that learn badly are drawn more often (TiFL)."""

    needs_training: ClassVar[bool] = True
    needs_history: ClassVar[bool] = True

    tiers: int = 0  #: T; 0: as many as fill all channels, at most the paper's 5
    interval: int = 20  #: I, rounds between two changes of the probabilities
    rounds: int = 500  #: R of the credits, ceil(R/T) of each tier; the paper ran 500 rounds

    def __post_init__(self) -> None:
        Selecting.__post_init__(self)
        check_setting("tiers", self.tiers, 0, 1_000, whole=True)
        check_setting("interval", self.interval, 1, 1_000_000, whole=True)
        check_setting("rounds", self.rounds, 1, 1_000_000_000, whole=True)

    def schedule(self, state: RoundState) -> Decision:
        """Draw a tier that has credit left, then floors in it."""
        history, channels, tier = known_history(state), state.channels, self.tier_of(state)
        chance = tier_chances(tier, _losses_before(history, self.interval))
        spent = np.bincount(tier, weights=history.selected) / np.minimum(np.bincount(tier), channels)
        has_credit = spent < -(-self.rounds // chance.size)
        chance = np.where(has_credit, chance, 0.0) if has_credit.any() else chance
        rng = policy_stream(state.seed, state.index, PolicyStream.TIFL)
        drawn = rng.choice(chance.size, p=chance / chance.sum())
        members = np.flatnonzero(tier == drawn)
        return self.served(state, np.sort(rng.choice(members, size=min(channels, members.size), replace=False)))

    def tier_of(self, state: RoundState) -> Ints:
        """Tier of every floor, (M,), from the fastest to the slowest.

        A floor is as fast as it was in the mean of the rounds that it completed, or is now on its best channel.
        """
        history, floors, channels = known_history(state), state.floors, state.channels
        delay = self.delays(state).min(axis=1)
        known = history.completed > 0
        delay[known] = history.delay_sum[known] / history.completed[known]
        tiers = min(self.tiers or max(1, min(5, floors // channels)), floors)
        tier = np.empty(floors, np.int64)
        for number, members in enumerate(np.array_split(np.argsort(delay, kind="stable"), tiers)):
            tier[members] = number
        return tier


def tier_chances(tier: Ints, loss: Floats) -> Floats:
    """Probability of every tier, (T,): (T - rank)/(T (T + 1)/2), the tier with the highest mean loss at rank 0.

    Equal ones before any floor has a loss; a tier without any loss counts as the worst.
    """
    tiers = int(tier.max()) + 1
    known = ~np.isnan(loss)
    if not known.any():
        return np.full(tiers, 1.0 / tiers)
    sums, counts = (np.bincount(tier[known], weights=part, minlength=tiers) for part in (loss[known], known[known]))
    mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)
    chance = np.empty(tiers)
    chance[np.argsort(-mean, kind="stable")] = np.arange(tiers, 0, -1) / (tiers * (tiers + 1) / 2)
    return chance


def _losses_before(history: History, interval: int) -> Floats:
    """Last loss of every floor when the probabilities last changed, (M,); nan if none of the last rounds has one."""
    until = history.rounds // interval * interval - history.first_recent
    losses = history.recent.loss[: max(until, 0)]
    last = np.full(losses.shape[1], np.nan)
    for row in losses:
        last = np.where(np.isnan(row), last, row)
    return last
