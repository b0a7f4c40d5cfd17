"""A table as people read it, and how figures are written in one."""

__all__ = ["Table", "change", "duration", "joined", "percentage", "plain", "spread", "time_unit", "with_interval"]

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fedfloor.reports.statistics import Interval


@dataclass(frozen=True, slots=True)
class Table:
    """Strings, ready to be printed; every row is as long as the columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str  #: what the figures mean, in sentences; may be empty

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows)


def plain(value: float, digits: int = 4) -> str:
    """A figure with so many digits; logs know endless times."""
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "endless"
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def percentage(value: float) -> str:
    """A share as percent."""
    return f"{100.0 * value:.1f} %" if math.isfinite(value) else plain(value)


def time_unit(longest: float) -> tuple[float, str]:
    """In which unit a time is best read: its seconds and its name."""
    return (1.0, "s") if longest < 120 else (60.0, "min") if longest < 7200 else (3600.0, "h")


def duration(found: Interval) -> str:
    """A time in the unit that fits: 48.2 s, 15.3 ± 0.4 min, 4.12 h."""
    seconds, unit = time_unit(found.mean)
    return with_interval(found, f" {unit}", scale=seconds, digits=3)


def with_interval(found: Interval, unit: str = "", *, scale: float = 1.0, digits: int = 4) -> str:
    """The mean and half the width of its interval, which has two digits: 46.3 ± 1.8; of one seed the mean."""
    mean, half = found.mean / scale, found.half_width
    if not math.isfinite(mean):
        return plain(mean)
    if not half:  # one seed, or all alike
        return f"{plain(mean, digits)}{unit}"
    decimals = min(4, max(0, 1 - math.floor(math.log10(half / scale))))
    return f"{mean:.{decimals}f} ± {half / scale:.{decimals}f}{unit}"


def change(found: Interval, unit: str, digits: int = 1) -> str:
    """A difference with its sign and interval: -6.2 % [-8.1, -4.3]; of one seed without it."""
    if not math.isfinite(found.mean):
        return plain(found.mean)
    text = f"{found.mean:+.{digits}f}{unit}"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"


def spread(values: Iterable[int]) -> str:
    """The value they share, or the least and the largest."""
    found = sorted(set(values))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def joined(parts: Iterable[str]) -> str:
    """As a sentence lists them: a, b and c."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
