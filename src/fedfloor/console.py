"""What commands print: tables for people, JSON for programs."""

__all__ = [
    "amount",
    "as_json",
    "downloading",
    "print_check",
    "print_evaluation",
    "print_holding",
    "print_json",
    "print_listing",
    "print_plan",
    "print_profile",
    "print_short",
    "print_simulation",
    "print_tradeoff",
    "print_training",
    "print_verified",
    "progress",
    "training_note",
    "working",
]

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from fedfloor.costs.headline import Headline
from fedfloor.costs.layers import LayerCosts
from fedfloor.scenario.catalogue import DATASETS
from fedfloor.scenario.layers import LayerSpec
from fedfloor.scenario.plant import Scenario
from fedfloor.scheduling.registry import PolicySpec
from fedfloor.summary import RunSummary
from fedfloor.tradeoff import TradeoffPoint


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to `cli.main`, where a reader who leaves early is no failure."""
        raise BrokenPipeError


_ERR = _Terminal(stderr=True, highlight=False, markup=False, emoji=False)
#: a pipe or a file has no width of its own: tables keep their lines whole there
_OUT = _Terminal(
    highlight=False, markup=False, emoji=False, width=None if sys.stdout is not None and sys.stdout.isatty() else 160
)

_PREFIXES = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "u"),
    (1e-9, "n"),
)


def amount(value: float, unit: str) -> str:
    """A quantity with three digits and a prefix: 1.78 TFLOP."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g} {unit}"
    scale, prefix = next((entry for entry in _PREFIXES if float(f"{abs(value):.3g}") >= entry[0]), _PREFIXES[-1])
    return f"{value / scale:.3g} {prefix}{unit}"


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(_finite(value), indent=2, default=_plain, allow_nan=False))


def _finite(value: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else str(value)


def _table(title: str, *columns: str, left: int = 1) -> Table:
    """A table whose first columns are text and whose others are figures."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=index < left)
    return table


@contextmanager
def progress(label: str, total: int, *, quiet: bool, note: str = "") -> Iterator[tuple[Progress, TaskID]]:
    """A live bar on standard error; none when quiet or when nobody looks, then only the note."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=_ERR,
        transient=True,
        disable=quiet or not _ERR.is_terminal,
    )
    if note and not quiet and not _ERR.is_terminal:
        _ERR.print(note)
    with bar:
        yield bar, bar.add_task(label, total=total, note=note)


@contextmanager
def downloading(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """What to call with a file's name, its bytes so far and in all: a live bar per file on standard error."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=_ERR,
        transient=True,
        disable=quiet or not _ERR.is_terminal,
    )
    tasks: dict[str, TaskID] = {}

    def show(file: str, done: int, total: int) -> None:
        if file not in tasks:
            tasks[file] = bar.add_task(file, total=total)
        bar.update(tasks[file], completed=done)

    with bar:
        yield show


@contextmanager
def working(note: str = "") -> Iterator[None]:
    """A turning sign on standard error while a single decision is made; when nobody looks, only the note."""
    if not _ERR.is_terminal:
        if note:
            _ERR.print(note)
        yield
        return
    with _ERR.status(f"deciding; {note}" if note else "deciding"):
        yield


def print_listing(groups: Mapping[str, Mapping[str, str]]) -> None:
    """What there is, with one line each."""
    for title, entries in groups.items():
        table = Table(
            title=title, title_justify="left", title_style="bold", show_header=False, box=None, pad_edge=False
        )
        table.add_column(style="cyan", no_wrap=True, min_width=16)
        table.add_column()
        for name, summary in entries.items():
            table.add_row(name, summary)
        _OUT.print(table, end="\n\n")


def print_check(scenario: Scenario, figures: Headline) -> None:
    """What a scenario resolves to."""
    size = f"{len(scenario.floors)} floors, {len(scenario.devices)} devices, {scenario.radio.channels} channels"
    _OUT.print(f"{scenario.name} is valid: {size}, {scenario.rounds} rounds, seed {scenario.seed}", style="bold")
    model, training, need = scenario.model, scenario.training, figures.at_cut_1
    width = f", costs of width {scenario.costs.width:g}" if scenario.costs.width else ""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="cyan")
    table.add_column()
    rows = {
        "model": f"{model.name}, width {model.width:g}{width}, {len(scenario.layers)} layers, cuts "
        f"{training.min_cut}..{len(scenario.layers)}",
        "model size": f"{figures.parameters:,} parameters, {amount(figures.model_bits, 'bit')} on the air",
        "cost model": scenario.costs.model,
        "per sample": f"{amount(figures.flop_per_sample, 'FLOP')} forward and backward",
        "per round": f"{amount(figures.flop_per_round, 'FLOP')} if every floor took part, "
        f"{training.local_iterations} iterations each",
        "device at cut 1": f"needs {_span(need.energy, 'J')} and {_span(need.memory_bytes, 'B')}; "
        f"{need.affordable} of {len(scenario.devices)} devices can afford it with full energy",
        "data": f"{scenario.data.name}, {figures.samples:,} samples held by devices",
        "rates": _rates(scenario),
        "policy": scenario.policy.name + "".join(f", {key} {value}" for key, value in scenario.policy.settings.items()),
        "traces": ", ".join(scenario.traces) or "none, all weather is drawn",
    }
    for key, text in rows.items():
        table.add_row(key, text)
    _OUT.print(table)
    _print_warnings(scenario, figures)
    _print_floors(scenario)


def _print_warnings(scenario: Scenario, figures: Headline, most: int = 10) -> None:
    facts = DATASETS.get(scenario.data.name)
    if facts is not None and figures.samples > facts.training_samples:
        note = f"{facts.training_samples:,} training samples exist: devices will hold fewer than they ask for"
        _OUT.print(f"{scenario.data.name}: {note}.", style="yellow")
    if not scenario.limits:
        _OUT.print("Limits are off: no floor fails for energy or memory.")
        return
    able = len(scenario.floors) - len(figures.obstacles)
    if not figures.obstacles and not figures.weak_links:
        _OUT.print("Every floor can take part, given full energy, mean gain and time.", style="green")
    if figures.obstacles:
        text = f"{able} of {len(scenario.floors)} floors can ever take part."
        _OUT.print(text, style="yellow" if able else "red")
    if figures.weak_links:
        _OUT.print(f"{len(figures.weak_links)} floors need better than mean gain to upload.", style="yellow")
    notes = (*figures.obstacles, *figures.weak_links)
    for obstacle in notes[:most]:
        _OUT.print(f"  {obstacle.floor}: {obstacle.reason}")
    if len(notes) > most:
        _OUT.print(f"  and {len(notes) - most} more")


def _span(ends: tuple[float, float], unit: str) -> str:
    low, high = (amount(value, unit) for value in ends)
    return low if low == high else f"{low} to {high}"


def _rates(scenario: Scenario) -> str:
    rates = scenario.participation.rates
    if isinstance(rates, str):
        simulated = scenario.participation.simulated_rates
        note = "" if rates != "estimated" else f" in training runs, {_listed(simulated)} in simulations"
        return f"{rates}{note}"
    return _listed(rates)


def _listed(rates: str | tuple[float, ...]) -> str:
    return rates if isinstance(rates, str) else ", ".join(f"{rate:g}" for rate in rates)


def _print_floors(scenario: Scenario, most: int = 30) -> None:
    table = _table(
        "floors", "floor", "devices", "distance", "gateway", "memory", "energy up to", "samples", "device clock"
    )
    for floor in scenario.floors[:most]:
        gateway, clocks = floor.gateway, [device.frequency for device in floor.devices]
        table.add_row(
            floor.name,
            str(len(floor.devices)),
            amount(gateway.distance, "m"),
            amount(gateway.max_frequency, "Hz"),
            amount(gateway.memory_bytes, "B"),
            amount(gateway.max_energy, "J"),
            str(sum(device.samples for device in floor.devices)),
            _span((min(clocks), max(clocks)), "Hz"),
        )
    _OUT.print(table)
    if len(scenario.floors) > most:
        _OUT.print(f"and {len(scenario.floors) - most} more floors")


def print_profile(
    name: str, layers: Sequence[LayerSpec], costs: LayerCosts, cost_model: str, batch: int, figures: Mapping[str, Any]
) -> None:
    """The layer table and the totals for every cut."""
    title = f"{name}, cost model '{cost_model}', MFLOP, kept and error bytes per sample"
    table = _table(
        title, "layer", "output", "parameters", "forward", "error", "gradient", "other", "weights kB",
        "gradients kB", "kept kB", "error kB", left=2,
    )  # fmt: skip
    other = costs.other_forward_flop + costs.other_backward_flop
    memory = (costs.weight_bytes, costs.gradient_bytes, costs.output_bytes, costs.error_bytes)
    for index, layer in enumerate(layers):
        flop = (costs.forward_flop, costs.error_flop, costs.gradient_flop, other)
        table.add_row(
            layer.name,
            "x".join(map(str, layer.output)),
            f"{layer.parameters:,}",
            *(f"{part[index] / 1e6:.3f}" for part in flop),
            *(f"{part[index] / 1e3:,.1f}" for part in memory),
        )
    table.add_section()
    table.add_row(
        "total",
        "",
        f"{figures['parameters']:,}",
        *(f"{part.sum() / 1e6:.3f}" for part in (costs.forward_flop, costs.error_flop, costs.gradient_flop, other)),
        *(f"{part.sum() / 1e3:,.1f}" for part in memory),
    )
    _OUT.print(table)
    cuts = _table(
        f"cuts, one iteration with a batch of {batch}",
        "cut", "after", "device", "gateway", "device memory", "gateway memory", "sent up per sample",
        left=2,
    )  # fmt: skip
    for entry in figures["cuts"]:
        cuts.add_row(
            str(entry["cut"]),
            entry["after"] or "raw samples leave",
            amount(entry["device_flop"], "FLOP"),
            amount(entry["gateway_flop"], "FLOP"),
            amount(entry["device_bytes"], "B"),
            amount(entry["gateway_bytes"], "B"),
            amount(entry["boundary_bytes_per_sample"], "B"),
        )
    _OUT.print(cuts)


def print_plan(decided: Mapping[str, Any]) -> None:
    """Who is served and how; then who is not, and why."""
    served = [entry for entry in decided["gateways"] if entry["channel"] is not None]
    spec = PolicySpec(decided["policy"], tuple(decided["settings"].items()))
    head = f"{spec}, round {decided['round']}: {len(served)} of {len(decided['gateways'])} floors"
    _OUT.print(f"{head}, delay {decided['delay_s']:.4g} s", style="bold")
    gap = decided["optimality_gap"]
    proof = "" if gap is None else ", proven optimal" if gap <= 1e-9 else f", proven within {gap:.1g} of V x delay"
    objective = f"objective {decided['objective']:.6g} at V = {decided['tradeoff_v']:g}{proof}"
    _OUT.print(f"{objective}; decided in {amount(decided['solve_s'], 's')}, loading included")
    parts = ("delay", "download", "train", "upload") if _OUT.width >= 100 else ("delay", "train", "upload")
    table = _table("served", "floor", "channel", *parts, "power", "energy of budget", "memory", "cuts")
    for entry in served:
        cuts = Counter(device["cut"] for device in entry["devices"])
        shown = ", ".join(f"{cut}" if count == 1 else f"{cut} x{count}" for cut, count in sorted(cuts.items()))
        times = (f"{entry[f'{part}_s']:.3g} s" for part in parts)
        energy = f"{entry['energy_j']:.3g} of {entry['energy_budget_j']:.3g} J"
        power, memory = amount(entry["power_w"], "W"), amount(entry["memory_bytes"], "B")
        table.add_row(entry["name"], str(entry["channel"]), *times, power, energy, memory, shown)
    _OUT.print(table)
    for entry in served:
        if entry["failure"]:
            _OUT.print(f"{entry['name']} will fail: {entry['failure']}", style="red")
    devices = _table(
        "devices; a cut of 3 leaves the first 3 layers on the device",
        *("floor", "device", "cut", "gateway clock", "energy of budget", "memory"),
        left=2,
    )
    rows = [(entry["name"], device) for entry in served for device in entry["devices"]]
    for floor, device in rows[:40]:
        clock, memory = amount(device["gateway_frequency_hz"], "Hz"), amount(device["memory_bytes"], "B")
        energy = f"{device['energy_j']:.3g} of {device['energy_budget_j']:.3g} J"
        devices.add_row(floor, device["name"], str(device["cut"]), clock, energy, memory)
    _OUT.print(devices)
    if len(rows) > 40:
        _OUT.print(f"and {len(rows) - 40} more devices")
    left_out = [entry for entry in decided["gateways"] if entry["channel"] is None]
    for entry in left_out[:20]:
        _OUT.print(f"{entry['name']}: {entry['reason']}")
    if len(left_out) > 20:
        _OUT.print(f"and {len(left_out) - 20} more floors left out")


def print_tradeoff(scenario: Scenario, points: Sequence[TradeoffPoint]) -> None:
    """Delay and participation over V, with the bounds of Theorem 2."""
    title = f"{scenario.name}, {scenario.rounds} rounds per V"
    table = _table(title, "V", "mean delay", "its bound", "shortfall", "its bound")
    for point in points:
        delay_bound = "none" if point.delay_bound_s is None else f"{point.delay_bound_s:.4g} s"
        shortfall_bound = "none" if point.shortfall_bound is None else f"{point.shortfall_bound:.3f}"
        row = (f"{point.mean_delay_s:.4g} s", delay_bound, f"{point.shortfall:.3f}", shortfall_bound)
        table.add_row(f"{point.v:g}", *row)
    _OUT.print(table)
    if all(point.delay_bound_s is None for point in points):
        _OUT.print(
            "No run met its rates, so the best delay is unknown and there are no bounds. More rounds, or rates that "
            "the plant can reach, give some."
        )
        return
    note = "the best delay is that of the fastest run that met its rates; none: the bound would exceed every rate"
    _OUT.print(f"Bounds: Theorem 2 with the repairs of docs/paper_notes.md; {note}.")


def print_verified(report: Mapping[str, Any]) -> None:
    """A data set in figures, then its files."""
    shape = "x".join(map(str, report["shape"]))
    _OUT.print(f"{report['name']} can be read: {report['origin']}", style="bold", soft_wrap=True)
    _OUT.print(f"{report['training']:,} training and {report['test']:,} test samples of {shape}")
    classes = _table("samples per class", "class", *map(str, range(report["classes"])))
    classes.add_row("training", *(f"{count:,}" for count in report["training_per_class"]))
    classes.add_row("test", *(f"{count:,}" for count in report["test_per_class"]))
    _OUT.print(classes)
    for file in report["files"]:
        _OUT.print(f"checksum {file['checksum']}: {file['path']}", soft_wrap=True)


def print_simulation(
    summaries: Sequence[RunSummary], solve_times: Sequence[float], folders: Sequence[str], runs: Sequence[Any] = ()
) -> None:
    """Policies side by side: their figures, then participation per floor."""
    first = summaries[0]
    names = [summary.policy.removesuffix(",solver=exact") for summary in summaries]
    if 24 + sum(len(name) + 3 for name in names) > _OUT.width:
        for number, name in enumerate(names, start=1):
            _OUT.print(f"{number}  {name}", soft_wrap=True)
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
        **({"accuracy": [f"{done.accuracy:.2%}" for done in runs]} if runs else {}),
        **({"test loss": [f"{done.loss:.4f}" for done in runs]} if runs else {}),
        "time to decide": [amount(seconds, "s") for seconds in solve_times],
    }
    table = _table(f"{first.rounds} rounds", "", *names)
    for label, cells in rows.items():
        table.add_row(label, *cells)
    _OUT.print(table)
    floors = _table("share of rounds completed", "floor", "target", *names)
    for index, floor in enumerate(first.floors[:30]):
        floors.add_row(
            floor.name,
            f"{floor.target_rate:.2f}",
            *(f"{summary.floors[index].completed_rate:.2f}" for summary in summaries),
        )
    _OUT.print(floors)
    if len(first.floors) > 30:
        _OUT.print(f"and {len(first.floors) - 30} more floors")
    for folder in folders:
        _OUT.print(f"log: {folder}", soft_wrap=True)


def training_note(bar: Progress, task: TaskID) -> Callable[[Any], None]:
    """What to call with a training run's events: shows clock, accuracy, loss and who is training."""
    shown = {"accuracy": "", "loss": "", "clock": "clock 0 s"}

    def show(event: Any) -> None:
        entry, advance = event.record, 0
        if entry is not None:
            losses = [gateway["loss"] for gateway in entry["gateways"] if gateway["loss"] is not None]
            shown["clock"] = f"clock {entry['clock_s'] or 0.0:.4g} s"
            if losses:
                shown["loss"] = f"loss {sum(losses) / len(losses):.3f}"
            if entry["accuracy"] is not None:
                shown["accuracy"] = f"accuracy {entry['accuracy']:.1%}"
            advance = entry["round"] + 1
        busy = f"training {', '.join(event.training)}" if event.training else ""
        note = "  ".join(filter(None, (shown["clock"], shown["accuracy"], shown["loss"], busy)))
        if advance:
            bar.update(task, completed=advance, note=note)
        else:
            bar.update(task, note=note)

    return show


def print_training(
    summaries: Sequence[RunSummary], solve_times: Sequence[float], folders: Sequence[str], runs: Sequence[Any]
) -> None:
    """Policies side by side, what training made of them, and a sentence that says what happened."""
    print_simulation(summaries, solve_times, folders, runs)
    _print_bounds(summaries, runs)
    for summary, done in zip(summaries, runs, strict=True):
        holding = done.holding
        asked = "" if done.resumed == 0 else f" (resumed at round {done.resumed})"
        classes = done.confusion.shape[0]
        trained = f"{holding.samples.labels.size:,} samples on {holding.histogram.shape[0]} devices"
        _OUT.print(
            f"{summary.policy.removesuffix(',solver=exact')}: after {summary.rounds} rounds{asked} and "
            f"{amount(summary.clock, 's')} of simulated time the model names {done.accuracy:.1%} of "
            f"{done.confusion.sum():,} test samples rightly (guessing: {1 / classes:.0%}), having learnt from "
            f"{trained} that never left their floor ({holding.origin}).",
            style="bold",
        )


def _print_bounds(summaries: Sequence[RunSummary], runs: Sequence[Any]) -> None:
    """The theorems beside what runs measured."""
    table = _table("theory", "policy", "", "what", "measured", "bound", "note", left=3)
    for summary, done in zip(summaries, runs, strict=True):
        for entry in done.bounds:
            measured = "" if entry.measured is None else f"{entry.measured:.4g}"
            bound = "none" if entry.bound is None else f"{entry.bound:.4g}"
            name = summary.policy.removesuffix(",solver=exact")
            table.add_row(name, entry.theorem, entry.what, measured, bound, entry.note)
    if table.row_count:
        _OUT.print(table)


def print_holding(found: Mapping[str, Any], most: int = 60) -> None:
    """Who holds what, darker for more."""
    devices = found["devices"]
    total = sum(device["held"] for device in devices)
    _OUT.print(f"{found['data']} ({found['origin']}), partition '{found['partition']}'", style="bold")
    _OUT.print(f"{total:,} samples on {len(devices)} devices, {found['test_samples']:,} test samples")
    classes = len(devices[0]["classes"])
    largest = max(max(device["classes"]) for device in devices)
    table = _table("samples per class", "floor", "device", *map(str, range(classes)), "all", left=2)
    for column in table.columns[2 : 2 + classes]:
        column.justify = "center"
    for device in devices[:most]:
        cells = [_shaded(count, largest) for count in device["classes"]]
        wish = f" of {device['asked']}" if device["held"] < device["asked"] else ""
        table.add_row(device["floor"], device["name"], *cells, f"{device['held']}{wish}")
    _OUT.print(table)
    if len(devices) > most:
        _OUT.print(f"and {len(devices) - most} more devices")
    print_short(found)


def print_short(found: Mapping[str, Any]) -> None:
    """Devices that get fewer samples than they ask for, if there are any."""
    short = [device for device in found["devices"] if device["held"] < device["asked"]]
    if short:
        first = f"{short[0]['name']} gets {short[0]['held']} of {short[0]['asked']}"
        text = f"{len(short)} devices hold fewer samples than they ask for, their classes run out: {first}"
        _OUT.print(f"{text}{', ...' if len(short) > 1 else '.'}", style="yellow")


def _shaded(count: int, largest: int) -> str:
    """A block that is darker the more there is."""
    return "█▓▒░"[min(3, int(4 * (1 - count / largest)))] * 3 if count else "."


def print_evaluation(found: Mapping[str, Any]) -> None:
    """Accuracy, and who is taken for whom."""
    _OUT.print(
        f"{found['run']}, after {found['rounds']} rounds: accuracy {found['accuracy']:.2%} on {found['samples']:,} "
        f"samples, loss {found['loss']:.4f}",
        style="bold",
    )
    if not found["same_data"]:
        _OUT.print(f"The data ({found['data']}) is not what the run was trained on.", style="yellow")
    classes = len(found["confusion"])
    if classes <= 20:
        table = _table("true class, and what it was taken for", "", *map(str, range(classes)), "right")
        for label, row in enumerate(found["confusion"]):
            cells = [str(count) if count else "." for count in row]
            table.add_row(str(label), *cells, f"{row[label] / max(1, sum(row)):.0%}")
        _OUT.print(table)
    if found["exported"]:
        _OUT.print(f"model: {found['exported']}")


def as_json(summary: RunSummary, solve_time: float, folder: Path, done: Any = None) -> dict[str, Any]:
    """A summary with units in its keys."""
    entry = asdict(summary)
    for key, unit in (("mean_delay", "s"), ("p95_delay", "s"), ("clock", "s"), ("mean_energy", "j")):
        entry[f"{key}_{unit}"] = entry.pop(key)
    entry["time_per_round_s"] = solve_time
    entry["folder"] = str(folder)
    if done is not None:
        entry |= {"accuracy": done.accuracy, "loss": done.loss, "resumed_at": done.resumed, "data": done.holding.origin}
        entry["bounds"] = [asdict(bound) for bound in done.bounds]
    return entry
