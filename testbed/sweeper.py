"""Removes what a testbed has made when it ends, even by `kill -9`: namespaces, what runs in them, and a folder.

A process of its own does it: `python -m testbed.sweeper`. It reads from standard input what there is, one per line, and
begins at the end of the input. The end of the testbed closes the pipe in any case.
"""

__all__ = ["Sweeper", "sweep"]

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from fedfloor.workers.processes import environment

_PATIENCE = 5.0  #: [s] that processes may take to end by themselves
_SWEEP_S = 60.0  #: [s] that removing everything may take


class Sweeper:
    """The process, as the testbed sees it; at the end of the block everything is removed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "testbed.sweeper"],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the testbed only
            env=environment(),
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_SWEEP_S)

    def will_be(self, kind: str, name: str) -> None:
        """Tell it of a `namespace` or a `folder` that is about to be made."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {name}\n")
        self._process.stdin.flush()


def sweep(lines: Sequence[str]) -> None:
    """Remove what the lines name, if it is there; processes in namespaces are killed if they do not end in time."""
    named = [line.strip().split(" ", 1) for line in lines]
    there = [name for kind, name in named if kind == "namespace" and name in _existing()]
    end = time.monotonic() + _PATIENCE
    while (inside := [number for name in there for number in _inside(name)]) and time.monotonic() < end:
        time.sleep(0.05)
    for number in inside:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    for name in there:
        subprocess.run(["ip", "netns", "delete", name], check=False)
    for kind, name in named:
        if kind == "folder":
            shutil.rmtree(name, ignore_errors=True)


def _existing() -> set[str]:
    return {line.split()[0] for line in _answer("ip", "netns", "list").splitlines() if line.strip()}


def _inside(name: str) -> list[int]:
    """Numbers of the processes in a namespace."""
    return [int(number) for number in _answer("ip", "netns", "pids", name).split()]


def _answer(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sent, signal.SIG_IGN)  # it ends when its work is done
    sweep(sys.stdin.readlines())
