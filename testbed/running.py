"""From a scenario's name to the comparison of all rounds of all policies."""

__all__ = ["Request", "run"]

import csv
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedfloor.errors import DeploymentError
from fedfloor.rounds.lines import parse_record
from fedfloor.rounds.listeners.log import ROUNDS
from fedfloor.runs.folder import SCENARIO
from fedfloor.runs.planned import PlannedRun, planned_run, with_folders
from fedfloor.scenario import resolved_toml
from fedfloor.scheduling.registry import shown_name
from testbed.comparison import HEADER, PARTS, RoundRow, lines_of, rows_of, summary
from testbed.control import Control
from testbed.layout import Layout, layout_of
from testbed.machines import Machines
from testbed.namespaces import Namespaces, refuse_without_namespaces
from testbed.network import Network
from testbed.proxy import Proxy
from testbed.sweeper import Sweeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for on the command line."""

    scenario: str  #: file or preset
    policies: tuple[str, ...] = ()  #: one run each; none: that of the scenario
    rounds: int | None = None  #: of each run; None: as the scenario says
    seed: int | None = None
    overrides: tuple[str, ...] = ()
    out: Path  #: folder for runs and logs
    network: Literal["namespaces", "proxy"] | None = None  #: None: what this user can have


def run(request: Request) -> list[RoundRow]:
    """Run all policies one after the other on the same network, print the comparison, and return it."""
    planned = _planned(request)
    layout = layout_of(planned[0].scenario, request.scenario)
    rows: list[RoundRow] = []
    with (
        Sweeper() as sweeper,
        _network(request, layout, sweeper) as network,
        Control((place := _place(sweeper)) / "control", network) as control,
    ):
        for number, each in enumerate(planned):
            print(f"\npolicy {shown_name(str(each.policy))}\n" + "\n".join(HEADER), flush=True)
            network.free_backhaul()  # machines join at full speed
            own = place / f"run-{number}"
            own.mkdir()
            for row in _rounds(each, layout, network, control=control.path, place=own):
                print("\n".join(lines_of(row)), flush=True)
                rows.append(row)
    _write(rows, request.out / "comparison.csv")
    print(f"\n{summary(rows)}\nruns, logs and comparison.csv: {request.out}")
    return rows


def _planned(request: Request) -> list[PlannedRun]:
    """The runs, with folders that are not there yet."""
    if request.out.exists():
        raise DeploymentError(f"--out: {request.out} is there already. Name another folder, or remove it")
    planned = [
        planned_run(
            request.scenario, policy, request.rounds, seed=request.seed, overrides=request.overrides, training=True
        )
        for policy in request.policies or (None,)
    ]
    return with_folders(planned, request.out, nested=True)


def _place(sweeper: Sweeper) -> Path:
    """A folder for what nobody needs later: certificates with their keys, and scenarios."""
    place = Path(tempfile.gettempdir()) / f"fedfloor-testbed-{secrets.token_hex(8)}"
    sweeper.will_be("folder", str(place))
    place.mkdir(mode=0o700)
    return place


def _network(request: Request, layout: Layout, sweeper: Sweeper) -> Network:
    """The network that was asked for, or the best that this user can have."""
    if request.network == "namespaces":
        refuse_without_namespaces()
    if request.network is None:
        try:
            refuse_without_namespaces()
        except DeploymentError as error:
            reason = str(error).removeprefix("--namespaces: ").partition(". ")[0]
            print(f"The network is shaped by a proxy, because {reason}.", file=sys.stderr)
            return Proxy(layout)
    return Proxy(layout) if request.network == "proxy" else Namespaces(layout, sweeper)


def _rounds(planned: PlannedRun, layout: Layout, network: Network, *, control: Path, place: Path) -> Iterator[RoundRow]:
    """Run one policy; yields the rounds as they end."""
    assert planned.folder is not None
    scenario = place / SCENARIO
    scenario.write_text(resolved_toml(planned.file), encoding="utf-8")
    log, count = planned.folder / ROUNDS, 0
    with Machines(
        layout, network, control=control, place=place, logs=planned.folder.parent / "logs" / planned.folder.name
    ) as machines:
        machines.start(scenario, planned.folder)
        is_done = False
        while not is_done:
            time.sleep(0.1)
            is_done = machines.is_done()  # before the log is read for the last time
            lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
            for line in lines[count:]:
                yield rows_of(parse_record(line), shown_name(str(planned.policy)))
            count = len(lines)


def _write(rows: Sequence[RoundRow], path: Path) -> None:
    """The comparison as CSV, one row per round and floor."""
    columns = [f"{kind}_{part}_s" for part in PARTS for kind in ("predicted", "real")]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["policy", "round", "floor", "channel", "cuts", *columns])
        for row in rows:
            for floor in row.floors:
                seconds = [
                    value
                    for part in PARTS
                    for value in (floor.predicted[part], "" if floor.real is None else floor.real[part])
                ]
                cuts = " ".join(map(str, floor.cuts))
                table.writerow([row.policy, row.round, floor.floor, floor.channel, cuts, *seconds])
