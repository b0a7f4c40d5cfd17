"""Programs of fedfloor that another program starts: they write logs, say where they listen, and end with it."""

__all__ = ["Programs"]

import math
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe
from pathlib import Path

from fedfloor.workers.processes import ending_of, start_process

_PATIENCE_S = 10.0  #: that programs may take to end by themselves
_PAUSE_S = 0.05  #: between two looks at what a program has printed
_LISTENING = "listening on "


class Programs:
    """Programs by name, with the files NAME.out and NAME.log in a folder; `close` ends them.

    They also end when this process does, even by `kill -9`. Threads may share an object of this class.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._tie, self._others_end = Pipe()  # programs end when this process and its end of the pipe are gone
        self._starting = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """End all programs, and wait until they have ended."""
        with self._starting:
            self._is_closed = True
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + _PATIENCE_S
        for process in self._running.values():
            try:
                process.wait(max(end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._tie.close()
        self._others_end.close()

    def start(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        within: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start `fedfloor` with these arguments, by a command that begins with `within`; not after `close`."""
        with self._starting:
            if self._is_closed:
                return
            assert name not in self._running, "the second would write over the files of the first"
            tie = self._others_end.fileno()
            command = ["-m", "fedfloor.deploy.kept", str(tie), *arguments]
            with (self._folder / f"{name}.out").open("wb") as out, (self._folder / f"{name}.log").open("wb") as log:
                self._running[name] = start_process(command, [tie], variables, within=within, stdout=out, stderr=log)

    def address(self, name: str, patience: float = math.inf) -> str | None:
        """Wait until a program listens; returns HOST:PORT, or None if it ends before or takes longer [s]."""
        end = time.monotonic() + patience
        while name in self._running and time.monotonic() < end:
            has_ended = self._running[name].poll() is not None  # before the last look
            line, newline, _ = (self._folder / f"{name}.out").read_text(errors="replace").partition("\n")
            if newline and line.startswith(_LISTENING):
                return line.removeprefix(_LISTENING)
            if newline or has_ended:
                break
            time.sleep(_PAUSE_S)
        return None

    def code(self, name: str) -> int | None:
        """The exit code of a program; None while it runs."""
        return self._running[name].poll()

    def early_end(self, name: str) -> str:
        """Wait until a program has ended; returns how, and its last line; empty if `close` ended it."""
        if name not in self._running:  # never started
            return ""
        self._running[name].wait()
        return "" if self._is_closed else self.ending(name)

    def ending(self, name: str) -> str:
        """How a program has ended, and the last line of its log."""
        path = self._folder / f"{name}.log"
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"{name} {ending_of(self._running[name])}: {lines[-1] if lines else f'{path} is empty'}"
