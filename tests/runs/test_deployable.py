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


def test_all_that_is_missing_is_said_at_once_with_the_settings_that_allow_it() -> None:
    with pytest.raises(DeploymentError) as refused:
        refuse_undeployable(fedfloor.load("quick"), "quick")
    problems, _, settings = str(refused.value).partition(" As settings: ")
    assert "training.min_cut = 1 and baseline.cut = 1" in problems
    assert "participation.rates: 'estimated' needs gradients" in problems
    refuse_undeployable(fedfloor.load("quick", overrides=settings.split(", ")), "quick")


def test_a_cost_width_that_machines_do_not_measure_is_corrected_by_the_setting_that_is_named() -> None:
    wide = [*ALLOWED, "deploy.measure=true", "costs.width=2.0"]
    with pytest.raises(
        DeploymentError, match=r"costs\.width: must be model\.width = 1 with deploy\.measure"
    ) as refused:
        refuse_undeployable(fedfloor.load("quick", overrides=wide), "quick")
    setting = str(refused.value).rpartition("As settings: ")[2]
    refuse_undeployable(fedfloor.load("quick", overrides=[*wide, setting]), "quick")
