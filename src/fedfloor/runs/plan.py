"""`fedfloor plan`: one round decided, from its state to the answer."""

__all__ = [
    "DevicePlan",
    "GatewayPlan",
    "PlanAnswer",
    "PlannedRound",
    "answer",
    "export_snapshot",
    "floors_without_sample_losses",
    "is_logged",
    "own_policy",
    "policy_for",
    "snapshot_round",
]

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

import numpy as np

from fedfloor.arrays import Ints
from fedfloor.costs.compute import round_delay
from fedfloor.errors import PolicyError, RunLogError, SnapshotError, shown
from fedfloor.files import refused_write, write_whole
from fedfloor.notebooks.cards import bars, card, html_table, number
from fedfloor.notebooks.frames import DataFrame, frame_of
from fedfloor.rounds.outcome import Outcome
from fedfloor.rounds.plants.simulated import simulated_outcome
from fedfloor.runs.answers import Answer
from fedfloor.runs.target import refuse_target
from fedfloor.scenario import Scenario
from fedfloor.scheduling.checking import check_decision, decide
from fedfloor.scheduling.conversion import snapshot_of, state_of
from fedfloor.scheduling.history import no_history
from fedfloor.scheduling.objects import PolicySource, name_policy
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.registry import (
    PolicySpec,
    make_policy,
    parse_policy,
    shown_name,
    solver_of,
    tradeoff_of_spec,
    with_settings,
)
from fedfloor.scheduling.snapshot import Snapshot, is_snapshot
from fedfloor.scheduling.solver.compiling import defer
from fedfloor.scheduling.state import Decision, RoundState, Scheduler
from fedfloor.scheduling.traits import first_delay, needs_history, needs_sample_losses, solution_of, tradeoff_of
from fedfloor.scheduling.usage import FloorUsage, objective_of, usage_of

if TYPE_CHECKING:
    from fedfloor.rounds.record import Measured, RoundRecord


class DevicePlan(TypedDict):
    """One device of a floor that is served."""

    name: str
    cut: int
    gateway_frequency_hz: float
    energy_j: float
    energy_budget_j: float
    memory_bytes: float
    link_s: NotRequired[float]  #: absent if links cost nothing


class GatewayPlan(TypedDict):
    """One floor in the answer."""

    name: str
    channel: int | None
    delay_s: float
    download_s: float
    train_s: float
    upload_s: float
    power_w: float
    energy_j: float
    energy_budget_j: float
    memory_bytes: float
    failure: str | None
    reason: str | None
    devices: list[DevicePlan]
    weight: NotRequired[float]  #: factor of its model in the average; absent if the policy gives none


class PlanAnswer(Answer):
    """What `fedfloor plan --format json` prints."""

    __slots__ = ()

    policy: str
    settings: Mapping[str, bool | int | float | str]
    solver: str | None
    round: int
    tradeoff_v: float
    objective: float
    delay_s: float
    solve_s: float
    optimality_gap: float | None
    gateways: list[GatewayPlan]

    def to_pandas(self, per: Literal["gateway", "device"] = "gateway") -> DataFrame:
        """The decision as a data frame with a row per `gateway` (a floor), or per `device` of the selected ones.

        Needs the extra 'notebook'.
        """
        if per not in ("gateway", "device"):
            raise RunLogError(f"to_pandas: per must be gateway or device, got {shown(per)}")
        if per == "gateway":
            rows = [{key: value for key, value in entry.items() if key != "devices"} for entry in self.gateways]
        else:
            rows = [{"gateway": entry["name"], **device} for entry in self.gateways for device in entry["devices"]]
        return frame_of(
            {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}
        )

    def _repr_html_(self) -> str:
        columns = ("floor", "channel", "cuts", "delay [s]", "power [W]", "energy of budget [J]", "left out because")
        rows = [
            (
                entry["name"],
                entry["channel"],
                ", ".join(str(device["cut"]) for device in entry["devices"]),
                entry["delay_s"] if entry["channel"] is not None else None,
                entry["power_w"] if entry["channel"] is not None else None,
                f"{number(entry['energy_j'])} of {number(entry['energy_budget_j'])}",
                entry["reason"],
            )
            for entry in self.gateways
        ]
        name = shown_name(str(PolicySpec(self.policy, tuple(self.settings.items()))))
        picture = bars(
            [(entry["name"], entry["delay_s"]) for entry in self.gateways if entry["channel"] is not None], "s"
        )
        return card(f"round {self.round}, {name}: {number(self.delay_s)} s", html_table(columns, rows), picture)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRound:
    """A round that is ready to be decided."""

    state: RoundState
    tradeoff_v: float  #: what the objective is computed with if the policy has no V of its own
    policy: PolicySpec  #: with every setting filled in
    scheduler: Scheduler
    run: Path | None = None  #: folder of a logged round
    logged: "RoundRecord | None" = None  #: what the decision must be; None if it may be another one

    @property
    def first_delay(self) -> str:
        """What takes long before the decision; empty if nothing does."""
        return first_delay(self.scheduler)


def snapshot_round(
    snapshot: Snapshot, policy: PolicySource | None = None, solver: str | None = None, *, label: str = "snapshot"
) -> PlannedRound:
    """The round of a snapshot, for a policy, or for ddsra with the snapshot's V; `label` names it in messages."""
    own, state = PolicySpec("ddsra", (("v", snapshot.tradeoff_v),)), state_of(snapshot)
    spec, scheduler = policy_for(own, snapshot.tradeoff_v, policy, solver)
    if needs_history(scheduler) and state.history is None:
        if state.index > 0 or "round" not in snapshot.model_fields_set:
            problem = f"is missing, but the policy {shown(spec.name)} decides by earlier rounds"
            advice = "Export the round of a run with this policy, or set round to 0 if it is the first"
            raise SnapshotError(f"{label}: gateways[0].history: {problem}. {advice}")
        state = replace(state, history=no_history(state.floors))
    lacking = floors_without_sample_losses(scheduler, state)
    if lacking.size:
        problem = f"is missing, but the floor has completed a round, and the policy {shown(spec.name)} decides by it"
        raise SnapshotError(f"{label}: gateways[{lacking[0]}].history.last_rms_loss: {problem}. Name another policy")
    return PlannedRound(state, snapshot.tradeoff_v, spec, scheduler)


def floors_without_sample_losses(scheduler: Scheduler, state: RoundState) -> Ints:
    """Floors with completed rounds that measured no sample losses, which the policy decides by."""
    if not needs_sample_losses(scheduler) or state.history is None:
        return np.empty(0, np.int64)
    return np.flatnonzero((state.history.completed > 0) & np.isnan(state.history.last_rms_loss))


def own_policy(scenario: Scenario) -> tuple[PolicySpec, float]:
    """A scenario's own policy, and the V of its objective: ddsra's default if the policy has none."""
    spec = PolicySpec.of(scenario.policy)
    tradeoff = tradeoff_of_spec(spec)
    return spec, Ddsra().tradeoff if tradeoff is None else tradeoff


def policy_for(
    own: PolicySpec, tradeoff_v: float, policy: PolicySource | None, solver: str | None, *, once: bool = True
) -> tuple[PolicySpec, Scheduler]:
    """The policy that is asked for, or the round's own, completed by what the round says.

    `once` says that it decides one round, which may be the only one of this process.
    """
    if once:
        defer()
    if policy is not None and not isinstance(policy, str):
        if solver is not None:
            problem = f"solver {solver}: the policy {type(policy).__name__} is an object, which has all its settings"
            raise PolicyError(f"{problem}. Leave the solver out")
        return name_policy(policy).spec, policy
    spec = own if policy is None else parse_policy(policy)
    if policy is not None and solver is not None and solver_of(spec) is not None:
        raise PolicyError(f"solver {solver}: the policy '{policy}' names a solver too. Leave one of them out")
    return make_policy(with_settings(spec, tradeoff=tradeoff_v, solver=solver))


def answer(planned: PlannedRound) -> PlanAnswer:
    """Decide the round."""
    state, spec, scheduler, tradeoff = planned.state, planned.policy, planned.scheduler, tradeoff_of(planned.scheduler)
    begun = time.perf_counter()
    solution = solution_of(scheduler, state)
    decision = decide(scheduler, state) if solution is None else solution.decision
    seconds = time.perf_counter() - begun
    if solution is not None:
        check_decision(state, decision)
    outcome = simulated_outcome(state, decision)
    usage = usage_of(state, decision.channel, outcome.allocation)
    delay = round_delay(usage.delay, decision.selected)
    weight = planned.tradeoff_v if tradeoff is None else tradeoff
    decided = PlanAnswer(
        policy=spec.name,
        settings=dict(spec.settings),
        solver=solver_of(spec),
        round=state.index,
        tradeoff_v=weight,
        objective=objective_of(weight, delay, float(state.queue[decision.selected].sum())),
        delay_s=delay,
        solve_s=seconds,
        optimality_gap=None if solution is None else solution.gap,
        gateways=[
            _gateway_plan(m, state, decision, outcome, usage, None if solution is None else solution.reasons[m])
            for m in range(state.floors)
        ],
    )
    if planned.logged is not None and not is_logged(planned.logged, decided):
        problem = f"policy {shown(str(spec))}: decides round {state.index} otherwise than {planned.run} has logged it"
        reason = "it keeps state on itself between rounds, or its code has changed"
        advice = "Keep nothing between rounds (docs/policies.md). A policy that you name decides the round anew"
        raise PolicyError(f"{problem}: {reason}. {advice}")
    return decided


def is_logged(record: "RoundRecord", decided: PlanAnswer) -> bool:
    """Whether a decision gives the floors the channels, weights, cuts, frequencies and powers that a record has.

    Another machine may round the last digits otherwise. What a log of an earlier version lacks is not compared.
    """
    for gateway, floor in zip(record.gateways, decided.gateways, strict=True):
        if floor["channel"] != gateway.channel:
            return False
        if not gateway.selected:
            continue
        if [device["cut"] for device in floor["devices"]] != [device.cut for device in gateway.devices]:
            return False
        if ("weight" in floor) != isinstance(gateway.weight, float | int):
            return False
        frequencies = [device["gateway_frequency_hz"] for device in floor["devices"]]
        numbers: list[tuple[float, Measured]] = [(floor["power_w"], gateway.power_w)]
        numbers += [(floor["weight"], gateway.weight)] if "weight" in floor else []
        numbers += zip(frequencies, (device.gateway_frequency_hz for device in gateway.devices), strict=True)
        if not all(_is_same(value, logged) for value, logged in numbers):
            return False
    return True


def _is_same(value: float, logged: "Measured") -> bool:
    """Whether a number is the one in the log; true if the log has none."""
    return not isinstance(logged, float | int) or math.isclose(value, logged, rel_tol=1e-9)


def _gateway_plan(
    m: int, state: RoundState, decision: Decision, outcome: Outcome, usage: FloorUsage, reason: str | None
) -> GatewayPlan:
    allocation, selected, devices = outcome.allocation, bool(decision.selected[m]), state.plant.devices
    plan: GatewayPlan = {
        "name": state.plant.gateways.names[m],
        "channel": int(decision.channel[m]) if selected else None,
        "delay_s": float(usage.delay[m]),
        "download_s": float(usage.download[m]),
        "train_s": float(usage.training[m]),
        "upload_s": float(usage.upload[m]),
        "power_w": float(allocation.power[m]) if selected else 0.0,
        "energy_j": float(usage.gateway_energy[m]),
        "energy_budget_j": float(state.weather.gateway_energy[m]),
        "memory_bytes": float(usage.gateway_bytes[m]),
        "failure": outcome.failure[m],
        "reason": None if selected else reason or "not selected",
        "devices": [
            _device_plan(int(n), state, outcome, usage)
            for n in (np.flatnonzero(devices.floor == m) if selected else ())
        ],
    }
    if decision.weight is not None and selected:
        plan["weight"] = float(decision.weight[m])
    return plan


def _device_plan(n: int, state: RoundState, outcome: Outcome, usage: FloorUsage) -> DevicePlan:
    plan: DevicePlan = {
        "name": state.plant.devices.names[n],
        "cut": int(outcome.allocation.cut[n]),
        "gateway_frequency_hz": float(outcome.allocation.frequency[n]),
        "energy_j": float(usage.device_energy[n]),
        "energy_budget_j": float(state.weather.device_energy[n]),
        "memory_bytes": float(usage.device_bytes[n]),
    }
    if usage.link_time is not None:
        plan["link_s"] = float(usage.link_time[n])
    return plan


def export_snapshot(planned: PlannedRound, path: Path) -> None:
    """Write the round as a snapshot file; an existing file is replaced only if it is a snapshot too."""
    target = refuse_target(path, planned.run, example="round.json")
    if target.exists() and not is_snapshot(target):
        raise RunLogError(f"{path}: exists, but is not a snapshot. Name another file, or remove this one first")
    text = json.dumps(snapshot_of(planned.state, planned.tradeoff_v), indent=1, default=float)
    try:
        write_whole(target, f"{text}\n".encode())
    except OSError as error:
        raise refused_write(path, error, again="export again", advice="Name another place") from None
