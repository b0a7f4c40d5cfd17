"""From the name of a scenario to runs that are ready to start: everything is checked before anything begins."""

__all__ = [
    "PlannedRun",
    "ScenarioSource",
    "as_begun",
    "label_of",
    "load",
    "planned_run",
    "refuse_long_folder",
    "refuse_unnamed",
    "resolve",
    "with_every_checkpoint",
    "with_folders",
]

import copy
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from fedfloor.arguments import checked
from fedfloor.errors import FedfloorError, MissingExtraError, PolicyError, ScenarioError, named, shown
from fedfloor.runs.folder import SCENARIO, refuse_filled, refuse_other_runs, runs_below
from fedfloor.runs.profile import inferred_layers
from fedfloor.runs.trust import refuse_code
from fedfloor.scenario import (
    Origin,
    Scenario,
    ScenarioFile,
    build,
    expand,
    parse,
    read_table,
    section_table,
    table_from,
    with_layers,
    with_overrides,
)
from fedfloor.scenario.file import Policy
from fedfloor.scenario.reading import TomlTable
from fedfloor.scenario.resolved import DERIVED
from fedfloor.scenario.section import Section
from fedfloor.scheduling.objects import PolicySource, name_policy
from fedfloor.scheduling.registry import PolicySpec, make_policy, parse_policy, shown_name, with_tradeoff_of
from fedfloor.scheduling.state import Scheduler
from fedfloor.scheduling.traits import first_delay, needs_training, tradeoff_of
from fedfloor.training.aggregation.registry import make_rule

#: a TOML file, the name of a preset, a table with the keys of a file, or what `load` returns
ScenarioSource: TypeAlias = str | Path | Mapping[str, object] | Scenario

_TABLE = "scenario"  #: names a scenario in messages that is a table

_LONGEST_FOLDER = 255  #: bytes, on all common file systems


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
    unnamed: str = ""  #: why the policy, an object, cannot be made again from its name; empty if it can

    @property
    def label(self) -> str:
        """The name of the policy that people see."""
        return shown_name(str(self.policy))

    @property
    def first_delay(self) -> str:
        """What takes long before the first decision; empty if nothing does."""
        return first_delay(self.scheduler)


def label_of(source: ScenarioSource) -> str:
    """How messages name a scenario."""
    if isinstance(source, Scenario):
        return _TABLE if source.origin is None else source.origin.label
    return str(source) if isinstance(source, str | Path) else _TABLE


@contextmanager
def _blaming(source: ScenarioSource, overrides: Sequence[str]) -> Iterator[None]:
    """Let errors about a value that an override has set name the override, and not the file."""
    try:
        yield
    except MissingExtraError:
        raise
    except FedfloorError as error:
        place = str(error).removeprefix(f"{label_of(source)}: ")
        for override in reversed(overrides):
            if place != str(error) and _is_about(override.partition("=")[0].strip(), place):
                raise type(error)(f"setting {named(override)}: {place}") from None
        raise


def _is_about(key: str, place: str) -> bool:
    """Whether a message that begins with a place in a scenario is about this key, or about what is below it."""
    path = re.escape(re.sub(r"\.(\d+)", r"[\1]", key))
    section, _, setting = key.partition(".settings.")
    below = rf"{re.escape(section)}\.settings of [^:]*(:[^:]*)?: (unknown setting ')?{re.escape(setting)}\b"
    return re.match(rf"{path}[.:\[ ]", place) is not None or (bool(setting) and re.match(below, place) is not None)


def resolve(
    source: ScenarioSource,
    overrides: Sequence[str] = (),
    *,
    seed: int | None = None,
    rounds: int | None = None,
    own: bool = False,
) -> ScenarioFile:
    """A scenario with every group, distribution and layer settled, still in the reader's units.

    `overrides` are strings of the form `section.key=value`. `own` allows the scenario to name the code of a model,
    which is called if there is no layer list.
    """
    with _blaming(source, overrides):
        return _resolved(source, overrides, seed=seed, rounds=rounds, own=own)[0]


def _resolved(
    source: ScenarioSource, overrides: Sequence[str], *, seed: int | None, rounds: int | None, own: bool
) -> tuple[ScenarioFile, Origin]:
    """A settled scenario, and what it is resolved from."""
    table, label = _table_of(source), label_of(source)
    chosen = {key: value for key, value in (("seed", seed), ("rounds", rounds)) if value is not None}
    table = with_overrides(table, [*overrides, *(f"{key}={value}" for key, value in chosen.items())])
    file = expand(parse(table, label), label)
    traces = {kind: str((Path(label).parent / path).absolute()) for kind, path in file.traces if path is not None}
    model = file.model
    if model.layers is None:
        refuse_code(file, "model", file=label, own=own, overrides=overrides)
        model = with_layers(model, inferred_layers(model, file.costs, label), label)
        table = {**table, "model": section_table(model)}
    data, located = file.data.located(Path(label).parent), file.traces.model_copy(update=traces)
    return file.model_copy(update={"model": model, "data": data, "traces": located}), Origin(table, label)


def _table_of(source: ScenarioSource) -> TomlTable:
    """The table of a scenario, which may be changed."""
    if isinstance(source, str | Path):
        return read_table(source)
    if isinstance(source, Scenario):
        return _table_again(source)
    if isinstance(source, Mapping):
        return table_from(source, _TABLE)
    raise ScenarioError(f"scenario: must be a path or a preset's name, a dict or a Scenario, got {shown(source)}")


def _table_again(scenario: Scenario) -> TomlTable:
    """The table that a scenario was resolved from, with the sections that were replaced since."""
    if scenario.origin is None:
        raise ScenarioError("scenario: was not loaded from a file or a dict. Give what `fedfloor.load` returns")
    if scenario.changed:
        problem = f"scenario: {scenario.changed[0]}: was changed after loading"
        raise ScenarioError(f"{problem}. Change it with overrides, or in the file or the dict that is loaded")
    table: TomlTable = {**copy.deepcopy(dict(scenario.origin.table))}
    before = parse(table, scenario.origin.label)
    for key in Scenario.model_fields:
        value = None if key in DERIVED else getattr(scenario, key)
        if value is not None and value != getattr(before, key):
            table[key] = section_table(value) if isinstance(value, Section) else value
    return table


@checked
def load(
    scenario: ScenarioSource,
    overrides: Sequence[str] = (),
    *,
    seed: int | None = None,
    rounds: int | None = None,
    own: bool = False,
) -> Scenario:
    """A scenario in SI units: of a TOML file, a preset, a dict with the keys of a file, or another scenario.

    Every function that takes a scenario takes all of these. `own=True` says that you trust the code that the scenario
    names.

    Examples
    --------
    >>> import fedfloor
    >>> scenario = fedfloor.load("paper-cifar10", ["radio.channels=2"])
    >>> scenario.radio.channels, len(scenario.devices)
    (2, 12)
    """
    with _blaming(scenario, overrides):
        file, origin = _resolved(scenario, overrides, seed=seed, rounds=rounds, own=own)
        return build(file, origin.label).resolved_from(origin)


def planned_run(
    scenario: ScenarioSource,
    policy: PolicySource | None = None,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    training: bool = False,
    losses: bool = False,
) -> PlannedRun:
    """A run of a scenario with a policy, or with the scenario's own; without a folder yet.

    `training` says that the scenario's network is trained, `losses` that others train and report their losses.
    """
    with _blaming(scenario, overrides):
        file, origin = _resolved(scenario, overrides, seed=seed, rounds=rounds, own=own)
        label = origin.label
        resolved = build(file, label).resolved_from(origin)
        if policy is None:
            refuse_code(file, "policy", file=label, own=own, overrides=overrides)
        if training:
            refuse_code(file, "model", "data", "aggregation", file=label, own=own, overrides=overrides)
        if training or ":" not in resolved.aggregation.rule:
            make_rule(resolved.aggregation, label)  # a wrong one is refused before anything is read or written
        run = _decided_by(policy, file, resolved, label)
    if needs_training(run.scheduler) and not (training or losses):
        problem = "needs training, which a simulation does not do"
        advice = "Choose another policy, or train with `fedfloor run`"
        raise PolicyError(f"policy {shown(str(run.policy))}: {problem}. {advice}")
    return run


def _decided_by(policy: PolicySource | None, file: ScenarioFile, scenario: Scenario, label: str) -> PlannedRun:
    """The run of a scenario with its own policy if there is no other, one that is named, or an object."""
    scenarios = PolicySpec.of(scenario.policy)
    if policy is None:
        spec, scheduler = make_policy(scenarios, label)
        return _with_policy(PlannedRun(file, scenario, spec, scheduler), spec, scheduler)
    if not isinstance(policy, str):
        named = name_policy(policy)
        return _with_policy(PlannedRun(file, scenario, named.spec, policy, unnamed=named.unnamed), named.spec, policy)
    given = parse_policy(policy)
    chosen = with_tradeoff_of(given, scenarios)
    spec, scheduler = make_policy(chosen, given=policy)
    run = _with_policy(PlannedRun(file, scenario, spec, scheduler), spec, scheduler)
    if chosen == given:
        return run
    return replace(run, named=given, remark=f"{given}: V is {_number(scheduler)}, as in the scenario")


def refuse_unnamed(run: PlannedRun) -> None:
    """Refuse to resume a run with a policy object that cannot be made again from the name in its folder."""
    if run.unnamed:
        problem = f"policy {shown(str(run.policy))}: a run with this object cannot be resumed or compared"
        raise PolicyError(f"{problem}: {run.unnamed.rstrip('.')}. Or use `simulate`, or `run` without resume")


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


def with_every_checkpoint(planned: PlannedRun) -> PlannedRun:
    """The run with a checkpoint after every round, as rounds of real machines take long."""
    training = planned.scenario.training.model_copy(update={"checkpoint_every": 1})
    return replace(planned, scenario=planned.scenario.model_copy(update={"training": training}))


def with_folders(
    runs: Sequence[PlannedRun], out: Path | None, *, resume: bool = False, nested: bool = False
) -> list[PlannedRun]:
    """The runs with their folders: `runs/<scenario>-<policy>-<seed>`, or `out`; several runs get one each below it.

    All folders are checked before the first run starts. With `nested` a single run lies below `out` too. A run to
    resume that an older version began may lie under the name with every setting of its policy, or have the default V
    of its policy in place of the scenario's.
    """
    if resume:
        for run in runs:
            refuse_unnamed(run)
    base = Path("runs") if out is None else out
    if out is not None and len(runs) == 1 and not nested:
        runs, folders = [as_begun(runs[0], out) if resume else runs[0]], [out]
    else:
        found = [_found(run, runs_below(base) if resume else []) for run in runs]
        runs, folders = [run for run, _ in found], [base / name for _, name in found]
    for index, folder in enumerate(folders):
        advice = (
            "Name a folder for it" if len(runs) == 1 and not nested else "Run it by itself, in a folder that you name"
        )
        refuse_long_folder(folder.name, runs[index].policy, advice)
        if folder in folders[:index]:
            raise PolicyError(f"policy {shown(str(runs[index].policy))}: is given twice. Leave one out")
        if not resume:
            refuse_filled(folder)
        elif not nested:
            refuse_other_runs(folder)
    return [replace(run, folder=folder) for run, folder in zip(runs, folders, strict=True)]


def refuse_long_folder(name: str, policy: PolicySpec, advice: str) -> None:
    """Refuse a name of a folder that no common file system can store, because of the settings of a policy."""
    length = len(os.fsencode(name))
    if length > _LONGEST_FOLDER:
        problem = f"its settings make a folder name of {length} bytes, at most {_LONGEST_FOLDER} are possible"
        raise PolicyError(f"policy {shown(str(policy))}: {problem}. {advice}")


def _found(run: PlannedRun, present: Sequence[str]) -> tuple[PlannedRun, str]:
    """The run, and the name of its folder: one that is present under a name of an older version, or its own."""
    for begun in (run, _as_older_versions(run)):
        for slug in (begun.policy.slug, begun.policy.long_slug):
            name = f"{begun.scenario.name}-{slug}-{begun.scenario.seed}"
            if name in present:
                return begun, name
    return run, f"{run.scenario.name}-{run.policy.slug}-{run.scenario.seed}"
