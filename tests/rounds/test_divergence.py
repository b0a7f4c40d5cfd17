"""Theorem 1 on real training: where its assumptions hold it bounds, and where they do not it still ranks."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

import fedfloor
from fedfloor.rounds.loop import run_rounds
from fedfloor.rounds.plants.learning import LearningPlant
from fedfloor.runs.planned import planned_run
from fedfloor.runs.train import job_of
from fedfloor.theory.participation import GradientStatistics, divergence_bound
from fedfloor.training.data.holding import gather
from fedfloor.training.data.samples import batch_of
from fedfloor.training.work import Work
from fedfloor.workers.engine import engine_for

DRAWS = 20


def smoothness_bound(work: Work, numbers: np.ndarray) -> float:
    """Largest Hessian eigenvalue of softmax regression is at most half that of the inputs' second moments."""
    x, _ = work._tensors(work.samples.images, work.samples.labels, numbers)
    rows = np.column_stack([x.flatten(1).numpy(), np.ones(numbers.size)]).astype(float)
    return 0.5 * float(np.linalg.eigvalsh(rows @ rows.T / numbers.size)[-1])


def test_theorem_1_bounds_the_divergence_of_a_convex_model() -> None:
    overrides = [
        'model.name="tests.training.networks:logistic"',
        'model.layers=[{name="linear1", kind="linear", input=[784], output=[10]}]',
        "training.learning_rate=0.002",
        "participation.rates=uniform",
        "training.evaluate_every=100",
    ]
    planned = planned_run("quick", "round_robin", 5, overrides=overrides, training=True)
    holding = gather(planned.scenario)
    scenario, devices = holding.scenario, len(holding.scenario.devices)
    with engine_for(job_of(scenario, "cpu"), holding.samples, 1) as engine:
        plant, work = LearningPlant(scenario, engine), engine.work
        floor, batch, counts = plant.observe().plant.devices.floor, work.job.batch, np.diff(holding.samples.first)
        draws = [[1000 + draw for draw in range(DRAWS)] for _ in range(devices)]
        # The steps of a round are all on one batch, so the constant has to hold for the loss on every batch drawn.
        smoothness = np.array(
            [
                max(
                    smoothness_bound(
                        work, batch_of(holding.samples.of_device(n), int(batch[n]), scenario.seed, t, n, 0)
                    )
                    for t in draws[n]
                )
                for n in range(devices)
            ]
        )
        smoothness = np.maximum(
            smoothness, [smoothness_bound(work, holding.samples.of_device(n)) for n in range(devices)]
        )
        tightest = 0.0
        for _ in run_rounds(plant, planned.scheduler, scenario.rounds):
            weights = plant.weights
            gradients = np.empty((devices, weights.size), np.float32)
            found = [work.estimate(n, int(counts[n]), weights, gradients[n]) for n in range(devices)]
            mean = counts @ gradients.astype(float) / counts.sum()
            figures = GradientStatistics(
                sigma=np.array([entry.sigma for entry in found]),
                delta=np.linalg.norm(gradients - mean, axis=1),
                smoothness=smoothness,
                gradient_norm=np.array([entry.norm for entry in found]),
            )
            bound = divergence_bound(
                figures,
                batch=batch.astype(float),
                floor=floor,
                floors=len(scenario.floors),
                learning_rate=scenario.training.learning_rate,
                iterations=scenario.training.local_iterations,
            )
            target = plant._full_steps(weights)
            seen = np.empty((DRAWS, len(scenario.floors)))
            for draw in range(DRAWS):
                trained = np.empty((devices, weights.size), np.float32)
                for begin in range(0, devices, work.stacks):
                    part = np.arange(begin, min(begin + work.stacks, devices))
                    work.train(1000 + draw, part, np.zeros(part.size, int), weights, trained[part[0] : part[-1] + 1])
                for m in range(len(scenario.floors)):
                    mine = floor == m
                    seen[draw, m] = np.linalg.norm(np.average(trained[mine], axis=0, weights=batch[mine]) - target)
            least = seen.mean(0) - 2.0 * seen.std(0, ddof=1) / np.sqrt(DRAWS)
            assert np.all(least <= bound)
            tightest = max(tightest, float((seen.mean(0) / bound).max()))
        assert tightest > 0.05  # a bound that is nowhere near would prove little


@pytest.mark.slow
def test_the_bound_ranks_the_floors_of_the_quick_network_as_the_divergence_does(tmp_path: Path) -> None:
    overrides = ["participation.observe_every=5", "participation.estimate_every=5"]
    fedfloor.run("quick", "round_robin", rounds=31, overrides=overrides, out=tmp_path / "run", workers=2)
    records = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()][::5]
    bound = np.mean([[entry["divergence_bound"] for entry in record["gateways"]] for record in records], axis=0)
    seen = np.mean([[entry["divergence"] for entry in record["gateways"]] for record in records], axis=0)
    rank = spearmanr(bound, seen).statistic
    assert rank >= 0.8, f"Spearman {rank:.2f}: bound {bound.round(1)}, observed {seen.round(3)}"
