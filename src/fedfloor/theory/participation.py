"""Divergence bound of Theorem 1, and how often each floor should take part according to it."""

__all__ = [
    "GradientStatistics",
    "compound_growth",
    "corrected_delta",
    "divergence_bound",
    "divergence_of_updates",
    "participation_rates",
    "rates_of_updates",
    "recent_mean",
    "uniform_rates",
]

from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints

_NEWEST = 0.2  #: [1] weight of the newest measurement in a mean over rounds


@dataclass(frozen=True, slots=True, eq=False)
class GradientStatistics:
    """Statistics of the devices' gradients, each array (N,); gradients are per unit of the weights."""

    sigma: Floats  #: root mean square distance of a sample's gradient from the device's, Assumption 1
    delta: Floats  #: distance of the device's gradient from the gradient on all data, Assumption 2
    smoothness: Floats  #: L_n, largest change of the device's gradient per change of the weights
    gradient_norm: Floats  #: rho_n, largest norm of the device's gradient


def corrected_delta(delta: Floats, sigma: Floats, *, samples: int, held: Floats) -> Floats:
    """delta_n (N,) without the bias of estimating gradients on a few samples.

    delta and sigma (N,) are measured on at most `samples` of the samples that a device holds, D_n (N,), drawn without
    replacement. The gradient on all data is the mean of the devices' with weights p_n = D_n/sum D. nan marks a device
    that is absent.
    """
    # Paper note: with e_n = E|g_n - grad F_n|^2, E|g_n - g|^2 = delta_n^2 + (1 - 2 p_n) e_n + sum of p_k^2 e_k.
    count = np.minimum(samples, held)
    # Unbiased variance of one sample, s/(s - 1) sigma^2, times 1/s - 1/D. One sample says nothing about its noise.
    noise = np.square(sigma) / np.maximum(count - 1.0, 1.0) * (1.0 - count / held)  # (N,) e_n
    share = held / np.nansum(held)
    added = (1.0 - 2.0 * share) * noise + np.nansum(np.square(share) * noise)
    return np.sqrt(np.maximum(np.square(delta) - added, 0.0)) if np.nanmax(noise) > 0.0 else delta


def compound_growth(smoothness: Floats, *, learning_rate: float, iterations: int) -> Floats:
    """((beta L + 1)^K - 1)/L, same shape: largest error after K steps if every gradient is off by one unit.

    L = 0 gives the limit beta K; an overflow gives inf.
    """
    step = np.asarray(learning_rate * smoothness, dtype=float)
    with np.errstate(over="ignore", invalid="ignore"):
        growth = np.expm1(iterations * np.log1p(step))
        ratio = np.divide(growth, step, out=np.full(step.shape, float(iterations)), where=step != 0.0)
        return learning_rate * np.where(np.isposinf(growth), np.inf, ratio)


def divergence_bound(
    statistics: GradientStatistics, *, batch: Floats, floor: Ints, floors: int, learning_rate: float, iterations: int
) -> Floats:
    """Phi_m (M,), Eq. (12): bound on the mean distance of a floor's model from K full-gradient steps on all data.

    batch (N,) [1] is D~_n, floor (N,) the floor of a device in 0..M-1, floors M, learning_rate beta, iterations K.
    A bound that overflows is inf; a bound with an unknown statistic is nan.
    """
    # Paper note: the exponent is K, and sigma a root mean square; a mean norm does not give sigma/sqrt(D~).
    # Paper note: all K steps use one batch, so L_n has to hold for the loss on a batch, not only on all of D_n.
    error = statistics.sigma / np.sqrt(batch) + statistics.delta  # (N,)
    growth = compound_growth(statistics.smoothness, learning_rate=learning_rate, iterations=iterations)  # (N,)
    share = batch / np.bincount(floor, weights=batch, minlength=floors)[floor]  # (N,)
    with np.errstate(over="ignore"):
        distance = np.multiply(error, growth, out=np.zeros(error.shape), where=error != 0.0)  # 0 times inf is 0 here
        return np.bincount(floor, weights=share * distance, minlength=floors).astype(float)


def uniform_rates(floors: int, channels: int) -> Floats:
    """The same rate for every floor, (M,): J/M, at most 1."""
    return np.full(floors, min(channels / floors, 1.0))


def participation_rates(phi: Floats, channels: int) -> Floats:
    """Gamma_m (M,), Eq. (13), for divergence bounds (M,) and J channels.

    A bound that is inf or unknown (nan) gives rate 0; if all bounds are, every floor gets J/M. Bounds of 0 are treated
    as a limit: their floors share the channels equally and the others get 0.
    """
    bound = np.where(np.isnan(phi), np.inf, phi)
    least = float(bound.min())
    if np.isinf(least):
        return uniform_rates(bound.size, channels)
    # 1/Phi_m up to a factor that prevents overflow.
    weight: Floats = least / bound if least > 0.0 else (bound == 0.0).astype(float)
    return np.minimum(weight * (channels / float(weight.sum())), 1.0)


def divergence_of_updates(distance: Floats, points: Floats) -> Floats:
    """How far each model is from the mean of the other models that were averaged with it, (k,).

    distance (k,) is that of a model from the mean of all, points (k,) are the weights in that mean. With its own share
    a_m of the points, w_m - w = (1 - a_m)(w_m - mean of the others). A model that was averaged with no other says
    nothing and gives nan.
    """
    others = 1.0 - points / points.sum()
    divergence: Floats = np.divide(distance, others, out=np.full(distance.shape, np.nan), where=others > 0.0)
    return divergence


def recent_mean(before: Floats, measured: Floats) -> Floats:
    """Exponential mean over the rounds in which there was a measurement, same shape; nan stands for none so far."""
    mean = np.where(np.isnan(before), measured, before + _NEWEST * (measured - before))
    return np.where(np.isnan(measured), before, mean)


def rates_of_updates(divergence: Floats, channels: int) -> Floats:
    """Gamma_m (M,), Eq. (13) with divergences (M,) that were measured on updates; uniform until every floor has one."""
    if np.isnan(divergence).any():
        return uniform_rates(divergence.size, channels)
    return participation_rates(divergence, channels)
