"""What this machine says about itself: processor, clock frequency and power."""

__all__ = ["PowerReading", "processor_name", "read_frequency", "start_power_reading"]

import math
import platform
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedfloor.errors import ProfileError, shown

_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class PowerReading:
    """Mean power [W] over a measurement, and who says so."""

    watts: float
    source: str


def processor_name(root: Path = _ROOT) -> str:
    """Name of the processor, or of the board where the processor has none, as on a Raspberry Pi."""
    text = _text(root / "proc/cpuinfo")
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE) or re.search(
        r"^Model\s*:\s*(.+)$", text, re.MULTILINE
    )
    return match[1].strip() if match else platform.processor() or platform.machine() or "unknown"


def read_frequency(root: Path = _ROOT) -> tuple[float, str] | None:
    """Frequency [Hz] of the fastest core at this moment, and the file that says so; None if none does."""
    folder = root / "sys/devices/system/cpu"
    scaled = [_text(path).strip() for path in sorted(folder.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))]
    kilohertz = [float(text) for text in scaled if text.isdigit() and int(text) > 0]
    if kilohertz:
        return 1e3 * max(kilohertz), "scaling_cur_freq"
    megahertz = [
        float(text) for text in re.findall(r"^cpu MHz\s*:\s*([0-9.]+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    ]
    return (1e6 * max(megahertz), "/proc/cpuinfo") if megahertz and max(megahertz) > 0 else None


def start_power_reading(choice: str, root: Path = _ROOT) -> Callable[[], PowerReading]:
    """Begin to read the power as `--power-w` says; what it returns ends the reading and gives the mean power.

    `choice` is a number of watts, `rapl` for the energy counters of Intel and AMD processors, or a file with one
    reading in watts per line, which is read at the end.
    """
    label = f"--power-w {choice}"
    try:
        watts = float(choice)
    except ValueError:
        return _rapl(label, root) if choice == "rapl" else _recorded(Path(choice), label)
    if not 0.0 < watts < math.inf:
        raise ProfileError(f"{label}: must be more than 0 W, got {shown(choice)}. Give the power under load")
    return lambda: PowerReading(watts, "given")


def _rapl(label: str, root: Path) -> Callable[[], PowerReading]:
    counters = sorted((root / "sys/class/powercap").glob("intel-rapl:[0-9]"))
    if not counters:
        raise ProfileError(f"{label}: this machine has no RAPL counters. Give a number of watts, or a file of readings")
    before, begin = [_joules(counter, label) for counter in counters], time.monotonic()

    def end() -> PowerReading:
        seconds = time.monotonic() - begin
        spent = 0.0
        for counter, first in zip(counters, before, strict=True):
            joules = _joules(counter, label) - first
            spent += joules if joules >= 0.0 else joules + _joules(counter, label, "max_energy_range_uj")
        if spent <= 0.0:
            raise ProfileError(f"{label}: the counters did not move. Give a number of watts, or a file of readings")
        return PowerReading(spent / seconds, "rapl")

    return end


def _joules(counter: Path, label: str, name: str = "energy_uj") -> float:
    try:
        return 1e-6 * float((counter / name).read_text())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        advice = "Run as a user who may read it, or give a number of watts"
        raise ProfileError(f"{label}: {counter / name} cannot be read: {reason}. {advice}") from None


def _recorded(path: Path, label: str) -> Callable[[], PowerReading]:
    """A file that a power meter writes; it must be there at the beginning, so that a wrong name shows at once."""
    if not path.is_file():
        raise ProfileError(f"{label}: no such file. Give a number of watts, 'rapl', or a file with a reading per line")

    def end() -> PowerReading:
        readings = []
        for number, line in enumerate(_text(path).splitlines(), start=1):
            if not line.strip():
                continue
            try:
                watts = float(line)
            except ValueError:
                watts = math.nan
            if not 0.0 < watts < math.inf:
                problem = f"line {number}: must be a power in watts > 0, got {shown(line.strip())}"
                raise ProfileError(f"{path}: {problem}. Correct that line")
            readings.append(watts)
        if not readings:
            raise ProfileError(f"{path}: has no readings. Write one in watts per line")
        return PowerReading(statistics.fmean(readings), path.name)

    return end


def _text(path: Path) -> str:
    """Text of a file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
