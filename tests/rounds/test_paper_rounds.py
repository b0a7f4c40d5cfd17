"""Whole runs in the paper's setting against figures from an independent calculation, interference deviation 1e-13 W."""

from itertools import pairwise

import numpy as np
import pytest

import fedfloor
from fedfloor.rounds.summary import RunSummary, summarise

SETTING = [f"floors.{group}.gateway.{way}link_interference_w=1e-13" for group in (0, 1) for way in ("up", "down")]
SETTING += ["baseline.cut=2", "baseline.frequency_share=0.25", "baseline.power_share=1.0"]
SEEDS = range(1, 11)


def summaries(policy: str) -> list[RunSummary]:
    runs = (fedfloor.simulate("paper-cifar10-random", policy, 60, seed=seed, overrides=SETTING) for seed in SEEDS)
    return [summarise(run.records) for run in runs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "delay", "failures"),
    [
        ("ddsra:v=0", 52.0, 0.0),
        ("ddsra:v=0.01", 45.0, 0.0),
        ("ddsra:v=1", 36.0, 0.0),
        ("ddsra:v=10", 35.0, 0.0),
        ("ddsra:v=1000", 35.0, 0.0),
        ("ddsra:v=1000,solver=paper", 51.0, 0.0),
        ("random", 47.0, 0.27),
        ("delay_driven", 43.0, 0.23),
    ],
)
def test_delays_and_failures_are_as_calculated_elsewhere(policy: str, delay: float, failures: float) -> None:
    found = summaries(policy)
    assert np.mean([entry.mean_delay for entry in found]) == pytest.approx(delay, rel=0.1)
    assert np.mean([sum(entry.failures.values()) / 180 for entry in found]) == pytest.approx(failures, abs=0.05)
    if policy.startswith("ddsra") and "paper" not in policy:
        assert all(entry.completed == 180 for entry in found)  # three floors in every round


def test_alternating_lambda_ignores_v() -> None:
    small, large = (summaries(f"ddsra:v={v},solver=paper") for v in (0.01, 1000))
    assert [entry.mean_delay for entry in small] == pytest.approx([entry.mean_delay for entry in large])


@pytest.mark.slow
def test_delay_falls_with_v() -> None:
    delays = [
        np.mean([entry.mean_delay for entry in summaries(f"ddsra:v={v}")[:5]]) for v in (0, 0.01, 0.1, 1, 10, 1000)
    ]
    assert all(later <= earlier * 1.01 for earlier, later in pairwise(delays))
