"""A table as people read it, and how figures are written in one."""

__all__ = ["Table", "change", "duration", "joined", "percentage", "plain", "spread", "with_interval"]

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fedfloor.report.statistics import Interval


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
    return f"{value:.1%}".replace("%", " %") if math.isfinite(value) else plain(value)


def duration(seconds: float) -> str:
    """A time in the unit that fits: 48.2 s, 15.3 min, 4.12 h."""
    if not math.isfinite(seconds) or abs(seconds) < 120:
        return f"{plain(seconds, 3)} s" if math.isfinite(seconds) else plain(seconds)
    return f"{seconds / 60:.3g} min" if abs(seconds) < 7200 else f"{plain(seconds / 3600, 3)} h"


def with_interval(found: Interval, shown: Callable[[float], str]) -> str:
    """The mean and half the width of its interval: 46.3 ± 0.8."""
    half = found.half_width
    return shown(found.mean) if half is None else f"{shown(found.mean)} ± {shown(half)}"


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
