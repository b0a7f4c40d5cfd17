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
    "measure_tradeoff",
    "train_cell",
]

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from fedfloor.workers.crew import Crew, LostError, Processes, cores
from fedfloor.files import lock
from fedfloor.errors import FailedRunError, FedfloorError, MissingExtraError, RunLogError, ScenarioError
from fedfloor.runs.mirror import Changes, Kept, kept_of, write_changes
from fedfloor.runs.planned import check_engine, prepare, resolve, run_folders
from fedfloor.report.making import Report, make_report
from fedfloor.runs.folder import (
    BOUNDS,
    CHECKPOINT,
    ROUNDS,
    SCENARIO,
    TRADEOFF,
    checkpoint_round,
    read_records,
    refuse_changes,
    refuse_fewer,
    refuse_filled,
    write_json,
)
from fedfloor.scenario import ScenarioFile, resolved_toml
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.state import Scheduler
from fedfloor.runs.tradeoff import is_quick, measure, shortened
from fedfloor.training.data.sources import dataset_files

_SEEDS = 1000
_ATTEMPTS = 3  #: to carry out a run whose process is lost


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
    waiting = deque(number for number, cell in enumerate(cells) if not _is_finished(cell))
    for number, cell in enumerate(cells):
        if number not in waiting:
            on_round(cell, cell.scenario.rounds)
    running: set[int] = set()
    losses: dict[int, int] = dict.fromkeys(waiting, 0)
    failed: dict[str, BaseException] = {}

    def fail(cell: Cell, error: BaseException) -> None:
        failed[cell.folder.name] = error
        on_trouble(cell, str(error))

    while waiting or running:
        while waiting and len(running) < crew.size:
            number = waiting.popleft()
            cell = cells[number]
            try:
                kept = kept_of(cell.folder)
            except RunLogError as error:
                fail(cell, error)
                continue
            (cell.folder / BOUNDS).unlink(missing_ok=True)  # it goes on: they are of its shorter self
            running.add(number)
            crew.start(number, train_cell, cell, kept, data_folder)
        if not running:
            break
        for news in crew.news():
            cell = cells[news.number]
            if news.message is not None:
                if write_changes(cell.folder, news.message.changes):
                    losses[news.number] = 0
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
                fail(cell, news.error)
    return failed


def _check(cell: Cell) -> None:
    """Refuse a folder that holds something else than this run."""
    if (cell.folder / SCENARIO).exists():
        refuse_changes(cell.folder, resolved_toml(cell.file), held=False)
        refuse_fewer(cell.folder, checkpoint_round(cell.folder), cell.scenario.rounds)
    elif not (cell.folder / CHECKPOINT).is_dir():
        refuse_filled(cell.folder)


def _is_finished(cell: Cell) -> bool:
    rounds = checkpoint_round(cell.folder)
    return rounds is not None and rounds >= cell.scenario.rounds and (cell.folder / BOUNDS).exists()


def train_cell(tell: Callable[[Progress], None], cell: Cell, kept: Kept, data_folder: Path | None) -> None:
    """Carry a run out, wherever this is called, on one core."""
    from fedfloor.runs.train import Event, train  # noqa: PLC0415  # torch is loaded only where a run is carried out

    with tempfile.TemporaryDirectory(prefix="fedfloor-") as name:
        folder = Path(name) / "run"
        mirror = kept.unpack(folder)

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
                resume=bool(kept.files),
                workers=1,
                data_folder=data_folder,
                on_event=show,
            )
        except FedfloorError as error:  # a disk that is full is the one of the folder here, and keeps its name
            error.args = (str(error).replace(str(folder), str(cell.folder)),)
            raise
        tell(Progress(None, mirror.changes()))


def measure_tradeoff(cells: Sequence[Cell], folder: Path, *, on_round: Callable[[], None] = lambda: None) -> None:
    """Simulate the plant of a comparison over V, at the rates its first ddsra run had, and keep the result.

    Large plants are left out: `fedfloor tradeoff` takes its time with them.
    """
    chosen = next((cell for cell in cells if cell.policy.startswith("ddsra") and _is_finished(cell)), None)
    if chosen is None or not is_quick(chosen.scenario) or _is_newer(folder / TRADEOFF, chosen.folder / BOUNDS):
        return
    records = read_records(chosen.folder)
    rates = [gateway["target_rate"] for gateway in records[-1]["gateways"]]
    participation = chosen.scenario.participation.model_copy(update={"rates": tuple(rates)})
    scenario = shortened(chosen.scenario).model_copy(update={"participation": participation})
    write_json(folder / TRADEOFF, [asdict(point) for point in measure(scenario, on_round=on_round)])


def _is_newer(path: Path, other: Path) -> bool:
    return path.exists() and path.stat().st_mtime_ns >= other.stat().st_mtime_ns


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
    failed: Mapping[str, BaseException]  #: run folder -> why it has not ended
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
    if not isinstance(seeds, int) or not 1 <= seeds <= _SEEDS:
        raise ScenarioError(f"seeds: must be a whole number from 1 to {_SEEDS}, got {seeds}")
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
    for cell in cells:
        _check(cell)
    data = Path(data_dir).absolute() if data_dir is not None else None
    if engine == "local" and ":" not in first.data.name:  # machines of a cluster have their own
        dataset_files(first.data.name, data)
    watch.on_start(cells)
    with _locked(folder), _crew(engine, ray_address, workers) as crew:
        failed = carry_out(cells, crew, data_folder=data, on_round=watch.on_round, on_trouble=watch.on_trouble)
        measure_tradeoff(cells, folder, on_round=watch.on_tradeoff)
        begun = [place for place in folders if _has_rounds(place)]
        report = make_report([*begun, folder], out=folder, on_step=watch.on_report) if begun else None
    for error in failed.values():
        if not isinstance(error, FedfloorError | FailedRunError):
            raise error
    return Comparison(folder, tuple(folders), failed, report)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep a second comparison out of a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = lock(folder)
    except OSError as error:
        raise RunLogError(f"{folder}: cannot be written: {error.strerror}. Name another folder with --out") from None
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _has_rounds(run: Path) -> bool:
    with suppress(OSError):
        return (run / ROUNDS).stat().st_size > 0
    return False


@contextmanager
def _crew(engine: str, ray_address: str | None, workers: int | None) -> Iterator[Crew]:
    with ExitStack() as stack:
        if engine == "ray":
            from fedfloor.workers.cluster import RayCrew, connected  # noqa: PLC0415  # ray is loaded only for this

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
