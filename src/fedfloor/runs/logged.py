"""Logged rounds, ready to be decided again."""

__all__ = ["Decider", "decider_of", "logged_round", "round_with"]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedfloor.errors import RunLogError, shown
from fedfloor.rounds.listeners.log import ROUNDS
from fedfloor.rounds.record import RoundRecord
from fedfloor.runs.folder import SCENARIO, check_records, read_records, scenario_of
from fedfloor.runs.plan import PlannedRound, floors_without_sample_losses, own_policy, policy_for
from fedfloor.runs.replay import replayed
from fedfloor.runs.trust import refuse_code
from fedfloor.scenario import Scenario
from fedfloor.scheduling.objects import PolicySource
from fedfloor.scheduling.registry import PolicySpec, may_keep_state
from fedfloor.scheduling.state import RoundState, Scheduler
from fedfloor.scheduling.traits import first_delay, needs_history


@dataclass(frozen=True, slots=True, eq=False)
class Decider:
    """A policy that decides rounds of a run again."""

    folder: Path | None  #: of the run; None if only this process has it
    tradeoff_v: float  #: what the objective is computed with if the policy has no V of its own
    spec: PolicySpec  #: with every setting filled in
    scheduler: Scheduler
    is_bound: bool  #: whether a decision that is not the logged one is an error

    @property
    def needs_history(self) -> bool:
        """Whether the states that it decides must have a history."""
        return needs_history(self.scheduler)

    @property
    def first_delay(self) -> str:
        """What takes long before its first decision; empty if nothing does."""
        return first_delay(self.scheduler)

    def round(self, state: RoundState, record: RoundRecord) -> PlannedRound:
        """A round, ready to be decided, from its state as `replayed` returns it and from its record."""
        if floors_without_sample_losses(self.scheduler, state).size:
            problem = f"has no root mean squares of sample losses, by which the policy {shown(self.spec.name)} decides"
            place = "run" if self.folder is None else self.folder / ROUNDS
            raise RunLogError(f"{place}: {problem}. Name another policy, or a round of a run with this one")
        if not _same_energy(record, state):
            problem = (
                f"{self.folder or 'run'}: {SCENARIO} and {ROUNDS} disagree about the energy of round {state.index}"
            )
            raise RunLogError(f"{problem}. One of the two was changed; restore it, or run again")
        logged = record if self.is_bound else None
        return PlannedRound(state, self.tradeoff_v, self.spec, self.scheduler, run=self.folder, logged=logged)


def decider_of(
    scenario: Scenario,
    policy: PolicySource | None = None,
    solver: str | None = None,
    *,
    folder: Path | None,
    own: bool = False,
    once: bool = False,
) -> Decider:
    """A policy for the rounds of a run, or the one that decided them.

    `own` allows the run folder to name the code of that policy; `once` says that it decides one round only. Without a
    folder the run is this process's own.
    """
    if policy is None and folder is not None:
        refuse_code(scenario, "policy", file=folder / SCENARIO, own=own)
    own_spec, weight = own_policy(scenario)
    spec, scheduler = policy_for(own_spec, weight, policy, solver, once=once)
    return Decider(folder, weight, spec, scheduler, policy is None and solver is None and may_keep_state(spec))


def logged_round(
    folder: Path, index: int, policy: PolicySource | None = None, solver: str | None = None, *, own: bool = False
) -> PlannedRound:
    """A logged round of a run folder, for a policy, or for the one that decided it; see `decider_of`."""
    records = read_records(folder)
    if not 0 <= index < len(records):
        last = f"the last one is {len(records) - 1}" if records else "none is logged"
        raise RunLogError(f"{folder}: the round must be a logged one, got {index}; {last}")
    scenario = scenario_of(folder)
    decider = decider_of(scenario, policy, solver, folder=folder, own=own, once=True)
    check_records(records[: index + 1], scenario, folder)
    return round_with(decider, scenario, records, index)


def round_with(decider: Decider, scenario: Scenario, records: Sequence[RoundRecord], index: int) -> PlannedRound:
    """A round of a run, ready to be decided."""
    state = next(replayed(scenario, records[: index + 1], only={index}, with_history=decider.needs_history))
    return decider.round(state, records[index])


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
