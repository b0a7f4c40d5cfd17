"""`fedfloor simulate --vary`: one simulation for every combination of settings and policy.

All simulations share one weather as far as their settings allow it. Each is written under another name and gets its own
when it is whole, so a grid that was interrupted continues where it stopped.
"""

__all__ = [
    "FIGURE",
    "TABLE",
    "Cell",
    "Grid",
    "GridSettings",
    "PlannedGrid",
    "claimed_grid",
    "csv_text",
    "planned_grid",
    "simulate_grid",
    "value_text",
]

import csv
import hashlib
import io
import itertools
import json
import math
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt

from fedfloor.characters import in_spreadsheet
from fedfloor.errors import (
    FailedRunError,
    FedfloorError,
    PolicyError,
    RunLogError,
    ScenarioError,
    counted,
    named,
    shown,
)
from fedfloor.files import only_writer
from fedfloor.notebooks import cards
from fedfloor.notebooks.frames import DataFrame, frame_of
from fedfloor.rounds.listeners.log import ROUNDS
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import RunSummary, summarise, summary_row
from fedfloor.runs.copies import copies_of, folder_toml, refuse_changed_copies
from fedfloor.runs.folder import check_records, read_records, refuse_changes, refuse_filled, runs_below
from fedfloor.runs.planned import PlannedRun, ScenarioSource, planned_run, refuse_long_folder
from fedfloor.runs.simulate import simulate_planned
from fedfloor.scenario.reading import value_of
from fedfloor.scheduling.objects import PolicySource
from fedfloor.workers.crew import LostError, Processes
from fedfloor.workers.processes import cores

TABLE, FIGURE = "grid.csv", "grid.png"  #: beside the run folders

#: keys of a scenario with their values, or texts of the form `section.key=a,b,c`
GridSettings: TypeAlias = Mapping[str, Sequence[object] | npt.NDArray[Any]] | Sequence[str]

_LONG = 4.0  #: [s] of work beyond which other processes, which take a second or two to start, are worth it
_LONGEST = 150  #: bytes of a folder's name that describe settings
_MOST = 10_000  #: simulations of a grid
_OPENING, _CLOSING = "[{", "]}"


@dataclass(frozen=True, slots=True, eq=False)
class PlannedGrid:
    """Simulations that are ready to start, with the values that each of them sets."""

    keys: tuple[str, ...]
    settings: tuple[tuple[object, ...], ...]  #: of every simulation, in the order of the keys
    runs: tuple[PlannedRun, ...]
    folder: Path | None
    here: bool = False  #: all in this process, because another one may not be able to import the policies


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One combination of settings and policy, and what its simulation gave."""

    settings: Mapping[str, object]
    policy: str  #: without settings that are its defaults
    summary: RunSummary
    folder: Path | None  #: of its log


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """All cells of a grid: the last setting changes fastest, and policies faster still."""

    scenario: str
    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    folder: Path | None = None
    table: Path | None = None  #: the CSV file
    figure: Path | None = None  #: the PNG file; None without a folder or without the extra 'report'

    def columns(self) -> dict[str, list[object]]:
        """The cells as columns of equal length, ready for a data frame: the keys, then what was simulated."""
        rows = [{**cell.settings, **summary_row(cell.summary)} for cell in self.cells]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def to_pandas(self) -> DataFrame:
        """The cells as a data frame, one row each."""
        return frame_of(self.columns())

    def __repr__(self) -> str:
        return f"Grid({self.scenario}, {counted(len(self.cells), 'simulation')} over {', '.join(self.keys)})"

    def _repr_html_(self) -> str:
        columns = self.columns()
        rows = [
            [value if isinstance(value, int) else _short(value) for value in row]
            for row in zip(*columns.values(), strict=True)
        ]
        return cards.card(f"{self.scenario}: {len(self.cells)} simulations", cards.html_table(tuple(columns), rows))


def _short(value: object) -> str:
    return cards.number(value) if isinstance(value, float) else value_text(value)


def planned_grid(
    scenario: ScenarioSource,
    settings: GridSettings,
    policies: Sequence[PolicySource] = (),
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: Path | None = None,
) -> PlannedGrid:
    """Every combination of settings with every policy, all checked; each has a folder below `out` if that is given."""
    axes, word = dict(_axes(settings, max(len(policies), 1))), _word(settings)
    given = {"seed": seed, "rounds": rounds}
    for key in axes:
        taken = [text.partition("=")[0].strip() for text in overrides]
        taken += [name for name, value in given.items() if value is not None]
        if key in taken:
            raise ScenarioError(f"{word}{named(key)}: is set to one value too. Leave one of the two out")
    combinations = [*itertools.product(*axes.values())]
    values = [tuple(value_of(text, f"{word}{named(text)}") for text in texts) for texts in combinations]
    chosen: list[PolicySource | None] = [*policies] or [None]
    runs: list[PlannedRun] = []
    for texts in combinations:
        set_here = [f"{key}={text}" for key, text in zip(axes, texts, strict=True)]
        runs += [
            planned_run(scenario, policy, rounds, seed=seed, overrides=[*overrides, *set_here], own=own)
            for policy in chosen
        ]
    labels = [str(run.policy) for run in runs[: len(chosen)]]
    for label in labels:
        if labels.count(label) > 1:
            raise PolicyError(f"policy {shown(label)}: is given twice. Leave one out")
    settings_of_runs = tuple(entry for entry in values for _ in chosen)
    if out is not None:
        names = [_folder_name(run, axes, entry) for run, entry in zip(runs, settings_of_runs, strict=True)]
        runs = [replace(run, folder=out / name) for run, name in zip(runs, names, strict=True)]
    objects = any(not isinstance(policy, str) for policy in policies)
    return PlannedGrid(tuple(axes), settings_of_runs, tuple(runs), out, here=objects)


@contextmanager
def claimed_grid(grid: PlannedGrid) -> Iterator[None]:
    """Refuse a folder with anything else in it, and keep other grids out of it until the block ends."""
    if grid.folder is None:
        yield
        return
    _refuse_foreign(grid.folder, {run.folder.name for run in grid.runs if run.folder is not None})
    with only_writer(grid.folder, again="repeat the command"):
        for part in grid.folder.glob(".*.part"):  # of a process that was killed
            shutil.rmtree(part, ignore_errors=True)
        yield


def simulate_grid(
    grid: PlannedGrid, *, on_round: Callable[[int, int], None] = lambda *_: None
) -> tuple[RunSummary, ...]:
    """Simulate what is not finished yet, in several processes if it takes long; summaries in the order of the runs.

    `on_round` is called with the number of a simulation and how many of its rounds are done. The folder must be
    claimed.
    """
    runs = grid.runs
    summaries = {number: done for number, run in enumerate(runs) if (done := _finished(run)) is not None}
    for number, summary in summaries.items():
        on_round(number, summary.rounds)
    waiting = [number for number in range(len(runs)) if number not in summaries]
    began = time.monotonic()
    while waiting:
        number, *waiting = waiting
        summaries[number] = _simulate(runs[number], lambda done, number=number: on_round(number, done))  # type: ignore[misc]
        is_long = (time.monotonic() - began) * len(waiting) > _LONG
        if is_long and not grid.here and min(cores(), len(waiting)) > 1:
            summaries |= _simulated_elsewhere({at: runs[at] for at in waiting}, on_round)
            break
        began = time.monotonic()
    return tuple(summaries[number] for number in range(len(runs)))


def csv_text(columns: Mapping[str, Sequence[object]]) -> str:
    """Columns as a CSV file; lists and tables among the settings are written as JSON."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow([in_spreadsheet(name) for name in columns])
    for row in zip(*columns.values(), strict=True):
        table.writerow(
            [value if isinstance(value, int | float) else in_spreadsheet(value_text(value)) for value in row]
        )
    return file.getvalue()


def value_text(value: object) -> str:
    """A value of a setting as people read it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _word(settings: GridSettings) -> str:
    """What stands before the name of a setting in messages: the argument, or the option whose texts it has."""
    return "settings: " if isinstance(settings, Mapping) else "--vary "


def _axes(settings: GridSettings, policies: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Key and values, as texts, of every setting that varies; a grid with too many simulations is refused."""
    word = _word(settings)
    if isinstance(settings, Mapping):
        lists = [(key, _listed(key, values)) for key, values in settings.items()]
        _refuse_many([len(values) for _, values in lists], policies, word)
        pairs = [(key, [_toml(value) for value in values]) for key, values in lists]
    elif isinstance(settings, Sequence) and not isinstance(settings, str | bytes):
        pairs = [_parsed(text) for text in settings]
    else:
        pairs = []
    if not pairs:
        problem = "must be a mapping such as {'radio.channels': [1, 2]}, or a list such as ['radio.channels=1,2']"
        raise ScenarioError(f"settings: {problem}, got {shown(settings)}")
    _refuse_many([len(texts) for _, texts in pairs], policies, word)
    keys = [key for key, _ in pairs]
    for key, texts in pairs:
        if not isinstance(key, str) or not key:
            raise ScenarioError(f"settings: keys must be texts such as 'radio.channels', got {shown(key)}")
        if keys.count(key) > 1:
            raise ScenarioError(f"{word}{named(key)}: is given twice. Write all its values after one equals sign")
        values = [repr(value_of(text, f"{word}{named(key)}")) for text in texts]
        if twice := [text for text, value in zip(texts, values, strict=True) if values.count(value) > 1]:
            raise ScenarioError(f"{word}{named(key)}: {named(twice[0])} is given twice. Leave one out")
        yield key, tuple(texts)


def _refuse_many(lengths: Sequence[int], policies: int, word: str) -> None:
    count = math.prod(lengths) * policies
    if count > _MOST:
        problem = f"its combinations are more than {_MOST:,} simulations"
        raise ScenarioError(
            f"{word.rstrip(': ')}: {problem}. Leave some values out, or divide them among several grids"
        )


def _listed(key: object, values: object) -> Sequence[object]:
    """The values of a setting, also those of an array; no more than the first ones that are too many."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, Sequence) and not isinstance(values, str | bytes) and values:
        return [*itertools.islice(values, _MOST + 1)]
    raise ScenarioError(f"settings: {shown(key)}: must be a list of values, got {shown(values)}")


def _parsed(text: object) -> tuple[str, list[str]]:
    """Key and values of `section.key=a,b,c`; commas in brackets, braces and quotes belong to a value."""
    example = "as in --vary radio.channels=1,2,3"
    if not isinstance(text, str):
        raise ScenarioError(f"settings: must be texts of the form section.key=a,b,c, got {shown(text)}")
    key, equals, rest = text.partition("=")
    if not equals or not key.strip():
        raise ScenarioError(f"--vary {named(text)}: must be section.key=a,b,c, {example}")
    parts, depth, quote = [""], 0, ""
    for letter in rest:
        if letter == "," and depth == 0 and not quote:
            parts.append("")
            continue
        parts[-1] += letter
        if quote or letter in "\"'":
            quote = "" if letter == quote else quote or letter
        else:
            depth += (letter in _OPENING) - (letter in _CLOSING)
    if not all(part.strip() for part in parts):
        raise ScenarioError(f"--vary {named(text)}: a value is missing. Write values with commas between, {example}")
    return key.strip(), [part.strip() for part in parts]


def _toml(value: object) -> str:
    """A Python value as TOML writes it on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool | str):
        return json.dumps(value)
    if hasattr(value, "tolist"):  # an array, or a number of one
        return _toml(value.tolist())
    if isinstance(value, int | float):
        try:
            return repr(value)
        except ValueError:  # Python writes no number of more than 4300 digits
            pass
    raise ScenarioError(f"settings: values must be numbers, texts, lists or tables, got {shown(value)}")


def _refuse_foreign(folder: Path, own: Collection[str]) -> None:
    """Refuse a folder that holds anything but simulations of a grid, or a finished grid with others than `own`."""
    if (folder / ROUNDS).exists() or not (runs_below(folder) or (folder / TABLE).exists()):
        refuse_filled(folder)
    others = [name for name in runs_below(folder) if name not in own]
    if others and (folder / TABLE).exists():
        problem = f"{TABLE} has {counted(len(others), 'simulation')} that this grid lacks, such as {shown(others[0])}"
        raise RunLogError(f"{folder}: {problem}. Name another folder, or vary those values too")


def _folder_name(run: PlannedRun, keys: Iterable[str], values: Iterable[object]) -> str:
    """The name of a simulation's folder: its settings, its policy and its seed."""
    settings = ",".join(f"{key}={value_text(value)}" for key, value in zip(keys, values, strict=True))
    plain = re.sub(r"[^\w.=,-]", "_", settings)
    if plain != settings or len(plain.encode()) > _LONGEST:  # what was left out must not make two names equal
        short = plain.encode()[:_LONGEST].decode(errors="ignore")
        plain = f"{short}-{hashlib.sha256(settings.encode()).hexdigest()[:8]}"
    name = f"{plain}-{run.policy.slug}-{run.scenario.seed}"
    refuse_long_folder(f".{name}.part", run.policy, "Shorten them")
    return name


def _finished(run: PlannedRun) -> RunSummary | None:
    """The summary of a simulation whose folder is there; a folder with anything else is refused."""
    if run.folder is None or not run.folder.exists():
        return None
    refuse_changes(run.folder, folder_toml(run.file, run.scenario))
    refuse_changed_copies(run.folder, copies_of(run.scenario))
    records = read_records(run.folder)
    check_records(records, run.scenario, run.folder)
    if len(records) != run.scenario.rounds:
        problem = f"has {len(records)} rounds, but {run.scenario.rounds} are asked for"
        raise RunLogError(f"{run.folder}: {problem}. Name another folder, or remove this one")
    return summarise(records)


def _simulate(run: PlannedRun, on_round: Callable[[int], None]) -> RunSummary:
    """Simulate a run; its folder gets its name when it is whole."""

    def tell(record: RoundRecord) -> None:
        on_round(record.round + 1)

    if run.folder is None:
        return simulate_planned(run, on_round=tell).summary
    part = run.folder.with_name(f".{run.folder.name}.part")
    try:
        summary = simulate_planned(replace(run, folder=part), on_round=tell).summary
        part.rename(run.folder)
    except (FedfloorError, FailedRunError) as error:  # the user knows the run by its own folder
        error.args = (str(error).replace(str(part), str(run.folder)),)
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return summary


def _simulated_elsewhere(runs: Mapping[int, PlannedRun], on_round: Callable[[int, int], None]) -> dict[int, RunSummary]:
    """Simulate runs in one process per core, each of which takes every so-many-th of them."""
    summaries: dict[int, RunSummary] = {}
    with _crew(min(cores(), len(runs))) as crew:
        going = crew.size
        for first in range(crew.size):
            crew.start(first, _simulate_several, dict([*runs.items()][first :: crew.size]))
        while going:
            for news in crew.news():
                if isinstance(news.error, LostError):
                    problem = f"a process of the grid was lost: {news.error}"
                    raise FailedRunError(f"{problem}. Repeat the command; finished simulations are kept") from None
                if news.error is not None:
                    raise news.error
                if news.message is not None:
                    number, done, summary = news.message
                    on_round(number, done)
                    if summary is not None:
                        summaries[number] = summary
                going -= news.ended
    return summaries


def _simulate_several(
    tell: Callable[[tuple[int, int, RunSummary | None]], None], runs: Mapping[int, PlannedRun]
) -> None:
    for number, run in runs.items():
        summary = _simulate(run, lambda done, number=number: tell((number, done, None)))  # type: ignore[misc]
        tell((number, summary.rounds, summary))


@contextmanager
def _crew(size: int) -> Iterator[Processes]:
    crew = Processes(size)
    try:
        yield crew
    finally:
        crew.close()
