"""Rounds of scenarios, and of runs that this process has made, ready to be decided."""

__all__ = ["first_round", "round_of_run"]

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedfloor.errors import PolicyError, RunLogError, shown
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.rounds.record import RoundRecord
from fedfloor.runs.logged import decider_of, round_with
from fedfloor.runs.plan import PlannedRound, own_policy, policy_for
from fedfloor.runs.planned import ScenarioSource, label_of, load
from fedfloor.runs.trust import refuse_code
from fedfloor.scenario import Scenario
from fedfloor.scheduling.history import no_history
from fedfloor.scheduling.objects import PolicySource
from fedfloor.scheduling.traits import needs_history, needs_training


def first_round(
    source: ScenarioSource, policy: PolicySource | None = None, solver: str | None = None, *, own: bool = False
) -> PlannedRound:
    """The first round of a scenario, for a policy, or for the scenario's own."""
    scenario = load(source, own=own)
    if policy is None:
        refuse_code(scenario, "policy", file=label_of(source), own=own)
    own_spec, weight = own_policy(scenario)
    spec, scheduler = policy_for(own_spec, weight, policy, solver)
    if needs_training(scheduler):
        problem = f"policy {shown(str(spec))}: decides by training, of which there is none before the first round"
        raise PolicyError(f"{problem}. Choose another policy")
    state = SimulatedPlant(scenario, simulated_rates(scenario)).observe()
    if needs_history(scheduler):
        state = replace(state, history=no_history(len(scenario.floors)))
    return PlannedRound(state, weight, spec, scheduler)


def round_of_run(
    scenario: Scenario,
    records: Sequence[RoundRecord],
    index: int,
    policy: PolicySource | None = None,
    solver: str | None = None,
    *,
    folder: Path | None,
) -> PlannedRound:
    """A round of a run of this process, for a policy, or for the one that decided it; `folder` is the run's, if any."""
    if not 0 <= index < len(records):
        raise RunLogError(f"run: has the rounds 0 to {len(records) - 1}, got {index}. Name one of them")
    decider = decider_of(scenario, policy, solver, folder=folder, own=True, once=True)
    return round_with(decider, scenario, records, index)
