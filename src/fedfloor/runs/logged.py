"""Logged rounds, ready to be decided again."""

__all__ = ["logged_round"]

import math
from pathlib import Path

from fedfloor.errors import RunLogError, shown
from fedfloor.rounds.listeners.log import ROUNDS
from fedfloor.rounds.record import RoundRecord
from fedfloor.runs.folder import SCENARIO, check_records, read_records, scenario_of
from fedfloor.runs.plan import PlannedRound, lacks_sample_losses, policy_for
from fedfloor.runs.replay import replayed
from fedfloor.runs.trust import refuse_code
from fedfloor.scheduling.objects import PolicySource
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.registry import PolicySpec, may_keep_state, tradeoff_of_spec
from fedfloor.scheduling.state import RoundState
from fedfloor.scheduling.traits import needs_history


def logged_round(
    folder: Path, index: int, policy: PolicySource | None = None, solver: str | None = None, *, own: bool = False
) -> PlannedRound:
    """A logged round of a run folder, for a policy, or for the one that decided it.

    `own` allows the run folder to name the code of that policy.
    """
    records = read_records(folder)
    if not 0 <= index < len(records):
        last = f"the last one is {len(records) - 1}" if records else "none is logged"
        raise RunLogError(f"{folder}: --round must be a logged round, got {index}; {last}")
    scenario, logged = scenario_of(folder), records[: index + 1]
    if policy is None:
        refuse_code(scenario, "policy", file=folder / SCENARIO, own=own)
    check_records(logged, scenario, folder)
    own_spec = PolicySpec.of(scenario.policy)
    tradeoff = tradeoff_of_spec(own_spec)
    weight = Ddsra().tradeoff if tradeoff is None else tradeoff
    spec, scheduler = policy_for(own_spec, weight, policy, solver)
    state = next(replayed(scenario, logged, first=index, with_history=needs_history(scheduler)))
    if lacks_sample_losses(scheduler, state):
        problem = f"has no root mean squares of sample losses, by which the policy {shown(spec.name)} decides"
        raise RunLogError(f"{folder / ROUNDS}: {problem}. Name a round of a run with this policy, or another policy")
    if not _same_energy(records[index], state):
        problem = f"{folder}: {SCENARIO} and {ROUNDS} disagree about the energy of round {index}"
        raise RunLogError(f"{problem}. One of the two was changed; restore it, or run again")
    logged_as = records[index] if policy is None and solver is None and may_keep_state(spec) else None
    return PlannedRound(state, weight, spec, scheduler, run=folder, logged=logged_as)


def _same_energy(record: RoundRecord, state: RoundState) -> bool:
    """Whether the energy budgets in the log are those of the state."""
    pairs = [
        (gateway.energy_budget_j, energy)
        for gateway, energy in zip(record.gateways, state.weather.gateway_energy.tolist(), strict=True)
    ]
    energies = dict(zip(state.plant.devices.names, state.weather.device_energy.tolist(), strict=True))
    pairs += [
        (device.energy_budget_j, energies[device.name]) for gateway in record.gateways for device in gateway.devices
    ]
    return all(logged is None or math.isclose(logged, drawn, rel_tol=1e-9) for logged, drawn in pairs)
