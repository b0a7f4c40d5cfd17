"""Grids: one simulation for every combination of settings."""

__all__ = ["vary"]

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from fedfloor.arguments import checked, path_or_none
from fedfloor.notebooks.bars import bar
from fedfloor.runs.planned import ScenarioSource
from fedfloor.runs.vary import (
    FIGURE,
    TABLE,
    Cell,
    Grid,
    GridSettings,
    PlannedGrid,
    claimed_grid,
    csv_text,
    planned_grid,
    simulate_grid,
)
from fedfloor.scheduling.objects import PolicySource


@checked
def vary(
    scenario: ScenarioSource,
    settings: GridSettings,
    policies: Sequence[PolicySource] = (),
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: str | Path | None = None,
    progress: bool = False,
    on_plan: Callable[[PlannedGrid], None] = lambda _: None,
    on_round: Callable[[int, int], None] = lambda *_: None,
) -> Grid:
    """Simulate a scenario for every combination of settings, on the same weather.

    `settings` maps keys of the scenario to lists of values, or is a list of texts as `--vary` takes them. Any key that
    `overrides` takes can vary, `seed` and `rounds` included. Several policies, names or objects, are simulated for each
    combination. `progress=True` shows a bar.

    With `out` every simulation leaves its run folder there, beside `grid.csv` and, with the extra 'report', `grid.png`.
    Simulations that are already there are not repeated, so an interrupted grid is simply called again. `on_plan` is
    called once with everything that will be simulated, and `on_round` with the number of a simulation and its rounds
    that are done. Grids that take more than a few seconds use all cores, unless a policy is an object.

    Examples
    --------
    >>> import fedfloor
    >>> grid = fedfloor.vary("quick", {"radio.channels": [1, 2], "precision.upload": [32, 8]}, rounds=3)
    >>> columns = grid.columns()  # ready for a data frame
    >>> columns["radio.channels"], columns["completed"]
    ([1, 1, 2, 2], [3, 3, 6, 6])
    """
    grid = planned_grid(
        scenario, settings, policies, rounds, seed=seed, overrides=overrides, own=own, out=path_or_none(out)
    )
    on_plan(grid)
    done_of = [0] * len(grid.runs)
    with (
        bar("rounds", sum(run.scenario.rounds for run in grid.runs), progress=progress) as shown_bar,
        claimed_grid(grid),
    ):

        def tell(number: int, rounds_done: int) -> None:
            done_of[number] = rounds_done
            shown_bar.show(sum(done_of))
            on_round(number, rounds_done)

        summaries = simulate_grid(grid, on_round=tell)
        cells = [
            Cell(dict(zip(grid.keys, values, strict=True)), run.label, summary, run.folder)
            for run, values, summary in zip(grid.runs, grid.settings, summaries, strict=True)
        ]
        done = Grid(grid.runs[0].scenario.name, grid.keys, tuple(cells), grid.folder)
        return done if grid.folder is None else _with_files(done, grid.folder)


def _with_files(grid: Grid, folder: Path) -> Grid:
    """The grid with its table and, if it can be drawn here, its figure in the folder."""
    from fedfloor.reports.saving import save

    table = folder / TABLE
    save(table, lambda part: part.write_text(csv_text(grid.columns()), encoding="utf-8"))
    if find_spec("matplotlib") is None:
        return replace(grid, table=table)
    from fedfloor.reports.grids import write_grid

    return replace(grid, table=table, figure=write_grid(grid, folder / FIGURE))
