"""The actuator `cpufreq`: sets the clock frequency of all cores."""

__all__ = ["CpufreqActuator"]

import json
import logging
import os
from pathlib import Path

from fedfloor.deploy.actuators.contract import Setting
from fedfloor.deploy.actuators.kernel import ROOT, read_value, write_value
from fedfloor.errors import FailedRunError
from fedfloor.files import write_whole

_LOG = logging.getLogger(__name__)
_SPEED, _LIMIT = "scaling_setspeed", "scaling_max_freq"
_OTHER = "Choose another actuator, such as cgroup or pace"


class CpufreqActuator:
    """Sets `scaling_setspeed` where the governor is `userspace`, and the limit `scaling_max_freq` elsewhere.

    What was there before is kept in a file until it is restored, so that a process that was killed does not leave the
    machine slow for ever: the next one restores it.
    """

    def __init__(self, *, root: Path = ROOT) -> None:
        self._root = root
        self._kept = root / "run/fedfloor-cpufreq.json"
        self._is_open = self._has_warned = False

    def problem(self) -> str | None:
        """Why the frequency cannot be set here; None if it can."""
        folder = self._root / "sys/devices/system/cpu"
        files = self._files()
        if not files:
            return f"{folder}: this machine lets no program set its frequency: it has no cpufreq. {_OTHER}"
        for file in files:
            if not os.access(file, os.R_OK | os.W_OK):
                return f"{file}: this user may not set the frequency. Run as root. {_OTHER}"
        if not os.access(self._kept.parent, os.W_OK):
            return f"{self._kept.parent}: this user may not keep a file there. Run as root. {_OTHER}"
        owner = self._owner()
        if owner is not None:
            return self._taken(owner)
        return None

    def begin(self, setting: Setting) -> None:
        """Set the frequency of every core that was decided, as near as the processor has it."""
        self.end()
        try:
            files = self._files()
            owner = self._owner()
            if owner is not None:
                raise FailedRunError(self._taken(owner))
            before = {**{str(file): read_value(file) for file in files}, **self._before()}
            write_whole(self._kept, json.dumps({"process": os.getpid(), "before": before}).encode())
            self._is_open = True
            for file in files:
                write_value(file, self._kilohertz(file.parent, setting.frequency))
        except (OSError, ValueError) as error:
            self.end()
            reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
            raise FailedRunError(f"the frequency cannot be set: {reason}. {_OTHER}") from None

    async def step(self, seconds: float, *, began: float | None = None) -> None:
        """Wait for nothing: the processor itself is slower."""

    def end(self) -> None:
        """Restore what was there before."""
        if not self._is_open:
            return
        self._is_open = False
        errors = []
        for file, value in self._before().items():
            try:
                write_value(Path(file), value)
            except OSError as error:  # the round is over and its result counts
                errors.append(error)
        if errors:
            text = "The frequency could not be restored: %s: %s. %s holds what it was."
            _LOG.warning(text, errors[0].filename, errors[0].strerror, self._kept)
        else:
            self._kept.unlink(missing_ok=True)

    def _folders(self) -> list[Path]:
        """The folder of every frequency that can be set; cores that share a frequency share its folder."""
        cores = sorted((self._root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq"))
        return list(dict.fromkeys(core.resolve() for core in cores))

    def _files(self) -> list[Path]:
        """The file by which every frequency is set."""
        files = []
        for folder in self._folders():
            try:
                is_free = read_value(folder / "scaling_governor") == "userspace"
            except OSError:
                is_free = False
            files.append(folder / (_SPEED if is_free else _LIMIT))
        return files

    def _kilohertz(self, folder: Path, frequency: float) -> int:
        """The frequency [kHz] that the processor can have and that is nearest to the one that was decided [Hz]."""
        least = max(int(read_value(folder / name)) for name in ("cpuinfo_min_freq", "scaling_min_freq"))
        most = max(int(read_value(folder / "cpuinfo_max_freq")), least)
        kilohertz = min(max(round(1e-3 * frequency), least), most)
        if abs(1e3 * kilohertz - frequency) > 1e-3 * frequency and not self._has_warned:
            text = "%.4g GHz were decided, but the processor goes from %.4g to %.4g GHz: it runs at %.4g GHz."
            _LOG.warning(text, 1e-9 * frequency, 1e-6 * least, 1e-6 * most, 1e-6 * kilohertz)
            self._has_warned = True
        return kilohertz

    def _taken(self, owner: int) -> str:
        advice = f"End it first, or remove {self._kept} if it is another program's process"
        return f"process {owner} sets the frequency of this machine. {advice}"

    def _read_kept(self) -> tuple[int, dict[str, str]] | None:
        """The process that set the frequency, and what was there before; None if nothing is to be restored."""
        try:
            kept = json.loads(self._kept.read_bytes())
            before = {str(file): str(value) for file, value in kept["before"].items()}
            return int(kept["process"]), before
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def _before(self) -> dict[str, str]:
        """What is to be restored, by its file; whatever the kept file says, no other file is written."""
        kept = self._read_kept()
        files = {str(folder / name) for folder in self._folders() for name in (_SPEED, _LIMIT)}
        return {} if kept is None else {file: value for file, value in kept[1].items() if file in files}

    def _owner(self) -> int | None:
        """Another process that is alive and sets the frequency."""
        kept = self._read_kept()
        if kept is None or kept[0] == os.getpid() or not (self._root / f"proc/{kept[0]}").exists():
            return None
        return kept[0]
