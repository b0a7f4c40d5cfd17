"""Time and memory of the largest plant and of long runs: `python -m benchmarks.scale`, some minutes.

Each command runs in a process of its own, so that its peak memory is its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def measured(*arguments: str) -> str:
    """Wall clock and peak memory of one command of fedfloor."""
    begun = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "fedfloor", *arguments], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"fedfloor {' '.join(arguments)} failed")
    return f"{time.perf_counter() - begun:7.1f} s  {usage.ru_maxrss / 1024:7,.0f} MiB"


def main() -> None:
    """Print one line per command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=10**6, help="of the plant, a thousand floors")
    parser.add_argument("--rounds", type=int, default=10**5, help="of the run")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run, page, table = (str(Path(place) / name) for name in ("run", "report", "rounds.csv"))
        commands = {
            f"check, {chosen.devices:,} devices": ("check", "campus", "--set", _devices(chosen.devices)),
            f"simulate, {chosen.rounds:,} rounds": _simulate(chosen.rounds, run),
            f"report, {chosen.rounds:,} rounds": ("report", run, "--out", page, "--csv", table),
        }
        for what, arguments in commands.items():
            print(f"{what:28} {measured(*arguments)}", flush=True)


def _devices(count: int) -> str:
    return f"floors.0.devices.0.count={max(1, count // 1000)}"


def _simulate(rounds: int, out: str) -> tuple[str, ...]:
    return ("simulate", "quick", "--policy", "random", "--rounds", str(rounds), "--out", out, "--quiet")


if __name__ == "__main__":
    main()
