"""Print scenarios, layers and listings."""

__all__ = ["check_as_json", "print_check", "print_listing", "print_profile"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from fedfloor.api import ScenarioCheck
from fedfloor.cli.show.terminal import OUT, amount, print_table, table_of
from fedfloor.costs.headline import CostSource, Headline
from fedfloor.errors import counted
from fedfloor.runs.profile import Profile
from fedfloor.scenario.catalogue import DATASETS
from fedfloor.scenario.file import Deploy, Precision
from fedfloor.scenario.resolved import Scenario


def print_listing(groups: Mapping[str, Mapping[str, str]]) -> None:
    """Print what there is to choose from, one line each."""
    for title, entries in groups.items():
        table = Table(
            title=title, title_justify="left", title_style="bold", show_header=False, box=None, pad_edge=False
        )
        table.add_column(style="cyan", no_wrap=True, min_width=16)
        table.add_column()
        for name, summary in entries.items():
            table.add_row(name, summary)
        OUT.print(table, end="\n\n")


def check_as_json(checked: ScenarioCheck) -> dict[str, object]:
    """What `fedfloor check --format json` prints."""
    plain = all(floor.classes is None for floor in checked.scenario.floors)
    absent: dict[str, Any] = {} if checked.scenario.plant_seed is not None else {"plant_seed": True}
    absent |= {"floors": {"__all__": {"classes"}}} if plain else {}  # what is not given is not shown
    data = checked.scenario.data
    absent["data"] = {key for key in type(data).model_fields if key != "pictures" and getattr(data, key) is None}
    return {
        "scenario": checked.scenario.model_dump(mode="json", exclude=absent),
        "figures": asdict(checked.headline),
        "shortage": checked.shortage,
    }


def print_check(scenario: Scenario, headline: Headline) -> None:
    """Print what a scenario resolves to."""
    sizes = (("floor", len(scenario.floors)), ("device", len(scenario.devices)), ("channel", scenario.radio.channels))
    size = ", ".join(counted(number, thing) for thing, number in sizes)
    seeds = f"seed {scenario.seed}" + ("" if scenario.plant_seed is None else f", plant seed {scenario.plant_seed}")
    OUT.print(f"{scenario.name} is valid: {size}, {counted(scenario.rounds, 'round')}, {seeds}", style="bold")
    model, training, need = scenario.model, scenario.training, headline.at_least_cut
    width = f", costs of width {scenario.costs.width:g}" if scenario.costs.width else ""
    plain = scenario.precision == Precision()
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="cyan")
    table.add_column()
    rows = {
        "model": f"{model.name}, width {model.width:g}{width}, {len(scenario.layers)} layers, cuts "
        f"{training.min_cut}..{len(scenario.layers)}",
        "model size": f"{headline.parameters:,} parameters, {amount(headline.model_bits, 'bit')} "
        + ("on the air" if plain else "with 32 bits each"),
        **({} if plain else {"on the air": _precision(scenario, headline)}),
        **({"device links": _device_links(scenario)} if any(device.link for device in scenario.devices) else {}),
        "cost model": scenario.costs.model,
        "per sample": f"{amount(headline.flop_per_sample, 'FLOP')} forward and backward",
        "per round": f"{amount(headline.flop_per_round, 'FLOP')} if every floor took part, "
        f"{training.local_iterations} iterations each",
        f"device at cut {need.cut}": f"needs {_span(need.energy, 'J')} and {_span(need.memory_bytes, 'B')}; "
        f"{need.affordable} of {len(scenario.devices)} devices can afford it with full energy",
        "data": f"{scenario.data.name}, {_held(scenario, headline)}",
        "rates": _rates(scenario),
        **({} if scenario.deploy == Deploy() else {"real machines": _deployment(scenario.deploy)}),
        "policy": scenario.policy.name + "".join(f", {key} {value}" for key, value in scenario.policy.settings.items()),
        "traces": ", ".join(scenario.traces) or "none, all weather is drawn",
    }
    for key, text in rows.items():
        table.add_row(key, text)
    for source in headline.cost_sources:
        table.add_row("data sheets" if source.profile is None else "measured", _cost_source(source, scenario))
    OUT.print(table)
    _print_other_batches(headline)
    _print_warnings(scenario, headline)
    _print_floors(scenario, own=headline.samples is None)


def _print_other_batches(headline: Headline) -> None:
    """Print a warning for every profile that has to be extrapolated."""
    for source in headline.cost_sources:
        if source.profile is None or source.measured_batches is None or not source.other_batches:
            continue
        batches, (low, high) = source.other_batches, source.measured_batches
        some = ", ".join(map(str, batches)) if len(batches) < 6 else f"{batches[0]} to {batches[-1]}"
        measured = f"only {low} was" if low == high else f"{low} to {high} were"
        text = f"{Path(source.profile).name}: devices use batches of {some}, but {measured} measured"
        OUT.print(f"{text}: their costs are extrapolated. Measure these too.", style="yellow", soft_wrap=True)


def _print_classes(scenario: Scenario) -> None:
    """Print a note if floors ask for more classes than there are, which only a user's code for data allows."""
    if scenario.data.kind != "own" and scenario.data.says_holders:  # files that name the devices decide it
        return
    classes = scenario.model.classes
    numbers = [floor.classes_per_device or 0 for floor in scenario.floors]
    many = [number for number in numbers if number > classes]
    if many:
        verb = "has" if len(many) == 1 else "have"
        asked = f"{len(many)} of {counted(len(numbers), 'floor')} {verb} classes_per_device up to {max(many)}"
        exist = f"{classes} classes exist" if classes > 1 else "one class exists"
        OUT.print(f"{asked}, but {exist}: their devices hold all that there are.", style="yellow", soft_wrap=True)


def _print_warnings(scenario: Scenario, headline: Headline, most: int = 10) -> None:
    _print_classes(scenario)
    facts = DATASETS.get(scenario.data.name)
    if facts is not None and headline.samples is not None and headline.samples > facts.training_samples:
        note = f"{facts.training_samples:,} training samples exist: devices will hold fewer than they ask for"
        OUT.print(f"{scenario.data.name}: {note}.", style="yellow")
    if not scenario.limits:
        OUT.print("Limits are off: no floor fails for energy or memory.")
        return
    able = len(scenario.floors) - len(headline.obstacles)
    if not headline.obstacles and not headline.weak_links:
        OUT.print("Every floor can take part, given full energy, mean gain and time.", style="green")
    if headline.obstacles:
        text = f"{able} of {counted(len(scenario.floors), 'floor')} can ever take part."
        OUT.print(text, style="yellow" if able else "red")
    if headline.weak_links:
        OUT.print(f"{len(headline.weak_links)} floors need better than mean gain to upload.", style="yellow")
    notes = (*headline.obstacles, *headline.weak_links)
    for obstacle in notes[:most]:
        OUT.print(f"  {obstacle.floor}: {obstacle.reason}")
    if len(notes) > most:
        OUT.print(f"  and {len(notes) - most} more")


def _cost_source(source: CostSource, scenario: Scenario) -> str:
    counts = ((source.devices, "device"), (source.gateways, "gateway"))
    who = " and ".join(f"{count} {name}{'s' if count > 1 else ''}" for count, name in counts if count)
    if source.profile is None:
        until = ", until they have measured their layers on joining" if scenario.deploy.measure else ""
        return f"costs of {who}: FLOPs by '{scenario.costs.model}', speed from flops_per_cycle{until}"
    depth = len(scenario.layers)
    rest = "" if source.layers == depth else ", the others by the speed of their kind"
    memory = "measured" if source.memory else f"by '{scenario.costs.model}'"
    return (
        f"costs of {who}: {Path(source.profile).name} ({source.model} on {source.machine}), {source.layers} of {depth} "
        f"layers measured{rest}, memory {memory}"
    )


def _precision(scenario: Scenario, headline: Headline) -> str:
    bits = scenario.precision
    upload = f"upload {amount(headline.upload_bits, 'bit')} with {bits.upload} bits per number"
    download = f"download {amount(headline.download_bits, 'bit')} with {bits.download}"
    return f"{upload}, {download}; activations and their gradients with {bits.boundary}"


def _held(scenario: Scenario, headline: Headline) -> str:
    if scenario.data.kind == "own":
        use = "costs here use `samples` of the scenario, and so does a Flower app, which reads its data itself"
        return f"read by your own code when `fedfloor run` trains (`fedfloor data show` counts it); {use}"
    if headline.samples is None:
        use = "costs here still use `samples` of the scenario; `fedfloor data show` has the real numbers"
        return f"the samples of every device are known when the data is loaded; {use}"
    return f"{headline.samples:,} samples held by devices"


def _span(ends: tuple[float, float], unit: str) -> str:
    low, high = (amount(value, unit) for value in ends)
    return low if low == high else f"{low} to {high}"


def _device_links(scenario: Scenario) -> str:
    """How many devices have a link that costs something, and its rates."""
    links = [device.link for device in scenario.devices if device.link is not None]
    up, down = _rate_span([link.rate_up for link in links]), _rate_span([link.rate_down for link in links])
    return f"{len(links)} of {len(scenario.devices)} devices: {up} up, {down} down"


def _rate_span(rates: Sequence[float]) -> str:
    """Least and greatest finite rate; an infinite one takes no time."""
    finite = [rate for rate in rates if math.isfinite(rate)]
    if not finite:
        return "no limit"
    span = _span((min(finite), max(finite)), "bit/s")
    return span if len(finite) == len(rates) else f"{span} or no limit"


def _rates(scenario: Scenario) -> str:
    rates = scenario.participation.rates
    if isinstance(rates, str):
        simulated = scenario.participation.simulated_rates
        note = "" if rates == "uniform" else f" in training runs, {_listed(simulated)} in simulations"
        return f"{rates}{note}"
    return _listed(rates)


def _deployment(deploy: Deploy) -> str:
    """What differs on real machines from the simulated ones."""
    kinds = {
        "activations": True,
        "labels": True,
        "samples": deploy.allow_samples,
        "gradients": deploy.allow_gradients,
        "class counts": deploy.allow_class_counts,
    }
    allowed = ", ".join(kind for kind, allows in kinds.items() if allows)
    sources = f"{deploy.gains} gains, energy {'reported' if deploy.energy == 'reported' else 'of the weather'}"
    deadline = f"deadline {deploy.deadline_factor:g} x predicted + {deploy.deadline_margin_s:g} s"
    measured = "; machines measure their layers before the first round" if deploy.measure else ""
    return f"{allowed} may leave a device; {sources}; {deadline}{measured}"


def _listed(rates: str | tuple[float, ...]) -> str:
    return rates if isinstance(rates, str) else ", ".join(f"{rate:g}" for rate in rates)


def _print_floors(scenario: Scenario, *, own: bool, most: int = 30) -> None:
    held = () if own else ("samples",)
    table = table_of(
        "floors", "floor", "devices", "distance", "gateway", "memory", "energy up to", *held, "device clock"
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
            *(str(sum(device.samples for device in floor.devices)) for _ in held),
            _span((min(clocks), max(clocks)), "Hz"),
        )
    print_table(table)
    if len(scenario.floors) > most:
        OUT.print(f"and {len(scenario.floors) - most} more floors")


def print_profile(profile: Profile) -> None:
    """Print the layer table and the totals for every cut."""
    title = f"{profile.model}, cost model '{profile.cost_model}', MFLOP, kept and error bytes per sample"
    table = table_of(
        title, "layer", "output", "parameters", "forward", "error", "gradient", "other", "weights kB",
        "gradients kB", "kept kB", "error kB", left=2,
    )  # fmt: skip
    costs, split = profile.costs, profile.split
    other = costs.other_forward_flop + costs.other_backward_flop
    flop = (costs.forward_flop, costs.error_flop, costs.gradient_flop, other)
    memory = (costs.weight_bytes, costs.gradient_bytes, costs.output_bytes, costs.error_bytes)
    for index, layer in enumerate(profile.layers):
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
        f"{profile.parameters:,}",
        *(f"{part.sum() / 1e6:.3f}" for part in flop),
        *(f"{part.sum() / 1e3:,.1f}" for part in memory),
    )
    print_table(table)
    cuts = table_of(
        f"cuts, one iteration with a batch of {profile.batch}",
        "cut", "after", "device", "gateway", "device memory", "gateway memory", "sent up per sample",
        left=2,
    )  # fmt: skip
    for cut in range(len(profile.layers) + 1):
        cuts.add_row(
            str(cut),
            profile.layers[cut - 1].name if cut else "raw samples leave",
            amount(split.bottom_flop[cut], "FLOP"),
            amount(split.top_flop[cut], "FLOP"),
            amount(split.bottom_bytes[cut], "B"),
            amount(split.top_bytes[cut], "B"),
            amount(profile.boundary_bytes[cut], "B"),
        )
    print_table(cuts)
