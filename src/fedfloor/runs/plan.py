"""One round decided: from a snapshot or a logged round to the answer of `fedfloor plan`."""

__all__ = ["RoundToPlan", "answer", "export_snapshot", "from_run", "of_snapshot", "policy_for"]

import dataclasses
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Floats
from fedfloor.errors import PolicyError, RunLogError, SnapshotError
from fedfloor.rounds.loop import decide
from fedfloor.runs.folder import ROUNDS, SCENARIO, read_records, scenario_of
from fedfloor.scenario import Scenario
from fedfloor.scheduling.checking import check_decision
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.usage import figures
from fedfloor.scheduling.registry import PolicySpec, make_policy, parse_policy
from fedfloor.scheduling.snapshot import Snapshot, snapshot_of, state_of
from fedfloor.scheduling.state import RoundState, Scheduler
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_outcome



@dataclass(frozen=True, slots=True, eq=False)
class RoundToPlan:
    """A round's state, and what it says about its own policy."""

    state: RoundState
    tradeoff_v: float
    policy: PolicySpec


def of_snapshot(snapshot: Snapshot) -> RoundToPlan:
    """The round of a snapshot, for ddsra with the snapshot's V."""
    return RoundToPlan(state_of(snapshot), snapshot.tradeoff_v, PolicySpec("ddsra", (("v", snapshot.tradeoff_v),)))


def from_run(folder: Path, index: int) -> RoundToPlan:
    """A logged round, with the policy that decided it: its weather is drawn again, its queues come from the log.

    What batteries held follows from the weather of the rounds before and the energy that they logged as spent.
    """
    records = read_records(folder)
    if not 0 <= index < len(records):
        last = f"the last one is {len(records) - 1}" if records else "none is logged"
        raise RunLogError(f"{folder}: --round must be a logged round, got {index}; {last}")
    scenario = scenario_of(folder)
    place = f"{folder / ROUNDS}: line {index + 1}"
    gateways = _logged_gateways(records[index], place, index, scenario)
    plant = SimulatedPlant(scenario, np.array([entry["target_rate"] for entry in gateways], float))
    _charge(plant, records[:index], folder)
    plant.index, plant.queue = index, np.array([entry["queue"] for entry in gateways], float)
    state = dataclasses.replace(plant.observe(), last_loss=_last_losses(records[:index], len(gateways)))
    logged = np.array([entry.get("energy_budget_j") for entry in gateways], float)  # null, without limits, becomes nan
    drawn = state.weather.gateway_energy
    if scenario.limits:
        logged = np.append(logged, _of_devices(gateways, "energy_budget_j", place, scenario))
        drawn = np.append(drawn, state.weather.device_energy)
    if np.any(np.abs(logged - drawn) > 1e-9 * logged):
        raise RunLogError(
            f"{folder}: its {SCENARIO} does not give the weather of its {ROUNDS}. One of them was changed"
        )
    spec = PolicySpec(scenario.policy.name, tuple(scenario.policy.settings.items()))
    v = dict(spec.settings).get("v", Ddsra().v) if spec.name == "ddsra" else Ddsra().v
    return RoundToPlan(state, float(v), spec)


def _last_losses(records: list[dict[str, Any]], floors: int) -> Floats:
    """Training loss of every floor when it last took part, (M,); nan before."""
    found = np.full(floors, np.nan)
    for record in records:
        for m, entry in enumerate(record.get("gateways", ())[:floors]):
            if isinstance(entry.get("loss"), int | float):
                found[m] = entry["loss"]
    return found


def _charge(plant: SimulatedPlant, records: list[dict[str, Any]], folder: Path) -> None:
    """Bring the batteries to where the logged rounds left them."""
    scenario = plant.scenario
    if not scenario.limits or not any(scenario.battery.gateway_capacity + scenario.battery.device_capacity):
        return
    for index, record in enumerate(records):
        place = f"{folder / ROUNDS}: line {index + 1}"
        gateways = _logged_gateways(record, place, index, scenario)
        plant.index = index
        plant.observe()
        plant.carry(
            np.array([_number(entry, "energy_j", place) for entry in gateways]),
            np.nan_to_num(_of_devices(gateways, "energy_j", place, scenario)),  # who is not logged spent nothing
        )


def _of_devices(gateways: list[dict[str, Any]], key: str, place: str, scenario: Scenario) -> Floats:
    """A logged figure of every device, (N,); nan on floors that were not selected."""
    found: list[float] = []
    for floor, entry in zip(scenario.floors, gateways, strict=True):
        names, logged = [device.name for device in floor.devices], entry.get("devices")
        if not entry.get("selected") and logged is None:
            found += [math.nan] * len(names)
        elif isinstance(logged, list) and [isinstance(one, dict) and one.get("name") for one in logged] == names:
            found += [_number(device, key, place) for device in logged]
        else:
            problem = f"{floor.name}.devices must be the scenario's, in its order"
            raise RunLogError(f"{place}: {problem}. The log was changed; run again")
    return np.array(found)


def _number(entry: Mapping[str, Any], key: str, place: str) -> float:
    value = entry.get(key)
    if not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise RunLogError(f"{place}: {entry['name']}.{key} must be a number >= 0, got {value!r:.60}")
    return float(value)


def _logged_gateways(record: Mapping[str, Any], place: str, index: int, scenario: Scenario) -> list[dict[str, Any]]:
    """The gateways of a record, if it is the round asked for and of this scenario."""
    gateways = record.get("gateways")
    names = [floor.name for floor in scenario.floors]
    if record.get("round") != index:
        problem = f"round must be {index}, got {record.get('round')!r}"
    elif not isinstance(gateways, list) or not all(isinstance(entry, dict) for entry in gateways):
        problem = f"gateways must be a list of objects, got {gateways!r:.60}"
    elif [entry.get("name") for entry in gateways] != names:
        problem = f"gateways must be the scenario's, in its order: {', '.join(names)[:80]}"
    else:
        for entry in gateways:
            for key in ("queue", "target_rate"):
                _number(entry, key, place)
        if all(isinstance(entry.get("energy_budget_j"), int | float | None) for entry in gateways):
            return gateways
        problem = "energy_budget_j must be a number or null"
    raise RunLogError(f"{place}: {problem}. The log was changed; run again")


def policy_for(wanted: RoundToPlan, policy: str | None, solver: str | None) -> tuple[PolicySpec, Scheduler]:
    """The policy to plan with: what is asked for, completed by what the round says."""
    if policy is not None and not isinstance(policy, str):
        raise PolicyError(f"policy: must be NAME[:key=value,...], got a {type(policy).__name__}")
    spec = parse_policy(policy) if policy is not None else wanted.policy
    settings = dict(spec.settings)
    if spec.name == "ddsra" and "v" not in settings:
        settings["v"] = wanted.tradeoff_v
    if solver is not None:
        if policy is not None and "solver" in settings:
            raise PolicyError(f"--solver {solver}: the policy '{policy}' names a solver too. Leave one of them out")
        if spec.name != "ddsra":
            raise PolicyError(f"--solver {solver}: only ddsra has a solver, got policy '{spec}'. Leave it out")
        settings["solver"] = solver
    return make_policy(PolicySpec(spec.name, tuple(settings.items())))


def answer(wanted: RoundToPlan, spec: PolicySpec, scheduler: Scheduler) -> dict[str, Any]:
    """Decide the round with the policy that `policy_for` has made."""
    state, tradeoff = wanted.state, wanted.tradeoff_v
    reasons: tuple[str | None, ...] | None = None
    gap: float | None = None
    begun = time.perf_counter()
    if isinstance(scheduler, Ddsra):
        solution = scheduler.solution(state)
        decision, reasons, gap, tradeoff = solution.decision, solution.reasons, solution.gap, float(scheduler.v)
    else:
        decision = decide(scheduler, state)
    seconds = time.perf_counter() - begun
    check_decision(state, decision)
    outcome = simulated_outcome(state, decision)
    allocation = outcome.allocation
    asked = figures(state, decision.channel, allocation)
    delay = float(np.max(asked.delay, where=decision.selected, initial=0.0))
    return {
        "policy": spec.name,
        "settings": dict(spec.settings),
        "solver": getattr(scheduler, "solver", None),
        "round": state.index,
        "tradeoff_v": tradeoff,
        "objective": (tradeoff * delay if tradeoff else 0.0) - float(state.queue[decision.selected].sum()),
        "delay_s": delay,
        "solve_s": seconds,
        "optimality_gap": gap,
        "gateways": [
            {
                "name": name,
                "channel": int(decision.channel[m]) if decision.selected[m] else None,
                "delay_s": float(asked.delay[m]),
                "download_s": float(asked.download[m]),
                "train_s": float(asked.training[m]),
                "upload_s": float(asked.upload[m]),
                "power_w": float(allocation.power[m]) if decision.selected[m] else 0.0,
                "energy_j": float(asked.gateway_energy[m]),
                "energy_budget_j": float(state.weather.gateway_energy[m]),
                "memory_bytes": float(asked.gateway_bytes[m]),
                "failure": outcome.failure[m],
                "reason": None if decision.selected[m] else reasons[m] if reasons else "not selected",
                "devices": [
                    {
                        "name": state.plant.devices.names[n],
                        "cut": int(allocation.cut[n]),
                        "gateway_frequency_hz": float(allocation.frequency[n]),
                        "energy_j": float(asked.device_energy[n]),
                        "energy_budget_j": float(state.weather.device_energy[n]),
                        "memory_bytes": float(asked.device_bytes[n]),
                    }
                    for n in (np.flatnonzero(state.plant.devices.floor == m) if decision.selected[m] else ())
                ],
            }
            for m, name in enumerate(state.plant.gateways.names)
        ],
    }


def export_snapshot(wanted: RoundToPlan, path: Path) -> None:
    """Write the round as a snapshot file."""
    text = json.dumps(snapshot_of(wanted.state, wanted.tradeoff_v), indent=1, default=float)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be written: {error.strerror}. Name another place") from None
