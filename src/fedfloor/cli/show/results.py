"""What decisions, runs and models look like."""

__all__ = [
    "as_json",
    "print_evaluation",
    "print_plan",
    "print_simulation",
    "print_tradeoff",
    "print_training",
]

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedfloor.cli.show.terminal import OUT, amount, print_table, table_of
from fedfloor.rounds.summary import RunSummary
from fedfloor.runs.tradeoff import TradeoffPoint
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.registry import PolicySpec


def print_plan(decided: Mapping[str, Any]) -> None:
    """Who is served and how; then who is not, and why."""
    served = [entry for entry in decided["gateways"] if entry["channel"] is not None]
    spec = PolicySpec(decided["policy"], tuple(decided["settings"].items()))
    head = f"{spec}, round {decided['round']}: {len(served)} of {len(decided['gateways'])} floors"
    OUT.print(f"{head}, delay {decided['delay_s']:.4g} s", style="bold")
    gap = decided["optimality_gap"]
    proof = "" if gap is None else ", proven optimal" if gap <= 1e-9 else f", proven within {gap:.1g} of V x delay"
    objective = f"objective {decided['objective']:.6g} at V = {decided['tradeoff_v']:g}{proof}"
    OUT.print(f"{objective}; decided in {amount(decided['solve_s'], 's')}, loading included")
    parts = ("delay", "download", "train", "upload") if OUT.width >= 100 else ("delay", "train", "upload")
    table = table_of("served", "floor", "channel", *parts, "power", "energy of budget", "memory", "cuts")
    for entry in served:
        cuts = Counter(device["cut"] for device in entry["devices"])
        shown = ", ".join(f"{cut}" if count == 1 else f"{cut} x{count}" for cut, count in sorted(cuts.items()))
        times = (f"{entry[f'{part}_s']:.3g} s" for part in parts)
        energy = f"{entry['energy_j']:.3g} of {entry['energy_budget_j']:.3g} J"
        power, memory = amount(entry["power_w"], "W"), amount(entry["memory_bytes"], "B")
        table.add_row(entry["name"], str(entry["channel"]), *times, power, energy, memory, shown)
    print_table(table)
    for entry in served:
        if entry["failure"]:
            OUT.print(f"{entry['name']} will fail: {entry['failure']}", style="red")
    devices = table_of(
        "devices; a cut of 3 leaves the first 3 layers on the device",
        *("floor", "device", "cut", "gateway clock", "energy of budget", "memory"),
        left=2,
    )
    rows = [(entry["name"], device) for entry in served for device in entry["devices"]]
    for floor, device in rows[:40]:
        clock, memory = amount(device["gateway_frequency_hz"], "Hz"), amount(device["memory_bytes"], "B")
        energy = f"{device['energy_j']:.3g} of {device['energy_budget_j']:.3g} J"
        devices.add_row(floor, device["name"], str(device["cut"]), clock, energy, memory)
    print_table(devices)
    if len(rows) > 40:
        OUT.print(f"and {len(rows) - 40} more devices")
    left_out = [entry for entry in decided["gateways"] if entry["channel"] is None]
    for entry in left_out[:20]:
        OUT.print(f"{entry['name']}: {entry['reason']}")
    if len(left_out) > 20:
        OUT.print(f"and {len(left_out) - 20} more floors left out")


def print_tradeoff(scenario: Scenario, points: Sequence[TradeoffPoint]) -> None:
    """Delay and participation over V, with the bounds of Theorem 2."""
    title = f"{scenario.name}, {scenario.rounds} rounds per V"
    table = table_of(title, "V", "mean delay", "its bound", "shortfall", "its bound")
    for point in points:
        delay_bound = "none" if point.delay_bound_s is None else f"{point.delay_bound_s:.4g} s"
        shortfall_bound = "none" if point.shortfall_bound is None else f"{point.shortfall_bound:.3f}"
        row = (f"{point.mean_delay_s:.4g} s", delay_bound, f"{point.shortfall:.3f}", shortfall_bound)
        table.add_row(f"{point.v:g}", *row)
    print_table(table)
    if all(point.delay_bound_s is None for point in points):
        OUT.print(
            "No run met its rates, so the best delay is unknown and there are no bounds. More rounds, or rates that "
            "the plant can reach, give some."
        )
        return
    note = "the best delay is that of the fastest run that met its rates; none: the bound would exceed every rate"
    OUT.print(f"Bounds: Theorem 2 with the repairs of docs/paper_notes.md; {note}.")


def print_simulation(
    summaries: Sequence[RunSummary], solve_times: Sequence[float | None], folders: Sequence[str]
) -> None:
    """Policies side by side: their figures, then participation per floor, then where the logs are."""
    _print_summaries(summaries, solve_times)
    _print_folders(folders)


def _print_folders(folders: Sequence[str]) -> None:
    for folder in folders:
        OUT.print(f"log: {folder}", soft_wrap=True)


def _print_summaries(
    summaries: Sequence[RunSummary], solve_times: Sequence[float | None], runs: Sequence[Any] = ()
) -> None:
    first = summaries[0]
    names = [_short(summary) for summary in summaries]
    if 24 + sum(len(name) + 3 for name in names) > OUT.width:
        for number, name in enumerate(names, start=1):
            OUT.print(f"{number}  {name}", soft_wrap=True)
        names = [str(number) for number in range(1, len(names) + 1)]
    causes = sorted({cause for summary in summaries for cause in summary.failures})
    rows: dict[str, Sequence[str]] = {
        "mean delay [s]": [f"{summary.mean_delay:#.4g}" for summary in summaries],
        "95th percentile [s]": [f"{summary.p95_delay:#.4g}" for summary in summaries],
        "simulated time [s]": [f"{summary.clock:.5g}" for summary in summaries],
        "energy a round [J]": [f"{summary.mean_energy:#.4g}" for summary in summaries],
        "completed": [str(summary.completed) for summary in summaries],
        **{f"failed: {cause}": [str(summary.failures.get(cause, 0)) for summary in summaries] for cause in causes},
        "worst shortfall": [f"{summary.shortfall:.3f}" for summary in summaries],
        **_learnt(runs),
        "time to decide": ["-" if seconds is None else amount(seconds, "s") for seconds in solve_times],
    }
    table = table_of(f"{first.rounds} rounds", "", *names)
    for label, cells in rows.items():
        table.add_row(label, *cells)
    print_table(table)
    floors = table_of("share of rounds completed", "floor", "target", *names)
    for index, floor in enumerate(first.floors[:30]):
        floors.add_row(
            floor.name,
            f"{floor.target_rate:.2f}",
            *(f"{summary.floors[index].completed_rate:.2f}" for summary in summaries),
        )
    print_table(floors)
    if len(first.floors) > 30:
        OUT.print(f"and {len(first.floors) - 30} more floors")


def _learnt(runs: Sequence[Any]) -> dict[str, list[str]]:
    """Rows of what training made of the models, the last one and the best one that was tested."""
    if not runs:
        return {}
    best = [done.best for done in runs]
    return {
        "last accuracy": [f"{done.accuracy:.2%}" for done in runs],
        "best accuracy": [f"{accuracy:.2%}" for accuracy, _ in best],
        "best after rounds": [str(rounds) for _, rounds in best],
        "last test loss": [f"{done.loss:.4f}" for done in runs],
    }


def print_training(
    summaries: Sequence[RunSummary], solve_times: Sequence[float | None], folders: Sequence[str], runs: Sequence[Any]
) -> None:
    """Policies side by side, the theorems, and at the end a sentence that says what happened and where the logs are."""
    _print_summaries(summaries, solve_times, runs)
    _print_bounds(summaries, runs)
    for summary, done in zip(summaries, runs, strict=True):
        holding = done.holding
        asked = "" if done.resumed == 0 else f" (resumed after round {done.resumed})"
        classes = done.confusion.shape[0]
        trained = f"{holding.samples.labels.size:,} samples on {holding.histogram.shape[0]} devices"
        OUT.print(
            f"{_short(summary)}: after {summary.rounds} rounds{asked} and "
            f"{amount(summary.clock, 's')} of simulated time the model names {done.accuracy:.1%} of "
            f"{done.confusion.sum():,} test samples rightly (guessing: {1 / classes:.0%}), having learnt from "
            f"{trained} ({holding.origin}); no sample left its floor.",
            style="bold",
        )
    _print_folders(folders)


def _short(summary: RunSummary) -> str:
    return summary.policy.removesuffix(",solver=exact")


def _print_bounds(summaries: Sequence[RunSummary], runs: Sequence[Any]) -> None:
    """The theorems beside what runs measured, then a line for each note; what has neither figure is left out."""
    several = len(runs) > 1
    who = ("policy",) if several else ()
    table = table_of("theory", *who, "", "what", "measured", "bound", left=len(who) + 2)
    notes = []
    for summary, done in zip(summaries, runs, strict=True):
        name = (_short(summary),) if several else ()
        for entry in done.bounds:
            if entry.measured is None and entry.bound is None:
                continue
            measured = "" if entry.measured is None else f"{entry.measured:.4g}"
            bound = "none" if entry.bound is None else f"{entry.bound:.4g}"
            table.add_row(*name, entry.theorem, entry.what, measured, bound)
            if entry.note:
                notes.append(": ".join([*name, entry.theorem, entry.note]))
    if table.row_count:
        print_table(table)
    for note in notes:
        OUT.print(note)
    if notes:
        OUT.print()


def print_evaluation(found: Mapping[str, Any]) -> None:
    """Accuracy, and who is taken for whom."""
    OUT.print(
        f"{found['run']}, after {found['rounds']} rounds: accuracy {found['accuracy']:.2%} on {found['samples']:,} "
        f"samples, loss {found['loss']:.4f}",
        style="bold",
    )
    if not found["same_data"]:
        OUT.print(f"The data ({found['data']}) is not what the run was trained on.", style="yellow")
    classes = len(found["confusion"])
    if classes <= 20:
        table = table_of("true class, and what it was taken for", "", *map(str, range(classes)), "right")
        for label, row in enumerate(found["confusion"]):
            cells = [str(count) if count else "." for count in row]
            table.add_row(str(label), *cells, f"{row[label] / max(1, sum(row)):.0%}")
        print_table(table)
    if found["exported"]:
        OUT.print(f"model: {found['exported']}")


def as_json(summary: RunSummary, solve_time: float | None, folder: Path, done: Any = None) -> dict[str, Any]:
    """A summary with units in its keys."""
    entry = asdict(summary)
    for key, unit in (("mean_delay", "s"), ("p95_delay", "s"), ("clock", "s"), ("mean_energy", "j")):
        entry[f"{key}_{unit}"] = entry.pop(key)
    entry["time_per_round_s"] = solve_time
    entry["folder"] = str(folder)
    if done is not None:
        entry |= {"accuracy": done.accuracy, "loss": done.loss, "resumed_at": done.resumed, "data": done.holding.origin}
        entry["best_accuracy"], entry["best_accuracy_rounds"] = done.best
        entry["bounds"] = [asdict(bound) for bound in done.bounds]
    return entry
