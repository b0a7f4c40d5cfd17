"""`fedfloor compare`: policies x seeds on the same weather, data and first weights, side by side.

Every run is trained in a folder of its own, on this machine or a cluster. It sends what it writes to the process that
started the comparison, and only that process writes into the run folders. So the folders are whole whenever it is
killed, and starting the comparison again resumes from their checkpoints.
"""

__all__ = ["BASELINES", "Watch", "compare_planned", "comparison_folder", "planned_comparison"]

import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fedfloor.errors import FailedRunError, FedfloorError, MissingExtraError, RunLogError, ScenarioError
from fedfloor.files import only_writer
from fedfloor.rounds.events import Event
from fedfloor.rounds.listeners.checkpoint import checkpoint_round
from fedfloor.rounds.listeners.log import log_digest
from fedfloor.rounds.summary import result_of_test
from fedfloor.runs.copies import copies_of, folder_toml, refuse_changed_copies
from fedfloor.runs.driving import checkpoint_of
from fedfloor.runs.folder import (
    BOUNDS,
    TRADEOFF,
    holds_training,
    read_records,
    refuse_changes,
    refuse_fewer,
    refuse_filled,
    refuse_links,
    write_json,
)
from fedfloor.runs.mirror import Changes, Kept, kept_of, write_changes
from fedfloor.runs.options import CompareOptions, RunOptions
from fedfloor.runs.planned import PlannedRun, ScenarioSource, planned_run, resolve, with_folders
from fedfloor.runs.tradeoff import is_quick, measure_tradeoff, shortened
from fedfloor.scheduling.objects import PolicySource
from fedfloor.scheduling.traits import tradeoff_of
from fedfloor.training.data.sources import dataset_files
from fedfloor.workers.crew import Crew, LostError, Processes, sends_main
from fedfloor.workers.processes import cores

#: what a scenario's own policy is compared with
BASELINES = ("random", "round_robin", "loss_driven", "delay_driven")

_ATTEMPTS = 3  #: to carry out a run whose process is lost


@dataclass(frozen=True, slots=True)
class _Progress:
    """What a run reports: how many rounds are done, and what is new in its folder."""

    done: int | None = None  #: None before the first round and at the end
    changes: Changes = ()
    result: str = ""  #: of the round that has ended, if the model was tested in it: `accuracy 51.9%`, `error 0.27`
    reading: str | None = None  #: the data set that is being read


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told while a comparison is going."""

    on_start: Callable[[Sequence[PlannedRun]], None] = lambda _: None
    on_round: Callable[[PlannedRun, int], None] = lambda *_: None  #: how many rounds of a run are done
    on_reading: Callable[[PlannedRun, str], None] = lambda *_: None  #: the data set that a run is reading
    on_test: Callable[[PlannedRun, str], None] = lambda *_: None  #: what a test gave, in words, before `on_round`
    on_trouble: Callable[[PlannedRun, str], None] = lambda *_: None
    on_tradeoff: Callable[[], None] = lambda: None  #: a simulated round
    on_report: Callable[[str], None] = lambda _: None  #: a step of the report


def planned_comparison(
    scenario: ScenarioSource,
    policies: Sequence[PolicySource],
    rounds: int | None,
    *,
    seed: int | None,
    overrides: Sequence[str],
    out: Path | None,
    options: CompareOptions,
    own: bool = False,
) -> list[PlannedRun]:
    """The runs of a comparison with their folders, all checked; without policies, the scenario's own and baselines."""
    first = resolve(scenario, overrides, seed=seed, rounds=rounds, own=own)
    chosen: list[PolicySource | None] = [*policies] or [
        None,
        *(name for name in BASELINES if name != first.policy.name),
    ]
    runs = [
        planned_run(scenario, policy, rounds, seed=first.seed + number, overrides=overrides, own=own, training=True)
        for policy in chosen
        for number in range(options.seeds)
    ]
    runs = with_folders(runs, comparison_folder(first.name, out), resume=True, nested=True)
    for run in runs:
        _refuse_main(run)
        _check_folder(run)
    if options.engine == "local" and first.data.kind == "built-in":  # machines of a cluster have their own data
        dataset_files(first.data.name, options.data_dir)
    return runs


def comparison_folder(name: str, out: Path | None) -> Path:
    """The folder of all runs of a comparison."""
    return out if out is not None else Path("runs") / f"compare-{name}"


def compare_planned(
    runs: Sequence[PlannedRun], folder: Path, options: CompareOptions, watch: Watch
) -> dict[str, BaseException]:
    """Train what is not finished yet, and measure the trade-off over V where that is quick.

    Returns why runs failed, by the name of their folders.
    """
    watch.on_start(runs)
    with _crew(options) as crew:
        failed = _carry_out(runs, crew, options.data_dir, watch)
        _keep_tradeoff(runs, folder, on_round=watch.on_tradeoff)
    return failed


def _refuse_main(run: PlannedRun) -> None:
    """Refuse code of the program that was started: other processes have another one and cannot import it.

    A policy can be sent to them with its code.
    """
    for what, name in (("model", run.file.model.name), ("data", run.file.data.name)):
        if name.startswith("__main__:"):
            problem = "is defined in the program itself, which the processes of a comparison cannot import"
            raise ScenarioError(f"{what} '{name}': {problem}. Move it into a module of its own")
    if run.policy.name.startswith("__main__:") and not sends_main():
        raise MissingExtraError(f"policy '{run.policy.name}': sending it to the processes of a comparison", "notebook")


def _check_folder(run: PlannedRun) -> None:
    """Refuse a folder that holds anything but this run."""
    folder = _folder(run)
    refuse_links(folder)
    if not holds_training(folder):
        refuse_filled(folder)
    else:
        refuse_changes(folder, folder_toml(run.file, run.scenario), held=False)
        refuse_changed_copies(folder, copies_of(run.scenario))
        refuse_fewer(folder, checkpoint_round(folder), run.scenario.rounds)


def _folder(run: PlannedRun) -> Path:
    assert run.folder is not None
    return run.folder


def _is_finished(run: PlannedRun) -> bool:
    """Whether nothing is left to do; a damaged run is not finished, so that it is tried and the damage is told."""
    folder = _folder(run)
    rounds = checkpoint_round(folder)
    if rounds is None or rounds < run.scenario.rounds or not (folder / BOUNDS).exists():
        return False
    try:
        checkpoint = checkpoint_of(folder)
    except RunLogError:
        return False
    return checkpoint is not None and checkpoint.origin.log in ("", log_digest(folder, checkpoint.round))


def _carry_out(runs: Sequence[PlannedRun], crew: Crew, data_dir: Path | None, watch: Watch) -> dict[str, BaseException]:
    """Train all runs that are not finished; one whose process is lost starts again from its checkpoint, a few times."""
    waiting = deque(number for number, run in enumerate(runs) if not _is_finished(run))
    for number, run in enumerate(runs):
        if number not in waiting:
            watch.on_round(run, run.scenario.rounds)
    running: dict[int, ExitStack] = {}  # -> what keeps other processes from its folder
    times_lost: dict[int, int] = dict.fromkeys(waiting, 0)
    failed: dict[str, BaseException] = {}

    def fail(run: PlannedRun, error: BaseException) -> None:
        failed[_folder(run).name] = error
        watch.on_trouble(run, str(error))

    def begin(number: int) -> None:
        run = runs[number]
        with ExitStack() as held:
            held.enter_context(only_writer(_folder(run), again="compare again"))
            _check_folder(run)
            if _is_finished(run):  # by another comparison, since this one began
                watch.on_round(run, run.scenario.rounds)
                return
            crew.start(number, _train_elsewhere, run, kept_of(_folder(run)), data_dir)
            running[number] = held.pop_all()

    try:
        while waiting or running:
            while waiting and len(running) < crew.size:
                number = waiting.popleft()
                try:
                    begin(number)
                except (FedfloorError, FailedRunError) as error:
                    fail(runs[number], error)
            if not running:
                break
            for news in crew.news():
                run = runs[news.number]
                if news.message is not None:
                    if news.message.changes and write_changes(_folder(run), news.message.changes):
                        times_lost[news.number] = 0
                    _report_progress(run, news.message, watch)
                if not news.ended:
                    continue
                running.pop(news.number).close()
                if isinstance(news.error, LostError) and times_lost[news.number] + 1 < _ATTEMPTS:
                    times_lost[news.number] += 1
                    watch.on_trouble(run, f"{news.error}; it resumes from its last checkpoint")
                    waiting.appendleft(news.number)
                elif news.error is not None:
                    fail(run, news.error)
    finally:
        for held in running.values():
            held.close()
    return failed


def _report_progress(run: PlannedRun, progress: _Progress, watch: Watch) -> None:
    if progress.reading is not None:
        watch.on_reading(run, progress.reading)
    if progress.result:
        watch.on_test(run, progress.result)
    if progress.done is not None:
        watch.on_round(run, progress.done)


def _train_elsewhere(tell: Callable[[_Progress], None], run: PlannedRun, kept: Kept, data_dir: Path | None) -> None:
    """Train a run on one core, in whichever process this is called."""
    from fedfloor.runs.train import train_planned  # noqa: PLC0415  # torch is loaded only where a run is trained

    with tempfile.TemporaryDirectory(prefix="fedfloor-") as name:
        folder = Path(name) / "run"
        mirror = kept.unpack(folder)
        predicts_numbers = run.scenario.training.predicts_numbers

        def show(event: Event) -> None:
            if event.reading is not None and not event.step:
                tell(_Progress(reading=event.reading))
            if event.record is not None:
                result = result_of_test(event.record, predicts_numbers=predicts_numbers)
                tell(_Progress(event.record.round + 1, mirror.changes(), result=result))

        options = RunOptions(resume=bool(kept.files), workers=1, data_dir=data_dir)
        try:
            train_planned(replace(run, folder=folder), options, tell=show)
        except FedfloorError as error:  # the user knows the run by its own folder, not by this one
            error.args = (str(error).replace(str(folder), str(run.folder)),)
            raise
        tell(_Progress(changes=mirror.changes()))


def _keep_tradeoff(runs: Sequence[PlannedRun], folder: Path, *, on_round: Callable[[], None]) -> None:
    """Simulate the plant over V, at the rates that the first finished run with a V had, and keep the result.

    Large plants are left out: `fedfloor tradeoff` takes its time with them.
    """
    chosen = next((run for run in runs if tradeoff_of(run.scheduler) is not None and _is_finished(run)), None)
    if chosen is None or not is_quick(chosen.scenario) or _is_newer(folder / TRADEOFF, _folder(chosen) / BOUNDS):
        return
    rates = tuple(gateway.target_rate for gateway in read_records(_folder(chosen))[-1].gateways)
    participation = chosen.scenario.participation.model_copy(update={"rates": rates})
    scenario = shortened(chosen.scenario).model_copy(update={"participation": participation})
    write_json(folder / TRADEOFF, [asdict(point) for point in measure_tradeoff(scenario, on_round=on_round)])


def _is_newer(path: Path, other: Path) -> bool:
    return path.exists() and path.stat().st_mtime_ns >= other.stat().st_mtime_ns


@contextmanager
def _crew(options: CompareOptions) -> Iterator[Crew]:
    with ExitStack() as stack:
        if options.engine == "ray":
            from fedfloor.workers.cluster import RayCrew, connected  # noqa: PLC0415  # ray is loaded only for this

            stack.enter_context(connected(options.ray_address))
            crew: Crew = RayCrew(options.workers)
        else:
            crew = Processes(options.workers or cores())
        stack.callback(crew.close)
        yield crew
