"""Runs as a report sees them: read from their folders, put side by side, with the problems of any of them."""

__all__ = [
    "Collection",
    "ReadRun",
    "Series",
    "beside",
    "collect",
    "folder_problem",
    "has_ended",
    "put_together",
    "run_folders",
    "scenario_table",
]

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

import numpy as np

from fedfloor.errors import FedfloorError, RunLogError
from fedfloor.reports.beside import Holding, about_from, bounds_from, holding_from, tradeoff_from
from fedfloor.reports.log_columns import LogColumns
from fedfloor.reports.logged import LoggedRounds, read_rounds
from fedfloor.reports.scores import SCORES, Score, score_of
from fedfloor.reports.variants import variants
from fedfloor.rounds.listeners.log import ROUNDS
from fedfloor.rounds.record import Absent, RoundRecord
from fedfloor.rounds.summary import RunSummary, summarise
from fedfloor.runs.about import ABOUT, About
from fedfloor.runs.folder import BOUNDS, HOLDING, SCENARIO, TRADEOFF, scenario_of
from fedfloor.scenario import Scenario
from fedfloor.scheduling.registry import name_now, shown_name
from fedfloor.theory.bounds import Bound
from fedfloor.theory.tradeoff import TradeoffPoint

Read = TypeVar("Read")


@dataclass(frozen=True, eq=False)  # without slots, so that what costs a look into the log is found out once
class ReadRun:
    """One run folder."""

    folder: Path
    scenario: Scenario
    policy: str  #: with its settings, as names are written now
    variant: str  #: scenario values in which it differs from the usual ones; empty for most runs
    records: Sequence[RoundRecord]  #: at least one; those of a log are parsed again in every pass, unlike `columns`
    summary: RunSummary
    holding: Holding | None  #: who holds what; training runs have it
    bounds: tuple[Bound, ...] | None  #: written at the end of a training run; None before
    about: About = field(default_factory=About)
    _shorter: dict[int, Self] = field(init=False, default_factory=dict)  #: what `first` has returned

    @property
    def label(self) -> str:
        """The name of its series: the policy as people see it, and what else sets the run apart."""
        name = shown_name(self.policy)
        return f"{name} [{self.variant}]" if self.variant else name

    @property
    def finished(self) -> bool:
        """Whether all rounds of the scenario are logged."""
        return self.summary.rounds >= self.scenario.rounds

    @property
    def ended(self) -> bool:
        """Whether no round will follow: all rounds are logged, or the run ended early, as with `until_accuracy`."""
        return has_ended(self.scenario, self.summary.rounds, self.about, has_bounds=self.bounds is not None)

    @property
    def clock_kind(self) -> str:
        """Where the times of its rounds come from."""
        return "simulated" if not self.is_real else self.about.clock or "measured"

    @cached_property
    def is_real(self) -> bool:
        """Whether real machines ran it, whose log has predictions beside times."""
        return any(not isinstance(floor.predicted_s, Absent) for floor in self.records[0].gateways)

    @cached_property
    def is_trained(self) -> bool:
        """Whether models were trained, here or on real machines."""
        return self.holding is not None or self.is_real or self.records[0].training_loss is not None

    @cached_property
    def columns(self) -> LogColumns:
        """The log as numbers."""
        records = self.records
        return records.columns if isinstance(records, LoggedRounds) else LogColumns.of(self.scenario, records)

    @property
    def score(self) -> Score:
        """What its tests measure."""
        return score_of(self.scenario)

    @cached_property
    def tests(self) -> tuple[list[int], list[float]]:
        """After how many rounds the model was tested, and the accuracy in each test, or the error; see `score`."""
        number, values = self.columns.of_rounds("number"), self.columns.of_rounds("tested")
        at = np.flatnonzero(~np.isnan(values))
        return number[at].astype(int).tolist(), values[at].tolist()

    def first(self, rounds: int) -> Self:
        """The run as if it had ended after its first rounds."""
        if rounds == len(self.records):
            return self
        if rounds not in self._shorter:
            part = self.records[:rounds]
            self._shorter[rounds] = replace(self, records=part, summary=summarise(part))
        return self._shorter[rounds]


def has_ended(scenario: Scenario, rounds: int, about: About, *, has_bounds: bool) -> bool:
    """Whether no round will follow these: all are done, or the run ended early, as its folder says.

    Bounds are written at the end of a training run, also if they could not be read.
    """
    return rounds >= scenario.rounds or has_bounds or about.ended is not None


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Runs that differ in nothing but their seed."""

    label: str
    runs: tuple[ReadRun, ...]  #: by seed

    @property
    def score(self) -> Score:
        """What tests of the runs measure."""
        return self.runs[0].score


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """Runs of one scenario, and the problems met while reading them."""

    name: str  #: of the scenario
    series: tuple[Series, ...]  #: in the order their first runs were found
    problems: tuple[str, ...]  #: why a folder is left out, or shown without some of its files
    tradeoff: tuple[TradeoffPoint, ...]  #: as `fedfloor tradeoff --format json` prints it, where there is one

    @property
    def runs(self) -> list[ReadRun]:
        """All runs, series by series."""
        return [run for series in self.series for run in series.runs]

    @property
    def scores(self) -> tuple[Score, ...]:
        """What tests of the runs measure; both if some predict classes and others numbers."""
        return tuple(score for score in SCORES if any(series.score is score for series in self.series))

    @property
    def has_own_rates(self) -> bool:
        """Whether there are several policies whose training gave each its own target rates."""
        return len(self.series) > 1 and any(
            run.scenario.participation.rates in ("estimated", "updates") and run.is_trained for run in self.runs
        )

    @property
    def clock_name(self) -> str:
        """What the time of rounds is called: simulated, measured or modelled, or just time if there are several kinds.

        Modelled times are those of real machines whose rounds take as long as the cost model says.
        """
        kinds = {run.clock_kind for run in self.runs}
        return "time" if len(kinds) > 1 else f"{kinds.pop()} time"


def collect(paths: Sequence[Path]) -> Collection:
    """Read run folders, or folders of them; a damaged one becomes a problem, unless no other is left."""
    read: list[tuple[ReadRun, Mapping[str, object]]] = []
    problems: list[str] = []
    for folder in run_folders(paths, problems):
        try:
            run, table = _read(folder, problems)
        except FedfloorError as error:
            problems.append(str(error))
            continue
        read.append((run, table))
    return put_together(read, problems, paths)


def put_together(
    read: Sequence[tuple[ReadRun, Mapping[str, object]]], problems: list[str], paths: Sequence[Path]
) -> Collection:
    """Runs, each with the table of its scenario, as series; runs of another scenario than the first are left out."""
    alike = []
    for run, table in read:
        if run.scenario.name == read[0][0].scenario.name:
            alike.append((run, table))
        else:
            others = f"is of scenario '{run.scenario.name}', the others of '{read[0][0].scenario.name}'"
            problems.append(f"{run.folder}: {others}. Report on it by itself")
    runs = _told_apart(alike, problems)
    if not runs:
        raise RunLogError(problems[0] if problems else "no run folder is named. Name one that a run has written")
    labels = dict.fromkeys(run.label for run in runs)
    series = tuple(
        Series(label, tuple(sorted((run for run in runs if run.label == label), key=lambda run: run.scenario.seed)))
        for label in labels
    )
    tradeoffs = (beside(tradeoff_from, path / TRADEOFF, problems) for path in paths)
    tradeoff = next((points for points in tradeoffs if points), ())
    return Collection(runs[0].scenario.name, series, tuple(problems), tradeoff)


def _told_apart(read: Sequence[tuple[ReadRun, Mapping[str, object]]], problems: list[str]) -> list[ReadRun]:
    """The runs with what sets each apart; a run that lies in two folders is kept once."""
    distinct: dict[tuple[str, int], ReadRun] = {}
    names = variants([(run.scenario, _with_strategy(table, run.about)) for run, table in read])
    for (run, _), variant in zip(read, names, strict=True):
        named = replace(run, variant=variant)
        seed = run.scenario.seed
        if (named.label, seed) in distinct:
            problems.append(f"{run.folder}: repeats {named.label} with seed {seed}. One of them is shown")
        else:
            distinct[named.label, seed] = named
    return list(distinct.values())


def _with_strategy(table: Mapping[str, object], about: About) -> Mapping[str, object]:
    """The table of a run's scenario and Flower's strategy, which is a setting of the run too."""
    return table if about.strategy is None else {**table, "strategy": about.strategy}


def run_folders(paths: Sequence[Path], problems: list[str]) -> Iterator[Path]:
    """Run folders among the paths and directly below them, each once."""
    reported: set[Path] = set()
    for path in paths:
        if problem := folder_problem(path):
            problems.append(problem)
            continue
        if _is_run(path):
            reported.add(path.resolve())
            yield path
            continue
        below = sorted(part for part in path.iterdir() if part.is_dir() and _is_run(part))
        if not below:
            what = "holds no run" if any(path.iterdir()) else "is empty"
            problems.append(f"{path}: {what}. Name a folder that `fedfloor run` or `fedfloor compare` has written")
        yield from (part for part in below if part.resolve() not in reported)


def folder_problem(path: Path) -> str:
    """What is wrong with a path that is no folder; empty if it is one."""
    if path.is_dir():
        return ""
    problem = "is a file, not a run folder" if path.exists() else "does not exist"
    return f"{path}: {problem}. Name a run folder, or a folder of them"


def _is_run(path: Path) -> bool:
    return (path / SCENARIO).exists() or (path / ROUNDS).exists()


def _read(folder: Path, problems: list[str]) -> tuple[ReadRun, Mapping[str, object]]:
    """A run whose variant is still open, and the table of its scenario."""
    if not (folder / SCENARIO).exists():
        raise RunLogError(f"{folder}: has no {SCENARIO}, so it is unknown what ran. Run again")
    table = scenario_table(folder / SCENARIO)
    scenario = scenario_of(folder)
    log = read_rounds(folder, scenario)
    if not log.rounds:
        raise RunLogError(f"{folder}: has no round yet. Report again when one has ended")
    summary = log.tally.summary()
    bounds = beside(bounds_from, folder / BOUNDS, problems)
    run = ReadRun(
        folder=folder,
        scenario=scenario,
        policy=name_now(summary.policy),
        variant="",
        records=log.rounds,
        summary=summary,
        holding=beside(holding_from, folder / HOLDING, problems),
        bounds=() if bounds is None and (folder / BOUNDS).exists() else bounds,
        about=beside(about_from, folder / ABOUT, problems) or About(),
    )
    return run, table


def scenario_table(path: Path) -> Mapping[str, object]:
    """The table of a run's scenario as it is written; empty if it is damaged, which `scenario_of` reports."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    model = table.get("model")
    if isinstance(model, dict) and "layers" not in model:
        raise RunLogError(f"{path}: model.layers: is missing. It is not the file that the run wrote; run again")
    return table


def beside(read: Callable[[Path], Read], path: Path, problems: list[str]) -> Read | None:
    """The content of a file beside the log; a damaged file becomes a problem, and the run is shown without it."""
    try:
        return read(path)
    except RunLogError as error:
        problems.append(str(error))
        return None
