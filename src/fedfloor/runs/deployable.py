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
    if participation.rates == "estimated":
        reason = "gradients do not leave a device unless deploy.allow_gradients = true"
        if deploy.allow_gradients:
            reason = "gradients are not collected over the network yet, although deploy.allow_gradients = true"
        problem = "participation.rates: cannot be 'estimated' on real machines"
        raise DeploymentError(f"{label}: {problem}: {reason}. {_OTHER_RATES}")
    if participation.observe_every > 0:
        problem = f"participation.observe_every: must be 0 on real machines, got {participation.observe_every}"
        reason = "a measured divergence needs gradients of all data"
        raise DeploymentError(f"{label}: {problem}: {reason}. Leave it out")
