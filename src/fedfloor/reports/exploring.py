"""Single runs for the page's script, thinned if they are many or long."""

__all__ = ["Explored", "SingleRuns", "single_runs"]

import json
from dataclasses import dataclass

from fedfloor.arrays import Ints
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.drawing.plots import ROWS, plain
from fedfloor.reports.drawing.scales import spread
from fedfloor.reports.measures.phases import PHASES
from fedfloor.reports.palette import DARK_TURN_COLOURS, PART_COLOURS, RAW_COLOUR, TURN_COLOURS
from fedfloor.reports.registry import all_figures
from fedfloor.reports.results import Results

_NUMBERS = 500_000  #: in the data of all single runs together; a number takes about eight bytes
_ROUNDS = 1000  #: of a run
_LEAST_ROUNDS = 20  #: of a run; rather than fewer of every run, runs are left out


@dataclass(frozen=True, slots=True, eq=False)
class Explored:
    """One run that the reader can look at."""

    run: RunArrays
    at: Ints  #: places in its log of the rounds that the page shows


@dataclass(frozen=True, slots=True, eq=False)
class SingleRuns:
    """Runs that the reader can look at one by one."""

    runs: tuple[Explored, ...]
    labels: tuple[str, ...]  #: of the runs
    data: dict[str, object]  #: for the page's script
    omissions: tuple[str, ...]  #: sentences on what was left out


def single_runs(results: Results, numbers: int = _NUMBERS) -> SingleRuns:
    """Rounds of as many runs as fit into so many numbers; every series keeps its first run as long as possible."""
    runs = _fitting_runs(results, numbers)
    explorers = [figure.explore for figure in all_figures() if figure.explore is not None]
    plants: dict[str, int] = {}
    explored, entries, omissions = [], [], []
    for index, run in runs:
        limit = int(numbers / len(runs) / max(_numbers_per_round(run), 1.0))
        at = spread(run.rounds.size, max(2, min(_ROUNDS, limit)))
        if at.size < run.rounds.size:
            omissions.append("Of long runs, the timeline, the map and the cuts show some of the rounds, evenly spread.")
        explored.append(Explored(run, at))
        entry: dict[str, object] = {
            "s": index,
            "raw": [run.run.summary.raw_device_rounds, run.run.summary.device_rounds],
        }
        for explore in explorers:
            entry |= explore(run, at)
        plant = json.dumps(plain(entry["plant"]))  # runs of the same plant share it
        entries.append(entry | {"plant": plants.setdefault(plant, len(plants))})
    others = sum(len(series.runs) for series in results.series) - len(runs)
    if others:
        omissions.append(f"{others} runs cannot be looked at one by one, to keep the page small.")
    data = {
        "phases": [
            [phase, PART_COLOURS[phase], k] for k, phase in enumerate(PHASES) if phase != "link" or results.has_links
        ],
        "turns": [[turn, colour, DARK_TURN_COLOURS[turn]] for turn, colour in TURN_COLOURS.items()],
        "raw": RAW_COLOUR,
        "runs": entries,
        "plants": [json.loads(plant) for plant in plants],
    }
    labels = tuple(f"{results.looks[index].label}, seed {run.run.scenario.seed}" for index, run in runs)
    return SingleRuns(tuple(explored), labels, data, tuple(omissions))


def _fitting_runs(results: Results, numbers: int) -> list[tuple[int, RunArrays]]:
    """Runs that fit, with the indices of their series; first runs of series come first."""
    ranked = [(rank, index, run) for index, series in enumerate(results.series) for rank, run in enumerate(series.runs)]
    ranked.sort(key=lambda entry: entry[:2])
    runs: list[tuple[int, int, RunArrays]] = []
    left = float(numbers)
    for rank, index, run in ranked:
        left -= _LEAST_ROUNDS * _numbers_per_round(run)
        if left >= 0.0 or not runs:
            runs.append((index, rank, run))
    return [(index, run) for index, _, run in sorted(runs, key=lambda entry: entry[:2])]


def _numbers_per_round(run: RunArrays) -> float:
    """Numbers that a round of a run adds to the page."""
    rows = len(run.devices) if len(run.devices) <= ROWS else len(run.floors)
    return float(7.0 * run.selected.sum(axis=1).mean() + 0.4 * rows)
