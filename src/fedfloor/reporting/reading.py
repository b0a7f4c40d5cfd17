"""Runs as a report sees them: read from their folders, put side by side, with what is wrong about any of them."""

__all__ = ["Collection", "ReadRun", "Series", "collect"]

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfloor.errors import FedfloorError, RunLogError
from fedfloor.runlog import BOUNDS, HOLDING, ROUNDS, SCENARIO, TRADEOFF, flat, read_records, scenario_of
from fedfloor.scenario import Scenario
from fedfloor.summary import RunSummary, summarise

#: drawn from the seed, or free to differ between runs that belong together
_FREE = ("name", "seed", "rounds", "policy", "floors", "model.layers", "training.checkpoint_every")
_KEYS = {"round", "policy", "delay_s", "clock_s", "accuracy", "loss", "gateways"}
_FLOOR_KEYS = {"name", "selected", "completed", "failure", "delay_s", "energy_j", "queue", "target_rate"}


@dataclass(frozen=True, slots=True, eq=False)
class ReadRun:
    """One run folder."""

    folder: Path
    scenario: Scenario
    policy: str  #: with its settings, as logged
    variant: str  #: scenario values in which it differs from the first run of its seed; empty for most
    records: tuple[Mapping[str, Any], ...]  #: at least one
    summary: RunSummary
    holding: Mapping[str, Any] | None  #: who holds what; training runs have it
    bounds: tuple[Mapping[str, Any], ...]  #: of a training run that has ended

    @property
    def label(self) -> str:
        """Whose line it is part of: the policy, and what else sets the run apart."""
        return f"{self.policy} [{self.variant}]" if self.variant else self.policy

    @property
    def finished(self) -> bool:
        """Whether all rounds of the scenario are logged."""
        return len(self.records) >= self.scenario.rounds

    @property
    def accuracy(self) -> tuple[list[int], list[float]]:
        """Rounds (from 1, how many had been run) at which the model was tested, and the accuracy there."""
        tested = [(entry["round"] + 1, entry["accuracy"]) for entry in self.records if entry["accuracy"] is not None]
        return [at for at, _ in tested], [value for _, value in tested]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Runs that differ in nothing but their seed."""

    label: str
    runs: tuple[ReadRun, ...]  #: by seed


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """Runs of one scenario, and what could not be shown."""

    name: str  #: of the scenario
    series: tuple[Series, ...]  #: in the order their first runs were found
    problems: tuple[str, ...]  #: why a folder is left out, or shown in part
    tradeoff: tuple[Mapping[str, Any], ...]  #: as `fedfloor tradeoff --format json` prints it, where there is one

    @property
    def runs(self) -> list[ReadRun]:
        """All runs, series by series."""
        return [run for series in self.series for run in series.runs]


def collect(paths: Sequence[Path]) -> Collection:
    """Read run folders, or folders of them; a bad one is left out and told of, unless nothing is left."""
    found: list[ReadRun] = []
    problems: list[str] = []
    first: dict[int, Mapping[str, Any]] = {}  # by seed, the settings that others are held against
    for folder in _folders(paths, problems):
        try:
            run = _read(folder, first)
        except FedfloorError as error:
            problems.append(str(error))
            continue
        if found and run.scenario.name != found[0].scenario.name:
            others = f"is of scenario '{run.scenario.name}', the others of '{found[0].scenario.name}'"
            problems.append(f"{folder}: {others}. Report on it by itself")
        elif any((run.label, run.scenario.seed) == (other.label, other.scenario.seed) for other in found):
            problems.append(f"{folder}: repeats {run.label} with seed {run.scenario.seed}. One of them is shown")
        else:
            found.append(run)
    if not found:
        raise RunLogError(problems[0] if problems else "no run folder is named. Name one that a run has written")
    labels = dict.fromkeys(run.label for run in found)
    series = tuple(
        Series(label, tuple(sorted((run for run in found if run.label == label), key=lambda run: run.scenario.seed)))
        for label in labels
    )
    tradeoff = _tradeoff(paths, problems)
    return Collection(found[0].scenario.name, series, tuple(problems), tradeoff)


def _folders(paths: Sequence[Path], problems: list[str]) -> Iterator[Path]:
    """Run folders among the paths and directly below them."""
    for path in paths:
        if not path.is_dir():
            problem = "is a file, not a run folder" if path.exists() else "does not exist"
            problems.append(f"{path}: {problem}. Name a run folder, or a folder of them")
            continue
        if _is_run(path):
            yield path
            continue
        below = sorted(part for part in path.iterdir() if part.is_dir() and _is_run(part))
        if not below:
            what = "holds no run" if any(path.iterdir()) else "is empty"
            problems.append(f"{path}: {what}. Name a folder that `fedfloor run` or `fedfloor compare` has written")
        yield from below


def _is_run(path: Path) -> bool:
    return (path / SCENARIO).exists() or (path / ROUNDS).exists()


def _read(folder: Path, first: dict[int, Mapping[str, Any]]) -> ReadRun:
    if not (folder / SCENARIO).exists():
        raise RunLogError(f"{folder}: has no {SCENARIO}, so nobody knows what ran. Run again")
    scenario = scenario_of(folder)
    records = read_records(folder)
    if not records:
        raise RunLogError(f"{folder}: has no round yet. Report again when one has ended")
    for number, record in enumerate(records):
        wrong = _wrong_with(record, [floor.name for floor in scenario.floors])
        if wrong:
            version = "It is damaged, or was written by another version of fedfloor; use that one, or run again"
            raise RunLogError(f"{folder / ROUNDS}: line {number + 1}: {wrong}. {version}")
    settings = _settings(folder)
    base = first.setdefault(scenario.seed, settings)
    differing = [key for key in sorted(settings.keys() | base.keys()) if settings.get(key) != base.get(key)]
    return ReadRun(
        folder=folder,
        scenario=scenario,
        policy=records[-1]["policy"],
        variant=", ".join(f"{key}={settings.get(key, 'none')}" for key in differing),
        records=tuple(records),
        summary=summarise(records),
        holding=_json(folder / HOLDING, dict),
        bounds=tuple(_json(folder / BOUNDS, list) or ()),
    )


def _wrong_with(record: Mapping[str, Any], floors: Sequence[str]) -> str:
    """What keeps a log record from being shown; nothing of a good one."""
    missing = sorted(_KEYS - record.keys())
    if missing:
        return f"has no '{missing[0]}'"
    gateways = record["gateways"]
    if not isinstance(gateways, list) or [_name(gateway) for gateway in gateways] != list(floors):
        return f"gateways: must be the {len(floors)} floors of the scenario"
    for at, gateway in enumerate(gateways):
        missing = sorted(_FLOOR_KEYS - gateway.keys())
        if missing:
            return f"has no 'gateways[{at}].{missing[0]}'"
        for key in ("energy_j", "target_rate"):
            if not isinstance(gateway[key], int | float):
                return f"gateways[{at}].{key}: must be a number, got {gateway[key]}"
        for n, device in enumerate(gateway.get("devices", ())):
            if not isinstance(device, dict) or not {"name", "cut", "energy_j"} <= device.keys():
                return f"gateways[{at}].devices[{n}]: must have name, cut and energy_j"
    return ""


def _name(gateway: Any) -> Any:
    return gateway.get("name") if isinstance(gateway, dict) else None


def _settings(folder: Path) -> Mapping[str, Any]:
    """What runs that belong together have in common."""
    table = tomllib.loads((folder / SCENARIO).read_text(encoding="utf-8"))
    return {key: value for key, value in flat(table).items() if not key.startswith(_FREE)}


def _json(path: Path, kind: type) -> Any:
    """A file beside the log, if it is there and whole."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, kind) else None


def _tradeoff(paths: Sequence[Path], problems: list[str]) -> tuple[Mapping[str, Any], ...]:
    for path in paths:
        if (path / TRADEOFF).exists():
            points = _json(path / TRADEOFF, list)
            if points is not None:
                return tuple(points)
            problems.append(f"{path / TRADEOFF}: is no list of points. Write it again with `fedfloor tradeoff`")
    return ()
