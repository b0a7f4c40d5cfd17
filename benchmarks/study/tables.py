"""What the lines of the study say together: Markdown tables for docs/reproduce.md."""

__all__ = [
    "TABLES",
    "claims_tables",
    "effort",
    "filled",
    "leaderboard_tables",
    "levers_tables",
    "reasons_tables",
    "seeds_of",
]

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

import fedfloor
from benchmarks.study.measures import (
    JudgedLine,
    accuracy_at,
    final_accuracy,
    judged,
    steadiness,
    time_to,
)
from benchmarks.study.parts import (
    BEST,
    CLAIM_ROUNDS,
    CLAIMED,
    DOSES,
    EVERY,
    FAST_ROUNDS,
    ORACLE,
    PAPER,
    PUBLISHED,
    RACE,
    REFERENCE,
    SCENARIOS,
    SEEDS,
    VARIANTS,
    Variant,
    dosed,
    racing,
    with_levers,
)
from benchmarks.study.runs import Line, Run
from fedfloor.reports.cells import change, with_interval
from fedfloor.reports.claims import CLAIMS, verdict
from fedfloor.reports.statistics import interval
from fedfloor.rounds.summary import summarise

Lines = Mapping[Run, Line]
Tables = Mapping[str, list[str]]  #: by name


NOTHING = ["No run of this table is finished yet."]


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as Markdown; without rows, a sentence in its place."""
    if not rows:
        return NOTHING
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)]


def seeds_of(lines: Lines, variant: Variant, scenario: str, rounds: int) -> dict[int, Line]:
    """The lines of a variant, by seed."""
    return {seed: lines[run] for seed in SEEDS if (run := variant.on(scenario, seed, rounds)) in lines}


def ratio(values: Sequence[float]) -> str:
    """Geometric mean of ratios with its 95 % interval, or every value if they are few: 7.9x [6.8, 9.1]."""
    logs = interval([math.log(value) for value in values])
    if logs.low is None or logs.high is None:
        return f"{math.exp(logs.mean):.1f}x ({', '.join(f'{value:.1f}' for value in values)})"
    return f"{math.exp(logs.mean):.1f}x [{math.exp(logs.low):.1f}, {math.exp(logs.high):.1f}]"


def percent(values: Sequence[float]) -> str:
    """Shares as percent: mean with its interval."""
    return with_interval(interval(values), " %", scale=0.01, digits=3) if values else "none"


# -- levers -----------------------------------------------------------------------------------------------------------


def levers_tables(lines: Lines) -> Tables:
    """How much sooner the published accuracy is reached: all levers, without each, and each alone."""
    tables: dict[str, list[str]] = {}
    for scenario in PAPER:
        published = seeds_of(lines, PUBLISHED, scenario, 300)
        if not published:
            tables[f"levers {scenario}"] = NOTHING
            continue
        levels = {seed: final_accuracy(line) for seed, line in published.items()}
        named = [("as published", PUBLISHED, 300), ("all levers", BEST, FAST_ROUNDS)]
        named += [
            (f"without: {name}", with_levers([other for other in EVERY if other != name]), FAST_ROUNDS)
            for name in EVERY
        ]
        named += [(f"only: {name}", with_levers([name]), 300) for name in EVERY]
        rows = []
        for text, variant, rounds in named:
            own = seeds_of(lines, variant, scenario, rounds)
            shared = [seed for seed in own if seed in published]
            if shared:
                rows.append((text, *_sooner({seed: own[seed] for seed in shared}, published)))
        heads = ("setting", "seeds", "mean delay [s]", "accuracy at the end", "time to the level [s]", "times sooner",
                 "against 300 rounds")  # fmt: skip
        level = f"Level: {percent(list(levels.values()))} accuracy, mean over the seeds that have run."
        tables[f"levers {scenario}"] = [level, "", *markdown(heads, rows)]
    return tables


def _sooner(own: dict[int, Line], published: dict[int, Line]) -> tuple[str, ...]:
    levels = {seed: final_accuracy(published[seed]) for seed in own}
    times = {seed: time_to(line, levels[seed]) for seed, line in own.items()}
    reached = [seed for seed, time in times.items() if math.isfinite(time)]
    delay = with_interval(interval([line.mean_delay_s for line in own.values()]), digits=3)
    accuracy = percent([final_accuracy(line) for line in own.values()])
    if len(reached) < len(own):
        return str(len(own)), delay, accuracy, f"{len(reached)} of {len(own)} seeds reach it", "", ""
    return (
        str(len(own)),
        delay,
        accuracy,
        with_interval(interval(list(times.values())), digits=3),
        ratio([time_to(published[seed], levels[seed]) / times[seed] for seed in own]),
        ratio([published[seed].clock_s / times[seed] for seed in own]),
    )


# -- the paper's claims -----------------------------------------------------------------------------------------------


@functools.cache
def _simulated(scenario: str, policy: str, seed: int) -> JudgedLine:
    """A run without training, of a policy whose accuracy no claim compares."""
    done = fedfloor.simulate(scenario, policy, CLAIM_ROUNDS, seed=seed)
    return JudgedLine(fedfloor.load(scenario, seed=seed), policy, summarise(done.records), ([], []))


def claims_tables(lines: Lines) -> Tables:
    """The paper's claims about Figs. 4 to 6, as points and as shares, over the seeds that all policies have."""
    tables: dict[str, list[str]] = {}
    for scenario in PAPER:
        runs = {policy: seeds_of(lines, Variant(policy), scenario, CLAIM_ROUNDS) for policy in CLAIMED}
        rows = []
        for claim in CLAIMS:
            if claim.scenario != scenario or claim.limits is not True:
                continue
            trained = [policy for policy in claim.policies if policy in runs]
            shared = [seed for seed in SEEDS if trained and all(seed in runs[policy] for policy in trained)]
            groups = [
                [
                    judged(runs[policy][seed]) if policy in runs else _simulated(scenario, policy, seed)
                    for policy in claim.policies
                ]
                for seed in shared
            ]
            if groups:
                ours, holds = verdict(claim, groups)
                rows.append((claim.text, claim.printed, ours, str(len(shared)), holds))
        tables[f"claims {scenario}"] = markdown(("claim", "paper", "ours", "seeds", "holds"), rows)
        tables[f"policies {scenario}"] = _policies(runs)
    return tables


def _policies(runs: Mapping[str, dict[int, Line]]) -> list[str]:
    """Every policy by itself."""
    rows = []
    for policy, own in runs.items():
        if own:
            every = list(own.values())
            served = np.mean([[float(part) for part in line.served.split()] for line in every], axis=0)
            rows.append(
                (
                    f"`{policy}`",
                    str(len(own)),
                    percent([final_accuracy(line) for line in every]),
                    percent([steadiness(line) for line in every]),
                    with_interval(interval([line.mean_delay_s for line in every]), digits=3),
                    percent([line.completed / max(line.selected, 1) for line in every]),
                    with_interval(interval([line.shortfall for line in every]), digits=2),
                    with_interval(interval([line.mean_energy_j for line in every]), digits=3),
                    ", ".join(f"{100 * share:.0f}" for share in served),
                )
            )
    heads = ("policy", "seeds", "final accuracy", "steadiness", "mean delay [s]", "completed", "worst shortfall",
             "energy per round [J]", "rounds that floors 1, 2, ... completed [%]")  # fmt: skip
    return markdown(heads, rows)


# -- leaderboard ------------------------------------------------------------------------------------------------------


def leaderboard_tables(lines: Lines) -> Tables:
    """All variants, the soonest first; and each beside ddsra, paired by seed."""
    tables: dict[str, list[str]] = {}
    for scenario in SCENARIOS:
        runs = {policy: seeds_of(lines, racing(policy), scenario, RACE[scenario]) for policy in VARIANTS}
        runs = {policy: own for policy, own in runs.items() if own}
        tables |= {f"race {scenario}": NOTHING, f"pairs {scenario}": NOTHING}
        if not runs:
            continue
        levels, ends = _levels(runs), _ends(runs)
        rows = []
        for policy, own in runs.items():
            times = [time_to(line, levels[seed]) for seed, line in own.items()]
            rows.append((float(np.mean(times)), _race_row(policy, own, times, ends)))
        rows.sort(key=lambda row: (math.isnan(row[0]), row[0]))
        heads = ("policy", "seeds", "time to the level [s]", "accuracy at equal time", "final accuracy", "steadiness",
                 "mean delay [s]", "energy per round [J]", "worst shortfall")  # fmt: skip
        level, end = percent(list(levels.values())), with_interval(interval(list(ends.values())), " s", digits=3)
        tables[f"race {scenario}"] = [
            f"Level: {level}; equal time: {end}.",
            "",
            *markdown(heads, [row for _, row in rows]),
        ]
        reference = REFERENCE[scenario]
        if reference in runs:
            pairs = [(policy, own) for policy, own in runs.items() if policy != reference]
            columns = (
                f"against `{reference}`",
                "seeds",
                "time to the level",
                "accuracy at equal time [points]",
                "energy",
            )
            body = [_pair(policy, own, runs[reference], levels, ends) for policy, own in pairs]
            tables[f"pairs {scenario}"] = markdown(columns, body)
    return tables


def _levels(runs: Mapping[str, dict[int, Line]]) -> dict[int, float]:
    """The accuracy of every seed whose time is taken: 90 % of the median final accuracy of all policies."""
    seeds = sorted({seed for own in runs.values() for seed in own})
    return {
        seed: 0.9 * float(np.median([final_accuracy(own[seed]) for own in runs.values() if seed in own]))
        for seed in seeds
    }


def _ends(runs: Mapping[str, dict[int, Line]]) -> dict[int, float]:
    """The simulated time of every seed at which accuracies are compared: when the first policy ends."""
    seeds = sorted({seed for own in runs.values() for seed in own})
    return {seed: min(own[seed].clock_s for own in runs.values() if seed in own) for seed in seeds}


def _race_row(policy: str, own: dict[int, Line], times: Sequence[float], ends: dict[int, float]) -> tuple[str, ...]:
    every, reached = list(own.values()), sum(map(math.isfinite, times))
    time = with_interval(interval(times), digits=3) if reached == len(times) else f"{reached} of {len(times)} seeds"
    return (
        f"`{policy}`",
        str(len(own)),
        time,
        percent([accuracy_at(line, ends[seed]) for seed, line in own.items()]),
        percent([final_accuracy(line) for line in every]),
        percent([steadiness(line) for line in every]),
        with_interval(interval([line.mean_delay_s for line in every]), digits=3),
        with_interval(interval([line.mean_energy_j for line in every]), digits=3),
        with_interval(interval([line.shortfall for line in every]), digits=2),
    )


def _pair(
    policy: str, own: dict[int, Line], reference: dict[int, Line], levels: dict[int, float], ends: dict[int, float]
) -> tuple[str, ...]:
    shared = [seed for seed in own if seed in reference]
    times = [time_to(own[seed], levels[seed]) / time_to(reference[seed], levels[seed]) - 1.0 for seed in shared]
    points = [100 * (accuracy_at(own[seed], ends[seed]) - accuracy_at(reference[seed], ends[seed])) for seed in shared]
    energy = [100 * (own[seed].mean_energy_j / reference[seed].mean_energy_j - 1.0) for seed in shared]
    time = change(interval([100 * part for part in times]), " %") if np.all(np.isfinite(times)) else "not all reach it"
    return f"`{policy}`", str(len(shared)), time, change(interval(points), ""), change(interval(energy), " %")


# -- reasons ----------------------------------------------------------------------------------------------------------


def reasons_tables(lines: Lines) -> Tables:
    """The oracle, the doses of completion and the long horizon, beside ddsra and round robin."""
    scenario = PAPER[0]
    named = {"ddsra:v=0.01": "ddsra:v=0.01", "round_robin": "round_robin", "always floors 1, 4 and 5": ORACLE}
    named |= {f"round robin, {share:.0%} complete": dosed(share) for share in DOSES}
    rows = []
    for text, policy in named.items():
        own = seeds_of(lines, Variant(policy), scenario, CLAIM_ROUNDS)
        if own:
            rows.append((text, str(len(own)), *_learnt(list(own.values()), (50, 100, CLAIM_ROUNDS))))
    heads = ("after rounds", "seeds", "50", "100", str(CLAIM_ROUNDS))
    reasons = markdown(heads, rows)
    rows = []
    for policy in ("ddsra:v=0.01", "round_robin"):
        own = seeds_of(lines, Variant(policy), scenario, 900)
        if own:
            rows.append((policy, str(len(own)), *_learnt(list(own.values()), (150, 300, 450, 600, 750, 900))))
    columns = ("after rounds", "seeds", "150", "300", "450", "600", "750", "900")
    return {"reasons": reasons, "horizon": markdown(columns, rows)}


def _learnt(every: Sequence[Line], rounds: Sequence[int]) -> list[str]:
    """Smoothed accuracy after numbers of rounds."""
    cells = []
    for count in rounds:
        clocks = [np.interp(count, line.curve[0], line.curve[1]) for line in every]
        cells.append(percent([accuracy_at(line, float(clock)) for line, clock in zip(every, clocks, strict=True)]))
    return cells


TABLES: Mapping[str, Callable[[Lines], Tables]] = MappingProxyType(
    {"levers": levers_tables, "claims": claims_tables, "reasons": reasons_tables, "leaderboard": leaderboard_tables}
)


def effort(lines: Iterable[Line], runs: Sequence[Run]) -> list[str]:
    """How many of the runs are finished, and how long they took."""
    done = [line for line in lines if line.run in set(runs)]
    hours = sum(line.wall_s for line in done) / 3600
    return [f"{len(done)} of {len(set(runs))} runs are finished. They took {hours:.1f} hours, each on one core."]


def filled(page: str, tables: Tables) -> str:
    """A page with its tables renewed: what stands between `<!-- table: NAME -->` and `<!-- end -->`."""

    def renewed(match: re.Match[str]) -> str:
        rows = tables.get(match[1])
        return match[0] if rows is None else "\n".join([f"<!-- table: {match[1]} -->", "", *rows, "", "<!-- end -->"])

    return re.sub(r"<!-- table: (.+?) -->.*?<!-- end -->", renewed, page, flags=re.DOTALL)
