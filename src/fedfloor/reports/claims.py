"""What the paper claims about its experiment, as data, beside what our runs of it show.

Rounds to convergence are the first round whose smoothed accuracy reaches 95 % of round robin's final accuracy; gains in
accuracy are percentage points, and beside them shares of the other policy's accuracy; a claim holds when ours has the
same sign and the paired 95 % interval over seeds excludes 0. `rounds.summary.final_rounds` says which tests a final
accuracy is the mean of, and why. `python -m benchmarks.delays` decides claims about delays from simulations alone.
"""

__all__ = ["CLAIMS", "Claim", "Unknown", "claims", "verdict"]

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from fedfloor.errors import FedfloorError
from fedfloor.reports.arrays import SeriesArrays, lay_out_run
from fedfloor.reports.cells import IN_BRACKETS, Table, change, smoothing_of
from fedfloor.reports.measures.rates import rates
from fedfloor.reports.policies import solver_of, spec_of, tradeoff_of
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.reports.scores import ACCURACY, score_of
from fedfloor.reports.statistics import (
    FEWEST_SEEDS,
    Interval,
    Judged,
    final_score,
    interval,
    matched,
    percent_more,
    rounds_to_reach,
)
from fedfloor.runs.folder import flat
from fedfloor.scenario import Scenario, build, expand, read
from fedfloor.theory.theorems import RATES_MET

REACHED = 0.95  #: of round robin's final accuracy counts as converged
_SMALL, _LARGE = 0.01, 10000.0  #: the paper's least and largest V
_SVHN, _CIFAR = "paper-svhn", "paper-cifar10"
_DRAWN = "-random"  #: end of the names of the presets that draw a plant for every seed
_FEWEST_TESTS = 5  #: that convergence is judged by
_BASELINES = ("random", "round_robin", "loss_driven", "delay_driven")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why a seed gives no value."""

    reason: str
    run: bool = True  #: False: what the claim needs was not part of the run
    against: bool = False  #: whether the claim fails because of it, as when a level is never reached


#: one seed's runs, in the order of the claim's policies and cut to the same rounds -> the value, or why there is none
Measure = Callable[..., float | Unknown]


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of the paper that runs can confirm."""

    text: str
    figure: str  #: of the paper
    source: str  #: label in the LaTeX
    scenario: str  #: preset that repeats the experiment
    policies: tuple[str, ...]  #: that have to be run; a ddsra with its V
    printed: str  #: what the paper says
    sign: int  #: of the value if the claim is true
    measure: Measure
    unit: str = ""
    digits: int = 1
    share: Measure | None = None  #: the same value as a percentage of the other policy's
    limits: bool | None = True  #: False: compared with energy and memory unlimited; None: either way


def _percent_longer(ours: Judged, other: Judged) -> float | Unknown:
    """Percent by which ours takes longer; negative if it is faster."""
    longer = percent_more(ours.summary.clock, other.summary.clock)
    return Unknown("a round without end") if math.isnan(longer) else longer


def _accuracy(run: Judged) -> float | None:
    """The final accuracy; None without training, and for models that predict numbers."""
    return final_score(run) if score_of(run.scenario) is ACCURACY else None


def _more_accuracy(ours: Judged, other: Judged) -> float | Unknown:
    """Percentage points by which ours is better."""
    first, second = _accuracy(ours), _accuracy(other)
    if first is None or second is None:
        return Unknown("not trained", run=False)
    return 100.0 * (first - second)


def _percent_more_accuracy(ours: Judged, other: Judged) -> float | Unknown:
    """Percent by which ours is better."""
    first, second = _accuracy(ours), _accuracy(other)
    if first is None or second is None:
        return Unknown("not trained", run=False)
    return percent_more(first, second) if second > 0.0 else Unknown("accuracy 0")


def _percent_more_rounds(ours: Judged, other: Judged, round_robin: Judged | None = None) -> float | Unknown:
    """Percent more rounds until convergence, negative if fewer; Unknown if a level is never reached."""
    last = _accuracy(other if round_robin is None else round_robin)
    if last is None:
        return Unknown("not trained", run=False)
    if any(len(run.tests[1]) < _FEWEST_TESTS for run in (ours, other)):
        return Unknown(f"fewer than {_FEWEST_TESTS} evaluations", run=False)
    first, second = rounds_to_reach(ours, REACHED * last), rounds_to_reach(other, REACHED * last)
    if first is None or second is None:
        who = [run.policy.partition(":")[0] for run, at in ((ours, first), (other, second)) if at is None]
        return Unknown(f"level not reached by {' and '.join(who)}", against=first is None)
    return percent_more(first, second)


def _rank_of_rates(run: ReadRun) -> float | Unknown:
    """Rank correlation over floors of target and observed rates."""
    measured = rates(SeriesArrays(run.label, (lay_out_run(run),)))
    return Unknown("not observed", run=False) if measured is None else _ranks(measured.derived, measured.observed)


def _rank_of_variety(run: Judged) -> float | Unknown:
    """Rank correlation over floors of classes per device and how often the floor is selected."""
    every = run.scenario.model.classes
    classes = [
        len(floor.classes or ()) or min(floor.classes_per_device or every, every) for floor in run.scenario.floors
    ]
    return _ranks(classes, [floor.selected_rate for floor in run.summary.floors])


def _ranks(first: Any, second: Any) -> float | Unknown:
    if np.unique(first).size < 2 or np.unique(second).size < 2:
        return Unknown("all floors alike")
    from scipy.stats import spearmanr  # noqa: PLC0415  # takes a second to load

    return float(spearmanr(first, second).statistic)


def _margin(run: Judged) -> float | Unknown:
    """By how much the floor with the largest shortfall stays within what counts as having met its rate."""
    return RATES_MET - run.summary.shortfall


def _more_completed(ours: Judged, *others: Judged) -> float | Unknown:
    """Percentage points of floor-rounds completed beyond the best of the others."""
    share = [run.summary.completed / (run.summary.rounds * len(run.summary.floors)) for run in (ours, *others)]
    return 100.0 * (share[0] - max(share[1:]))


def _ddsra(v: float) -> str:
    return f"ddsra:v={v:g}"


def _both(
    text: str, figure: str, source: str, policies: tuple[str, ...], printed: tuple[str | None, str | None], **rest: Any
) -> tuple[Claim, ...]:
    """The claim for SVHN and CIFAR-10, where the paper makes it."""
    made = zip((_SVHN, _CIFAR), printed, strict=True)
    return tuple(Claim(text, figure, source, name, policies, said, **rest) for name, said in made if said is not None)


_OURS = _ddsra(_SMALL)
_POINTS: dict[str, Any] = {
    "sign": 1, "measure": _more_accuracy, "share": _percent_more_accuracy, "unit": " points"
}  # fmt: skip

#: in the order of the paper's figures
CLAIMS: tuple[Claim, ...] = (
    *_both(
        "target rates agree with observed ones (rank correlation)", "Fig. 2", "fig:11",
        (), ("agree", "agree"), sign=1, measure=_rank_of_rates, digits=2, limits=None,
    ),
    *_both(
        "participation converges in fewer rounds than random", "Fig. 3", "fig:12",
        ("participation", "random", "round_robin"), ("-35 %", None),
        sign=-1, measure=_percent_more_rounds, unit=" %", limits=False,
    ),
    *_both(
        "participation ends more accurate than random", "Fig. 3", "fig:12",
        ("participation", "random"), (None, "+6 %"), limits=False, **_POINTS,
    ),
    *_both(
        "ddsra converges in fewer rounds than round robin", "Fig. 4", "fig:13",
        (_OURS, "round_robin"), ("-53 %", "-78 %"), sign=-1, measure=_percent_more_rounds, unit=" %",
    ),
    *_both(
        "ddsra ends more accurate than round robin", "Fig. 4", "fig:13",
        (_OURS, "round_robin"), ("+22 %", "+37 %"), **_POINTS,
    ),
    *_both(
        "ddsra ends more accurate than delay driven", "Fig. 4", "fig:13",
        (_OURS, "delay_driven"), ("+7 %", "+17 %"), **_POINTS,
    ),
    *_both(
        "a smaller V ends more accurate (0.01 against 10000)", "Fig. 4", "fig:13",
        (_OURS, _ddsra(_LARGE)), ("better", "better"), **_POINTS,
    ),
    *_both(
        "ddsra takes less time than loss driven", "Fig. 5", "fig:14",
        (_OURS, "loss_driven"), ("-26 %", "-23 %"), sign=-1, measure=_percent_longer, unit=" %",
    ),
    *_both(
        "ddsra takes more time than delay driven", "Fig. 5", "fig:14",
        (_OURS, "delay_driven"), ("+6 %", "+7 %"), sign=1, measure=_percent_longer, unit=" %",
    ),
    *_both(
        "a larger V takes less time (10000 against 0.01)", "Fig. 5", "fig:14",
        (_ddsra(_LARGE), _OURS), ("less", "less"), sign=-1, measure=_percent_longer, unit=" %",
    ),
    *_both(
        f"ddsra gives every floor its rate (margin to a shortfall of {RATES_MET:g})", "Fig. 6", "fig:15",
        (_OURS,), ("met", "met"), sign=1, measure=_margin, digits=3,
    ),
    *_both(
        "ddsra completes more floor-rounds than any other policy", "Fig. 6", "fig:15",
        (_OURS, *_BASELINES), ("much higher", "much higher"), sign=1, measure=_more_completed, unit=" points",
    ),
    *_both(
        "loss driven starves floors with varied data (rank correlation of classes and selections)", "Fig. 6", "fig:15",
        ("loss_driven",), (None, "starves"), sign=-1, measure=_rank_of_variety, digits=2,
    ),
)  # fmt: skip


def claims(collection: Collection) -> Table | None:
    """The paper's claims beside these runs; None if the runs are not of the paper's scenarios."""
    made = [claim for claim in CLAIMS if claim.scenario == collection.name.removesuffix(_DRAWN)]
    if not made:
        return None
    columns = ("claim", "figure", "paper", "ours", "seed numbers", "of", "holds")
    rows = tuple(row for claim in made for row in _rows(claim, collection.series))
    note = (
        f"Ours: mean {IN_BRACKETS}, on the rounds that all compared runs have. Holds: same sign as the paper's, and "
        f"the interval excludes 0, which needs {FEWEST_SEEDS} seeds; a level that is never reached gives no value and "
        "does not count as a gain. Converged: the smoothed accuracy reaches 95 % of round robin's final accuracy (the "
        f"table of differences shows the last evaluation too). {smoothing_of(ACCURACY)} The paper does not say whether "
        "its gains in accuracy are points or shares of the other policy's accuracy; ours are both, and points decide. "
        "Delays need no training: `python -m benchmarks.delays` compares them over 20 seeds. Where ddsra is not slower "
        "than delay driven that claim does not hold, in ddsra's favour."
    )
    note = f"{note} {_departures(collection.runs[0].scenario)}".strip()
    return Table("the paper's claims", columns, rows, note)


def _rows(claim: Claim, series: Sequence[Series]) -> list[tuple[str, ...]]:
    """One row for every solver that was run, because the paper's may behave unlike the exact one."""
    head = (claim.text, f"{claim.figure} ({claim.source})", claim.printed)
    candidates = _candidates(claim, series)
    if not candidates:
        needs = ", ".join(claim.policies) or "participation.observe_every"
        without = " with limits=false" if claim.limits is False else ""
        return [(*head, "", "", f"needs {needs}{without}", "not run")]
    return [(*head, *_answer(claim, chosen)) for chosen in candidates]


def _candidates(claim: Claim, series: Sequence[Series]) -> list[tuple[Series, ...]]:
    """Series for the claim's policies, all of one variant: for each solver the first variant that has them all."""
    fitting = [part for part in series if claim.limits in (None, part.runs[0].scenario.limits)]
    if not claim.policies:
        observed: Iterator[tuple[Series, ...]] = (
            (part,) for part in fitting if any(not isinstance(claim.measure(run), Unknown) for run in part.runs)
        )
        return list(islice(observed, 1))
    candidates = []
    for solver in ("exact", "paper") if any(tradeoff_of(name) is not None for name in claim.policies) else ("",):
        for variant in dict.fromkeys(part.runs[0].variant for part in fitting):
            alike = [part for part in fitting if part.runs[0].variant == variant]
            chosen = [next((part for part in alike if _is(part, name, solver)), None) for name in claim.policies]
            whole = tuple(part for part in chosen if part is not None)
            if len(whole) == len(chosen) and matched(*whole):
                candidates.append(whole)
                break
    return candidates


def _is(series: Series, policy: str, solver: str) -> bool:
    ours = series.runs[0].policy
    spec, claimed = spec_of(ours), spec_of(policy)
    if spec is None or claimed is None or spec.name != claimed.name:
        return False
    if dict(spec.settings).get("allocation") is not None:  # the paper's policies have the fixed one
        return False
    return tradeoff_of(ours) == tradeoff_of(policy) and solver_of(ours) in (None, solver)


def _answer(claim: Claim, chosen: Sequence[Series]) -> tuple[str, str, str, str]:
    """Our value, its seeds, its policies, and whether the claim holds."""
    groups = matched(*chosen)
    series_names = " / ".join(part.label for part in chosen)
    if claim.limits is None and not chosen[0].runs[0].scenario.limits:
        series_names += " with limits=false"
    shared = [runs[0].scenario.seed for runs in groups]
    seeds = ", ".join(map(str, shared))
    ours, holds = verdict(claim, groups)
    used = [run for part in chosen for run in part.runs if run.scenario.seed in shared]
    if ours and not all(run.ended for run in used):
        return ours, seeds, series_names, "still running"
    return ours, seeds, series_names, holds


def verdict(claim: Claim, groups: Sequence[Sequence[Judged]]) -> tuple[str, str]:
    """Our value of a claim, and whether it holds: from the runs of every seed, in the order of the claim's policies."""
    values = [claim.measure(*runs) for runs in groups]
    numbers = [value for value in values if not isinstance(value, Unknown)]
    missing = [value for value in values if isinstance(value, Unknown)]
    if all(not value.run for value in missing) and not numbers:
        return "", f"not run: {missing[0].reason}"
    if missing:  # the seeds that have a value are the better ones, so their mean would claim too much
        reasons = "; ".join(dict.fromkeys(value.reason for value in missing))
        text = f"{reasons} ({len(missing)} of {len(values)} seeds)"
    else:
        text = change(interval(numbers), claim.unit, claim.digits)
        shares = [] if claim.share is None else [claim.share(*runs) for runs in groups]
        parts = [value for value in shares if not isinstance(value, Unknown)]
        text += f"; {change(interval(parts), ' %')}" if parts and len(parts) == len(groups) else ""
    if len(values) == 1:
        return text, "one seed only"
    if missing:
        return text, "no" if any(value.against for value in missing) else "undecided"
    if len(values) < FEWEST_SEEDS:
        return text, f"fewer than {FEWEST_SEEDS} seeds"
    return text, _holds(claim, interval(numbers))


def _holds(claim: Claim, ours: Interval) -> str:
    if ours.mean * claim.sign <= 0.0:
        return "no"
    return "yes" if ours.excludes_zero else "no (interval includes 0)"


def _departures(scenario: Scenario, most: int = 6) -> str:
    """How these runs differ from the preset of their name, as a sentence."""
    try:
        preset = build(expand(read(scenario.name, [f"seed={scenario.seed}"]), scenario.name), scenario.name)
    except FedfloorError:
        return ""
    apart = {"name", "policy", "floors", "layers", "limits", "participation"}  # a claim's row says which limits
    ours, theirs = (flat(one.model_dump(mode="json", exclude=apart)) for one in (scenario, preset))
    keys = [key for key in ours if ours[key] != theirs.get(key) and not key.startswith("training.checkpoint")]
    if not keys:
        return ""
    changes = ", ".join(f"{key} {ours[key]} (preset {theirs.get(key, 'none')})" for key in keys[:most])
    return f"These runs differ from the preset: {changes}{', and more' if len(keys) > most else ''}."
