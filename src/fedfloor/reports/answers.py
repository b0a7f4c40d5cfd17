"""What a comparison says, in a sentence or two per policy: the first thing on the page and in the terminal."""

__all__ = ["answers"]

import math
from collections.abc import Sequence

from fedfloor.errors import counted
from fedfloor.reports.cells import plain
from fedfloor.reports.errors import final_error
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.reports.statistics import (
    FEWEST_SEEDS,
    Interval,
    final_accuracy,
    interval,
    matched,
    percent_more,
    reference_of,
)

_MOST = 8  #: policies that get a sentence


def answers(collection: Collection) -> tuple[str, ...]:
    """One entry for every policy beside the reference, in the order of the report; empty with one policy."""
    base = reference_of(collection.series)
    others = [series for series in collection.series if series is not base]
    texts = [text for series in others[:_MOST] if (text := _answer(base, series))]
    if len(others) > _MOST:
        texts.append(f"{len(others) - _MOST} more policies are in the tables.")
    return tuple(texts)


def _answer(base: Series, other: Series) -> str:
    """How the reference does against another policy, on the seeds and rounds that both have."""
    pairs = matched(base, other)
    if not pairs:
        return f"{base.label} and {other.label} share no seed, so they are not compared."
    clauses = [_delay(base, other, pairs), _accuracy(base, pairs)]
    running = "" if all(run.ended for pair in pairs for run in pair) else " So far; some runs are not finished."
    return f"{'; '.join(filter(None, clauses))}.{running}"


def _delay(base: Series, other: Series, pairs: Sequence[tuple[ReadRun, ...]]) -> str:
    """Whose rounds are shorter."""
    delays = [(ours.summary.mean_delay, theirs.summary.mean_delay) for ours, theirs in pairs]
    if not all(math.isfinite(ours) and 0.0 < theirs < math.inf for ours, theirs in delays):
        return f"Rounds of {base.label} and {other.label} cannot be compared, because some never end"
    longer = interval([percent_more(ours, theirs) for ours, theirs in delays])
    if _is_undecided(longer):
        return f"Rounds of {base.label} and {other.label} take about as long {_range(longer, ' %')}"
    word = "shorter" if longer.mean < 0.0 else "longer"
    return (
        f"Rounds of {base.label} are {_size(longer, ' %')} {word} than {other.label}'s {_range(longer, ' %')}".rstrip()
    )


def _accuracy(base: Series, pairs: Sequence[tuple[ReadRun, ...]]) -> str:
    """Which of the two ends more accurate; empty without training."""
    finals = [(final_accuracy(ours), final_accuracy(theirs)) for ours, theirs in pairs]
    gains = [100.0 * (ours - theirs) for ours, theirs in finals if ours is not None and theirs is not None]
    if not gains:
        return _error(base, pairs)
    gain = interval(gains)
    if gain.count < FEWEST_SEEDS or _is_undecided(gain):
        return _undecided("is more accurate", base, gain, " points")
    word = "more" if gain.mean > 0.0 else "less"
    return f"it ends {_size(gain, ' points')} {word} accurate {_range(gain, ' points')}"


def _error(base: Series, pairs: Sequence[tuple[ReadRun, ...]]) -> str:
    """Which of two that predict numbers ends with the smaller error; empty if they predict none."""
    finals = [(final_error(ours), final_error(theirs)) for ours, theirs in pairs]
    ratios = [percent_more(ours, theirs) for ours, theirs in finals if ours is not None and theirs]
    if not ratios:
        return ""
    more = interval(ratios)
    if more.count < FEWEST_SEEDS or _is_undecided(more):
        return _undecided("has the smaller error", base, more, " %")
    word = "larger" if more.mean > 0.0 else "smaller"
    return f"it ends with a {_size(more, ' %')} {word} error {_range(more, ' %')}"


def _undecided(what: str, base: Series, difference: Interval, unit: str) -> str:
    """That the seeds do not decide which of the two it is, with the difference of the reference from the other."""
    if difference.low is not None and difference.high is not None:
        return f"it is undecided which {what} [{base.label} {difference.low:+.1f} to {difference.high:+.1f}{unit}]"
    values = ", ".join(f"{value:+.1f}" for value in difference.values)
    return f"with {counted(difference.count, 'seed')} it is undecided which {what} ({base.label} {values}{unit})"


def _is_undecided(difference: Interval) -> bool:
    """Whether there is an interval that includes no difference."""
    return difference.low is not None and not difference.excludes_zero


def _size(difference: Interval, unit: str) -> str:
    return f"{plain(abs(difference.mean), 2)}{unit}"


def _range(difference: Interval, unit: str) -> str:
    """The interval in brackets, in the direction of the sentence; the values of all seeds if they are few."""
    sign = -1.0 if difference.mean < 0.0 and not _is_undecided(difference) else 1.0
    if difference.low is not None and difference.high is not None:
        low, high = sorted((sign * difference.low, sign * difference.high))
        return f"[{_number(low)} to {_number(high)}{unit}]"
    if difference.count == 1:
        return ""
    return f"({', '.join(_number(sign * value) for value in difference.values)}{unit})"


def _number(value: float) -> str:
    return f"{value:.1f}"
