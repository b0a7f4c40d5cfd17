"""Every public function: same names, same defaults, same errors as the command line, which calls nothing else.

Unlike a command, a function writes a run folder only if `out` names one. `own=True` stands for `--own`: it runs the
code that a scenario file or a run folder names. Code that the arguments themselves name needs no such word.

Libraries that take long to load are imported by the functions that need them.
"""

__all__ = [
    "Comparison",
    "Run",
    "ScenarioCheck",
    "check",
    "compare",
    "compare_profiles",
    "compare_with",
    "decide_round",
    "evaluate",
    "fetch_data",
    "holding",
    "issue_certificate",
    "issue_certificates",
    "list_certificates",
    "listing",
    "load",
    "load_model",
    "make_certificates",
    "measure",
    "plan",
    "plan_round",
    "plan_runs",
    "profile",
    "read",
    "renew_certificate",
    "report",
    "revoke_certificate",
    "run",
    "run_planned",
    "scenario_schema",
    "serve",
    "serve_devices",
    "serve_floor",
    "serve_here",
    "simulate",
    "simulate_planned",
    "starter_scenario",
    "tradeoff",
    "verify_data",
    "watch",
    "what_is_left",
]

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from fedfloor.arguments import checked, path_problem, refuse_other
from fedfloor.deploy.options import DeviceOptions, GatewayOptions, LocalOptions, ServerOptions
from fedfloor.errors import (
    FailedRunError,
    FedfloorError,
    MissingExtraError,
    ProfileError,
    RunLogError,
    SnapshotError,
    shown,
)
from fedfloor.rounds.events import Tell, silent
from fedfloor.rounds.record import Grain, RoundRecord, columns_of
from fedfloor.runs.options import CompareArguments, CompareOptions, RunArguments, RunOptions
from fedfloor.runs.planned import PlannedRun, ScenarioSource, load, planned_run, with_folders
from fedfloor.runs.simulate import Run, simulate_planned

if TYPE_CHECKING:
    from fedfloor.costs.hardware import HardwareProfile
    from fedfloor.costs.headline import Headline
    from fedfloor.deploy.authority import Issued, Register
    from fedfloor.deploy.serving import DeployedRun
    from fedfloor.reports.making import Report
    from fedfloor.runs.compare import Watch
    from fedfloor.runs.evaluate import Evaluation
    from fedfloor.runs.plan import PlanAnswer, PlannedRound
    from fedfloor.runs.profile import Profile
    from fedfloor.runs.shares import LayerShares
    from fedfloor.runs.train import TrainedRun
    from fedfloor.scenario import Scenario
    from fedfloor.theory.tradeoff import TradeoffPoint
    from fedfloor.training.data.fetching import Fetched, Progress, Verified
    from fedfloor.training.data.holding import HoldingTable, ShortageTable
    from fedfloor.training.network.exported import ScaledModel


# Runs


@checked
def simulate(
    scenario: ScenarioSource,
    policy: str | None = None,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: str | Path | None = None,
    on_round: Callable[[RoundRecord], None] = lambda _: None,
) -> Run:
    """Run rounds of scheduling on the simulated plant, without training.

    `policy` is `NAME[:key=value,...]`, the scenario's own if left out. With `out` the run folder is written there.

    Examples
    --------
    >>> import fedfloor
    >>> run = fedfloor.simulate("quick", policy="round_robin", rounds=4)
    >>> fedfloor.read(run)["round"]
    [0, 1, 2, 3]
    """
    planned = planned_run(scenario, policy, rounds, seed=seed, overrides=overrides, own=own)
    return simulate_planned(_in_folder(planned, out), on_round=on_round)


@checked
def run(
    scenario: ScenarioSource,
    policy: str | None = None,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: str | Path | None = None,
    on_event: Tell = silent,
    **options: Unpack[RunArguments],
) -> "TrainedRun":
    """Run rounds of scheduling and split training. Needs the extra 'train'.

    With `out` the run folder is written there, and `resume=True` continues from its last checkpoint. The other options
    are those of `fedfloor.runs.options.RunOptions`: until_accuracy, until_clock, workers, device, engine, ray_address,
    data_dir, and loggers, which show every round in `tensorboard` or `mlflow`.

    Examples
    --------
    >>> import fedfloor
    >>> done = fedfloor.run("quick", policy="random", rounds=2, workers=1)
    >>> len(done.records), int(done.confusion.sum())
    (2, 1000)
    """
    chosen = RunOptions(**options)  # type: ignore[arg-type]  # it checks and converts them
    if chosen.resume and out is None:
        raise RunLogError("resume: needs the run folder. Pass out=FOLDER")
    planned = planned_run(scenario, policy, rounds, seed=seed, overrides=overrides, own=own, training=True)
    return run_planned(_in_folder(planned, out), chosen, on_event=on_event)


@checked
def plan_runs(
    scenario: ScenarioSource,
    policies: Sequence[str] = (),
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: str | Path | None = None,
    training: bool = False,
    resume: bool = False,
) -> list[PlannedRun]:
    """Runs of several policies, with their folders, checked before the first one starts."""
    chosen: list[str | None] = [*policies] or [None]
    runs = [
        planned_run(scenario, name, rounds, seed=seed, overrides=overrides, own=own, training=training)
        for name in chosen
    ]
    return with_folders(runs, _path(out), resume=resume)


@checked
def run_planned(planned: PlannedRun, options: RunOptions, *, on_event: Tell = silent) -> "TrainedRun":
    """Train a planned run."""
    refuse_other("planned", planned, PlannedRun, "`plan_runs` returns them")
    refuse_other("options", options, RunOptions, "Make them with RunOptions(...)")
    try:
        from fedfloor.runs.train import train_planned
    except ModuleNotFoundError as error:
        raise MissingExtraError("training", "train") from error
    return train_planned(planned, options, tell=on_event)


@checked
def what_is_left(folder: str | Path, rounds: int) -> str:
    """What remains of a run that was stopped after `rounds` rounds, and how it is resumed."""
    from fedfloor.rounds.listeners.checkpoint import checkpoint_round

    kept = checkpoint_round(Path(folder))
    if kept is not None:
        after = f"stopped after {max(rounds, kept)} rounds; the checkpoint in {folder} has {kept} of them"
        return f"{after}. Resume with the same command and --resume"
    if rounds:
        return f"stopped after {rounds} rounds, with no checkpoint in {folder} yet; --resume starts again there"
    return "stopped before the first round ended; nothing is left of it"


def _in_folder(planned: PlannedRun, out: str | Path | None) -> PlannedRun:
    return planned if out is None else replace(planned, folder=Path(out))


@checked
def evaluate(
    run: str | Path, *, export: str | Path | None = None, data_dir: str | Path | None = None, own: bool = False
) -> "Evaluation":
    """Accuracy, loss and confusion matrix of a run's last checkpoint; with `export` the model is written there.

    If the model or the data is your own, the run folder names the code that makes it, `package.module:callable`; say
    with `own=True` that you trust that code.
    """
    try:
        from fedfloor.runs.evaluate import evaluate_run
    except ModuleNotFoundError as error:
        raise MissingExtraError("evaluating", "train") from error
    return evaluate_run(_given("run", run), data_dir=_path(data_dir), export=_path(export), own=own)


@checked
def load_model(path: str | Path, *, own: bool = False) -> "ScaledModel":
    """The model that `evaluate` exported to a file, as a torch module that scales its inputs itself.

    Its inputs are samples (n, *input) as they are in the data, such as pixels from 0 to 255; its outputs are scores
    (n, classes). If the model is your own, the file names the code that builds it, `package.module:callable`; say
    with `own=True` that you trust that code.
    """
    try:
        from fedfloor.training.network.exported import load_exported
    except ModuleNotFoundError as error:
        raise MissingExtraError("loading a model", "train") from error
    return load_exported(Path(path), own=own)


@checked
def read(run: "Run | TrainedRun | str | Path", per: Grain = "round") -> dict[str, list[Any]]:
    """The log of a run as columns of equal length, ready for a data frame.

    `per` says what a row is: a `round`, a `gateway` in a round, or a `device` in a round.

    Examples
    --------
    >>> import fedfloor
    >>> columns = fedfloor.read(fedfloor.simulate("quick", rounds=3), per="gateway")
    >>> len(columns["energy_j"])  # 3 rounds x 6 floors
    18
    """
    from fedfloor.runs.folder import read_records

    if isinstance(run, str | Path):
        return columns_of(read_records(_given("run", run)), per)
    if not hasattr(run, "records"):
        raise RunLogError(f"run: must be a run or its folder, got {shown(run)}")
    return columns_of(run.records, per)


# Comparisons and reports


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
        scenario, policies, rounds, seed=seed, overrides=overrides, own=own, out=_path(out), options=options
    )
    _need_extras()
    folder = comparison_folder(runs[0].scenario.name, _path(out))
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
    >>> done.page.name, done.tables[0].rows[0][:3]
    ('report.html', ('round_robin', '7', '4'))
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


def _report(runs: Sequence[Path], **options: Any) -> "Report":
    from fedfloor.reports.making import make_report

    return make_report(runs, **options)


def _folder_of(run: "Run | TrainedRun | str | Path") -> Path:
    if isinstance(run, str | Path):
        return _given("runs", run)
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


@checked
def tradeoff(scenario: "Scenario", *, on_round: Callable[[], None] = lambda: None) -> "list[TradeoffPoint]":
    """Delay and participation of ddsra over V, beside the bounds of Theorem 2."""
    from fedfloor.runs.tradeoff import measure_tradeoff
    from fedfloor.scenario import Scenario

    refuse_other("scenario", scenario, Scenario, "`fedfloor.load` returns one")
    return measure_tradeoff(scenario, on_round=on_round)


# One round


@checked
def plan(
    snapshot: "str | Path | Mapping[str, object]",
    policy: str | None = None,
    *,
    solver: str | None = None,
    round: int | None = None,  # noqa: A002
    own: bool = False,
) -> "PlanAnswer":
    """Decide one round: of a snapshot (a file or its data), or of a run folder with `round`.

    Returns the answer that `fedfloor plan --format json` prints. If a run's policy is your own, its folder names the
    code, `package.module:Class`; say with `own=True` that you trust that code, or name a policy.

    Examples
    --------
    >>> import fedfloor, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = fedfloor.simulate("quick", policy="ddsra:v=10", rounds=3, out=folder + "/run")
    >>> fedfloor.plan(folder + "/run", round=2)["optimality_gap"]
    0.0
    """
    return decide_round(plan_round(snapshot, policy, solver=solver, index=round, own=own))


@checked
def plan_round(
    source: "str | Path | Mapping[str, object]",
    policy: str | None = None,
    *,
    solver: str | None = None,
    index: int | None = None,
    own: bool = False,
) -> "PlannedRound":
    """The round of a snapshot, or the logged round of a run folder, with the policy that is to decide it."""
    from fedfloor.runs.plan import logged_round, snapshot_round
    from fedfloor.scheduling.snapshot import parse_snapshot, read_snapshot

    if isinstance(source, Mapping):
        return snapshot_round(parse_snapshot(source, "snapshot"), policy, solver)
    if not isinstance(source, str | Path):
        raise SnapshotError(f"snapshot: must be a path or its data, got {shown(source)}")
    path = _given("snapshot", source)
    if not path.exists():
        kind = SnapshotError if index is None else RunLogError
        raise kind(f"{path}: does not exist. Name a snapshot file or a run folder")
    if path.is_dir():
        if index is None:
            raise RunLogError(f"{path}: is a run folder, so --round is needed. For example --round 0")
        return logged_round(path, index, policy, solver, own=own)
    if index is not None:
        raise SnapshotError(f"{path}: --round goes with a run folder, this is a file. Leave it out")
    return snapshot_round(read_snapshot(path), policy, solver)


@checked
def decide_round(planned: "PlannedRound", *, export: str | Path | None = None) -> "PlanAnswer":
    """Decide a round, and write it as a snapshot if asked."""
    from fedfloor.runs.plan import PlannedRound, answer, export_snapshot

    refuse_other("planned", planned, PlannedRound, "`plan_round` returns one")
    if export is not None:
        export_snapshot(planned, Path(export))  # first, because a decision can take long and the file may be refused
    return answer(planned)


# Scenarios, networks and data


@dataclass(frozen=True, slots=True, eq=False)
class ScenarioCheck:
    """What a valid scenario resolves to."""

    scenario: "Scenario"
    headline: "Headline"  #: costs at a glance, and floors that can never take part
    shortage: "ShortageTable"


@checked
def check(
    scenario: ScenarioSource,
    overrides: Sequence[str] = (),
    *,
    seed: int | None = None,
    data_dir: str | Path | None = None,
    own: bool = False,
) -> ScenarioCheck:
    """Validate a scenario, its traces, its policy and its data, and show what it resolves to."""
    from fedfloor.costs.headline import headline
    from fedfloor.runs.trust import refuse_code
    from fedfloor.scheduling.registry import PolicySpec, make_policy
    from fedfloor.training.aggregation.registry import make_rule
    from fedfloor.training.data.holding import shortage_of
    from fedfloor.weather.draws import climate_of

    resolved = load(scenario, overrides, seed=seed, own=own)
    refuse_code(resolved, "policy", "aggregation", file=scenario, own=own, overrides=overrides)
    climate_of(resolved)  # reads the traces
    make_policy(PolicySpec.of(resolved.policy))
    make_rule(resolved.aggregation)
    return ScenarioCheck(resolved, headline(resolved), shortage_of(resolved, _path(data_dir)))


def listing() -> dict[str, Mapping[str, str]]:
    """Presets, policies, aggregation rules, models, data sets and cost models."""
    from fedfloor.scenario import preset_names, preset_summary
    from fedfloor.scenario.catalogue import COST_MODELS, DATASETS, NETWORKS
    from fedfloor.scheduling.registry import policy_summaries
    from fedfloor.training.aggregation.registry import rule_summaries

    return {
        "presets": {name: preset_summary(name) for name in preset_names()},
        "policies": policy_summaries(),
        "aggregation rules": rule_summaries(),
        "models": {name: facts.summary for name, facts in NETWORKS.items()},
        "data sets": {name: facts.summary for name, facts in DATASETS.items()},
        "cost models": dict(COST_MODELS),
    }


def starter_scenario() -> str:
    """The commented scenario that `fedfloor init` writes."""
    from fedfloor.scenario import starter

    return starter()


def scenario_schema() -> object:
    """The JSON schema of a scenario file."""
    from fedfloor.scenario.schema import scenario_schema as schema

    return schema()


@checked
def profile(
    model: str, shape: str | None = None, *, batch: int = 50, costs: str = "exact", overrides: Sequence[str] = ()
) -> "Profile":
    """FLOPs and bytes of every layer of a network, and the totals for every cut. Needs the extra 'train'."""
    from fedfloor.runs import profile as profiling

    return profiling.profile(model, shape, batch=batch, costs=costs, overrides=overrides)


@checked
def measure(
    model: str | None = None,
    shape: str | None = None,
    *,
    batches: Sequence[int] = (),
    scenario: ScenarioSource | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    frequency: float | None = None,
    power: str | None = None,
    out: str | Path | None = None,
    on_plan: Callable[[int], None] = lambda _: None,
    on_step: Callable[[], None] = lambda: None,
) -> "HardwareProfile":
    """Time every layer of a network on this machine, or of the network of a scenario. Needs the extra 'train'.

    Without `batches`, 10 and 50 are measured, or some of the batches that the scenario's devices use. `frequency` [Hz]
    is needed where the machine does not say it. `power` is a number of watts, a file with one reading per line, or
    `rapl`. With `out` the hardware profile is written there.
    """
    from fedfloor.runs import measure as measuring

    if (model is None) == (scenario is None):
        raise ProfileError("profile: must be given either a model or --scenario. Give one of them")
    path = _path(out)
    if path is not None:
        measuring.refuse_profile_file(path)
    if scenario is not None:
        target = measuring.scenario_target(scenario, batches, overrides, own=own)
    else:
        target = measuring.model_target(str(model), shape, batches or (10, 50), overrides)
    profile = measuring.measured_profile(target, frequency=frequency, power=power, on_plan=on_plan, on_step=on_step)
    if path is not None:
        measuring.write_profile(path, profile)
    return profile


@checked
def compare_profiles(
    model: str,
    profiles: Sequence[str | Path],
    shape: str | None = None,
    *,
    batch: int = 50,
    overrides: Sequence[str] = (),
    out: str | Path | None = None,
) -> "LayerShares":
    """Shares of a network's layers by both cost models and by hardware profiles; with `out` a figure as PNG."""
    from fedfloor.runs.shares import layer_shares

    path = _path(out)
    if path is not None:
        from fedfloor.runs.target import refuse_target

        if path.suffix != ".png":
            raise RunLogError(f"{path}: must end in .png, which is its format. Name it {path.stem or 'shares'}.png")
        refuse_target(path, None, example="shares.png")
    shares = layer_shares(model, shape, [Path(entry) for entry in profiles], batch=batch, overrides=overrides)
    if path is not None:
        from fedfloor.reports.shares import write_shares

        write_shares(shares, path)
    return shares


@checked
def holding(
    scenario: ScenarioSource,
    overrides: Sequence[str] = (),
    *,
    seed: int | None = None,
    data_dir: str | Path | None = None,
    own: bool = False,
) -> "HoldingTable":
    """Who holds what: for every device its floor, the samples it asks for, and those it gets of every class."""
    from fedfloor.runs.trust import refuse_code
    from fedfloor.training.data.holding import gather

    resolved = load(scenario, overrides, seed=seed, own=own)
    refuse_code(resolved, "data", file=scenario, own=own, overrides=overrides)
    return gather(resolved, _path(data_dir)).table()


@checked
def fetch_data(
    name: str, data_dir: str | Path | None = None, *, on_progress: "Progress | None" = None
) -> "tuple[Fetched, ...]":
    """Download the official files of a data set; an interrupted download continues."""
    from fedfloor.training.data.fetching import fetch

    return fetch(name, _path(data_dir), on_progress=on_progress)


@checked
def verify_data(name: str, data_dir: str | Path | None = None) -> "Verified":
    """Read a data set as training would, and compare its files with the official ones."""
    from fedfloor.training.data.fetching import verify

    return verify(name, _path(data_dir))


# Real machines


@checked
def make_certificates(
    folder: str | Path,
    scenario: ScenarioSource | None,
    *,
    hosts: Sequence[str] = (),
    days: int = 365,
    ca_days: int = 3650,
    overrides: Sequence[str] = (),
    own: bool = False,
) -> "tuple[Issued, ...]":
    """Make the CA of a plant in a folder, with certificates for everybody in the scenario unless that is None.

    The base station is called `base-station`. `hosts` are texts NAME=HOST, for the base station and gateways. Needs
    the extra 'deploy', as all functions of certificates do.
    """
    with _needing_deploy():
        from fedfloor.deploy import authority
    parties = [] if scenario is None else authority.parties_of(load(scenario, overrides, own=own))
    by_name = authority.hosts_by_name(hosts)
    return authority.make_authority(Path(folder), parties, hosts=by_name, days=days, ca_days=ca_days)


@checked
def issue_certificate(
    folder: str | Path, role: str, name: str, *, hosts: Sequence[str] = (), days: int = 365
) -> "Issued":
    """Issue the first certificate of a `server`, `gateway` or `device`; `hosts` are what others dial."""
    with _needing_deploy():
        from fedfloor.deploy import authority
        from fedfloor.deploy.certificates import role_of
    return authority.issue(Path(folder), role_of(role), name, hosts=hosts, days=days)


@checked
def issue_certificates(
    folder: str | Path,
    scenario: ScenarioSource,
    *,
    hosts: Sequence[str] = (),
    days: int = 365,
    overrides: Sequence[str] = (),
    own: bool = False,
) -> "tuple[Issued, ...]":
    """Issue certificates for everybody in a scenario who has none; see `make_certificates`."""
    with _needing_deploy():
        from fedfloor.deploy import authority
    parties = authority.parties_of(load(scenario, overrides, own=own))
    return authority.issue_missing(Path(folder), parties, hosts=authority.hosts_by_name(hosts), days=days)


@checked
def renew_certificate(
    folder: str | Path,
    name: str,
    *,
    role: str | None = None,
    hosts: Sequence[str] = (),
    days: int = 365,
    same_key: bool = False,
) -> "Issued":
    """Issue another certificate for a party; those before it stay valid until they expire or are revoked.

    `role` is needed only if a gateway and a device have the same name. Without `hosts`, they stay as they were.
    """
    with _needing_deploy():
        from fedfloor.deploy import authority
        from fedfloor.deploy.certificates import role_of
    chosen = None if role is None else role_of(role)
    return authority.renew(Path(folder), name, role=chosen, hosts=hosts, days=days, same_key=same_key)


@checked
def revoke_certificate(
    folder: str | Path, name: str, *, role: str | None = None, serial: str | None = None
) -> "tuple[Issued, ...]":
    """Revoke all certificates of a party, or the only one whose serial number begins with `serial`."""
    with _needing_deploy():
        from fedfloor.deploy import authority
        from fedfloor.deploy.certificates import role_of
    chosen = None if role is None else role_of(role)
    return authority.revoke(Path(folder), name, role=chosen, serial=serial or "")


@checked
def list_certificates(folder: str | Path) -> "Register":
    """The CA of a folder and all certificates that it has issued."""
    with _needing_deploy():
        from fedfloor.deploy import authority
    return authority.listed(Path(folder))


# Real machines


@checked
def serve(
    planned: PlannedRun,
    options: ServerOptions,
    *,
    on_event: Tell = silent,
    on_listening: Callable[[int], None] = lambda _: None,
) -> "DeployedRun":
    """Run the base station of a plant of real machines, until the last round of a planned run has ended.

    `on_listening` is told the port on which gateways can join. Needs the extra 'deploy'.
    """
    refuse_other("planned", planned, PlannedRun, "`plan_runs` returns them")
    refuse_other("options", options, ServerOptions, "Make them with ServerOptions(...)")
    with _needing_deploy():
        from fedfloor.deploy.commands import run_server
    return run_server(planned, options, tell=on_event, on_listening=on_listening)


@checked
def serve_floor(options: GatewayOptions, *, on_listening: Callable[[int], None] = lambda _: None) -> None:
    """Run the gateway of a floor until it is stopped; `on_listening` is told the port on which devices can join."""
    refuse_other("options", options, GatewayOptions, "Make them with GatewayOptions(...)")
    with _needing_deploy():
        from fedfloor.deploy.commands import run_gateway
    run_gateway(options, on_listening=on_listening)


@checked
def serve_here(
    planned: PlannedRun, options: LocalOptions, *, own: bool = False, on_event: Tell = silent
) -> "DeployedRun":
    """Run a planned run on a plant of processes of this machine, over mutual TLS. Needs the extra 'deploy'."""
    refuse_other("planned", planned, PlannedRun, "`plan_runs` returns them")
    refuse_other("options", options, LocalOptions, "Make them with LocalOptions(...)")
    with _needing_deploy():
        from fedfloor.deploy.local import run_local
    return run_local(planned, options, own=own, tell=on_event)


@checked
def serve_devices(options: DeviceOptions) -> None:
    """Run one device, or several in this process, until they are stopped."""
    refuse_other("options", options, DeviceOptions, "Make them with DeviceOptions(...)")
    with _needing_deploy():
        from fedfloor.deploy.commands import run_devices
    run_devices(options)


@contextmanager
def _needing_deploy() -> Iterator[None]:
    """Import what deals with certificates in this block."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError("certificates", "deploy") from error


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _given(name: str, path: str | Path) -> Path:
    """The path that an argument names, which may be something else than a path in other calls."""
    problem = path_problem(path)
    if problem:
        raise RunLogError(f"{name}: {problem}")
    return Path(path)
