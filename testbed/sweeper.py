"""Removes network namespaces, and what runs in them, when the process that made them ends: `-m testbed.sweeper`.

It reads their names from standard input, one per line. The end of the input is the sign to begin. The other side need
not do anything for it: its end closes the pipe, even if it is killed.
"""

__all__ = ["sweep"]

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

_PATIENCE = 5.0  #: [s] that processes may take to end by themselves


def sweep(names: Iterable[str]) -> None:
    """Wait for the processes in some namespaces, kill those that stay, and delete the namespaces that there are."""
    there = [name for name in names if name in _existing()]
    end = time.monotonic() + _PATIENCE
    while (inside := [number for name in there for number in _inside(name)]) and time.monotonic() < end:
        time.sleep(0.05)
    for number in inside:
        _kill(number)
    for name in there:
        subprocess.run(["ip", "netns", "delete", name], check=False)


def _existing() -> set[str]:
    return {line.split()[0] for line in _answer("ip", "netns", "list").splitlines() if line.strip()}


def _inside(name: str) -> list[int]:
    """Numbers of the processes in a namespace."""
    return [int(number) for number in _answer("ip", "netns", "pids", name).split()]


def _kill(number: int) -> None:
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        return


def _answer(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sent, signal.SIG_IGN)  # it ends when its work is done
    sweep([line.strip() for line in sys.stdin])
