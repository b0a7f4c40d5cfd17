"""Single rounds decided again for the page: what `fedfloor plan` answers, and what other policies would decide."""

__all__ = ["OTHERS", "Progress", "with_decisions"]

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import tee
from typing import cast

from fedfloor.arrays import Ints
from fedfloor.errors import FedfloorError
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.drawing.scales import spread
from fedfloor.reports.exploring import Explored, SingleRuns
from fedfloor.reports.reading import ReadRun
from fedfloor.reports.results import Results
from fedfloor.rounds.record import RoundRecord
from fedfloor.runs.logged import Decider, decider_of
from fedfloor.runs.plan import DevicePlan, GatewayPlan, PlanAnswer, answer, is_logged
from fedfloor.runs.replay import replayed
from fedfloor.scheduling.registry import PolicySpec, parse_policy, shown_name
from fedfloor.scheduling.state import RoundState

#: what a run is compared with if the report has no other policy
OTHERS = ("ddsra", "delay_driven", "round_robin", "random")

_NUMBERS = 400_000  #: in all decisions together; a number takes about seven bytes
_ROUNDS = 6000  #: of all runs together, on plants of up to _SMALL floors times channels
_OTHER_ROUNDS = 4000  #: the same for decisions of other policies
_SMALL = 60  #: floors times channels up to which a decision takes about as long as everything around it
_LEAST = 2  #: rounds of a run

_HEAD = ("policy", "settings", "solver", "tradeoff_v")  #: keys of an answer that are the same in all rounds
_ROUND = ("round", "objective", "delay_s", "optimality_gap")  #: keys of an answer that are not
_FLOOR = tuple(key for key in GatewayPlan.__annotations__ if key not in ("name", "devices", "weight"))
_LEFT_OUT = ("energy_budget_j", "reason")  #: of a floor that is left out; everything else is 0 or null
_DEVICE = tuple(key for key in DevicePlan.__annotations__ if key != "name")
_FLOOR_OF_OTHERS = ("channel", "delay_s", "failure")  #: of a floor that another policy selects, before the cuts

Progress = Callable[[int, int, str], None]  #: (done, of, what takes long now; empty if nothing does)


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """The rounds of one run that are decided again."""

    run: RunArrays
    own: Decider
    others: tuple[Decider, ...]
    at: Ints  #: places in the run's log
    compared: Ints  #: those of them that the other policies decide too
    omissions: tuple[str, ...]  #: sentences on policies that cannot decide

    @property
    def count(self) -> int:
        """Decisions."""
        return int(self.at.size + self.compared.size * len(self.others))


def with_decisions(results: Results, single: SingleRuns, on_progress: Progress = lambda *_: None) -> SingleRuns:
    """The same runs with the decisions of as many of their rounds as fit; `on_progress` hears how far it is.

    The numbers of a page are bounded, and so is the number of decisions; they do not depend on how fast this machine
    is. A run whose policy is the user's own code is left as it is, because reports run no code that folders name.
    """
    prepared = [_prepared(results, entry, len(single.runs)) for entry in single.runs]
    tasks = [task for task in prepared if isinstance(task, _Task)]
    total, done, entries = sum(task.count for task in tasks), 0, []

    def step(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, total, "")

    delays = [decider.first_delay for task in tasks for decider in (task.own, *task.others)]
    if total:
        on_progress(0, total, next(filter(None, delays), ""))
    for task, entry in zip(prepared, cast("Sequence[Mapping[str, object]]", single.data["runs"]), strict=True):
        decisions = {"problem": task} if isinstance(task, str) else _decisions(task, step)
        entries.append({**entry, "decisions": decisions})
    keys = {"head": _HEAD, "round": _ROUND, "floor": _FLOOR, "leftOut": _LEFT_OUT, "device": _DEVICE}
    return replace(single, data={**single.data, "runs": entries, "answer": keys})


def _prepared(results: Results, entry: Explored, runs: int) -> "_Task | str":
    """What to decide of a run; a sentence if its own policy cannot."""
    run = entry.run
    try:
        own = decider_of(run.run.scenario, folder=run.run.folder)
    except FedfloorError as error:
        return str(error)
    others, omissions = [], []
    for name in _other_policies(results, run.run):
        try:
            others.append(_other(run.run, name))
        except FedfloorError as error:
            omissions.append(f"{shown_name(name)} is not asked: {error}")
    small = max(1.0, len(run.floors) * run.run.scenario.radio.channels / _SMALL)
    limit = min(_ROUNDS / runs / small, _NUMBERS / runs / _numbers_per_round(run, len(others)))
    at = entry.at[spread(entry.at.size, max(_LEAST, int(limit)))]
    compared = at[spread(at.size, max(_LEAST, int(_OTHER_ROUNDS / runs / small / max(1, len(others)))))]
    return _Task(run, own, tuple(others), at, compared if others else at[:0], tuple(omissions))


def _other_policies(results: Results, run: ReadRun) -> tuple[str, ...]:
    """Policies of the other runs, or well-known ones if there is no other run."""
    names = dict.fromkeys(series.runs[0].policy for series in results.collection.series)
    kind = PolicySpec.of(run.scenario.policy).name
    usual = [name for name in OTHERS if name != kind]
    return tuple(name for name in (names if len(names) > 1 else usual) if name != run.policy)


def _other(run: ReadRun, name: str) -> Decider:
    """Another policy for the rounds of a run; refuses code, which only the user may name."""
    if ":" in parse_policy(name).name:
        raise FedfloorError("it is code that a folder names, which a report does not run.")
    return decider_of(run.scenario, name, folder=run.folder)


def _numbers_per_round(run: RunArrays, others: int) -> float:
    """Numbers that the decisions of a round add to the page."""
    selected = float(run.selected.sum(axis=1).mean())
    devices = len(run.devices) / len(run.floors)
    own = selected * (len(_FLOOR) + len(_DEVICE) * devices) + (2 + len(_LEFT_OUT)) * len(run.floors)
    return own + others * selected * (1 + len(_FLOOR_OF_OTHERS) + devices)


def _decisions(task: _Task, on_step: Callable[[int], None]) -> dict[str, object]:
    """The decisions of a run's rounds for the page's script, or what is wrong with the run."""
    compared, rounds, differing, head = set(task.compared.tolist()), [], [], {}
    omissions = dict.fromkeys(task.omissions)
    try:
        for place, state, record in _states(task):
            decided = answer(task.own.round(state, record))
            head = {key: decided[key] for key in _HEAD}
            differing += [state.index] * (not is_logged(record, decided))
            others: list[list[object] | None] | None = None
            if place in compared:
                others = [_of_other(other, state, record, omissions) for other in task.others]
            rounds.append([*_of_round(decided), state.queue, state.target_rate, others])
            on_step(1 + (len(task.others) if place in compared else 0))
    except FedfloorError as error:  # the log and the scenario disagree, or the policy's code has changed
        return {"problem": str(error)}
    folder = task.run.run.folder
    return {
        **head,
        "problem": "",
        "folder": folder.name if folder.is_absolute() else str(folder),  # the page may be sent to others
        "others": [shown_name(str(other.spec)) for other in task.others],
        "omissions": list(omissions),
        "differing": differing,
        "rounds": rounds,
    }


def _states(task: _Task) -> Iterator[tuple[int, RoundState, RoundRecord]]:
    """Place, state and record of every round that is decided, in one pass over the log."""
    with_history = any(decider.needs_history for decider in (task.own, *task.others))
    chosen = set(task.at.tolist())
    records, same = tee(task.run.run.records)  # a log is parsed once; each record is taken before its state
    states = replayed(task.run.run.scenario, records, only=chosen, with_history=with_history)
    for place, record in enumerate(same):
        if place in chosen:
            yield place, next(states), record


def _of_round(decided: PlanAnswer) -> list[object]:
    """An answer as lists: what the keys of _ROUND have, then a list for every floor."""
    floors: list[object] = []
    for floor in decided["gateways"]:
        keys = _FLOOR if floor["channel"] is not None else _LEFT_OUT
        row = [floor[key] for key in keys]
        devices = [[device[key] for key in _DEVICE if key in device] for device in floor["devices"]]
        weight = [floor["weight"]] if "weight" in floor else []
        floors.append([*row, devices, *weight] if floor["channel"] is not None else row)
    return [*(decided[key] for key in _ROUND), floors]


def _of_other(
    decider: Decider, state: RoundState, record: RoundRecord, omissions: dict[str, None]
) -> list[object] | None:
    """What another policy would decide: delay [s], and the floors that it selects; None if it cannot."""
    try:
        decided = answer(decider.round(state, record))
    except FedfloorError as error:
        omissions[f"{shown_name(str(decider.spec))} cannot decide some rounds: {error}"] = None
        return None
    floors = [
        [m, *(floor[key] for key in _FLOOR_OF_OTHERS), [device["cut"] for device in floor["devices"]]]
        for m, floor in enumerate(decided["gateways"])
        if floor["channel"] is not None
    ]
    return [decided["delay_s"], floors]
