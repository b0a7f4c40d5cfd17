"""What this machine says about itself: processor, clock frequency, memory, power and energy."""

__all__ = [
    "PowerReading",
    "maximum_frequency",
    "memory_bytes",
    "processor_name",
    "read_frequency",
    "start_energy_reading",
    "start_power_reading",
]

import math
import os
import platform
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fedfloor.arguments import path_problem
from fedfloor.errors import ProfileError, named, shown

Result = TypeVar("Result")

_ROOT = Path("/")
_POWERS = "Give a number of watts, 'rapl', or a file with a reading per line"


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


def memory_bytes(root: Path = _ROOT) -> int:
    """Memory [byte] that programs can use here: that of the machine, or of the container if that is less."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [_text(root / "sys/fs/cgroup" / name).strip() for name in ("memory.max", "memory/memory.limit_in_bytes")]
    return min([installed, *(int(text) for text in limits if text.isdecimal() and int(text) > 0)])


def maximum_frequency(root: Path = _ROOT) -> float | None:
    """Highest frequency [Hz] of the fastest core; where nothing says it, the present one; None without that too."""
    kilohertz = _fastest(root, "cpuinfo_max_freq")
    if kilohertz is not None:
        return 1e3 * kilohertz
    present = read_frequency(root)
    return present[0] if present is not None else None


def read_frequency(root: Path = _ROOT) -> tuple[float, str] | None:
    """Frequency [Hz] of the fastest core at this moment, and the file that says so; None if none does."""
    kilohertz = _fastest(root, "scaling_cur_freq")
    if kilohertz is not None:
        return 1e3 * kilohertz, "scaling_cur_freq"
    megahertz = [
        float(text) for text in re.findall(r"^cpu MHz\s*:\s*([0-9.]+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    ]
    return (1e6 * max(megahertz), "/proc/cpuinfo") if megahertz and max(megahertz) > 0 else None


def _fastest(root: Path, name: str) -> float | None:
    """The largest number [kHz] that any core has in its file of this name; None if no core has one."""
    folder = root / "sys/devices/system/cpu"
    texts = [_text(path).strip() for path in sorted(folder.glob(f"cpu[0-9]*/cpufreq/{name}"))]
    return max((float(text) for text in texts if text.isdecimal() and int(text) > 0), default=None)


def start_energy_reading(root: Path = _ROOT) -> Callable[[], float]:
    """Begin to read the RAPL counters of Intel and AMD processors; what it returns gives the energy [J] since then.

    The counters count what the processors of the whole machine spend, for whatever program. A counter that has wrapped
    once is understood, which happens after many minutes. Both functions raise a ValueError that names what is missing
    or cannot be read.
    """
    domains = sorted((root / "sys/class/powercap").glob("intel-rapl:[0-9]"))
    # The domain of the whole platform contains the packages, which would count twice.
    counters = [domain for domain in domains if _text(domain / "name").strip() != "psys"] or domains
    if not counters:
        raise ValueError("this machine has no RAPL counters")
    before = [_joules(counter / "energy_uj") for counter in counters]

    def spent() -> float:
        total = 0.0
        for counter, first in zip(counters, before, strict=True):
            joules = _joules(counter / "energy_uj") - first
            total += joules if joules >= 0.0 else joules + _joules(counter / "max_energy_range_uj")
        return total

    return spent


def _joules(path: Path) -> float:
    try:
        return 1e-6 * float(path.read_text())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{path} cannot be read: {reason}") from None


def start_power_reading(choice: str, root: Path = _ROOT) -> Callable[[], PowerReading]:
    """Begin to read the power of the machine; what it returns ends the reading and gives the mean power.

    `choice` is a number of watts, `rapl` for the energy counters of Intel and AMD processors, or a file with one
    reading in watts per line, which is read at the end.
    """
    label = f"power {named(choice)}"
    try:
        watts = float(choice)
    except ValueError:
        if choice != "rapl" and (problem := path_problem(choice)):
            raise ProfileError(f"{label}: {problem}. {_POWERS}") from None
        return _rapl(label, root) if choice == "rapl" else _recorded(Path(choice), label)
    if not 0.0 < watts < math.inf:
        raise ProfileError(f"{label}: must be more than 0 W, got {shown(choice)}. Give the power under load")
    return lambda: PowerReading(watts, "given")


def _rapl(label: str, root: Path) -> Callable[[], PowerReading]:
    def read(counters: Callable[[], Result]) -> Result:
        try:
            return counters()
        except ValueError as error:
            advice = "Run as a user who may read the counters, or give a number of watts, or a file of readings"
            raise ProfileError(f"{label}: {error}. {advice}") from None

    spent, begin = read(lambda: start_energy_reading(root)), time.monotonic()

    def end() -> PowerReading:
        joules, seconds = read(spent), time.monotonic() - begin
        if joules <= 0.0:
            raise ProfileError(f"{label}: the counters did not move. Give a number of watts, or a file of readings")
        return PowerReading(joules / seconds, "rapl")

    return end


def _recorded(path: Path, label: str) -> Callable[[], PowerReading]:
    """A file that a power meter writes; it must be there at the beginning, so that a wrong name shows at once."""
    if not path.is_file():
        raise ProfileError(f"{label}: no such file. {_POWERS}")

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
