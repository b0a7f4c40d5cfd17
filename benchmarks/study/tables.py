"""What the lines of the study say together: Markdown tables for docs/reproduce.md."""

__all__ = [
    "TABLES",
    "alone_tables",
    "claims_tables",
    "effort",
    "leaderboard_tables",
    "levers_tables",
    "reasons_tables",
    "seeds_of",
]

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

import fedfloor
from benchmarks.studies import NOTHING, Tables, markdown
from benchmarks.study.measures import (
    JudgedLine,
    accuracy_at,
    after,
    final_accuracy,
    judged,
    steadiness,
    time_to,
)
from benchmarks.study.parts import (
    BEGUN,
    BEST,
    CLAIM_ROUNDS,
    CLAIMED,
    DOSES,
    EVERY,
    FAST_ROUNDS,
    FEW,
    FINALS,
    ORACLE,
    OURS,
    PAPER,
    PUBLISHED,
    RACE,
    RACED,
    SCENARIOS,
    SEEDS,
    STEADY,
    TRIED,
    TUNING,
    UNSEEN,
    Variant,
    as_published,
    dosed,
    finalists,
    raced,
    racing,
    tried,
    with_levers,
)
from benchmarks.study.runs import Line, Run
from fedfloor.reports.cells import change, with_interval
from fedfloor.reports.claims import CLAIMS, Claim, verdict
from fedfloor.reports.statistics import Interval, interval
from fedfloor.rounds.summary import summarise
from fedfloor.scheduling.registry import make_policy, parse_policy
from fedfloor.scheduling.traits import needs_training

Lines = Mapping[Run, Line]


def seeds_of(
    lines: Lines, variant: Variant, scenario: str, rounds: int, seeds: Sequence[int] = SEEDS
) -> dict[int, Line]:
    """The lines of a variant, by seed; a run that failed has none here."""
    runs = {seed: lines.get(variant.on(scenario, seed, rounds)) for seed in seeds}
    return {seed: line for seed, line in runs.items() if line is not None and not line.failed}


def ratio(values: Sequence[float]) -> str:
    """Geometric mean of ratios with its 95 % interval, or every value if they are few: 7.9x [6.8, 9.1]."""
    logs = interval([math.log(value) for value in values])
    if logs.low is None or logs.high is None:
        return f"{math.exp(logs.mean):.1f}x ({', '.join(f'{value:.1f}' for value in values)})"
    return f"{math.exp(logs.mean):.1f}x [{math.exp(logs.low):.1f}, {math.exp(logs.high):.1f}]"


def shift(values: Sequence[float]) -> str:
    """Ratios as percent more or less: their geometric mean with its 95 % interval; empty without any."""
    if not values:
        return ""
    logs = interval([math.log(value) for value in values])
    mean, low, high = (None if part is None else 100 * math.expm1(part) for part in (logs.mean, logs.low, logs.high))
    assert mean is not None
    return change(Interval(mean, low, high, tuple(100 * (value - 1.0) for value in values)), " %")


def percent(values: Sequence[float]) -> str:
    """Shares as percent: mean with its interval."""
    return with_interval(interval(values), " %", scale=0.01, digits=3) if values else "none"


# -- levers -----------------------------------------------------------------------------------------------------------


def levers_tables(lines: Lines) -> Tables:
    """How much sooner the published accuracy is reached: with all levers, and without each."""
    tables: dict[str, list[str]] = {}
    for scenario in PAPER:
        published = seeds_of(lines, PUBLISHED, scenario, 300)
        if not published:
            tables[f"levers {scenario}"] = NOTHING
            continue
        levels = {seed: final_accuracy(line) for seed, line in published.items()}
        steady = seeds_of(lines, STEADY, scenario, FAST_ROUNDS)
        named: list[tuple[str, Variant, int, Sequence[int]]] = [
            ("as published", PUBLISHED, 300, SEEDS),
            ("our best setting", BEST, FAST_ROUNDS, SEEDS),
            ("our best setting, seeds 4 to 10", BEST, FAST_ROUNDS, UNSEEN),
            ("all levers, V = 1", RACED, FAST_ROUNDS, SEEDS),
            ("all levers, V = 0.1", STEADY, FAST_ROUNDS, SEEDS),
        ]
        named += [
            (f"without: {name}", with_levers([other for other in EVERY if other != name]), FAST_ROUNDS, SEEDS)
            for name in EVERY
        ]
        rows = []
        for text, variant, rounds, seeds in named:
            own = seeds_of(lines, variant, scenario, rounds, seeds)
            shared = [seed for seed in own if seed in published]
            if shared:
                rows.append((text, *_sooner({seed: own[seed] for seed in shared}, published, steady)))
        heads = ("setting", "seeds", "mean delay [s]", "accuracy at the end", "time to the level [s]", "times sooner",
                 "against 300 rounds", "time relative to all levers with V = 0.1")  # fmt: skip
        level = f"Level: {percent(list(levels.values()))} accuracy, mean over the seeds that have run."
        tables[f"levers {scenario}"] = [level, "", *markdown(heads, rows)]
    return tables


def _sooner(own: dict[int, Line], published: dict[int, Line], steady: dict[int, Line]) -> tuple[str, ...]:
    levels = {seed: final_accuracy(published[seed]) for seed in own}
    times = {seed: time_to(line, levels[seed]) for seed, line in own.items()}
    reached = [seed for seed, time in times.items() if math.isfinite(time)]
    delay = with_interval(interval([line.mean_delay_s for line in own.values()]), digits=3)
    cells = (str(len(own)), delay, percent([final_accuracy(line) for line in own.values()]))
    share = _share({seed: times[seed] if seed in reached else own[seed].clock_s for seed in own}, levels, steady)
    if len(reached) < len(own):
        return *cells, f"{len(reached)} of {len(own)} seeds reach it", "", "", f"at least {share}" if share else ""
    return (
        *cells,
        with_interval(interval(list(times.values())), digits=3),
        ratio([time_to(published[seed], levels[seed]) / times[seed] for seed in own]),
        ratio([published[seed].clock_s / times[seed] for seed in own]),
        share,
    )


def _share(times: Mapping[int, float], levels: Mapping[int, float], steady: Mapping[int, Line]) -> str:
    """How many times longer than with all levers it takes, on the same seeds; empty if these have not run."""
    if any(seed not in steady for seed in times):
        return ""
    with_all = {seed: time_to(steady[seed], levels[seed]) for seed in times}
    ratios = [times[seed] / with_all[seed] for seed in times]
    return ratio(ratios) if all(map(math.isfinite, ratios)) else ""


def alone_tables(lines: Lines) -> Tables:
    """How much sooner each lever by itself reaches what the published setting reaches in the same number of rounds."""
    scenario, rows = PAPER[0], []
    published = seeds_of(lines, PUBLISHED, scenario, 300)
    for name in EVERY:
        own = seeds_of(lines, with_levers([name]), scenario, FAST_ROUNDS)
        if not own or any(seed not in published for seed in own):
            continue
        until = {seed: after(published[seed], FAST_ROUNDS) for seed in own}
        times = {seed: time_to(line, until[seed][1]) for seed, line in own.items()}
        delay = with_interval(interval([line.mean_delay_s for line in own.values()]), digits=3)
        gains = [100 * (final_accuracy(line) - until[seed][1]) for seed, line in own.items()]
        reached = all(map(math.isfinite, times.values()))
        sooner = ratio([until[seed][0] / times[seed] for seed in own]) if reached else ""
        rows.append((name, str(len(own)), delay, change(interval(gains), ""), _time(list(times.values())), sooner))
    heads = ("lever", "seeds", "mean delay [s]", "accuracy against as published [points]", "time to the level [s]",
             "times sooner")  # fmt: skip
    return {"levers alone": markdown(heads, rows)}


# -- the paper's claims -----------------------------------------------------------------------------------------------


@functools.cache
def _simulated(scenario: str, policy: str, seed: int) -> JudgedLine:
    """A run without training, of a policy whose accuracy no claim compares."""
    done = fedfloor.simulate(scenario, policy, CLAIM_ROUNDS[scenario], seed=seed)
    return JudgedLine(fedfloor.load(scenario, seed=seed), policy, summarise(done.records), ([], []))


def claims_tables(lines: Lines) -> Tables:
    """The paper's claims about Figs. 4 to 6, as points and as shares, over the seeds that all policies have."""
    tables: dict[str, list[str]] = {}
    for scenario in PAPER:
        runs = {policy: seeds_of(lines, as_published(policy), scenario, CLAIM_ROUNDS[scenario]) for policy in CLAIMED}
        rows = []
        for claim in CLAIMS:
            if claim.scenario != scenario or claim.limits is not True or _is_simulated(claim):
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


def _is_simulated(claim: Claim) -> bool:
    """Whether simulations alone decide a claim, with more seeds (`benchmarks.delays`): one about the time of rounds."""
    needs = [needs_training(make_policy(parse_policy(policy))[1]) for policy in claim.policies]
    return claim.figure == "Fig. 5" and not any(needs)


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


Standing = Mapping[str, Mapping[int, Line]]  #: lines by policy and seed; every policy has the same seeds


def leaderboard_tables(lines: Lines) -> Tables:
    """All policies with few seeds and the best with all: the soonest first, and each beside ddsra, paired by seed."""
    tables: dict[str, list[str]] = {}
    for scenario in SCENARIOS:
        few = _standing(lines, scenario, raced(scenario), FEW, RACE[scenario])
        best = _standing(lines, scenario, finalists(scenario), SEEDS, FINALS[scenario])
        for name, standing in (("", few), (" all seeds", best)):
            enough = len(standing) > 1
            tables[f"race {scenario}{name}"] = _race(standing) if enough else NOTHING
            with_ours = enough and OURS[scenario] in standing
            tables[f"pairs {scenario}{name}"] = _pairs(standing, OURS[scenario]) if with_ours else NOTHING
    return tables


def _standing(lines: Lines, scenario: str, policies: Sequence[str], seeds: Sequence[int], rounds: int) -> Standing:
    """The policies that have all these seeds: levels and times that others lack would not be comparable."""
    runs = {policy: seeds_of(lines, racing(policy), scenario, rounds) for policy in policies}
    return {
        policy: {seed: own[seed] for seed in seeds}
        for policy, own in runs.items()
        if all(seed in own for seed in seeds)
    }


def _levels(standing: Standing) -> dict[int, float]:
    """The accuracy of every seed whose time is taken: 90 % of the median final accuracy of all policies."""
    seeds = next(iter(standing.values()))
    return {seed: 0.9 * float(np.median([final_accuracy(own[seed]) for own in standing.values()])) for seed in seeds}


def _ends(standing: Standing) -> dict[int, float]:
    """The simulated time of every seed at which accuracies are compared: when the first policy ends."""
    seeds = next(iter(standing.values()))
    return {seed: min(own[seed].clock_s for own in standing.values()) for seed in seeds}


def _race(standing: Standing) -> list[str]:
    levels, ends = _levels(standing), _ends(standing)
    rows = []
    for policy, own in standing.items():
        times = [time_to(line, levels[seed]) for seed, line in own.items()]
        rows.append((float(np.mean(times)), _race_row(policy, own, times, ends)))
    rows.sort(key=lambda row: (math.isnan(row[0]), row[0]))
    heads = ("policy", "seeds", "time to the level [s]", "accuracy at equal time", "final accuracy", "steadiness",
             "mean delay [s]", "energy per round [J]", "worst shortfall")  # fmt: skip
    level, end = percent(list(levels.values())), with_interval(interval(list(ends.values())), " s", digits=3)
    return [f"Level: {level}; equal time: {end}.", "", *markdown(heads, [row for _, row in rows])]


def _race_row(
    policy: str, own: Mapping[int, Line], times: Sequence[float], ends: Mapping[int, float]
) -> tuple[str, ...]:
    every = list(own.values())
    return (
        f"`{policy}`",
        str(len(own)),
        _time(times),
        percent([accuracy_at(line, ends[seed]) for seed, line in own.items()]),
        percent([final_accuracy(line) for line in every]),
        percent([steadiness(line) for line in every]),
        with_interval(interval([line.mean_delay_s for line in every]), digits=3),
        with_interval(interval([line.mean_energy_j for line in every]), digits=3),
        with_interval(interval([line.shortfall for line in every]), digits=2),
    )


def _time(times: Sequence[float]) -> str:
    """Times [s] to a level, of the seeds that reach it."""
    reached = [time for time in times if math.isfinite(time)]
    return _of_seeds(with_interval(interval(reached), digits=3) if reached else "", len(reached), len(times))


def _of_seeds(text: str, counted: int, every: int) -> str:
    """A result, and how many seeds it is about, if not about all."""
    if counted == every:
        return text
    return f"{text} in {counted} of {every} seeds" if counted else f"0 of {every} seeds"


def _pairs(standing: Standing, reference: str) -> list[str]:
    levels, ends, ours = _levels(standing), _ends(standing), standing[reference]
    rows = []
    for policy, own in standing.items():
        if policy == reference:
            continue
        times = [time_to(own[seed], level) / time_to(ours[seed], level) for seed, level in levels.items()]
        points = [100 * (accuracy_at(own[seed], end) - accuracy_at(ours[seed], end)) for seed, end in ends.items()]
        rounds = [100 * (final_accuracy(own[seed]) - final_accuracy(ours[seed])) for seed in ends]
        energy = [own[seed].mean_energy_j / ours[seed].mean_energy_j for seed in ends]
        both = [time for time in times if math.isfinite(time)]
        time = _of_seeds(shift(both), len(both), len(times))
        rows.append(
            (
                f"`{policy}`",
                str(len(own)),
                time,
                change(interval(points), ""),
                change(interval(rounds), ""),
                shift(energy),
            )
        )
    heads = (f"against `{reference}`", "seeds", "time to the level", "accuracy at equal time [points]",
             "final accuracy [points]", "energy")  # fmt: skip
    return markdown(heads, rows)


# -- reasons ----------------------------------------------------------------------------------------------------------


def reasons_tables(lines: Lines) -> Tables:
    """The oracle, the doses of completion and the long horizon, beside ddsra and round robin."""
    compared = {"ddsra:v=0.01": "ddsra:v=0.01", "round_robin": "round_robin"}
    doses = {f"round robin, {share:.0%} complete": dosed(share) for share in DOSES}
    reasons = {**compared, "always floors 1, 4 and 5": ORACLE, **doses}
    return {
        "reasons": _learnt(lines, reasons, (50, 100, CLAIM_ROUNDS[PAPER[0]])),
        "horizon": _learnt(lines, compared, (150, 300, 450, 600, 750, 900)),
    }


def _learnt(lines: Lines, policies: Mapping[str, str], rounds: Sequence[int]) -> list[str]:
    """Smoothed accuracies after numbers of rounds, the last of which ends the runs, and what the first policy gains."""
    rows: list[tuple[str, ...]] = []
    runs = {text: seeds_of(lines, as_published(policy), PAPER[0], rounds[-1]) for text, policy in policies.items()}
    first = next(iter(policies))
    for text, own in runs.items():
        if own:
            floors = with_interval(interval([line.completed / line.rounds for line in own.values()]), digits=3)
            accuracies = [percent([after(line, count)[1] for line in own.values()]) for count in rounds]
            both = [seed for seed in own if seed in runs[first]] if text != first else []
            gain = shift([final_accuracy(runs[first][seed]) / final_accuracy(own[seed]) for seed in both])
            rows.append((text, str(len(own)), floors, *accuracies, gain))
    heads = ("after rounds", "seeds", "floors completed per round", *map(str, rounds), f"gain of {first} over it")
    return markdown(heads, rows)


# -- tuning -----------------------------------------------------------------------------------------------------------


def tuning_tables(lines: Lines) -> Tables:
    """What was tried on the seeds that settings are chosen on, beside the setting that was begun with."""
    return {
        f"tuning {scenario} {rounds}": _tried(lines, scenario, rounds, settings)
        for (scenario, rounds), settings in TRIED.items()
    }


def _tried(lines: Lines, scenario: str, rounds: int, settings: Sequence[str]) -> list[str]:
    def own(setting: str) -> dict[int, Line]:
        return seeds_of(lines, tried(scenario, setting), scenario, rounds, TUNING)

    levels = {seed: 0.9 * final_accuracy(line) for seed, line in own("").items()}
    standing = {setting: {seed: line for seed, line in own(setting).items() if seed in levels} for setting in settings}
    ends = {seed: min(every[seed].clock_s for every in standing.values() if seed in every) for seed in levels}
    rows = []
    for setting, every in standing.items():
        if every:
            times = [time_to(line, levels[seed]) for seed, line in every.items()]
            text = f"`{setting}`" if setting else f"begun with: `{BEGUN[scenario]}`"
            delay = with_interval(interval([line.mean_delay_s for line in every.values()]), digits=3)
            equal = percent([accuracy_at(line, ends[seed]) for seed, line in every.items()])
            accuracy = percent([final_accuracy(line) for line in every.values()])
            rows.append((text, str(len(every)), delay, _time(times), equal, accuracy))
    heads = ("setting", "seeds", "mean delay [s]", "time to the level [s]", "accuracy at equal time", "final accuracy")
    return markdown(heads, rows)


TABLES: Mapping[str, Callable[[Lines], Tables]] = MappingProxyType(
    {
        "levers": levers_tables,
        "claims": claims_tables,
        "leaderboard": leaderboard_tables,
        "reasons": reasons_tables,
        "alone": alone_tables,
        "tuning": tuning_tables,
    }
)


def effort(lines: Iterable[Line], runs: Sequence[Run]) -> list[str]:
    """How many of the runs are finished, and how long they took."""
    every = set(runs)
    done = {line.run: line for line in lines if line.run in every}
    hours = sum(line.wall_s for line in done.values()) / 3600
    texts = [f"{len(done)} of {len(every)} runs are finished. They took {hours:.1f} hours, each on one core."]
    failed = [f"- `{line.command}`" for line in done.values() if line.failed]
    return (
        [*texts, "", "These ended without a result, because their loss was not finite:", "", *failed]
        if failed
        else texts
    )
