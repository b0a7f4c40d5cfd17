"""The paper's theorems as functions, with our corrections, for comparison with the measurements of a run.

Theorem 1 is `participation.divergence_bound`.
"""

__all__ = [
    "RATES_MET",
    "average_divergence",
    "convex_gap",
    "drift_constant",
    "mean_weights",
    "nonconvex_gap",
    "participation_gap",
    "utility_gap",
]

import math

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.theory.participation import GradientStatistics, compound_growth

RATES_MET = 0.03  #: a floor whose shortfall is at most this counts as having met its rate


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
    """Theorem 2: largest possible shortfall of a floor below its rate after `rounds` rounds.

    best_delay [s] is the mean delay of a policy that meets the rates, least_delay [s] a lower bound on the mean delay,
    first_queue (M,) holds the queues at the start. A bound that reaches the largest rate is vacuous, because no
    shortfall exceeds a rate.
    """
    # Paper note: the proof loses the 2 of the Lyapunov function's 1/2.
    spread = drift_constant(rates) + tradeoff * max(best_delay - least_delay, 0.0)
    return math.sqrt(2.0 * spread / rounds + float(np.sum(np.square(first_queue))) / rounds**2)


def mean_weights(rates: Floats, *, batch: Floats, floor: Ints) -> Floats:
    """xi_n (N,) below Eq. (34): a device's share in the global model over many rounds; all 0 if no floor takes part.

    rates (M,) [1] is Gamma_m, or the share of rounds in which a floor took part; batch (N,) [1] is D~_n; floor (N,).
    """
    # Paper note: the mean of a round's weights is a mean of ratios; this ratio of means approximates it.
    weight = rates[floor] * batch
    return weight / weight.sum() if weight.any() else weight


def average_divergence(
    statistics: GradientStatistics,
    weights: Floats,
    *,
    batch: Floats,
    samples: Floats,
    learning_rate: float,
    iterations: int,
) -> float:
    """h(K) of Theorem 3: bound on the mean distance of a round's average from K full-gradient steps on all data.

    weights (N,) [1] are the devices' shares in the average: the weights of one round bound that round, `mean_weights`
    gives the paper's xi_n. batch (N,) [1] is D~_n, samples (N,) [1] D_n, learning_rate beta, iterations K. An overflow
    gives inf. Runs do not call it: see `convex_gap`.
    """
    # Paper note: Eq. (34) has +delta and lacks K in the last term; Lemma 4, which it rests on, gives -beta K delta.
    # Paper note: the proof puts abs(xi - D/sum D) for the mean of abs(weight - D/sum D), which may be larger.
    distance = float(np.max(statistics.delta))
    noise = float(np.sum(weights * statistics.sigma / np.sqrt(batch)))
    skew = float(np.sum(np.abs(weights - samples / samples.sum()) * statistics.gradient_norm))
    growth = float(compound_growth(statistics.smoothness, learning_rate=learning_rate, iterations=iterations).max())
    steps = learning_rate * iterations
    return _times(distance, max(growth - steps, 0.0)) + _times(noise, growth) + skew * steps


def convex_gap(
    divergence: float,
    *,
    smoothness: Floats,
    gradient_norm: Floats,
    start_distance: Floats,
    central_gap: Floats,
    learning_rate: float,
    iterations: int,
) -> float:
    """Theorem 3, Eq. (34): for convex losses F(W^T) - F(w*) is at most this after T rounds; inf means no bound.

    divergence is h(K) of `average_divergence`, or the largest distance of W^{t+1} from v^{K,t} that a run measured;
    smoothness (N,) is L_n; gradient_norm (N,) is rho_n. start_distance (T,) is the distance of W^t from w* at the start
    of every round; central_gap (T+1,) is F(v^{K,t}) - F(w*) at the end of every round, then F(W^T) - F(w*).
    learning_rate is beta, iterations K.

    h(K) bounds a mean, but the proof needs a bound for every round: with batch noise or changing floors the result is
    only a guide. It is for problems whose optimum w* is known; no run knows it.
    """
    # Paper note: Eq. (34) prints 1/T for 1/(K T); T counts local steps in the cited proof. rho multiplies all of h(K).
    # Paper note: omega is taken where a round starts, at W^t, and epsilon covers F(W^T) too, as the cited proof needs.
    rounds, farthest, least = start_distance.size, float(start_distance.max()), float(central_gap.min())
    omega = 1.0 / farthest * (1.0 / farthest) if farthest != 0.0 else math.inf
    phi = omega * (1.0 - learning_rate * float(smoothness.max()) / 2.0)
    penalty = _times(float(gradient_norm.max()), divergence) / iterations
    drag = 0.0 if penalty == 0.0 else penalty / least / least if least > 0.0 else math.inf
    bracket = learning_rate * phi - drag  # positive only if beta L < 2, which the proof needs too
    return 1.0 / (iterations * rounds * bracket) if bracket > 0.0 else math.inf


def nonconvex_gap(
    squared_gradients: Floats,
    weights: Floats,
    *,
    smoothness: Floats,
    delta: Floats,
    first_loss: float,
    last_loss: float,
    learning_rate: float,
) -> float:
    """Theorem 4, Eq. (35): the mean over T rounds of the squared norm of grad F(W^t) is at most this; inf: no bound.

    squared_gradients (T, N, K) is the squared norm of grad F_n, on all of D_n, at the k-th local weights of a round, or
    rho_n^2 in its place; weights (N,) [1] are the devices' shares in every round; smoothness (N,) is L_n; delta (N,) is
    delta_n; first_loss and last_loss are F(W^0) and F(W^T); learning_rate is beta.

    The bound holds for steps along full local gradients and for rounds that all have these weights. It covers neither
    the noise of batches nor that of changing floors.
    """
    rounds, devices, iterations = squared_gradients.shape
    with np.errstate(over="ignore", invalid="ignore"):  # a run that diverged overflows and gets no bound
        before = np.zeros(squared_gradients.shape)  # sum over j < k
        before[:, :, 1:] = np.cumsum(squared_gradients[:, :, :-1], axis=2)
        moves = learning_rate * np.sqrt(np.arange(iterations) * before)  # (T, N, K) from W^t to w_n^k
        # Paper note: print lets grad F stand for grad F_n, which leaves out delta_n, and has beta^2 twice.
        gaps = np.square(delta[:, None] + smoothness[:, None] * moves)  # (T, N, K) |grad F_n(w_n^k) - grad F(W^t)|^2
        emphasis = devices * np.square(weights)[:, None]  # (N, 1)
        curvature = learning_rate * smoothness.max() * np.sum(emphasis * squared_gradients)
        drift = np.sum(emphasis * gaps) / iterations
    descent = 2.0 * (first_loss - last_loss) / (iterations * learning_rate)
    bound = float(descent + curvature + drift) / rounds
    return bound if math.isfinite(bound) else math.inf


def _times(factor: float, growth: float) -> float:
    """Product in which 0 times inf is 0."""
    return factor * growth if factor != 0.0 else 0.0
