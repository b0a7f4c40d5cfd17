"""The ServerApp: rounds of a scenario on the SuperNodes of a grid."""

__all__ = ["run_over", "server_app", "server_app_for"]

import logging
from collections.abc import Sequence
from logging import INFO, WARNING
from pathlib import Path
from statistics import median

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.superlink.grid import InMemoryGrid

from fedfloor.deploy.serving import DeployedRun, Rounds, serve_over
from fedfloor.deploy.tasks import FloorTask
from fedfloor.errors import DeploymentError, counted
from fedfloor.flower.errors import logged_errors
from fedfloor.flower.floors.config import FloorsConfig, Table
from fedfloor.flower.floors.grid import GridFloors
from fedfloor.flower.nodes import refuse_other_count
from fedfloor.rounds.events import Event
from fedfloor.runs.about import About
from fedfloor.runs.planned import planned_run, with_folders

_LOG = logging.getLogger("flwr")


def server_app_for(defaults: Table) -> ServerApp:
    """A ServerApp for floors; the run's own configuration comes before these defaults."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        with logged_errors():
            run_over(grid, FloorsConfig.of(defaults, context.run_config))

    return app


def run_over(grid: Grid, config: FloorsConfig) -> DeployedRun:
    """Run a scenario on the SuperNodes of a grid, into a run folder that `fedfloor report` reads."""
    planned = planned_run(
        config.scenario,
        config.policy or None,
        config.rounds or None,
        seed=None if config.seed < 0 else config.seed,
        overrides=config.overrides,
        own=config.own,
        training=True,
    )
    if config.clock == "measured" and planned.scenario.deploy.gains == "measured":
        problem = "must be 'model' if the scenario has deploy.gains = 'measured', got 'measured'"
        reason = "the time that Flower itself takes would be learnt as a weak radio link"
        raise DeploymentError(f"app config: clock: {problem}: {reason}. Set deploy.gains = 'weather', or the clock")
    if isinstance(grid, InMemoryGrid):
        refuse_other_count(grid, len(planned.scenario.floors), config.scenario)
    if planned.first_delay:
        _LOG.log(INFO, "The first round takes longer: %s", planned.first_delay)
    (planned,) = with_folders([planned], Path(config.out) if config.out else None, resume=config.resume)
    ways: list[GridFloors] = []

    def floors(tasks: Sequence[FloorTask]) -> GridFloors:
        ways.append(GridFloors(grid, tasks, config))
        return ways[0]

    about = About(clock="modelled" if config.clock == "model" else None)
    done = serve_over(floors, planned, Rounds(resume=config.resume, data_dir=config.folder, about=about), tell=_tell)
    spent = ways[0].seconds
    if spent:
        _LOG.log(INFO, "Flower itself took %.2f s per message (median of %d)", median(spent), len(spent))
    result = "" if done.accuracy is None else f", test accuracy {100 * done.accuracy:.1f} %"
    _LOG.log(INFO, "%s in %s%s", counted(len(done.records), "round"), done.folder, result)
    return done


def _tell(event: Event) -> None:
    """Say in Flower's log what goes on."""
    if event.record is not None:
        record = event.record
        _LOG.log(INFO, "Round %d has ended; clock %.3f s", record.round, record.clock)
    for reason in event.lost:
        _LOG.log(WARNING, "Lost: %s", reason)
    if event.waiting:
        _LOG.log(INFO, "Waiting for %s", counted(len(event.waiting), "floor"))


server_app = server_app_for({})
