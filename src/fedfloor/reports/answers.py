"""What a comparison says, in a sentence or two per policy: the first thing on the page and in the terminal."""

__all__ = ["answers"]

import itertools
import math
from collections.abc import Sequence

from fedfloor.errors import counted
from fedfloor.reports.cells import spread
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.reports.statistics import (
    FEWEST_SEEDS,
    Interval,
    interval,
    matched,
    percent_more,
    reference_of,
    score_gain,
)

_MOST = 8  #: policies that get a sentence
_CLEAR = 5.0  #: [%] from which on a difference in energy is worth a word


def answers(collection: Collection) -> tuple[str, ...]:
    """One entry for every policy beside the reference, in the order of the report; empty with one policy."""
    base = reference_of(collection.series)
    others = [series for series in collection.series if series is not base]
    texts = [text for series in others[:_MOST] if (text := _answer(series, base))]
    if len(others) > _MOST:
        texts.append(f"{len(others) - _MOST} more policies are in the tables.")
    return tuple(texts)


def _answer(ours: Series, base: Series) -> str:
    """How a policy does against the reference, on the seeds and rounds that both have: a row of the table `against`."""
    pairs, whole = matched(ours, base), matched(ours, base, whole=True)
    if not pairs:
        return f"{ours.label} and {base.label} share no seed, so they are not compared."
    is_cut = any(len(one.records) != len(other.records) for one, other in whole)
    few = f"with {counted(len(pairs), 'seed')}" if len(pairs) < FEWEST_SEEDS else ""
    over = f"over the {spread(len(one.records) for one, _ in pairs)} rounds that both have" if is_cut else ""
    head = ", ".join(filter(None, (few, over)))
    clauses = "; ".join(filter(None, (_delay(ours, base, pairs), _score(ours, pairs), _energy(ours, pairs))))
    text = f"{head}: {clauses}" if head else clauses
    running = "" if all(run.ended for pair in whole for run in pair) else " So far; some runs are not finished."
    return f"{text[0].upper()}{text[1:]}.{running}"


def _delay(ours: Series, base: Series, pairs: Sequence[tuple[ReadRun, ...]]) -> str:
    """Whose rounds are shorter."""
    delays = [(one.summary.mean_delay, other.summary.mean_delay) for one, other in pairs]
    longer = interval([percent_more(one, other) for one, other in delays])
    if not math.isfinite(longer.mean):
        why = "take no time" if all(map(math.isfinite, itertools.chain(*delays))) else "never end"
        return f"rounds of {ours.label} and {base.label} cannot be compared, because some {why}"
    if _is_undecided(longer):
        if longer.low is None and any(longer.values):
            return _undecided("has the shorter rounds", ours, longer, " %")
        return f"rounds of {ours.label} and {base.label} take about as long{_range(longer, ' %')}"
    word = "shorter" if longer.mean < 0.0 else "longer"
    return f"rounds of {ours.label} are {_size(longer, ' %')} {word} than those of {base.label}{_range(longer, ' %')}"


def _score(ours: Series, pairs: Sequence[tuple[ReadRun, ...]]) -> str:
    """Which of the two ends more accurate, or with the smaller error; empty without training."""
    gains = [gain for one, other in pairs if (gain := score_gain(one, other)) is not None and math.isfinite(gain)]
    if not gains:
        return ""
    difference, score = interval(gains), ours.score
    if difference.count < FEWEST_SEEDS or _is_undecided(difference):
        return _undecided(score.leading, ours, difference, score.unit)
    ending = score.above if difference.mean > 0.0 else score.below
    return f"{ours.label} {ending.format(_size(difference, score.unit))}{_range(difference, score.unit)}"


def _energy(ours: Series, pairs: Sequence[tuple[ReadRun, ...]]) -> str:
    """Whose rounds need less energy; empty unless the difference is large and the same way on every seed."""
    more = interval([percent_more(one.summary.mean_energy, other.summary.mean_energy) for one, other in pairs])
    if not abs(more.mean) >= _CLEAR or not _agree(more) or _is_undecided(more):
        return ""
    word = "more" if more.mean > 0.0 else "less"
    return f"devices and gateways of {ours.label} use {_size(more, ' %')} {word} energy per round{_range(more, ' %')}"


def _undecided(what: str, ours: Series, difference: Interval, unit: str) -> str:
    """That the seeds do not decide which of the two it is, with the difference of the policy from the reference."""
    if difference.low is not None and difference.high is not None:
        return f"it is undecided which {what} [{ours.label} {difference.low:+.1f} to {difference.high:+.1f}{unit}]"
    values = ", ".join(f"{value:+.1f}" for value in difference.values)
    return f"it is undecided which {what} ({ours.label} {values}{unit})"


def _is_undecided(difference: Interval) -> bool:
    """Whether an interval includes no difference, or seeds that are too few for one do not all say the same."""
    return not _agree(difference) if difference.low is None else not difference.excludes_zero


def _agree(difference: Interval) -> bool:
    """Whether all seeds have a difference, and in the same direction."""
    return all(value > 0.0 for value in difference.values) or all(value < 0.0 for value in difference.values)


def _size(difference: Interval, unit: str) -> str:
    return f"{_number(abs(difference.mean))}{unit}"


def _range(difference: Interval, unit: str) -> str:
    """The interval in brackets, in the direction of the sentence; the values of all seeds if they are few."""
    sign = -1.0 if difference.mean < 0.0 and not _is_undecided(difference) else 1.0
    if difference.low is not None and difference.high is not None:
        low, high = sorted((sign * difference.low, sign * difference.high))
        return f" [{_number(low)} to {_number(high)}{unit}]"
    if difference.count == 1:
        return ""
    return f" ({', '.join(_number(sign * value) for value in difference.values)}{unit})"


def _number(value: float) -> str:
    return f"{value:.1f}"
