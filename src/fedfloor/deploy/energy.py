"""The energy of a machine: what it may spend in a round, and what it has spent."""

__all__ = [
    "CommandEnergy",
    "EnergyBudget",
    "EnergyMeter",
    "EnergySource",
    "FileEnergy",
    "FixedEnergy",
    "parse_energy",
    "parse_meter",
]

import logging
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias, TypeVar

from fedfloor.errors import DeploymentError, named, shown
from fedfloor.runs.machine import start_energy_reading

Reading = TypeVar("Reading")

_LOG = logging.getLogger(__name__)
_MOST = 1e30  #: [J] as in a scenario
_TEXT_BYTES = 1000  #: that a file with one number may have
_OUTPUT_BYTES = 65_536  #: that a command may write
_PATIENCE = 5.0  #: [s] that a command may take
_ROOT = Path("/")
_FORMS = "Give a number of joules, file:PATH or command:PROGRAM ARGUMENTS"


@dataclass(frozen=True, slots=True)
class FixedEnergy:
    """The same energy in every round."""

    joules: float  #: [J]

    def read(self) -> float:
        """Energy of this round [J]."""
        return self.joules


@dataclass(frozen=True, slots=True)
class FileEnergy:
    """A file with one number in joules that another program keeps up to date."""

    path: Path

    def read(self) -> float:
        """Energy of this round [J]; a DeploymentError if the file does not say it."""
        advice = "Write one number of joules into it"
        return _amount(_one_text(self.path, advice), f"{named(self.path)}", advice)


@dataclass(frozen=True, slots=True)
class CommandEnergy:
    """A program whose first line of output is a number in joules; it is run without a shell."""

    words: tuple[str, ...]  #: program and arguments
    seconds: float = _PATIENCE  #: [s] that it may take

    def read(self) -> float:
        """Energy of this round [J]; a DeploymentError if the program fails, takes too long or says something else.

        It blocks for at most `seconds`. An event loop calls it in a thread.
        """
        advice = "Correct the program; its first line of output is a number of joules"
        label = f"command {shown(shlex.join(self.words), 120)}"
        try:
            output = _output(self.words, self.seconds)
        except OSError as error:
            reason = error.strerror or error
            raise DeploymentError(f"{label}: cannot be started: {reason}. Check its name and permissions") from None
        except ValueError as error:
            raise DeploymentError(f"{label}: {error}. {advice}") from None
        lines = output.decode(errors="replace").splitlines()
        return _amount(lines[0] if lines else "", label, advice)


EnergySource: TypeAlias = FixedEnergy | FileEnergy | CommandEnergy


def parse_energy(text: str) -> EnergySource:
    """Parse `5`, `file:/run/energy_j` or `command:/usr/local/bin/energy --now`."""
    label = f"--energy {shown(text)}"
    kind, colon, rest = text.partition(":")
    if not colon:
        return FixedEnergy(_amount(text, label, _FORMS))
    if kind == "file" and rest.strip():
        return FileEnergy(_path(rest, label))
    if kind == "command":
        try:
            words = tuple(shlex.split(rest))
        except ValueError as error:
            raise DeploymentError(f"{label}: cannot be split into words: {error}. Close the quotation") from None
        if words and words[0]:
            return CommandEnergy(words)
    raise DeploymentError(f"{label}: names no source of energy. {_FORMS}")


class EnergyBudget:
    """The energy that a machine may spend in a round, read anew in every round."""

    def __init__(self, source: EnergySource) -> None:
        """Read the source for the first time; a DeploymentError says why that fails."""
        self._source = source
        self._joules = source.read()
        self._is_good = True

    def read(self) -> float:
        """Energy of this round [J]; if it cannot be read now, the last one that could be.

        A warning says so once, until a reading succeeds again.
        """
        try:
            self._joules = self._source.read()
        except DeploymentError as error:
            if self._is_good:
                _LOG.warning(
                    "The energy of this round is unknown, so the last one counts: %g J. %s.", self._joules, error
                )
            self._is_good = False
        else:
            if not self._is_good:
                _LOG.info("The energy of a round can be read again: %g J.", self._joules)
            self._is_good = True
        return self._joules


class EnergyMeter:
    """Measures the energy that a stretch of work takes, if a counter is there."""

    def __init__(self, start: Callable[[], Callable[[], float]] | None) -> None:
        """`start` begins a reading and returns what ends it, as `start_energy_reading` does; None: no counter."""
        self._start = start
        self._has_warned = False

    def start(self) -> Callable[[], float | None]:
        """Begin a stretch of work; what it returns ends it and gives the energy [J], or None if nothing measured it.

        A counter that cannot be read, or that has run backwards, is reported once.
        """
        end = self._tried(self._start) if self._start is not None else None
        return lambda: None if end is None else self._tried(end)

    def _tried(self, read: Callable[[], Reading]) -> Reading | None:
        try:
            return read()
        except (ValueError, DeploymentError) as error:
            if not self._has_warned:
                _LOG.warning("The energy spent is computed from the model, because it cannot be measured: %s.", error)
            self._has_warned = True
            return None


def parse_meter(text: str, root: Path = _ROOT) -> EnergyMeter:
    """Parse `none`, `rapl`, `file:PATH` for a growing counter in joules, or `auto` for RAPL if it can be read.

    The counter is read once, so that a wrong one is refused at the start.
    """
    label = f"--energy-meter {shown(text)}"
    kind, _, rest = text.partition(":")
    if text == "none":
        return EnergyMeter(None)
    if text in ("auto", "rapl"):
        try:
            start_energy_reading(root)()
        except ValueError as error:
            if text == "auto":
                return EnergyMeter(None)
            advice = "Run as a user who may read the counters, or leave the option out"
            raise DeploymentError(f"{label}: {error}. {advice}") from None
        return EnergyMeter(lambda: start_energy_reading(root))
    if kind == "file" and rest.strip():
        counter = FileEnergy(_path(rest, label))
        counter.read()
        return EnergyMeter(lambda: _start_counting(counter))
    raise DeploymentError(f"{label}: names no counter. Give none, auto, rapl or file:PATH")


def _start_counting(counter: FileEnergy) -> Callable[[], float]:
    before = counter.read()

    def spent() -> float:
        joules = counter.read() - before
        if joules < 0.0:
            raise ValueError(f"the counter in {named(counter.path)} has run backwards, by {-joules:g} J")
        return joules

    return spent


def _path(text: str, label: str) -> Path:
    if "\0" in text:
        raise DeploymentError(f"{label}: must be a path that can exist. Name a file with one number of joules")
    return Path(text)


def _amount(text: str, label: str, advice: str) -> float:
    """An energy [J] that a person or a program has written."""
    try:
        joules = float(text)
    except ValueError:
        raise DeploymentError(f"{label}: must be a number of joules, got {shown(text.strip())}. {advice}") from None
    if not 0.0 <= joules <= _MOST:
        raise DeploymentError(f"{label}: must be from 0 J to {_MOST:g} J, got {shown(text.strip())}. {advice}")
    return abs(joules)  # -0.0 is 0.0


def _one_text(path: Path, advice: str) -> str:
    """The text of a short file."""
    try:
        if path.exists() and not path.is_file():  # a pipe would block
            raise DeploymentError(f"{named(path)}: is not a regular file. Name a file with one number of joules")
        with path.open("rb") as file:
            content = file.read(_TEXT_BYTES + 1)
    except OSError as error:
        raise DeploymentError(f"{named(path)}: cannot be read: {error.strerror}. {advice}") from None
    if len(content) > _TEXT_BYTES:
        raise DeploymentError(f"{named(path)}: has more than {_TEXT_BYTES} bytes. {advice}")
    return content.decode(errors="replace")


def _output(words: tuple[str, ...], seconds: float) -> bytes:
    """What a program writes; a ValueError says why there is no such output. All that it started is ended with it."""
    deadline = time.monotonic() + seconds
    process = subprocess.Popen(  # noqa: S603  # the user of this machine has named it
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that one signal reaches what the program starts
    )
    assert process.stdout is not None
    try:
        with process.stdout as pipe:
            output = _read_until(pipe, deadline)
        code = process.wait(max(deadline - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        raise ValueError(f"did not end within {seconds:g} s") from None
    finally:
        if process.returncode is None:  # until it is waited for, its number belongs to no other process
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code:
        raise ValueError(f"ended with code {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}")
    return output


def _read_until(pipe: IO[bytes], deadline: float) -> bytes:
    """All bytes of a pipe; a TimeoutExpired if it is not closed by then."""
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(output) <= _OUTPUT_BYTES:
            if not selector.select(max(deadline - time.monotonic(), 0.0)):
                raise subprocess.TimeoutExpired((), 0.0)
            part = os.read(pipe.fileno(), _OUTPUT_BYTES)
            if not part:
                return output
            output += part
    raise ValueError(f"wrote more than {_OUTPUT_BYTES} bytes")
