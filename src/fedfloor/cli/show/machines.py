"""What the programs of a real plant print."""

__all__ = [
    "PlantView",
    "base_station_view",
    "deployed_as_json",
    "listening",
    "logging_to_stderr",
    "plant_view",
    "print_deployed",
]

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import JsonValue
from rich.live import Live
from rich.table import Table

from fedfloor.characters import printable
from fedfloor.cli.show.terminal import ERR, OUT
from fedfloor.cli.show.watching import View, remark, say_resumed, training
from fedfloor.errors import counted
from fedfloor.rounds.events import Event
from fedfloor.rounds.record import GatewayRecord, RoundRecord
from fedfloor.rounds.summary import result_of_test, summarise
from fedfloor.runs.planned import PlannedRun

if TYPE_CHECKING:
    from fedfloor.deploy.serving import DeployedRun


class _Lines(logging.Formatter):
    """One printable line per message, after the time of day."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(" ".join(super().format(record).split()))


@contextmanager
def logging_to_stderr(*, quiet: bool) -> Iterator[None]:
    """Show what the program does, and only warnings if `quiet`, on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logger = logging.getLogger("fedfloor")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def listening(address: str) -> Callable[[int], None]:
    """What to call with the port that is listened on: prints the address as a line on what is now standard output."""
    host, output = address.rpartition(":")[0], sys.stdout
    return lambda port: print(f"listening on {host}:{port}", file=output, flush=True)


def deployed_as_json(run: "DeployedRun") -> dict[str, JsonValue]:
    """The result of a run on real machines, as plain data."""
    summary = summarise(run.records)
    table: dict[str, JsonValue] = {
        "scenario": run.scenario.name,
        "policy": run.records[-1].policy if run.records else None,
        "folder": None if run.folder is None else str(run.folder),
        "rounds": summary.rounds,
        "resumed": run.resumed,
        "clock_s": summary.clock,
        "mean_delay_s": summary.mean_delay,
        "accuracy": run.accuracy,
        "loss": run.loss,
    }
    return table if run.error is None else {**table, "error": run.error}


def print_deployed(run: "DeployedRun") -> None:
    """The result of a run on real machines."""
    summary = summarise(run.records)
    tested = "no test set" if run.accuracy is None else f"test accuracy {run.accuracy:.1%}"
    tested = tested if run.error is None else f"test error {run.error:.4g}"
    OUT.print(f"{counted(summary.rounds, 'round')}, {tested}, {summary.clock:.4g} s in rounds", soft_wrap=True)
    OUT.print(f"log: {run.folder}; `fedfloor report {run.folder}` draws it", soft_wrap=True)


@contextmanager
def base_station_view(planned: PlannedRun, *, quiet: bool) -> Iterator[View]:
    """The progress of a run, and what the base station does, on standard error."""
    with logging_to_stderr(quiet=quiet), training(planned, quiet=quiet) as view:
        yield view


@contextmanager
def plant_view(planned: PlannedRun, *, quiet: bool) -> Iterator["PlantView"]:
    """A live table of the floors on standard error, and warnings; where that is no terminal, a line per round.

    Before the first of them, a line says that processes start, which takes seconds.
    """
    with logging_to_stderr(quiet=True):
        remark(planned, quiet=quiet)
        view = PlantView(planned, is_live=ERR.is_terminal and not quiet, quiet=quiet)
        if not view.is_live:
            if not quiet:
                floors, devices = planned.scenario.floors, planned.scenario.devices
                parts = f"{counted(len(floors), 'floor')} with {counted(len(devices), 'device')}"
                ERR.print(f"starting the processes of {parts}", soft_wrap=True)
            yield view
            return
        with Live(get_renderable=view.table, console=ERR, refresh_per_second=4):
            yield view


class PlantView:
    """What is known of every floor: what it does now, and how its last round went."""

    def __init__(self, planned: PlannedRun, *, is_live: bool, quiet: bool) -> None:
        self.is_live, self._quiet, self._planned = is_live, quiet, planned
        self.done = 0  #: rounds
        self._now = dict.fromkeys((floor.name for floor in planned.scenario.floors), "starting")
        self._last: dict[str, GatewayRecord] = {}
        self._completed = dict.fromkeys(self._now, 0)
        self._note = "waiting for machines"

    def show(self, event: Event) -> None:
        """Take note of an event."""
        if event.resumed is not None:
            self.done = event.resumed
            if not self._quiet:
                say_resumed(self._planned, event.resumed)
        if event.training:
            self._note = f"round {self.done}"
            self._now = {name: "training" if name in event.training else "waiting" for name in self._now}
        for text in event.lost:
            ERR.print(f"round {self.done}: lost: {text}", soft_wrap=True)
        if event.record is not None:
            self._end(event.record)

    def _end(self, record: RoundRecord) -> None:
        self.done = record.round + 1
        for gateway in record.gateways:
            self._now[gateway.name] = "waiting"
            if gateway.selected:
                self._last[gateway.name] = gateway
            self._completed[gateway.name] += gateway.completed
        result = result_of_test(record, predicts_numbers=self._planned.scenario.training.predicts_numbers)
        note = f"{self.done} of {counted(self._planned.scenario.rounds, 'round')}, clock {record.clock:.4g} s"
        self._note = ", ".join(filter(None, (note, result)))
        if not self.is_live and not self._quiet:
            ERR.print(f"{self._note}, delay {record.delay:.3g} s", soft_wrap=True)

    def table(self) -> Table:
        """The floors now."""
        table = Table(title=f"{self._planned.label}: {self._note}", title_justify="left", box=None, pad_edge=False)
        for name in ("floor", "now", "cuts", "down s", "train s", "up s", "predicted s", "energy J", "completed"):
            table.add_column(name, justify="left" if name in ("floor", "now", "cuts") else "right")
        for name, now in self._now.items():
            last = self._last.get(name)
            table.add_row(printable(name), now, *_cells(last), str(self._completed[name]))
        return table


def _cells(last: GatewayRecord | None) -> list[str]:
    """Cuts, times and energy of a floor's last round."""
    if last is None:
        return [""] * 6
    cuts = ",".join(str(device.cut) for device in last.devices)
    if last.failure:
        cuts = f"{cuts} {last.failure}"
    times = [last.download_s, last.train_s, last.upload_s, last.predicted_s]
    return [cuts, *(f"{time:.3g}" if isinstance(time, float) else "" for time in times), f"{last.floor_energy:.3g}"]
