"""The paper's theorems as functions, with their repairs, to be put beside what a run measured."""

__all__ = ["drift_constant", "participation_gap", "utility_gap"]

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def drift_constant(rates: Floats) -> float:
    """H of Lemma 1: half the sum of Gamma_m + 1 over the floors, rates (M,)."""
    return float(np.sum(rates + 1.0) / 2.0)


def utility_gap(rates: Floats, tradeoff: float) -> float:
    """Theorem 2: the mean delay exceeds the best possible by at most H/V [s]; inf for V = 0."""
    return drift_constant(rates) / tradeoff if tradeoff > 0.0 else math.inf


def participation_gap(
    rates: Floats,
    tradeoff: float,
    rounds: int,
    *,
    best_delay: float,
    least_delay: float,
    first_queue: Floats | float = 0.0,
) -> float:
    """Theorem 2: no floor stays below its rate by more than this after so many rounds from the first queues (M,).

    best_delay [s] is the mean delay of a policy that meets the rates, least_delay [s] a lower bound on the mean delay.
    A bound that reaches the largest rate says nothing: it is vacuous.
    """
    # Paper note: the proof loses the 2 of the Lyapunov function's 1/2.
    spread = drift_constant(rates) + tradeoff * max(best_delay - least_delay, 0.0)
    return math.sqrt(2.0 * spread / rounds + float(np.sum(np.square(first_queue))) / rounds**2)
