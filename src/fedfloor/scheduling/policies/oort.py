"""Oort (Lai et al., OSDI 2021): floors whose samples have high losses and that are fast enough."""

__all__ = ["Oort", "exploited_utility", "preferred_duration"]

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.costs.compute import floor_sum
from fedfloor.references import check_setting
from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.history import RECENT, History, untried
from fedfloor.scheduling.state import Decision, RoundState, known_history
from fedfloor.streams import PolicyStream, policy_stream


@dataclass(frozen=True, slots=True)
class Oort(Selecting):
    """Floors with high sample losses, less often if they are slow, and some that are unexplored (Oort)."""

    needs_training: ClassVar[bool] = True
    needs_history: ClassVar[bool] = True
    needs_sample_losses: ClassVar[bool] = True

    # The defaults are those of Oort's own code; FedScale has clip 0.9, epsilon_min 0.3 and cutoff 0.05.
    clip: float = 0.98  #: quantile of the utilities above which they are cut off
    percentile: float = 10.0  #: p at the start: the share of floors [%] that count as fast
    pacer_step: int = 20  #: rounds between two steps of p
    pacer_delta: float = 5.0  #: length of a step [%]
    penalty: float = 2.0  #: exponent of the penalty of slow floors
    epsilon: float = 0.9  #: share of unexplored floors in the first round
    decay: float = 0.98  #: of epsilon, per round
    epsilon_min: float = 0.2
    cutoff: float = 0.7  #: c: floors with at least this share of the cut-off score may be drawn

    def __post_init__(self) -> None:
        Selecting.__post_init__(self)
        for name, most in (("clip", 1.0), ("percentile", 100.0), ("pacer_delta", 100.0), ("penalty", 100.0)):
            check_setting(name, getattr(self, name), 0.0, most)
        for name in ("epsilon", "decay", "epsilon_min", "cutoff"):
            check_setting(name, getattr(self, name), 0.0, 1.0)
        check_setting("pacer_step", self.pacer_step, 1, RECENT // 2, whole=True)  # two steps must be remembered

    def schedule(self, state: RoundState) -> Decision:
        """Exploit floors by their scores, and explore others."""
        history, floors, channels = known_history(state), state.floors, state.channels
        size = floor_sum(state.plant.devices.batch, state.plant.devices.floor, floors)  # |B|
        now = np.minimum(self.delays(state).min(axis=1), 1e12)  # some floors cannot take part
        delay = np.where(history.completed > 0, history.last_delay, now)
        preferred = preferred_duration(delay, self.pace(history, size))
        explored, new = ~np.isnan(history.last_rms_loss), untried(history)
        score = np.zeros(floors)
        if explored.any():
            score[explored] = self.scores(history, size, delay, preferred, explored)
        epsilon = max(self.epsilon * self.decay ** (history.rounds + 1), self.epsilon_min) if new.any() else 0.0
        rng = policy_stream(state.seed, state.index, PolicyStream.OORT)
        chosen = self.exploited(rng, score, explored, math.floor(min(channels, floors) * (1.0 - epsilon) + 1e-9))
        worth = np.where(new, size * _slowness(delay, preferred, self.penalty), 0.0)
        chosen = np.append(chosen, _drawn(rng, worth, min(channels, floors) - chosen.size))
        rest = np.setdiff1d(np.flatnonzero(explored), chosen)
        chosen = np.append(chosen, rng.permutation(rest)[: min(channels, floors) - chosen.size])
        rest = np.setdiff1d(np.arange(floors), chosen)  # what failed when it was tried
        chosen = np.append(chosen, rng.permutation(rest)[: min(channels, floors) - chosen.size])
        return self.served(state, np.sort(chosen))

    def scores(self, history: History, size: Floats, delay: Floats, preferred: float, explored: Bools) -> Floats:
        """Scores of the explored floors: normalised utility plus a bonus for staleness, less if they are slow."""
        utility = size[explored] * history.last_rms_loss[explored]
        ordered = np.sort(utility)
        clipped = np.minimum(utility, ordered[min(int(ordered.size * self.clip), ordered.size - 1)])
        least = 0.999 * ordered[0]
        bonus = np.sqrt(0.1 * math.log(history.rounds + 1) / (history.last_completed[explored] + 1))
        score = (clipped - least) / max(ordered[-1] - least, 1e-4) + bonus
        return np.asarray(score * _slowness(delay[explored], preferred, self.penalty))

    def exploited(self, rng: np.random.Generator, score: Floats, explored: Bools, count: int) -> Ints:
        """Draw floors by score among those that have at least a share of the score of the first one left out."""
        order = np.flatnonzero(explored)[np.argsort(-score[explored], kind="stable")]
        count = min(count, order.size)
        if count == 0:
            return np.empty(0, np.int64)
        threshold = self.cutoff * score[order[min(count, order.size - 1)]]
        return _drawn(rng, np.where(explored & (score >= threshold), score, 0.0), count)

    def pace(self, history: History, size: Floats) -> float:
        """Percentile p [%] of durations that count as fast, after the steps of the pacer in the last rounds.

        Every `pacer_step` rounds the exploited utility of as many rounds is compared with that of the rounds before.
        If it changes by at most 10 %, p rises; if it changes to more than the fivefold, p falls.
        """
        utility, step, first = exploited_utility(history, size), self.pacer_step, history.first_recent
        pace = self.percentile
        earliest = -(-(first + 1) // step) * step if first else 0  # of the steps whose rounds are all known
        for number in range(2 * step + earliest, history.rounds + 2, step):  # counted from 1, as in the paper
            begin = number - 1 - 2 * step
            before = float(utility[max(begin, 0) - first : begin + step - first].sum())
            change = abs(float(utility[begin + step - first : number - 1 - first].sum()) - before)
            if change <= 0.1 * before:
                pace = min(100.0, pace + self.pacer_delta)
            elif change >= 5.0 * before:
                pace = max(self.pacer_delta, pace - self.pacer_delta)
        return pace


def exploited_utility(history: History, size: Floats) -> Floats:
    """Mean utility |B| rms of the floors that completed a round, not for the first time; (R,) of the last rounds."""
    recent = history.recent
    number = history.first_recent + np.arange(recent.completed.shape[0])[:, None]
    counts = recent.completed & (history.first_completed < number) & ~np.isnan(recent.rms_loss)
    utility = np.where(counts, size * recent.rms_loss, 0.0)
    return np.asarray(utility.sum(axis=1) / np.maximum(counts.sum(axis=1), 1))


def preferred_duration(delay: Floats, pace: float) -> float:
    """Duration T [s] that counts as fast: the p-th percentile of delays (M,); endless from 100 % on."""
    if pace >= 100.0:
        return math.inf
    return float(np.sort(delay)[min(int(delay.size * pace / 100.0), delay.size - 1)])


def _slowness(delay: Floats, preferred: float, penalty: float) -> Floats:
    """Factor (T/t)^2 of floors that are slower than T; 1 for others."""
    return np.where(delay > preferred, (preferred / np.maximum(delay, 1e-4)) ** penalty, 1.0)


def _drawn(rng: np.random.Generator, weight: Floats, count: int) -> Ints:
    """Draw at most `count` floors without replacement, with probabilities proportional to weights (M,)."""
    count = min(count, int(np.count_nonzero(weight)))
    if count <= 0:
        return np.empty(0, np.int64)
    return rng.choice(weight.size, size=count, replace=False, p=weight / weight.sum())
