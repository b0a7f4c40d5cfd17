"""How long policies take to reach an accuracy, or an error, that all of them reach: short rounds and good floors."""

__all__ = ["reaching"]

from fedfloor.reports.cells import IN_BRACKETS, Table, change, duration, percentage, plain, smoothing_of, with_interval
from fedfloor.reports.reading import Collection, ReadRun
from fedfloor.reports.scores import ACCURACY, Score
from fedfloor.reports.statistics import final_score, interval, matched, percent_more, reference_of, rounds_to_reach


def reaching(collection: Collection, score: Score = ACCURACY) -> Table | None:
    """Rounds and time that every series with tests of this score takes to the level of each seed; None without two.

    A seed counts once all of its runs have ended, because the level rests on their final scores.
    """
    tested = [part for part in collection.series if part.score is score and any(run.tests[1] for run in part.runs)]
    if len(tested) < 2:
        return None
    groups = [runs for runs in matched(*tested, whole=True) if all(run.ended and run.tests[1] for run in runs)]
    if not groups:
        return None
    finals = [[final for run in runs if (final := final_score(run)) is not None] for runs in groups]
    levels = [score.level * score.worst_of(values) for values in finals]
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
        f"The level is {100 * score.level:.0f} % of the {score.worst_word} final {score.name} among a seed's runs, "
        f"here {_from_to(score, levels)}. {smoothing_of(score)} The last column is that policy's time against "
        f"{against.label}: mean {IN_BRACKETS}."
    )
    columns = ("policy", "seed numbers", "rounds", collection.clock_name, f"against {against.label}")
    return Table(f"time to an {score.name} that all reach", columns, tuple(rows), note)


def _first(run: ReadRun, level: float) -> int:
    """The first round after which the averaged score reaches the level."""
    rounds = rounds_to_reach(run, level)
    assert rounds is not None, "the last mean is the final score"
    return rounds


def _clock(run: ReadRun, rounds: int) -> float:
    """Time [s] of the first rounds."""
    return float(run.columns.of_rounds("clock")[rounds - 1])


def _from_to(score: Score, levels: list[float]) -> str:
    """One value, or the range from the lowest to the highest."""
    least, most = (percentage(level) if score.is_share else plain(level) for level in (min(levels), max(levels)))
    return least if least == most else f"{least} to {most}"
