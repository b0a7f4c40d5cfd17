"""Policies x seeds on the same weather, data and first weights, side by side on this machine or a cluster.

A run is trained in a folder of its own wherever it is carried out. What it writes is told to the process that started
the comparison, and only that one writes into the run folders: they are whole whenever it is killed, and starting the
comparison again goes on from their checkpoints.
"""

__all__ = [
    "BASELINES",
    "Cell",
    "Comparison",
    "Progress",
    "Watch",
    "carry_out",
    "compare",
    "has_quick_tradeoff",
    "measure_tradeoff",
    "tradeoff_rounds",
    "train_cell",
]

import json
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from fedfloor.crew import Crew, LostError, Processes, cores
from fedfloor.errors import FailedRunError, FedfloorError, MissingExtraError, ScenarioError
from fedfloor.mirroring import STATE, Changes, Mirror, bytes_of, kept_files, write_changes
from fedfloor.preparing import check_engine, prepare, resolve, run_folders
from fedfloor.reporting.making import Report, make_report
from fedfloor.runlog import (
    BOUNDS,
    CHECKPOINT,
    ROUNDS,
    SCENARIO,
    TRADEOFF,
    read_records,
    refuse_changes,
    refuse_filled,
    write_json,
)
from fedfloor.scenario import ScenarioFile, resolved_toml
from fedfloor.scenario.plant import Scenario
from fedfloor.scheduling.state import Scheduler
from fedfloor.tradeoff import STEPS, measure

_ATTEMPTS = 3  #: to carry out a run whose process is lost
_TRADEOFF_ROUNDS = 200
_TRADEOFF_PAIRS = 100  #: floors x channels of plants whose trade-off takes seconds


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One run of a comparison."""

    file: ScenarioFile
    scenario: Scenario
    scheduler: Scheduler
    policy: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Progress:
    """What a run tells of itself: how far it has come, and what is new in its folder."""

    done: int | None  #: rounds; None at the end
    changes: Changes


def carry_out(
    cells: Sequence[Cell],
    crew: Crew,
    *,
    data_folder: Path | None = None,
    on_round: Callable[[Cell, int], None] = lambda *_: None,
    on_trouble: Callable[[Cell, str], None] = lambda *_: None,
) -> dict[str, BaseException]:
    """Run what is not finished yet; returns why runs failed, by the name of their folders.

    `on_round` is told how many rounds of a run are done. A run whose process is lost is begun again from its last
    checkpoint, a few times.
    """
    for cell in cells:
        _check(cell)
    waiting = deque(number for number, cell in enumerate(cells) if not _is_finished(cell))
    for number, cell in enumerate(cells):
        if number not in waiting:
            on_round(cell, cell.scenario.rounds)
    running: set[int] = set()
    losses: dict[int, int] = dict.fromkeys(waiting, 0)
    failed: dict[str, BaseException] = {}
    while waiting or running:
        while waiting and len(running) < crew.size:
            number = waiting.popleft()
            running.add(number)
            crew.start(number, train_cell, cells[number], kept_files(cells[number].folder), data_folder)
        for news in crew.news():
            cell = cells[news.number]
            if news.message is not None:
                write_changes(cell.folder, news.message.changes)
                if news.message.done is not None:
                    on_round(cell, news.message.done)
            if not news.ended:
                continue
            running.discard(news.number)
            if isinstance(news.error, LostError) and losses[news.number] + 1 < _ATTEMPTS:
                losses[news.number] += 1
                on_trouble(cell, f"{news.error}; it goes on from its last checkpoint")
                waiting.appendleft(news.number)
            elif news.error is not None:
                failed[cell.folder.name] = news.error
                on_trouble(cell, str(news.error))
    return failed


def _check(cell: Cell) -> None:
    """Refuse a folder that holds something else than this run."""
    if (cell.folder / SCENARIO).exists():
        refuse_changes(cell.folder, resolved_toml(cell.file), held=False)
    elif not (cell.folder / CHECKPOINT).is_dir():
        refuse_filled(cell.folder)


def _is_finished(cell: Cell) -> bool:
    state = bytes_of(cell.folder / STATE)
    done = state is not None and (cell.folder / BOUNDS).exists()
    if not done or json.loads(state or b"")["round"] < cell.scenario.rounds:
        return False
    return len(read_records(cell.folder)) >= cell.scenario.rounds


def train_cell(tell: Callable[[Progress], None], cell: Cell, kept: dict[str, bytes], data_folder: Path | None) -> None:
    """Carry a run out, wherever this is called, on one core."""
    from fedfloor.running import Event, train  # noqa: PLC0415  # torch is loaded only where a run is carried out

    with tempfile.TemporaryDirectory(prefix="fedfloor-") as name:
        folder = Path(name) / "run"
        for part, content in kept.items():
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            (folder / part).write_bytes(content)
        mirror = Mirror(folder)

        def show(event: Event) -> None:
            if event.record is not None:
                tell(Progress(event.record["round"] + 1, mirror.changes()))

        try:
            train(
                cell.file,
                cell.scenario,
                cell.scheduler,
                cell.policy,
                folder,
                resume=bool(kept),
                workers=1,
                data_folder=data_folder,
                on_event=show,
            )
        except (FedfloorError, FailedRunError) as error:
            raise type(error)(str(error).replace(str(folder), str(cell.folder))) from None
        tell(Progress(None, mirror.changes()))


def measure_tradeoff(cells: Sequence[Cell], folder: Path, *, on_round: Callable[[], None] = lambda: None) -> bool:
    """Simulate the plant of a comparison over V, at the rates its first ddsra run had, and keep the result.

    Large plants are left out: `fedfloor tradeoff` takes its time with them. Returns whether there is a result.
    """
    chosen = next((cell for cell in cells if cell.policy.startswith("ddsra") and _is_finished(cell)), None)
    if (folder / TRADEOFF).exists() or chosen is None or not has_quick_tradeoff(chosen.scenario):
        return (folder / TRADEOFF).exists()
    records = read_records(chosen.folder)
    rates = [gateway["target_rate"] for gateway in records[-1]["gateways"]]
    participation = chosen.scenario.participation.model_copy(update={"rates": tuple(rates)})
    changed = {"participation": participation, "rounds": min(chosen.scenario.rounds, _TRADEOFF_ROUNDS)}
    points = measure(chosen.scenario.model_copy(update=changed), on_round=on_round)
    write_json(folder / TRADEOFF, [asdict(point) for point in points])
    return True


def has_quick_tradeoff(scenario: Scenario) -> bool:
    """Whether the trade-off of a plant takes seconds."""
    return len(scenario.floors) * scenario.radio.channels <= _TRADEOFF_PAIRS


def tradeoff_rounds(scenario: Scenario) -> int:
    """How many rounds the trade-off of a plant simulates in all."""
    return len(STEPS) * min(scenario.rounds, _TRADEOFF_ROUNDS)


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told while a comparison goes."""

    on_start: Callable[[Sequence[Cell]], None] = lambda _: None
    on_round: Callable[[Cell, int], None] = lambda *_: None  #: how many rounds of a run are done
    on_trouble: Callable[[Cell, str], None] = lambda *_: None
    on_tradeoff: Callable[[], None] = lambda: None  #: a simulated round
    on_report: Callable[[str], None] = lambda _: None  #: a step of the report


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison leaves behind."""

    folder: Path  #: of all its runs
    runs: tuple[Path, ...]  #: policy by policy, then seed by seed
    failed: Mapping[str, str]  #: run folder -> why it has not ended
    report: Report | None  #: none if no run has a round


#: what a scenario's own policy is held against
BASELINES = ("random", "round_robin", "loss_driven", "delay_driven")


def compare(
    scenario: str | Path,
    policies: Sequence[str] = (),
    seeds: int = 3,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    out: str | Path | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    workers: int | None = None,
    data_dir: str | Path | None = None,
    watch: Watch = Watch(),  # noqa: B008  # frozen
) -> Comparison:
    """Train policies x seeds on the same weather, data split and first weights, side by side, and report on them.

    Runs go into folders below `out`, `runs/compare-<scenario>` if left out. What is there already goes on from its
    last checkpoint, so a comparison that was interrupted is simply called again. Without `policies` the scenario's own
    is held against the baselines. Needs the extras 'train' and 'report'.

    Examples
    --------
    >>> import fedfloor, tempfile
    >>> done = fedfloor.compare("quick", ["random", "round_robin"], seeds=1, rounds=1, out=tempfile.mkdtemp())
    >>> [path.name for path in done.runs]
    ['quick-random-7', 'quick-round_robin-7']
    >>> done.report.page.name
    'report.html'
    """
    check_engine(engine, ray_address, workers)
    if not isinstance(seeds, int) or seeds < 1:
        raise ScenarioError(f"seeds: must be a whole number >= 1, got {seeds}")
    first = resolve(scenario, overrides, seed=seed, rounds=rounds)
    chosen: list[str | None] = list(policies) or [None, *(name for name in BASELINES if name != first.policy.name)]
    planned = [
        prepare(scenario, policy, rounds, seed=first.seed + number, overrides=overrides, training=True)
        for policy in chosen
        for number in range(seeds)
    ]
    folder = Path(out) if out is not None else Path("runs") / f"compare-{first.name}"
    folders = run_folders(planned, folder, resume=True, nested=True)
    _need_extras()
    cells = [
        Cell(one.file, one.scenario, one.scheduler, str(one.policy), place)
        for one, place in zip(planned, folders, strict=True)
    ]
    watch.on_start(cells)
    data = Path(data_dir).absolute() if data_dir is not None else None
    with _crew(engine, ray_address, workers) as crew:
        failed = carry_out(cells, crew, data_folder=data, on_round=watch.on_round, on_trouble=watch.on_trouble)
    for error in failed.values():
        if not isinstance(error, FedfloorError | FailedRunError):
            raise error
    measure_tradeoff(cells, folder, on_round=watch.on_tradeoff)
    begun = any((place / ROUNDS).exists() and read_records(place) for place in folders)
    report = make_report(folder, on_step=watch.on_report) if begun else None
    return Comparison(folder, tuple(folders), {name: str(error) for name, error in failed.items()}, report)


@contextmanager
def _crew(engine: str, ray_address: str | None, workers: int | None) -> Iterator[Crew]:
    with ExitStack() as stack:
        if engine == "ray":
            from fedfloor.cluster import RayCrew, connected  # noqa: PLC0415  # ray is loaded only for this

            stack.enter_context(connected(ray_address))
            crew: Crew = RayCrew(workers)
        else:
            crew = Processes(workers or cores())
        stack.callback(crew.close)
        yield crew


def _need_extras() -> None:
    """Say at once what is missing, not after hours."""
    needs = (("training", "train", ("torch", "safetensors")), ("the report", "report", ("matplotlib", "plotly")))
    for what, extra, libraries in needs:
        if any(find_spec(library) is None for library in libraries):
            raise MissingExtraError(what, extra)
