"""The global model: what a round makes of the models that floors send."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch import nn

import fedfloor
from fedfloor.arrays import Vector
from fedfloor.rounds.plants.global_model import GlobalModel, Received
from fedfloor.training.aggregation.registry import make_rule
from fedfloor.training.network.weights import Layout

LAYOUT = Layout(nn.Linear(3, 2))
GRADIENT = np.random.default_rng(0).normal(size=LAYOUT.size).astype(np.float32)


def advanced(iterations: dict[int, int], weight: list[float] | None, *, normalised: bool) -> Vector:
    """Weights after a round from 0 in which every iteration of floors was one step along the same gradient."""
    scenario = fedfloor.load("quick")
    work = SimpleNamespace(
        first_weights=lambda: np.zeros(LAYOUT.size, np.float32),
        layout=LAYOUT,
        job=SimpleNamespace(batch=np.full(len(scenario.devices), 2)),
    )
    engine: Any = SimpleNamespace(work=work)
    model = GlobalModel(scenario, engine, make_rule(scenario.aggregation))
    received = [
        Received(floor, 2.0 + floor, 1.0, -count * GRADIENT, count if normalised else None)
        for floor, count in iterations.items()
    ]
    model.advance(0, received, None if weight is None else np.array(weight))
    return model.weights


@pytest.mark.parametrize("weight", [None, [1.0] * 6, [4.0, 0.0, 1.0, 0.0, 0.5, 0.0]])
def test_normalising_iterations_leaves_the_mean_of_floors_that_agree(weight: list[float] | None) -> None:  # FedNova
    iterations = {0: 5, 2: 9, 4: 6}
    plain = advanced(iterations, weight, normalised=False)
    assert advanced(iterations, weight, normalised=True) == pytest.approx(plain, rel=1e-5)
    shares = np.array([2.0, 4.0, 6.0]) * (1.0 if weight is None else np.array(weight)[[0, 2, 4]])
    steps = float(shares @ [5, 9, 6] / shares.sum())
    assert plain == pytest.approx(-steps * GRADIENT, rel=1e-5)
