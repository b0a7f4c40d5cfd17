"""Scenarios that real machines must not or cannot carry out are refused before anything begins."""

import pytest

import fedfloor
from fedfloor.errors import DeploymentError
from fedfloor.runs.deployable import refuse_undeployable

ALLOWED = ("training.min_cut=1", "baseline.cut=1", "participation.rates=updates")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            ("training.min_cut=0",),
            r"training\.min_cut: must be >= 1 on real machines, got 0.*deploy\.allow_samples = true",
        ),
        (
            ("participation.rates=estimated",),
            r"participation\.rates: 'estimated' needs gradients.* to \"updates\".*deploy\.allow_gradients = true",
        ),
        (("participation.observe_every=5",), r"participation\.observe_every: must be 0 on real machines, got 5"),
    ],
)
def test_what_real_machines_cannot_do_is_refused(more: tuple[str, ...], problem: str) -> None:
    with pytest.raises(DeploymentError, match=f"^quick: .*{problem}"):
        refuse_undeployable(fedfloor.load("quick", overrides=[*ALLOWED, *more]), "quick")


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("training.min_cut=0", "baseline.cut=0", "deploy.allow_samples=true"),
        ("participation.rates=uniform",),
        ("participation.rates=estimated", "deploy.allow_gradients=true"),
        ("training.halves=joined",),
    ],
)
def test_what_the_scenario_allows_is_not_refused(more: tuple[str, ...]) -> None:
    refuse_undeployable(fedfloor.load("quick", overrides=[*ALLOWED, *more]), "quick")
