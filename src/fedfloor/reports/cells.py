"""A table as people read it, and how numbers are written in one."""

__all__ = [
    "IN_BRACKETS",
    "SMOOTHED",
    "Table",
    "change",
    "duration",
    "joined",
    "percentage",
    "plain",
    "spread",
    "time_unit",
    "with_interval",
]

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fedfloor.reports.statistics import FEWEST_SEEDS, Interval
from fedfloor.rounds.summary import FINAL_ROUNDS

#: what stands in brackets behind a mean difference
IN_BRACKETS = f"[paired 95 % t-interval; with fewer than {FEWEST_SEEDS} seeds (the value of every seed)]"
#: how curves of accuracy are smoothed
SMOOTHED = (
    f"Accuracy is smoothed: the mean of the tests of the last {FINAL_ROUNDS} rounds, or of the last fifth of a run of "
    f"fewer than {5 * FINAL_ROUNDS} rounds."
)


@dataclass(frozen=True, slots=True)
class Table:
    """Strings, ready to be printed; every row is as long as the columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str  #: what the numbers mean, in sentences; may be empty

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows)


def plain(value: float, digits: int = 4) -> str:
    """A number with `digits` significant digits; nan is unknown, inf is endless."""
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "endless"
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def percentage(value: float) -> str:
    """A share as percent."""
    return f"{100.0 * value:.1f} %" if math.isfinite(value) else plain(value)


def time_unit(longest: float) -> tuple[float, str]:
    """The unit in which a time reads best: its length in seconds and its name."""
    return (1.0, "s") if longest < 120 else (60.0, "min") if longest < 7200 else (3600.0, "h")


def duration(interval: Interval) -> str:
    """A time in the unit that fits: 48.2 s, 15.3 ± 0.4 min, 4.12 h."""
    seconds, unit = time_unit(interval.mean)
    return with_interval(interval, f" {unit}", scale=seconds, digits=3)


def with_interval(interval: Interval, unit: str = "", *, scale: float = 1.0, digits: int = 4) -> str:
    """The mean and half the width of its interval, which has two digits: 46.3 ± 1.8.

    Fewer than four seeds have no interval but their values: 46.3 (45.1, 47.5). One seed has only its value.
    """
    mean, half = interval.mean / scale, interval.half_width
    if not math.isfinite(mean):
        return plain(mean)
    if half is None:
        return f"{plain(mean, digits)}{_each(interval, lambda value: plain(value / scale, digits))}{unit}"
    if half == 0.0:  # all alike
        return f"{plain(mean, digits)}{unit}"
    decimals = min(4, max(0, 1 - math.floor(math.log10(half / scale))))
    return f"{mean:.{decimals}f} ± {half / scale:.{decimals}f}{unit}"


def change(interval: Interval, unit: str, digits: int = 1) -> str:
    """A difference with its sign and interval: -6.2 % [-8.1, -4.3]; with two or three seeds, (the values of all)."""
    if not math.isfinite(interval.mean):
        return plain(interval.mean)
    text = f"{interval.mean:+.{digits}f}{unit}"
    if interval.low is None or interval.high is None:
        return f"{text}{_each(interval, lambda value: f'{value:+.{digits}f}')}"
    return f"{text} [{interval.low:+.{digits}f}, {interval.high:+.{digits}f}]"


def _each(interval: Interval, written: Callable[[float], str]) -> str:
    """The value of every seed in brackets; empty for one seed, or if they are written alike."""
    texts = [written(value) for value in interval.values]
    return f" ({', '.join(texts)})" if len(set(texts)) > 1 else ""


def spread(values: Iterable[int]) -> str:
    """The value they share, or the least and the largest."""
    distinct = sorted(set(values))
    return str(distinct[0]) if len(distinct) == 1 else f"{distinct[0]} to {distinct[-1]}"


def joined(parts: Iterable[str]) -> str:
    """The parts as a sentence lists them: a, b and c."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
