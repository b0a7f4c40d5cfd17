"""A table as people read it, and how numbers are written in one."""

__all__ = [
    "IN_BRACKETS",
    "LAST_TESTS",
    "OWN_RATES",
    "Cell",
    "Table",
    "change",
    "duration",
    "joined",
    "percentage",
    "plain",
    "score_cell",
    "share_of",
    "smoothing_of",
    "spread",
    "time_unit",
    "with_interval",
]

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from fedfloor.notebooks.cards import card, html_table
from fedfloor.notebooks.frames import DataFrame, frame_of
from fedfloor.reports.scores import Score
from fedfloor.reports.statistics import FEWEST_SEEDS, Interval
from fedfloor.rounds.summary import FINAL_ROUNDS

#: what stands in brackets behind a mean difference
IN_BRACKETS = f"[paired 95 % t-interval; with fewer than {FEWEST_SEEDS} seeds (the value of every seed)]"
#: why target rates of several policies are not the same
OWN_RATES = (
    "Target rates are estimated from each run's own gradients or updates, so they differ between policies on the same "
    "seed."
)
#: what a final accuracy or error is, and every point of its curve
LAST_TESTS = (
    f"the mean of the tests of the last {FINAL_ROUNDS} rounds, or of the last fifth of a run of fewer than "
    f"{5 * FINAL_ROUNDS} rounds"
)


class Cell(str):
    """The text of a cell, which knows the number that it shows."""

    value: Interval | float
    unit: str  #: of the number; empty for shares, counts and where the name of the column says it

    def __new__(cls, text: str, value: Interval | float = math.nan, unit: str = "") -> Self:
        """A text with its number."""
        cell = super().__new__(cls, text)
        cell.value, cell.unit = value, unit
        return cell


@dataclass(frozen=True, slots=True)
class Table:
    """Strings, ready to be printed; every row is as long as the columns. Those that show a number are a `Cell`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str  #: what the numbers mean, in sentences; may be empty

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows)

    @property
    def values(self) -> tuple[tuple[Interval | float | str, ...], ...]:
        """The rows as numbers: a mean over seeds as an `Interval`, shares from 0 to 1, times in seconds.

        What shows no number is the text.
        """
        return tuple(tuple(cell.value if isinstance(cell, Cell) else cell for cell in row) for row in self.rows)

    def to_pandas(self) -> DataFrame:
        """The table as a data frame; a mean with an interval gets two more columns, `low` and `high`.

        Needs the extra 'notebook'.
        """
        columns: dict[str, list[object]] = {}
        for at, name in enumerate(self.columns):
            cells = [row[at] for row in self.rows]
            units = {cell.unit for cell in cells if isinstance(cell, Cell)}
            key = f"{name} [{units.pop()}]" if len(units) == 1 and "" not in units else name
            key = f"{key} ({at})" if key in columns else key  # two columns may have the same name
            values = [cell.value if isinstance(cell, Cell) else cell for cell in cells]
            columns[key] = [value.mean if isinstance(value, Interval) else value for value in values]
            intervals = [value for value in values if isinstance(value, Interval)]
            if any(value.low is not None for value in intervals):
                for end in ("low", "high"):
                    columns[f"{key}, {end}"] = [getattr(value, end, None) for value in values]
        return frame_of(columns)

    def _repr_html_(self) -> str:
        return card(self.title, html_table(self.columns, self.rows))


def plain(value: float, digits: int = 4) -> str:
    """A number with `digits` significant digits; nan is unknown, inf is endless."""
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "endless"
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def percentage(value: float) -> Cell:
    """A share as percent."""
    return Cell(f"{100.0 * value:.1f} %" if math.isfinite(value) else plain(value), value)


def share_of(part: int, whole: int) -> Cell:
    """A part as percent of a whole, which is shown too: 98.3 % of 120."""
    return Cell(f"{percentage(part / whole)} of {whole}", part / whole)


def time_unit(longest: float) -> tuple[float, str]:
    """The unit in which a time reads best: its length in seconds and its name."""
    return (1.0, "s") if longest < 120 else (60.0, "min") if longest < 7200 else (3600.0, "h")


def duration(interval: Interval) -> Cell:
    """A time in the unit that fits: 48.2 s, 15.3 ± 0.4 min, 4.12 h."""
    seconds, unit = time_unit(interval.mean)
    return Cell(with_interval(interval, f" {unit}", scale=seconds, digits=3), interval, "s")


def with_interval(interval: Interval, unit: str = "", *, scale: float = 1.0, digits: int = 4) -> Cell:
    """The mean and half the width of its interval, which has two digits: 46.3 ± 1.8.

    Fewer than four seeds have no interval but their values, where they differ: 46.3 (45.1, 47.5).
    """
    return Cell(_with_interval(interval, unit, scale, digits), interval)


def _with_interval(interval: Interval, unit: str, scale: float, digits: int) -> str:
    mean, half = interval.mean / scale, interval.half_width
    if not math.isfinite(mean):
        return plain(mean)
    if half is None:
        texts = [plain(value / scale, digits) for value in interval.values]
        each = f" ({', '.join(texts)})" if len(set(texts)) > 1 else ""
        return f"{plain(mean, digits)}{each}{unit}"
    if half == 0.0:  # all alike
        return f"{plain(mean, digits)}{unit}"
    decimals = min(4, max(0, 1 - math.floor(math.log10(half / scale))))
    return f"{mean:.{decimals}f} ± {half / scale:.{decimals}f}{unit}"


def score_cell(score: Score, interval: Interval) -> Cell:
    """An accuracy in percent, or an error in the unit of what is predicted."""
    return with_interval(interval, " %", scale=0.01, digits=3) if score.is_share else with_interval(interval)


def smoothing_of(score: Score) -> str:
    """How curves of a score are smoothed, as a sentence."""
    return f"{score.title} is smoothed: {LAST_TESTS}."


def change(interval: Interval, unit: str, digits: int = 1) -> Cell:
    """A difference with its sign and interval: -6.2 % [-8.1, -4.3]; with two or three seeds, (the values of all)."""
    return Cell(_change(interval, unit, digits), interval, unit.strip())


def _change(interval: Interval, unit: str, digits: int) -> str:
    if not math.isfinite(interval.mean):
        return plain(interval.mean)
    text = f"{interval.mean:+.{digits}f}{unit}"
    if interval.low is None or interval.high is None:
        values = ", ".join(f"{value:+.{digits}f}" for value in interval.values)
        return f"{text} ({values})" if interval.count > 1 else text
    return f"{text} [{interval.low:+.{digits}f}, {interval.high:+.{digits}f}]"


def spread(values: Iterable[int]) -> str:
    """The value they share, or the least and the largest."""
    distinct = sorted(set(values))
    return Cell(str(distinct[0]), distinct[0]) if len(distinct) == 1 else f"{distinct[0]} to {distinct[-1]}"


def joined(parts: Iterable[str]) -> str:
    """The parts as a sentence lists them: a, b and c."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
