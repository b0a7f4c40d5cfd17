"""One round decided: from a snapshot or a logged round to the answer of `fedfloor plan`."""

__all__ = ["RoundToPlan", "answer", "export_snapshot", "from_run", "of_snapshot"]

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedfloor.errors import PolicyError, RunLogError, SnapshotError
from fedfloor.rounds import decide
from fedfloor.runlog import SCENARIO, read_records
from fedfloor.scenario import build, read
from fedfloor.scheduling.checking import check_decision
from fedfloor.scheduling.ddsra import Ddsra
from fedfloor.scheduling.figures import figures
from fedfloor.scheduling.registry import PolicySpec, make_policy, parse_policy
from fedfloor.scheduling.snapshot import Snapshot, snapshot_of, state_of
from fedfloor.scheduling.state import RoundState, fixed_allocation
from fedfloor.simulation import SimulatedPlant


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
    """A logged round, with the policy that decided it: its weather is drawn again, its queues come from the log."""
    records = read_records(folder)
    if not 0 <= index < len(records):
        last = f"the last one is {len(records) - 1}" if records else "none is logged"
        raise RunLogError(f"{folder}: --round must be a logged round, got {index}; {last}")
    file = folder / SCENARIO
    scenario = build(read(file), str(file))
    gateways = records[index]["gateways"]
    plant = SimulatedPlant(scenario, np.array([entry["target_rate"] for entry in gateways]))
    plant.index, plant.queue = index, np.array([entry["queue"] for entry in gateways])
    spec = parse_policy(records[index]["policy"])
    v = dict(spec.settings).get("v", Ddsra().v)
    return RoundToPlan(plant.observe(), float(v), spec)


def answer(wanted: RoundToPlan, policy: str | None = None, solver: str | None = None) -> dict[str, Any]:
    """Decide the round; `policy` and `solver` go before what the round says."""
    spec = _spec(wanted, policy, solver)
    spec, scheduler = make_policy(spec)
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
    allocation = decision.allocation or fixed_allocation(state)
    asked = figures(state, decision.channel, allocation)
    delay = float(np.max(asked.delay, where=decision.selected, initial=0.0))
    return {
        "policy": spec.name,
        "solver": getattr(scheduler, "solver", None),
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
                "memory_bytes": float(asked.gateway_bytes[m]),
                "reason": None if decision.selected[m] else reasons[m] if reasons else "not selected",
                "devices": [
                    {
                        "name": state.plant.devices.names[n],
                        "cut": int(allocation.cut[n]),
                        "gateway_frequency_hz": float(allocation.frequency[n]),
                        "energy_j": float(asked.device_energy[n]),
                        "memory_bytes": float(asked.device_bytes[n]),
                    }
                    for n in (np.flatnonzero(state.plant.devices.floor == m) if decision.selected[m] else ())
                ],
            }
            for m, name in enumerate(state.plant.gateways.names)
        ],
    }


def _spec(wanted: RoundToPlan, policy: str | None, solver: str | None) -> PolicySpec:
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
    return PolicySpec(spec.name, tuple(settings.items()))


def export_snapshot(wanted: RoundToPlan, path: Path) -> None:
    """Write the round as a snapshot file."""
    text = json.dumps(snapshot_of(wanted.state, wanted.tradeoff_v), indent=1, default=float)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be written: {error.strerror}. Name another place") from None
