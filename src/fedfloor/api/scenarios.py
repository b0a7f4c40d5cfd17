"""Scenarios, networks and data."""

__all__ = [
    "ScenarioCheck",
    "check",
    "compare_profiles",
    "fetch_data",
    "holding",
    "listing",
    "measure",
    "profile",
    "scenario_schema",
    "starter_flower_app",
    "starter_scenario",
    "verify_data",
]

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from fedfloor.arguments import checked, path_or_none, path_problem
from fedfloor.errors import ProfileError, RunLogError
from fedfloor.notebooks.bars import Bar, bar
from fedfloor.runs.planned import ScenarioSource, label_of, load

if TYPE_CHECKING:
    from fedfloor.costs.hardware import HardwareProfile
    from fedfloor.costs.headline import Headline
    from fedfloor.runs.profile import Profile
    from fedfloor.runs.shares import LayerShares
    from fedfloor.scenario import Scenario
    from fedfloor.training.data.fetching import Fetched, Progress, Verified
    from fedfloor.training.data.holding import HoldingTable, ShortageTable
    from fedfloor.training.data.verifying import VerifiedData


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

    resolved, label = load(scenario, overrides, seed=seed, own=own), label_of(scenario)
    refuse_code(resolved, "policy", "aggregation", file=label, own=own, overrides=overrides)
    climate_of(resolved)  # reads the traces
    make_policy(PolicySpec.of(resolved.policy), label)
    make_rule(resolved.aggregation, label)
    return ScenarioCheck(resolved, headline(resolved), shortage_of(resolved, path_or_none(data_dir)))


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


@checked
def starter_scenario(preset: str | None = None) -> str:
    """The commented scenario that `fedfloor init` writes; with `preset`, that preset with comments for its keys."""
    from fedfloor.scenario import starter

    return starter(preset)


@checked
def starter_flower_app(name: str) -> dict[Path, str]:
    """The files of the Flower app that `fedfloor flower new` writes, by their paths in the folder of the app."""
    from fedfloor.flower.writing import app_files

    return app_files(name)


def scenario_schema() -> object:
    """The JSON schema of a scenario file."""
    from fedfloor.scenario.schema import scenario_schema as schema

    return schema()


@checked
def profile(
    model: str | None = None,
    shape: str | None = None,
    *,
    scenario: ScenarioSource | None = None,
    batch: int = 50,
    costs: str | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
) -> "Profile":
    """FLOPs and bytes of every layer of a network, or of that of a scenario, and the totals for every cut.

    `costs` is `exact` or `paper`; left out, what the scenario says, or `exact`. A network, and a scenario without a
    layer list, need the extra 'train'.
    """
    from fedfloor.runs import profile as profiling

    _refuse_both(model, scenario)
    if scenario is None:
        return profiling.profile(str(model), shape, batch=batch, costs=costs or "exact", overrides=overrides)
    resolved = load(scenario, overrides, own=own)
    chosen = costs or resolved.costs.model
    return profiling.profile_layers(resolved.model.name, resolved.layers, batch=batch, costs=chosen)


def _refuse_both(model: str | None, scenario: ScenarioSource | None) -> None:
    if (model is None) == (scenario is None):
        raise ProfileError("profile: must be given either a model or a scenario. Give one of them")


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
    progress: bool = False,
    on_plan: Callable[[int], None] = lambda _: None,
    on_step: Callable[[], None] = lambda: None,
) -> "HardwareProfile":
    """Time every layer of a network on this machine, or of the network of a scenario. Needs the extra 'train'.

    Without `batches`, 10 and 50 are measured, or some of the batches that the scenario's devices use. `frequency` [Hz]
    is needed where the machine does not say it. `power` is a number of watts, a file with one reading per line, or
    `rapl`. With `out` the hardware profile is written there.
    """
    from fedfloor.runs import measure as measuring

    _refuse_both(model, scenario)
    path = path_or_none(out)
    if path is not None:
        measuring.refuse_profile_file(path)
    if scenario is not None:
        target = measuring.scenario_target(scenario, batches, overrides, own=own)
    else:
        target = measuring.model_target(str(model), shape, batches or (10, 50), overrides)
    with ExitStack() as stack:
        done, bars = count(1), list[Bar]()

        def plan(steps: int) -> None:
            bars.append(stack.enter_context(bar(target.model.name, steps, progress=progress)))
            on_plan(steps)

        def step() -> None:
            bars[0].show(next(done))
            on_step()

        profile = measuring.measured_profile(target, frequency=frequency, power=power, on_plan=plan, on_step=step)
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

    path = path_or_none(out)
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
    on_step: Callable[[str], None] = lambda _: None,
) -> "HoldingTable":
    """Who holds what: for every device its floor, the samples it asks for, and those it gets of every class.

    `on_step` is told how many files have been read.
    """
    from fedfloor.runs.trust import refuse_code
    from fedfloor.training.data.holding import gather

    resolved = load(scenario, overrides, seed=seed, own=own)
    refuse_code(resolved, "data", file=label_of(scenario), own=own, overrides=overrides)
    return gather(resolved, path_or_none(data_dir), on_step=on_step).table()


@checked
def fetch_data(
    name: str, data_dir: str | Path | None = None, *, on_progress: "Progress | None" = None
) -> "tuple[Fetched, ...]":
    """Download the official files of a data set; an interrupted download continues."""
    from fedfloor.training.data.fetching import fetch

    return fetch(name, path_or_none(data_dir), on_progress=on_progress)


@checked
def verify_data(
    scenario: ScenarioSource,
    data_dir: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    own: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> "Verified | VerifiedData":
    """Read the data of a scenario, or a data set if this is the name of one, as training would.

    The files of a data set are compared with the official ones. Of a scenario with files of its own, every file is read
    by itself, and `files` says what is wrong with each of them. `on_step` is told how many have been read.
    """
    from fedfloor.training.data.fetching import verify

    folder = path_or_none(data_dir)
    if isinstance(scenario, str) and not _is_scenario(scenario):
        return verify(scenario, folder)
    from fedfloor.runs.trust import refuse_code

    resolved = load(scenario, overrides, own=own)
    if resolved.data.kind == "built-in":
        return verify(resolved.data.name, folder)
    refuse_code(resolved, "data", file=label_of(scenario), own=own, overrides=overrides)
    from fedfloor.training.data.verifying import verify_scenario

    return verify_scenario(resolved, folder, on_step=on_step)


def _is_scenario(name: str) -> bool:
    """Whether a name is that of a scenario rather than that of a data set."""
    from fedfloor.scenario import preset_names
    from fedfloor.scenario.catalogue import DATASETS

    is_file = name.endswith(".toml") or (not path_problem(name) and Path(name).is_file())
    return name not in DATASETS and (is_file or name in preset_names())
