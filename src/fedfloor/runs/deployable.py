"""Whether a scenario can be carried out by real machines, and asks nothing of them that it does not allow."""

__all__ = ["refuse_undeployable"]

from collections.abc import Iterator
from dataclasses import dataclass

from fedfloor.errors import DeploymentError
from fedfloor.scenario.resolved import Scenario

_OTHER_RATES = 'Set participation.rates to "updates", "uniform" or a list of rates'


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """What real machines must not or cannot do."""

    problem: str
    advice: str
    settings: tuple[str, ...]  #: overrides that remove it


def refuse_undeployable(scenario: Scenario, label: str) -> None:
    """Refuse a scenario, read from `label`, that real machines must not or cannot carry out.

    `training.halves` is no reason: real machines always train apart, whatever it says.
    """
    obstacles = list(_obstacles(scenario))
    if obstacles:
        problems = ". ".join(f"{obstacle.problem}. {obstacle.advice}" for obstacle in obstacles)
        settings = ", ".join(setting for obstacle in obstacles for setting in obstacle.settings)
        raise DeploymentError(f"{label}: {problems}. As settings: {settings}")


def _obstacles(scenario: Scenario) -> Iterator[_Obstacle]:
    training, participation, deploy = scenario.training, scenario.participation, scenario.deploy
    if training.min_cut == 0 and not deploy.allow_samples:
        has_no_baseline = scenario.baseline.cut == 0
        too = " and baseline.cut = 1" if has_no_baseline else ""
        yield _Obstacle(
            "training.min_cut: must be >= 1 on real machines, got 0, because cut 0 sends samples to the gateway",
            f"Set training.min_cut = 1{too}, or allow it with deploy.allow_samples = true",
            ("training.min_cut=1", *(["baseline.cut=1"] if has_no_baseline else [])),
        )
    if participation.rates == "estimated" and not deploy.allow_gradients:
        yield _Obstacle(
            "participation.rates: 'estimated' needs gradients, which do not leave a device unless it is allowed",
            f"{_OTHER_RATES}, or allow it with deploy.allow_gradients = true",
            ("participation.rates=uniform",),
        )
    if deploy.measure and scenario.costs.width not in (None, scenario.model.width):
        width = scenario.model.width
        problem = f"costs.width: must be model.width = {width:g} with deploy.measure, got {scenario.costs.width:g}"
        reason = "machines measure the network that they train"
        yield _Obstacle(f"{problem}: {reason}", "Leave one of them out", (f"costs.width={width}",))
    if participation.observe_every > 0:
        problem = f"participation.observe_every: must be 0 on real machines, got {participation.observe_every}"
        reason = "a measured divergence needs gradients of all data"
        yield _Obstacle(f"{problem}: {reason}", "Leave it out", ("participation.observe_every=0",))
