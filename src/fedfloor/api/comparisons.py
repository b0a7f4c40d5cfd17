"""Several runs: compare policies, report, watch, and measure the trade-off over V."""

__all__ = ["Comparison", "compare", "compare_with", "report", "tradeoff", "watch"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from fedfloor.arguments import checked, given_path, path_or_none, refuse_other
from fedfloor.errors import FailedRunError, FedfloorError, MissingExtraError, RunLogError, shown
from fedfloor.runs.options import CompareArguments, CompareOptions
from fedfloor.runs.planned import ScenarioSource
from fedfloor.runs.simulate import Run

if TYPE_CHECKING:
    from fedfloor.reports.making import Report
    from fedfloor.runs.compare import Watch
    from fedfloor.runs.train import TrainedRun
    from fedfloor.scenario import Scenario
    from fedfloor.theory.tradeoff import TradeoffPoint


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison leaves behind."""

    folder: Path  #: of all its runs
    runs: tuple[Path, ...]  #: policy by policy, then seed by seed
    failed: Mapping[str, BaseException]  #: why runs have not ended, by the name of their folders
    report: "Report | None"  #: None if no run has a round


@checked
def compare(
    scenario: ScenarioSource,
    policies: Sequence[str] = (),
    seeds: int = 3,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: str | Path | None = None,
    watch: "Watch | None" = None,
    **options: Unpack[CompareArguments],
) -> Comparison:
    """Train every policy with every seed on the same weather, data split and first weights, and report on them.

    Runs go into folders below `out`, `runs/compare-<scenario>` if left out. A run that is already there resumes from
    its last checkpoint, so an interrupted comparison is simply called again. Without `policies` the scenario's own is
    compared with the baselines. The other options are those of `fedfloor.runs.options.CompareOptions`: engine,
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
    return compare_with(
        scenario, policies, rounds, seed=seed, overrides=overrides, own=own, out=out, options=chosen, watch=watch
    )


@checked
def compare_with(
    scenario: ScenarioSource,
    policies: Sequence[str] = (),
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
    runs: "Run | TrainedRun | str | Path | Sequence[Run | TrainedRun | str | Path]",
    *,
    out: str | Path | None = None,
    csv: str | Path | None = None,
    pdf: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> "Report":
    """Write one page, figures and tables of runs that have a folder, finished or still running.

    They go into the one folder that is named, or into `report` in the current folder, or to `out`. With `csv` all
    rounds of all runs are written there. `collection.problems` of the answer says what is wrong with a run. Needs the
    extra 'report'.

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
    return _report([_folder_of(run) for run in several], out=out, csv=csv, pdf=pdf, on_step=on_step)


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

    folder = _folder_of(run)
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
def tradeoff(scenario: "Scenario", *, on_round: Callable[[], None] = lambda: None) -> "list[TradeoffPoint]":
    """Delay and participation of ddsra over V, beside the bounds of Theorem 2."""
    from fedfloor.runs.tradeoff import measure_tradeoff
    from fedfloor.scenario import Scenario

    refuse_other("scenario", scenario, Scenario, "`fedfloor.load` returns one")
    return measure_tradeoff(scenario, on_round=on_round)


def _report(runs: Sequence[Path], **options: Any) -> "Report":
    from fedfloor.reports.making import make_report

    return make_report(runs, **options)


def _folder_of(run: "Run | TrainedRun | str | Path") -> Path:
    if isinstance(run, str | Path):
        return given_path("runs", run)
    folder: Path | None = getattr(run, "folder", None)
    if folder is None:
        problem = f"must be run folders, or runs that have one, got {shown(run)}"
        raise RunLogError(f"runs: {problem}. Run it with out, then name that folder")
    return folder


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
