"""From the name of a scenario to runs that are ready to start: everything is checked before anything begins."""

__all__ = ["PlannedRun", "ScenarioSource", "as_begun", "load", "planned_run", "resolve", "with_folders"]

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from fedfloor.arguments import checked
from fedfloor.errors import PolicyError, ScenarioError, shown
from fedfloor.runs.folder import SCENARIO, refuse_filled, refuse_other_runs, runs_below
from fedfloor.runs.profile import inferred_layers
from fedfloor.runs.trust import refuse_code
from fedfloor.scenario import Scenario, ScenarioFile, build, expand, with_layers
from fedfloor.scenario import read as read_scenario
from fedfloor.scenario.file import Policy
from fedfloor.scheduling.registry import PolicySpec, make_policy, parse_policy, short_name, with_tradeoff_of
from fedfloor.scheduling.state import Scheduler
from fedfloor.scheduling.traits import first_delay, needs_training, tradeoff_of
from fedfloor.training.aggregation.registry import make_rule

ScenarioSource: TypeAlias = str | Path

_LONGEST_FOLDER = 255  #: characters, on all common file systems


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRun:
    """A run that is ready to start."""

    file: ScenarioFile  #: resolved, in the reader's units
    scenario: Scenario  #: the same in SI units
    policy: PolicySpec  #: with every setting filled in
    scheduler: Scheduler
    folder: Path | None = None  #: where its log goes; None for nowhere
    named: PolicySpec | None = None  #: the policy as it was named, if it has the V of the scenario
    remark: str = ""  #: where V comes from, if the policy was named without one

    @property
    def label(self) -> str:
        """The policy without settings that are its defaults."""
        return short_name(self.policy)

    @property
    def first_delay(self) -> str:
        """What takes long before the first decision; empty if nothing does."""
        return first_delay(self.scheduler)


def resolve(
    source: ScenarioSource,
    overrides: Sequence[str] = (),
    *,
    seed: int | None = None,
    rounds: int | None = None,
    own: bool = False,
) -> ScenarioFile:
    """A scenario with every group, distribution and layer settled, still in the reader's units.

    `source` is a TOML file or a preset's name; `overrides` are strings of the form `section.key=value`. `own` allows
    the file to name the code of a model, which is called if the file has no layer list.
    """
    if not isinstance(source, str | Path):
        raise ScenarioError(f"scenario: must be a path or a preset's name, got {shown(source)}")
    label = str(source)
    chosen = {key: value for key, value in (("seed", seed), ("rounds", rounds)) if value is not None}
    file = expand(read_scenario(source, [*overrides, *(f"{key}={value}" for key, value in chosen.items())]), label)
    traces = {kind: str((Path(label).parent / path).absolute()) for kind, path in file.traces if path is not None}
    model = file.model
    if model.layers is None:
        refuse_code(file, "model", file=source, own=own, overrides=overrides)
        model = with_layers(model, inferred_layers(model, file.costs, label), label)
    data = file.data.located(Path(label).parent)
    return file.model_copy(update={"model": model, "data": data, "traces": file.traces.model_copy(update=traces)})


@checked
def load(
    scenario: ScenarioSource,
    overrides: Sequence[str] = (),
    *,
    seed: int | None = None,
    rounds: int | None = None,
    own: bool = False,
) -> Scenario:
    """A scenario in SI units; `own=True` says that you trust the code that its file names, as in every function.

    Examples
    --------
    >>> import fedfloor
    >>> scenario = fedfloor.load("paper-cifar10", ["radio.channels=2"])
    >>> scenario.radio.channels, len(scenario.devices)
    (2, 12)
    """
    return build(resolve(scenario, overrides, seed=seed, rounds=rounds, own=own), str(scenario))


def planned_run(
    scenario: ScenarioSource,
    policy: str | None = None,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    training: bool = False,
) -> PlannedRun:
    """A run of a scenario with a policy, or with the scenario's own; without a folder yet."""
    file = resolve(scenario, overrides, seed=seed, rounds=rounds, own=own)
    resolved = build(file, str(scenario))
    if policy is None:
        refuse_code(file, "policy", file=scenario, own=own, overrides=overrides)
    if training:
        refuse_code(file, "model", "data", "aggregation", file=scenario, own=own, overrides=overrides)
        make_rule(resolved.aggregation, scenario)  # a wrong one is refused before anything is read or written
    scenarios = PolicySpec.of(resolved.policy)
    named = scenarios if policy is None else parse_policy(policy)
    chosen = with_tradeoff_of(named, scenarios)
    spec, scheduler = make_policy(chosen)
    if needs_training(scheduler) and not training:
        problem = "needs training, which a simulation does not do"
        raise PolicyError(f"policy {shown(str(spec))}: {problem}. Choose another policy")
    run = _with_policy(PlannedRun(file, resolved, spec, scheduler), spec, scheduler)
    if chosen == named:
        return run
    return replace(run, named=named, remark=f"{named}: V is {_number(scheduler)}, as in the scenario")


def _with_policy(run: PlannedRun, spec: PolicySpec, scheduler: Scheduler) -> PlannedRun:
    """The run with a policy, which its scenario names too."""
    update = {"policy": Policy(name=spec.name, settings=dict(spec.settings))}
    file, scenario = run.file.model_copy(update=update), run.scenario.model_copy(update=update)
    return replace(run, file=file, scenario=scenario, policy=spec, scheduler=scheduler)


def _number(scheduler: Scheduler) -> str:
    return f"{tradeoff_of(scheduler):g}"


def _as_older_versions(run: PlannedRun) -> PlannedRun:
    """The run with the default V, which older versions took for a policy that is named without one."""
    if run.named is None:
        return run
    before = _with_policy(run, *make_policy(run.named))
    return replace(before, named=None, remark=f"{run.named}: V is {_number(before.scheduler)}, as when the run began")


def as_begun(run: PlannedRun, folder: Path) -> PlannedRun:
    """The run to resume in a folder: with the default V if an older version began it so."""
    before = _as_older_versions(run)
    try:
        policy = tomllib.loads((folder / SCENARIO).read_text(encoding="utf-8")).get("policy")
    except (OSError, ValueError, RecursionError):  # whoever resumes the run says what is wrong
        return run
    return before if policy == before.file.policy.model_dump() else run


def with_folders(
    runs: Sequence[PlannedRun], out: Path | None, *, resume: bool = False, nested: bool = False
) -> list[PlannedRun]:
    """The runs with their folders: `runs/<scenario>-<policy>-<seed>`, or `out`; several runs get one each below it.

    All folders are checked before the first run starts. With `nested` a single run lies below `out` too. A run to
    resume that an older version began may lie under the name with every setting of its policy, or have the default V
    of its policy in place of the scenario's.
    """
    base = Path("runs") if out is None else out
    if out is not None and len(runs) == 1 and not nested:
        runs, folders = [as_begun(runs[0], out) if resume else runs[0]], [out]
    else:
        found = [_found(run, runs_below(base) if resume else []) for run in runs]
        runs, folders = [run for run, _ in found], [base / name for _, name in found]
    for index, folder in enumerate(folders):
        if len(folder.name) > _LONGEST_FOLDER:
            problem = f"its settings make a folder name of {len(folder.name)} characters, at most {_LONGEST_FOLDER} are"
            advice = "Name a folder with --out" if len(runs) == 1 and not nested else "Run it by itself with --out"
            raise PolicyError(f"policy {shown(str(runs[index].policy))}: {problem} possible. {advice}")
        if folder in folders[:index]:
            raise PolicyError(f"policy {shown(str(runs[index].policy))}: is given twice. Leave one out")
        if not resume:
            refuse_filled(folder)
        elif not nested:
            refuse_other_runs(folder)
    return [replace(run, folder=folder) for run, folder in zip(runs, folders, strict=True)]


def _found(run: PlannedRun, present: Sequence[str]) -> tuple[PlannedRun, str]:
    """The run, and the name of its folder: one that is present under a name of an older version, or its own."""
    for begun in (run, _as_older_versions(run)):
        for slug in (begun.policy.slug, begun.policy.long_slug):
            name = f"{begun.scenario.name}-{slug}-{begun.scenario.seed}"
            if name in present:
                return begun, name
    return run, f"{run.scenario.name}-{run.policy.slug}-{run.scenario.seed}"
