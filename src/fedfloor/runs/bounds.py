"""The theorems beside what a training run measured."""

__all__ = ["Bound", "bounds_of"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.rounds.plants.learning import LearningPlant
from fedfloor.rounds.summary import RunSummary
from fedfloor.theory.theorems import RATES_MET, mean_weights, nonconvex_gap, participation_gap, utility_gap


@dataclass(frozen=True, slots=True)
class Bound:
    """One statement of a theorem, and the run's own figure."""

    theorem: str
    what: str
    measured: float | None
    bound: float | None  #: None where there is none, for the reason given
    note: str = ""


def bounds_of(
    plant: LearningPlant,
    records: Sequence[Mapping[str, Any]],
    summary: RunSummary,
    *,
    tradeoff: float | None,
    least_delays: Sequence[float],
) -> tuple[Bound, ...]:
    """What Theorems 1, 2 and 4 say of a run; tradeoff is ddsra's V, least_delays (T,) [s] of the fastest floors.

    Theorem 3 is about convex losses and needs their minimum, which no run knows: `theory.convex_gap` takes it.
    """
    found = [_divergence(records)]
    if tradeoff is not None:
        found += _delay(plant.simulated.target_rate, summary, tradeoff, least_delays)
    if plant.figures is not None:
        found.append(_stationarity(plant))
    reason = "no bound: it speaks of convex losses and needs the least loss possible, which nobody knows here"
    found.append(Bound("Theorem 3", "loss above the least possible", None, None, reason))
    return tuple(entry for entry in found if entry is not None)


def _divergence(records: Sequence[Mapping[str, Any]]) -> Bound | None:
    """Theorem 1: the floor that comes nearest to its bound."""
    pairs = [
        (entry["divergence"], entry["divergence_bound"])
        for record in records
        for entry in record["gateways"]
        if entry.get("divergence") is not None and entry.get("divergence_bound")
    ]
    if not pairs:
        return None
    seen, bound = max(pairs, key=lambda pair: pair[0] / pair[1])
    note = f"nearest of {len(pairs)}; exceeded {sum(one > other for one, other in pairs)} times"
    return Bound("Theorem 1", "a floor's distance from full-gradient steps", seen, bound, note)


def _delay(rates: Floats, summary: RunSummary, tradeoff: float, least_delays: Sequence[float]) -> list[Bound]:
    if any(summary.failures.values()):
        return [
            Bound(
                "Theorem 2",
                "mean delay [s]",
                summary.mean_delay,
                None,
                "no bound: it speaks of policies whose floors never fail",
            )
        ]
    if summary.shortfall > RATES_MET:
        note = "no bound: this run did not meet its rates, so the best delay is unknown"
        return [Bound("Theorem 2", "worst shortfall", summary.shortfall, None, note)]
    gap = participation_gap(
        rates,
        tradeoff,
        summary.rounds,
        best_delay=summary.mean_delay,
        least_delay=float(np.mean(least_delays or [0.0])),
    )
    excess = utility_gap(rates, tradeoff)
    useless = f"no bound: that of so few rounds, {gap:.3g}, exceeds every rate and says nothing"
    vacuous = gap >= float(rates.max())
    return [
        Bound("Theorem 2", "mean delay above the best possible [s]", None, excess if math.isfinite(excess) else None),
        Bound("Theorem 2", "worst shortfall", summary.shortfall, None if vacuous else gap, useless if vacuous else ""),
    ]


def _stationarity(plant: LearningPlant) -> Bound:
    """Theorem 4 with the largest gradients seen in place of those of every step."""
    scenario, figures = plant.scenario, plant.figures
    assert figures is not None
    training = scenario.training
    shape = (max(plant.index, 1), figures.sigma.size, training.local_iterations)
    first, last = plant.training_loss(plant.engine.work.first_weights()), plant.training_loss(plant.weights)
    bound = nonconvex_gap(
        np.broadcast_to(np.square(figures.gradient_norm)[:, None], shape),
        mean_weights(plant.simulated.target_rate, batch=plant.batch.astype(float), floor=plant.floor),
        smoothness=figures.smoothness,
        delta=figures.delta,
        first_loss=first,
        last_loss=last,
        learning_rate=training.learning_rate,
    )
    note = f"the noise of batches is left out; loss on all devices' data {first:.3f} -> {last:.3f}"
    return Bound(
        "Theorem 4",
        "mean squared gradient of the loss",
        plant.gradient_square,
        bound if math.isfinite(bound) else None,
        note + "; measured when rates were last estimated",
    )
