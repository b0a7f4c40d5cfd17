"""Whether a scenario can be carried out by real machines, and asks nothing of them that it does not allow."""

__all__ = ["refuse_undeployable"]

from fedfloor.errors import DeploymentError
from fedfloor.scenario.resolved import Scenario

_OTHER_RATES = 'Set participation.rates to "updates", "uniform" or a list of rates'


def refuse_undeployable(scenario: Scenario, label: str) -> None:
    """Refuse a scenario, read from `label`, that real machines must not or cannot carry out.

    `training.halves` is no reason: real machines always train apart, whatever it says.
    """
    training, participation, deploy = scenario.training, scenario.participation, scenario.deploy
    if training.min_cut == 0 and not deploy.allow_samples:
        problem = "training.min_cut: must be >= 1 on real machines, got 0, because cut 0 sends samples to the gateway"
        advice = "Set training.min_cut = 1, or allow it with deploy.allow_samples = true"
        raise DeploymentError(f"{label}: {problem}. {advice}")
    if participation.rates == "estimated" and not deploy.allow_gradients:
        problem = "participation.rates: 'estimated' needs gradients, which do not leave a device unless it is allowed"
        advice = "Allow it with deploy.allow_gradients = true"
        raise DeploymentError(f"{label}: {problem}. {_OTHER_RATES}. {advice}")
    if deploy.measure and scenario.costs.width not in (None, scenario.model.width):
        problem = f"costs.width: must be model.width = {scenario.model.width:g} with deploy.measure"
        reason = "machines measure the network that they train"
        raise DeploymentError(f"{label}: {problem}, got {scenario.costs.width:g}: {reason}. Leave one of them out")
    if participation.observe_every > 0:
        problem = f"participation.observe_every: must be 0 on real machines, got {participation.observe_every}"
        reason = "a measured divergence needs gradients of all data"
        raise DeploymentError(f"{label}: {problem}: {reason}. Leave it out")
