"""What a decided round looks like."""

__all__ = ["print_plan"]

from collections import Counter

from fedfloor.cli.show.terminal import OUT, amount, print_table, table_of
from fedfloor.errors import counted
from fedfloor.runs.plan import PlanAnswer
from fedfloor.scheduling.registry import PolicySpec, shown_name

_PARTS = ("delay", "download", "train", "upload")


def print_plan(decided: PlanAnswer) -> None:
    """Which floors are selected and how; then which are not, and why."""
    served = [entry for entry in decided["gateways"] if entry["channel"] is not None]
    spec = PolicySpec(decided["policy"], tuple(decided["settings"].items()))
    floors = counted(len(decided["gateways"]), "floor")
    head = f"{shown_name(str(spec))}, round {decided['round']}: {len(served)} of {floors}"
    OUT.print(f"{head}, delay {decided['delay_s']:.4g} s", style="bold")
    gap = decided["optimality_gap"]
    proof = "" if gap is None else ", proven optimal" if gap <= 1e-9 else f", proven within {gap:.1g} of V x delay"
    objective = f"objective {decided['objective']:.6g} at V = {decided['tradeoff_v']:g}{proof}"
    OUT.print(f"{objective}; decided in {amount(decided['solve_s'], 's')}, loading included")
    parts = [part for part in _PARTS if OUT.width >= 100 or part != "download"]
    table = table_of("selected", "floor", "channel", *parts, "power", "energy of budget", "memory", "cuts")
    for entry in served:
        cuts = Counter(device["cut"] for device in entry["devices"])
        cut_list = ", ".join(f"{cut}" if count == 1 else f"{cut} x{count}" for cut, count in sorted(cuts.items()))
        all_times = (entry["delay_s"], entry["download_s"], entry["train_s"], entry["upload_s"])
        times = (f"{time:.3g} s" for part, time in zip(_PARTS, all_times, strict=True) if part in parts)
        energy = f"{entry['energy_j']:.3g} of {entry['energy_budget_j']:.3g} J"
        power, memory = amount(entry["power_w"], "W"), amount(entry["memory_bytes"], "B")
        table.add_row(entry["name"], str(entry["channel"]), *times, power, energy, memory, cut_list)
    print_table(table)
    for entry in served:
        if entry["failure"]:
            OUT.print(f"{entry['name']} will fail: {entry['failure']}", style="red")
    links = any("link_s" in device for entry in served for device in entry["devices"])
    devices = table_of(
        "devices; a cut of 3 leaves the first 3 layers on the device",
        *("floor", "device", "cut", *(["link"] if links else []), "gateway clock", "energy of budget", "memory"),
        left=2,
    )
    rows = [(entry["name"], device) for entry in served for device in entry["devices"]]
    for floor, device in rows[:40]:
        clock, memory = amount(device["gateway_frequency_hz"], "Hz"), amount(device["memory_bytes"], "B")
        energy = f"{device['energy_j']:.3g} of {device['energy_budget_j']:.3g} J"
        link = [f"{device['link_s']:.3g} s"] if "link_s" in device else []
        devices.add_row(floor, device["name"], str(device["cut"]), *link, clock, energy, memory)
    print_table(devices)
    if len(rows) > 40:
        OUT.print(f"and {len(rows) - 40} more devices")
    left_out = [entry for entry in decided["gateways"] if entry["channel"] is None]
    for entry in left_out[:20]:
        OUT.print(f"{entry['name']}: {entry['reason']}")
    if len(left_out) > 20:
        OUT.print(f"and {len(left_out) - 20} more floors left out")
