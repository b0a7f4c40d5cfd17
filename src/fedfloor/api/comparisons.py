"""Several runs: compare policies, report, watch, and measure the trade-off over V."""

__all__ = ["Comparison", "compare", "compare_with", "report", "tradeoff", "watch"]

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from fedfloor.api.runs import folder_of
from fedfloor.arguments import checked, path_or_none, refuse_other
from fedfloor.errors import FailedRunError, FedfloorError, MissingExtraError, RunLogError
from fedfloor.notebooks.bars import Bar, bar
from fedfloor.notebooks.frames import DataFrame, frame_of
from fedfloor.rounds.columns import Grain, columns_of
from fedfloor.runs.options import CompareArguments, CompareOptions
from fedfloor.runs.planned import PlannedRun, ScenarioSource, load
from fedfloor.runs.simulate import Run
from fedfloor.scheduling.objects import PolicySource

if TYPE_CHECKING:
    from fedfloor.reports.making import Report
    from fedfloor.runs.compare import Watch
    from fedfloor.runs.tradeoff import Tradeoff
    from fedfloor.runs.train import TrainedRun


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison leaves behind."""

    folder: Path  #: of all its runs
    runs: tuple[Path, ...]  #: policy by policy, then seed by seed
    failed: Mapping[str, BaseException]  #: why runs have not ended, by the name of their folders
    report: "Report | None"  #: None if no run has a round

    def to_pandas(self, per: Grain = "round") -> DataFrame:
        """The logs of all runs as one data frame, with the columns `run` and `seed` before those of a run.

        `per` is that of a run's `to_pandas`. Needs the extra 'notebook'.
        """
        from fedfloor.reports.reading import collect

        runs = collect(self.runs).runs if self.report is None else self.report.collection.runs
        parts = [(run, columns_of(run.records, per)) for run in runs]
        keys = dict.fromkeys(key for _, columns in parts for key in columns)
        rows = [len(next(iter(columns.values()), [])) for _, columns in parts]
        frame: dict[str, list[object]] = {
            "run": [run.folder.name for (run, _), count in zip(parts, rows, strict=True) for _ in range(count)],
            "seed": [run.scenario.seed for (run, _), count in zip(parts, rows, strict=True) for _ in range(count)],
        }
        for key in keys:
            columns_and_rows = zip(parts, rows, strict=True)
            frame[key] = [value for (_, part), count in columns_and_rows for value in part.get(key, [None] * count)]
        return frame_of(frame)

    def _repr_html_(self) -> str:
        problems = [f"{name}: {error}" for name, error in self.failed.items()]
        shown_report = "" if self.report is None else self.report._repr_html_()  # for a notebook too
        return shown_report + "".join(f"<p>{escape(problem)}</p>" for problem in problems)


@checked
def compare(
    scenario: ScenarioSource,
    policies: Sequence[PolicySource] = (),
    seeds: int = 3,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: str | Path | None = None,
    progress: bool = False,
    watch: "Watch | None" = None,
    **options: Unpack[CompareArguments],
) -> Comparison:
    """Train every policy with every seed on the same weather, data split and first weights, and report on them.

    Runs go into folders below `out`, `runs/compare-<scenario>` if left out. A run that is already there resumes from
    its last checkpoint, so an interrupted comparison is simply called again. `policies` are names or objects, also of
    classes that a notebook defines; without any, the scenario's own is compared with the baselines. `progress=True`
    shows a bar. The other options are those of `fedfloor.runs.options.CompareOptions`: engine,
    ray_address, workers and data_dir. Needs the extras 'train' and 'report'.

    Examples
    --------
    >>> import fedfloor, tempfile
    >>> done = fedfloor.compare("quick", ["random", "round_robin"], seeds=1, rounds=1, out=tempfile.mkdtemp())
    >>> [path.name for path in done.runs]
    ['quick-random-7', 'quick-round_robin-7']
    >>> done.report.page.name
    'report.html'
    """
    chosen = CompareOptions(seeds=seeds, **options)  # type: ignore[arg-type]  # it checks and converts them
    if progress and watch is not None:
        raise FedfloorError("progress: a watch shows it already. Leave one of the two out")
    with _bars(progress=progress) as bars:
        return compare_with(
            scenario,
            policies,
            rounds,
            seed=seed,
            overrides=overrides,
            own=own,
            out=out,
            options=chosen,
            watch=watch if bars is None else bars,
        )


@contextmanager
def _bars(*, progress: bool) -> "Iterator[Watch | None]":
    """A bar for all rounds of a comparison; None without `progress`."""
    if not progress:
        yield None
        return
    from fedfloor.runs.compare import Watch

    with ExitStack() as stack:
        done: dict[Path | None, int] = {}
        shown_bar: Bar | None = None
        results: dict[Path | None, str] = {}
        total = 0

        def start(runs: "Sequence[PlannedRun]") -> None:
            nonlocal shown_bar, total
            total = sum(run.scenario.rounds for run in runs)
            shown_bar = stack.enter_context(bar(f"{len(runs)} runs", total))
            show("starting")

        def show(note: str) -> None:
            if shown_bar is not None:
                shown_bar.show(sum(done.values()), note)

        def end_round(run: "PlannedRun", rounds: int) -> None:
            done[run.folder] = rounds
            name = f"{run.label}, seed {run.scenario.seed}"
            show(": ".join(filter(None, (name, results.get(run.folder)))))

        def test(run: "PlannedRun", result: str) -> None:
            results[run.folder] = result

        yield Watch(
            on_start=start,
            on_round=end_round,
            on_test=test,
            on_reading=lambda _, name: show(f"reading {name}"),
            on_trouble=lambda run, problem: show(f"{run.label}: {problem}"),
            on_report=lambda step: show(f"report: {step}"),
        )


@checked
def compare_with(
    scenario: ScenarioSource,
    policies: Sequence[PolicySource] = (),
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: str | Path | None = None,
    options: CompareOptions,
    watch: "Watch | None" = None,
) -> Comparison:
    """Compare with options that have been checked already; see `compare`."""
    from fedfloor.files import only_writer
    from fedfloor.reports.making import refuse_foreign
    from fedfloor.runs.compare import Watch, compare_planned, comparison_folder, planned_comparison

    refuse_other("options", options, CompareOptions, "Make them with CompareOptions(...)")
    watching = Watch() if watch is None else watch
    refuse_other("watch", watching, Watch, "Leave it out, or make one with Watch(...)")
    runs = planned_comparison(
        scenario, policies, rounds, seed=seed, overrides=overrides, own=own, out=path_or_none(out), options=options
    )
    _need_extras()
    folder = comparison_folder(runs[0].scenario.name, path_or_none(out))
    folders = tuple(run.folder for run in runs if run.folder is not None)
    with only_writer(folder, again="compare again"):
        refuse_foreign(folder)  # now, not after hours of training
        failed = compare_planned(runs, folder, options, watching)
        begun = [place for place in folders if _has_rounds(place)]
        report = _report([*begun, folder], out=folder, on_step=watching.on_report) if begun else None
    for error in failed.values():
        if not isinstance(error, FedfloorError | FailedRunError):
            raise error
    return Comparison(folder, folders, failed, report)


@checked
def report(
    runs: "Comparison | Run | TrainedRun | str | Path | Sequence[Run | TrainedRun | str | Path]",
    *,
    out: str | Path | None = None,
    csv: str | Path | None = None,
    pdf: bool = False,
    progress: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> "Report":
    """Write one page, figures and tables of runs that have a folder, finished or still running.

    They go into the one folder that is named, or into `report` in the current folder, or to `out`. With `csv` all
    rounds of all runs are written there. `collection.problems` of the answer says what is wrong with a run. Its
    `tables` are texts as the page shows them; `values` and `to_pandas()` of a table have the numbers. Needs the extra
    'report'.

    Examples
    --------
    >>> import fedfloor, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = fedfloor.simulate("quick", policy="round_robin", rounds=4, out=folder + "/run")
    >>> done = fedfloor.report(run, csv=folder + "/rounds.csv")
    >>> done.page.name, done.tables[0].rows[0][:2]
    ('report.html', ('round_robin', 'no training'))
    """
    several = runs if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]
    folders = [folder_of("runs", run) for run in several]
    from fedfloor.reports.making import STEPS

    with bar("report", STEPS, progress=progress) as shown_bar:
        steps = count(1)

        def tell(step: str) -> None:
            shown_bar.show(next(steps), step)
            on_step(step)

        return _report(folders, out=out, csv=csv, pdf=pdf, on_step=tell)


@checked
def watch(
    run: "Run | TrainedRun | str | Path",
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: bool = False,
    on_ready: Callable[[str], None] = lambda url: print(url, flush=True),
) -> None:
    """Serve a page that shows a run, or the runs of a folder, while it goes; Ctrl-C ends it.

    `on_ready` is called once with the address of the page. Port 0 stands for a free one. On an address that other
    machines can reach, the page needs a token, which is part of the address; `token=True` asks for one on
    loopback too. Needs the extra 'report'.
    """
    from fedfloor.reports.live.serving import WatchServer

    folder = folder_of("run", run)
    if run == "" or not folder.is_dir():
        problem = "is a file, not a run folder" if folder.is_file() else "does not exist"
        raise RunLogError(f"{folder if run else repr(run)}: {problem}. Name the folder of a run, or of runs")
    if find_spec("plotly") is None:
        raise MissingExtraError("watching", "report")
    with WatchServer(folder, host=host, port=port, token=token) as server:
        on_ready(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:  # the only way in which watching ends
            return


@checked
def tradeoff(
    scenario: ScenarioSource,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    progress: bool = False,
    on_round: Callable[[], None] = lambda: None,
) -> "Tradeoff":
    """Delay and participation of ddsra over V, beside the bounds of Theorem 2: one point for every V."""
    from fedfloor.runs.tradeoff import STEPS, Tradeoff, measure_tradeoff

    resolved = load(scenario, overrides, seed=seed, rounds=rounds, own=own)
    with bar("V", len(STEPS) * resolved.rounds, progress=progress) as shown_bar:
        done = count(1)

        def tell() -> None:
            shown_bar.show(next(done))
            on_round()

        return Tradeoff(measure_tradeoff(resolved, on_round=tell))


def _report(runs: Sequence[Path], **options: Any) -> "Report":
    from fedfloor.reports.making import make_report

    return make_report(runs, **options)


def _has_rounds(run: Path) -> bool:
    from fedfloor.rounds.listeners.log import ROUNDS

    try:
        return (run / ROUNDS).stat().st_size > 0
    except OSError:
        return False


def _need_extras() -> None:
    """Report a missing extra at once, not after hours."""
    needs = (("training", "train", ("torch", "safetensors")), ("the report", "report", ("matplotlib", "plotly")))
    for what, extra, libraries in needs:
        if any(find_spec(library) is None for library in libraries):
            raise MissingExtraError(what, extra)
