"""What programs hold while rounds go by, with 50 devices on one gateway: `python -m benchmarks.footprint`.

One line per program: resident memory, threads and open descriptors after the first rounds and after the last one.
"""

__all__ = ["Footprint", "footprints"]

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.programs import PATIENCE, Programs, descendants

from fedfloor.deploy.authority import BASE_STATION

TOGETHER = 25  #: devices in one process


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a program and the processes that it has started hold."""

    memory: int  #: [kB] resident
    threads: int
    descriptors: int


def footprint(number: int) -> Footprint:
    """What a process holds now."""
    memory = threads = descriptors = 0
    for each in [number, *descendants(number)]:
        lines = Path(f"/proc/{each}/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        memory += int(status["VmRSS"].split()[0])
        threads += int(status["Threads"])
        descriptors += len(list(Path(f"/proc/{each}/fd").iterdir()))
    return Footprint(memory, threads, descriptors)


def footprints(devices: int, rounds: int, place: Path) -> dict[str, list[Footprint]]:
    """Run a plant; returns what every program held after each round, by its name."""
    counts = (f"floors.0.devices.0.count={devices}", "floors.1.devices.0.count=1")
    plant = Programs(place, *counts, "training.local_iterations=2", "deploy.deadline_margin_s=120")
    held: dict[str, list[Footprint]] = {}
    try:
        plant.start_server()
        for name, floor in plant.floors.items():
            plant.start_gateway(name)
            names = [device.name for device in floor.devices]
            for first in range(0, len(names), TOGETHER):
                plant.start_device(*names[first : first + TOGETHER])
        for index in range(rounds):
            end = time.monotonic() + PATIENCE
            while len(plant.records()) <= index:
                assert time.monotonic() < end, plant.log(BASE_STATION)
                time.sleep(0.02)
            for name, process in plant.running.items():
                held.setdefault(name, []).append(footprint(process.pid))
        records = plant.records()[:rounds]
        assert all(entry["completed"] for record in records for entry in record["gateways"])
        lines = [line for name in plant.floors for line in plant.log(name).splitlines()]
        assert not any("is left out" in line for line in lines)
    finally:
        plant.close()
    return held


def rows(held: Mapping[str, Sequence[Footprint]], warm: int) -> list[str]:
    """One line per program, from the end of the warm-up to the last round."""
    lines = [f"{'program':22}{f'memory, round {warm}':>26}{'last':>10}{'ratio':>8}{'threads':>12}{'descriptors':>14}"]
    for name, course in held.items():
        first, last = course[warm - 1], course[-1]
        threads, open_ones = f"{first.threads} to {last.threads}", f"{first.descriptors} to {last.descriptors}"
        memory = f"{first.memory / 1e3:23.1f} MB{last.memory / 1e3:7.1f} MB{last.memory / first.memory:8.3f}"
        lines.append(f"{name:22}{memory}{threads:>12}{open_ones:>14}")
    return lines


def main() -> None:
    """Print one line per program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        held = footprints(chosen.devices, chosen.rounds, Path(place))
    print("\n".join(rows(held, chosen.warm_up)))
    print("memory of the first gateway [MB]:", *(round(each.memory / 1e3) for each in list(held.values())[1]))


if __name__ == "__main__":
    main()
