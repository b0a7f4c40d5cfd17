"""How long policies take to reach an accuracy that all of them reach: short rounds and good floors together."""

__all__ = ["reaching"]

from fedfloor.reports.cells import IN_BRACKETS, SMOOTHED, Table, change, duration, percentage, with_interval
from fedfloor.reports.reading import Collection, ReadRun
from fedfloor.reports.statistics import final_accuracy, interval, matched, percent_more, reference_of, rounds_to_reach

_SHARE = 0.95  #: of the least final accuracy


def reaching(collection: Collection) -> Table | None:
    """Rounds and time that every tested series takes to the level of each seed; None without two series.

    A seed counts once all of its runs have ended, because the level rests on their final accuracies.
    """
    tested = [series for series in collection.series if any(run.accuracy[1] for run in series.runs)]
    if len(tested) < 2:
        return None
    groups = [runs for runs in matched(*tested, whole=True) if all(run.ended and run.accuracy[1] for run in runs)]
    if not groups:
        return None
    levels = [_SHARE * min(final for run in runs if (final := final_accuracy(run)) is not None) for runs in groups]
    reached = [[_first(run, level) for run in runs] for runs, level in zip(groups, levels, strict=True)]
    against = reference_of(tested)
    base = tested.index(against)
    seeds = ", ".join(str(runs[0].scenario.seed) for runs in groups)
    rows = []
    for at, series in enumerate(tested):
        times = [_clock(runs[at], seed[at]) for runs, seed in zip(groups, reached, strict=True)]
        others = [_clock(runs[base], seed[base]) for runs, seed in zip(groups, reached, strict=True)]
        ratios = list(map(percent_more, times, others))
        rounds = interval([float(seed[at]) for seed in reached])
        less = "" if at == base else change(interval(ratios), " %")
        rows.append((series.label, seeds, with_interval(rounds, digits=3), duration(interval(times)), less))
    note = (
        f"The level is {100 * _SHARE:.0f} % of the least final accuracy among a seed's runs, here "
        f"{_from_to(levels)}. {SMOOTHED} The last column is that policy's time "
        f"against {against.label}: mean {IN_BRACKETS}."
    )
    columns = ("policy", "seed numbers", "rounds", collection.clock_name, f"against {against.label}")
    return Table("time to an accuracy that all reach", columns, tuple(rows), note)


def _first(run: ReadRun, level: float) -> int:
    """The first round after which the averaged accuracy reaches the level."""
    rounds = rounds_to_reach(run, level)
    assert rounds is not None, "the last mean is the final accuracy"
    return rounds


def _clock(run: ReadRun, rounds: int) -> float:
    return run.records[rounds - 1].clock


def _from_to(levels: list[float]) -> str:
    """Shares as percent: one value, or the range from the lowest to the highest."""
    least, most = percentage(min(levels)), percentage(max(levels))
    return least if least == most else f"{least} to {most}"
