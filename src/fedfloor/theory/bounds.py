"""Statements of the theorems, each beside the value that a run measured."""

__all__ = ["Bound", "Convergence", "delay_bounds", "divergence_statement", "loss_statement", "stationarity_statement"]

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.theory.participation import GradientStatistics
from fedfloor.theory.theorems import RATES_MET, mean_weights, nonconvex_gap, participation_gap, utility_gap


@dataclass(frozen=True, slots=True)
class Bound:
    """One statement of a theorem, with the value that the run measured."""

    theorem: str
    what: str
    measured: float | None
    bound: float | None  #: None if there is no bound; the note says why
    note: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Convergence:
    """Inputs of Theorem 4 from a run."""

    statistics: GradientStatistics  #: with the largest measured gradients in place of those of every step
    batch: Floats  #: (N,) [1] D~_n
    floor: Ints  #: (N,) floor of every device
    first_loss: float  #: F(W^0)
    last_loss: float  #: F(W^T)
    gradient_square: float | None  #: squared norm of the mean gradient at the last estimate
    learning_rate: float  #: beta
    iterations: int  #: K


def divergence_statement(measured: Sequence[float], bound: Sequence[float]) -> Bound | None:
    """Theorem 1: the measurement nearest to its bound; None without measurements."""
    if not measured:
        return None
    pairs = list(zip(measured, bound, strict=True))
    violations = sum(distance > limit for distance, limit in pairs)
    distance, limit = max(pairs, key=lambda pair: pair[0] / pair[1])
    note = f"nearest to its bound of {len(pairs)} measurements; {violations} exceed their bounds"
    return Bound("Theorem 1", "a floor's distance from full-gradient steps", distance, limit, note)


def delay_bounds(
    rates: Floats,
    tradeoff: float,
    rounds: int,
    *,
    mean_delay: float,
    least_delay: float,
    shortfall: float,
    failed: bool,
) -> tuple[Bound, ...]:
    """Theorem 2 for a run with rates (M,) and V: the delay above the best possible, and the worst shortfall.

    mean_delay [s] is the mean delay of the run; least_delay [s] is the mean over its rounds of the fastest floor's
    delay; failed says whether any floor failed.
    """
    if failed:
        note = "no bound: the theorem covers only policies whose floors never fail"
        return (Bound("Theorem 2", "mean delay [s]", mean_delay, None, note),)
    if shortfall > RATES_MET:
        note = "no bound: this run did not meet its rates, so the best delay is unknown"
        return (Bound("Theorem 2", "worst shortfall", shortfall, None, note),)
    gap = participation_gap(rates, tradeoff, rounds, best_delay=mean_delay, least_delay=least_delay)
    excess = utility_gap(rates, tradeoff)
    vacuous = gap >= float(rates.max())
    reason = f"no bound: after {rounds} rounds it is {gap:.3g}, more than any shortfall can be"
    return (
        Bound("Theorem 2", "mean delay above the best possible [s]", None, excess if math.isfinite(excess) else None),
        Bound("Theorem 2", "worst shortfall", shortfall, None if vacuous else gap, reason if vacuous else ""),
    )


def stationarity_statement(rates: Floats, rounds: int, convergence: Convergence) -> Bound:
    """Theorem 4 for a run with rates (M,): the mean squared gradient of the loss."""
    statistics = convergence.statistics
    shape = (max(rounds, 1), statistics.sigma.size, convergence.iterations)
    bound = nonconvex_gap(
        np.broadcast_to(np.square(statistics.gradient_norm)[:, None], shape),
        mean_weights(rates, batch=convergence.batch, floor=convergence.floor),
        smoothness=statistics.smoothness,
        delta=statistics.delta,
        first_loss=convergence.first_loss,
        last_loss=convergence.last_loss,
        learning_rate=convergence.learning_rate,
    )
    losses = f"{convergence.first_loss:.3f} -> {convergence.last_loss:.3f}"
    note = (
        f"the bound leaves out batch noise; loss on the data of all devices {losses}; "
        "measured when the rates were last estimated"
    )
    what = "mean squared gradient of the loss"
    return Bound("Theorem 4", what, convergence.gradient_square, bound if math.isfinite(bound) else None, note)


def loss_statement() -> Bound:
    """Theorem 3, which needs a number that no run measures; with the least loss known, use `theorems.convex_gap`."""
    reason = "no bound: the theorem holds for convex losses and needs the least possible loss, which is unknown here"
    return Bound("Theorem 3", "loss above the least possible", None, None, reason)
