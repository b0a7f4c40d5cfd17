"""The tables of a report: every series by itself, against another on the same seeds, and beside the theorems."""

__all__ = ["Table", "against", "bounds", "headline", "solver_gain", "tables"]

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fedfloor.errors import FedfloorError, advice_for
from fedfloor.reports.cells import (
    IN_BRACKETS,
    LAST_TESTS,
    OWN_RATES,
    Cell,
    Table,
    change,
    duration,
    joined,
    plain,
    score_cell,
    share_of,
    spread,
    with_interval,
)
from fedfloor.reports.claims import claims
from fedfloor.reports.policies import solver_of, with_solver
from fedfloor.reports.reaching import reaching
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.reports.scores import ERROR, Score
from fedfloor.reports.statistics import (
    FEWEST_SEEDS,
    Interval,
    Judged,
    final_score,
    final_tests,
    interval,
    last_score,
    matched,
    percent_more,
    reference_of,
    score_gain,
    steadiness,
    window_of,
)
from fedfloor.reports.words import NO_LINKS
from fedfloor.scheduling.registry import shown_name


def tables(collection: Collection) -> tuple[Table, ...]:
    """All tables there is data for, in the order of the page."""
    candidates = (
        headline(collection),
        *(reaching(collection, score) for score in collection.scores),
        claims(collection),
        against(collection),
        solver_gain(collection),
        bounds(collection),
    )
    return tuple(table for table in candidates if table is not None)


def headline(collection: Collection) -> Table:
    """One row per series: how well it learnt, how long it took, and which floors failed."""
    scores = collection.scores
    columns = (
        "policy", *(name for score in scores for name in _columns(score)),
        "mean delay [s]", collection.clock_name, "completed", "failures", "raw samples sent", "worst shortfall",
        "energy per round [J]", "rounds", "seed numbers",
    )  # fmt: skip
    rows = tuple(_headline_row(series, scores) for series in collection.series)
    filled = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    columns, rows = tuple(columns[at] for at in filled), tuple(tuple(row[at] for at in filled) for row in rows)
    finals = joined(f"final {score.name}" for score in scores)
    steady = "; steadiness is their standard deviation from the straight line through them, so the lower, the steadier"
    told = any(score.steadiness in columns for score in scores)
    notes = [f"{finals[0].upper()}{finals[1:]} {'is' if len(scores) == 1 else 'are'} {LAST_TESTS}{steady * told}."]
    if ERROR in scores:
        error = f"{ERROR.what[0].lower()}{ERROR.what[1:]}, in the unit of what is predicted"
        notes.append(f"The error is the {error}; the lower, the better. The {ERROR.best} is that of any test.")
    notes += _few_tests(collection.runs)
    notes += _over_seeds({len(series.runs) for series in collection.series})
    if not all(run.ended for run in collection.runs):
        notes.append("A series that is still running is shown as far as it has come.")
    notes.append("Completed is of the floors that were selected; the worst shortfall is the largest of any floor.")
    if collection.has_own_rates:
        notes.append(OWN_RATES)
    notes.append(
        "Raw samples sent: device-rounds with cut 0, in which a device sends its samples to the gateway of its floor, "
        "of those of the floors that were selected. `training.min_cut = 1` in the scenario rules it out."
    )
    if not any(run.is_real or device.link for run in collection.runs for device in run.scenario.devices):
        notes.append(NO_LINKS)
    what = "policies side by side" if len(rows) > 1 else f"results of {collection.series[0].label}"
    return Table(f"{collection.name}: {what}", columns, rows, " ".join(notes))


def _columns(score: Score) -> tuple[str, ...]:
    """What tests of a score have columns for."""
    return tuple(filter(None, (f"final {score.name}", score.best, score.steadiness)))


def _over_seeds(counts: set[int]) -> list[str]:
    """A sentence on what stands for several seeds, where series have so many of them; empty if all have one."""
    ways = []
    if any(count >= FEWEST_SEEDS for count in counts):
        ways.append("± half the 95 % t-interval")
    if any(1 < count < FEWEST_SEEDS for count in counts):
        few = f"with fewer than {FEWEST_SEEDS} seeds " * (len(ways) > 0)
        ways.append(f"{few}(the value of every seed, where they differ)")
    return [f"Values are means over seeds {'; '.join(ways)}."] if ways else []


def _few_tests(runs: Sequence[ReadRun]) -> list[str]:
    """A sentence if some final accuracy rests on fewer tests than rounds, as in logs of earlier versions."""
    counts = [(final_tests(run)[1].size, window_of(run)) for run in runs if run.ended]
    few = [size for size, window in counts if 0 < size < window]
    if not few:
        return []
    runs_told = f"{len(few)} of {len(counts)} ended runs"
    return [f"{runs_told} were not tested in each of these rounds: they have {spread(few)} tests."]


def _tested(series: Series, score: Score) -> tuple[str, ...]:
    """The columns of a score for a series; all are empty if its tests measure another score."""
    cells = dict.fromkeys(_columns(score), "")
    final = f"final {score.name}"
    if series.score is not score:
        return tuple(cells.values())
    finals = [value for value in map(final_score, series.runs) if value is not None]
    deviations = [value for value in map(steadiness, series.runs) if value is not None]
    if not finals:
        cells[final] = "not tested yet" if any(run.is_trained for run in series.runs) else "no training"
        return tuple(cells.values())
    cells[final] = score_cell(score, interval(finals))
    if score.best:
        cells[score.best] = score_cell(
            score, interval([score.best_of(run.tests[1]) for run in series.runs if run.tests[1]])
        )
    if deviations:
        steady = interval([100.0 * value if score.is_share else value for value in deviations])
        cells[score.steadiness] = with_interval(steady, digits=2)
    return tuple(cells.values())


def _headline_row(series: Series, scores: Sequence[Score]) -> tuple[str, ...]:
    runs = series.runs
    selected = sum(run.summary.selected for run in runs)
    completed = sum(run.summary.completed for run in runs)
    causes: Counter[str] = Counter()
    for run in runs:
        causes.update(run.summary.failures)

    def mean(value: Callable[[ReadRun], float]) -> Interval:
        return interval([value(run) for run in runs])

    return (
        series.label,
        *(cell for score in scores for cell in _tested(series, score)),
        with_interval(mean(lambda run: run.summary.mean_delay)),
        duration(mean(lambda run: run.summary.clock)),
        share_of(completed, selected) if selected else "none selected",
        ", ".join(f"{cause} {count}" for cause, count in sorted(causes.items())) or "none",
        _raw_samples(runs),
        with_interval(mean(lambda run: run.summary.shortfall), digits=2),
        with_interval(mean(lambda run: run.summary.mean_energy)),
        _rounds(runs),
        ", ".join(str(run.scenario.seed) for run in runs),
    )


def _raw_samples(runs: Sequence[ReadRun]) -> str:
    """In how many device-rounds raw samples left their device."""
    raw, devices = (sum(getattr(run.summary, key) for run in runs) for key in ("raw_device_rounds", "device_rounds"))
    return share_of(raw, devices) if devices else "none selected"


def _rounds(runs: Sequence[ReadRun]) -> str:
    done = spread(len(run.records) for run in runs)
    if all(run.finished for run in runs):
        return done
    state = "ended" if all(run.ended for run in runs) else "still running"
    reasons = ", ".join(dict.fromkeys(run.about.ended for run in runs if run.about.ended is not None))
    return f"{state}: {done} of {spread(run.scenario.rounds for run in runs)}{f' ({reasons})' if reasons else ''}"


@dataclass(frozen=True, slots=True)
class _Difference:
    """A value in which runs of the same seed differ."""

    name: str
    unit: str
    digits: int
    of: Callable[[ReadRun, ReadRun], float | None]  #: (ours, reference), cut to the same rounds
    whole: bool = False  #: or not cut


def _whole_time(ours: ReadRun, reference: ReadRun) -> float | None:
    """Change of the time in percent; None while one of the runs is still running."""
    return percent_more(ours.summary.clock, reference.summary.clock) if ours.ended and reference.ended else None


def _differences(scores: Sequence[Score], clock_name: str) -> tuple[_Difference, ...]:
    """What the table of differences has columns for."""
    return (
        *(entry for score in scores for entry in _of_score(score)),
        _Difference("mean delay", " %", 1, lambda a, b: percent_more(a.summary.mean_delay, b.summary.mean_delay)),
        _Difference(f"{clock_name}, whole run", " %", 1, _whole_time, whole=True),
        _Difference("worst shortfall", "", 3, lambda a, b: a.summary.shortfall - b.summary.shortfall),
        _Difference(
            "energy per round", " %", 1, lambda a, b: percent_more(a.summary.mean_energy, b.summary.mean_energy)
        ),
    )


def _of_score(score: Score) -> tuple[_Difference, _Difference]:
    """Differences of the final score and of the last test alone."""

    def gain(ours: ReadRun, reference: ReadRun, of: Callable[[Judged], float | None]) -> float | None:
        return score_gain(ours, reference, of) if ours.score is score else None

    final, last = f"final {score.name}", score.last
    unit, in_name = ("", " [points]") if score.is_share else (score.unit, "")
    return (
        _Difference(f"{final}{in_name}", unit, 1, partial(gain, of=final_score)),
        _Difference(f"{last}{in_name}", unit, 1, partial(gain, of=last_score)),
    )


def against(collection: Collection, reference: str | None = None) -> Table | None:
    """Every other series against one of them (its label; by default `reference_of`), on the same seeds and rounds.

    None if there is nothing to compare.
    """
    base = reference_of(collection.series) if reference is None else _named_series(collection, reference)
    differences = _differences(collection.scores, collection.clock_name)
    rows, single, uneven = [], False, False
    for series in collection.series:
        if series is base:
            continue
        pairs, uncut = matched(series, base), matched(series, base, whole=True)
        single = single or len(pairs) == 1
        uneven = uneven or any(final_tests(ours)[1].size != final_tests(other)[1].size for ours, other in pairs)
        rounds = spread(len(ours.records) for ours, _ in pairs) if pairs else ""
        seeds = ", ".join(str(ours.scenario.seed) for ours, _ in pairs) or "none shared"
        rows.append(
            (
                series.label,
                seeds,
                rounds,
                *(_difference(entry, uncut if entry.whole else pairs) for entry in differences),
            )
        )
    if not rows:
        return None
    notes = [
        f"Every row is that policy minus {base.label}: same seeds, same weather, the first rounds that both have; mean "
        f"difference {IN_BRACKETS}. Whole runs are compared once both have ended."
    ]
    if single:
        notes.append("With one seed there is only the difference: run more seeds to know how much of it is chance.")
    if uneven:
        notes.append(
            "Some runs were tested more often than others at the end of these rounds, as a run is in its own last "
            "rounds: their final results are means of different numbers of tests."
        )
    columns = ("policy", "seed numbers", "rounds", *(entry.name for entry in differences))
    return Table(f"against {base.label}", columns, tuple(rows), " ".join(notes))


def _named_series(collection: Collection, reference: str) -> Series:
    """The series with this label, in which the policy may be spelled out as in logs."""
    labels = [series.label for series in collection.series]
    policy, *variant = reference.split(" [", 1)
    label = " [".join([shown_name(policy), *variant])
    if label not in labels:
        raise FedfloorError(f"reference '{reference}': no such series. {advice_for(reference, labels)}")
    return collection.series[labels.index(label)]


def _difference(difference: _Difference, pairs: Sequence[tuple[ReadRun, ...]]) -> str:
    values = [value for ours, other in pairs if (value := difference.of(ours, other)) is not None]
    return change(interval(values), difference.unit, difference.digits) if values else ""


def solver_gain(collection: Collection) -> Table | None:
    """What the exact solver gains over the paper's where runs differ in nothing else; None without such runs."""
    rows, sentences = [], []
    for exact in collection.series:
        policy = exact.runs[0].policy
        twin = with_solver(policy, "paper") if solver_of(policy) == "exact" else None
        if twin is None:
            continue
        others = [
            part for part in collection.series if (part.runs[0].policy, _variant(part)) == (twin, _variant(exact))
        ]
        pairs = matched(exact, others[0]) if others else []
        if not pairs:
            continue
        delay = interval([percent_more(a.summary.mean_delay, b.summary.mean_delay) for a, b in pairs])
        served = interval([_served(a) - _served(b) for a, b in pairs])
        shortfall = interval([a.summary.shortfall - b.summary.shortfall for a, b in pairs])
        means = [
            f"{plain(interval([of(run) for run in side]).mean)}"
            for of in (lambda run: run.summary.mean_delay, _served)
            for side in zip(*pairs, strict=True)
        ]
        seeds, rounds = ", ".join(str(a.scenario.seed) for a, _ in pairs), spread(len(a.records) for a, _ in pairs)
        changes = (change(delay, " %"), change(served, "", 2), change(shortfall, "", 3))
        rows.append((exact.label, seeds, rounds, *means[:2], changes[0], *means[2:], *changes[1:]))
        sentences.append(_gain(exact.label, delay, served))
    if not rows:
        return None
    columns = (
        "policy", "seed numbers", "rounds", "delay [s], exact", "paper", "change", "floors per round, exact",
        "paper", "change", "worst shortfall, change",
    )  # fmt: skip
    note = f"{' '.join(sentences)} Floors per round are those whose model was averaged; mean {IN_BRACKETS}."
    return Table("what the exact solver gains", columns, tuple(rows), note)


def _gain(name: str, delay: Interval, served: Interval) -> str:
    """The row as a sentence."""
    if not math.isfinite(delay.mean):
        return f"{name}: one of the solvers met a round without end, so delays cannot be compared."
    verb = "shortens" if delay.mean <= 0 else "lengthens"
    floors = "as many floors" if abs(served.mean) < 0.005 else f"{abs(served.mean):.2f} floors per round "
    floors += "" if abs(served.mean) < 0.005 else "more" if served.mean > 0 else "fewer"
    unsure = delay.low is not None and not delay.excludes_zero
    sure = " (the interval of the delay includes no change)" if unsure else ""
    text = f"{name}: on the same weather the exact solver {verb} the mean round time by {abs(delay.mean):.1f} %"
    return f"{text} and averages {floors}{sure}{', one seed' if delay.count == 1 else ''}."


def _variant(series: Series) -> str:
    return series.runs[0].variant


def _served(run: ReadRun) -> float:
    """Floors per round whose model was averaged."""
    return run.summary.completed / run.summary.rounds


def bounds(collection: Collection) -> Table | None:
    """The theorems beside what runs measured, for the first seed of every series that has ended; None without any."""
    ended = [(series.label, run) for series in collection.series for run in series.runs if run.bounds]
    first = dict(reversed(ended))
    rows = tuple(
        (
            label,
            entry.theorem,
            entry.what,
            _cell(entry.measured, ""),
            _cell(entry.bound, "none"),
            entry.note,
        )
        for label, run in reversed(first.items())
        for entry in sorted(run.bounds or (), key=lambda bound: bound.theorem)
    )
    if not rows:
        return None
    seeds = joined(dict.fromkeys(str(run.scenario.seed) for run in first.values()))
    note = (
        f"First seed of every series that has ended ({seeds}). A bound says what cannot be exceeded under the "
        "assumptions of its theorem, whatever happens, so the measured value may lie far below it: it is a guarantee, "
        "not a forecast. Bounds have the corrections of docs/paper_notes.md."
    )
    return Table("theory", ("policy", "theorem", "what", "measured", "bound", "note"), rows, note)


def _cell(value: float | None, absent: str) -> str:
    return absent if value is None else Cell(plain(value), value)
