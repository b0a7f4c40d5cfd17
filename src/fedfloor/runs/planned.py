"""From a scenario's name to a run that is ready to start: everything is checked before anything is begun."""

__all__ = ["Prepared", "check_engine", "load", "prepare", "resolve", "run_folders"]

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedfloor.errors import PolicyError, ScenarioError
from fedfloor.runs.profile import inferred_layers
from fedfloor.runs.folder import refuse_filled, refuse_other_runs
from fedfloor.scenario import Scenario, ScenarioFile, build, expand, with_layers
from fedfloor.scenario import read as read_scenario
from fedfloor.scenario.file import Policy
from fedfloor.scheduling.registry import PolicySpec, make_policy, parse_policy
from fedfloor.scheduling.state import Scheduler


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A simulation that is ready to start."""

    file: ScenarioFile  #: resolved, in the reader's units
    scenario: Scenario  #: the same in SI units
    policy: PolicySpec
    scheduler: Scheduler


def resolve(
    source: str | Path, overrides: Sequence[str] = (), *, seed: int | None = None, rounds: int | None = None
) -> ScenarioFile:
    """A scenario with every group, distribution and layer settled, still in the reader's units.

    `source` is a TOML file or a preset's name; `overrides` are `section.key=value`.
    """
    if not isinstance(source, str | Path):
        raise ScenarioError(f"scenario: must be a path or a preset's name, got a {type(source).__name__}")
    label = str(source)
    chosen = {key: value for key, value in (("seed", seed), ("rounds", rounds)) if value is not None}
    file = expand(read_scenario(source, [*overrides, *(f"{key}={value}" for key, value in chosen.items())]), label)
    traces = {kind: str((Path(label).parent / path).absolute()) for kind, path in file.traces if path is not None}
    model = file.model
    if model.layers is None:
        model = with_layers(model, inferred_layers(model, file.costs, label), label)
    settled = {
        "model": model,
        "traces": file.traces.model_copy(update=traces),
    }
    return file.model_copy(update=settled)


def load(
    scenario: str | Path, overrides: Sequence[str] = (), *, seed: int | None = None, rounds: int | None = None
) -> Scenario:
    """The plant of a scenario in SI units.

    Examples
    --------
    >>> import fedfloor
    >>> plant = fedfloor.load("paper-cifar10", ["radio.channels=2"])
    >>> plant.radio.channels, len(plant.devices)
    (2, 12)
    """
    return build(resolve(scenario, overrides, seed=seed, rounds=rounds), str(scenario))


def prepare(
    scenario: str | Path,
    policy: str | None = None,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    training: bool = False,
) -> Prepared:
    """Everything a simulation or a training run needs, checked, before it starts."""
    file = resolve(scenario, overrides, seed=seed, rounds=rounds)
    plant = build(file, str(scenario))
    if policy is not None and not isinstance(policy, str):
        raise PolicyError(f"policy: must be NAME[:key=value,...], got a {type(policy).__name__}")
    spec = (
        parse_policy(policy)
        if policy is not None
        else PolicySpec(plant.policy.name, tuple(plant.policy.settings.items()))
    )
    spec, scheduler = make_policy(spec)
    file = file.model_copy(update={"policy": Policy(name=spec.name, settings=dict(spec.settings))})
    if getattr(scheduler, "needs_training", False) and not training:
        raise PolicyError(f"policy '{spec}': needs training, which a simulation does not do. Choose another one")
    return Prepared(file, plant.model_copy(update={"policy": file.policy}), spec, scheduler)


def run_folders(
    planned: Sequence[Prepared], out: Path | None, *, resume: bool = False, nested: bool = False
) -> list[Path]:
    """Folders of runs: `runs/<scenario>-<policy>-<seed>`, or what --out says; with several runs one below it for each.

    All of them are checked before the first run starts. Nested ones lie below --out even if there is one only.
    """
    named = [f"{run.scenario.name}-{run.policy.slug}-{run.scenario.seed}" for run in planned]
    base = Path("runs") if out is None else out
    folders = [out] if out is not None and len(planned) == 1 and not nested else [base / name for name in named]
    for index, folder in enumerate(folders):
        if folder in folders[:index]:
            raise PolicyError(f"policy '{planned[index].policy}': is given twice. Leave one out")
        if not resume:
            refuse_filled(folder)
        elif not nested:
            refuse_other_runs(folder)
    return folders


def check_engine(engine: str, ray_address: str | None, workers: int | None) -> None:
    """Refuse an engine that there is not, or an address or number that does not go with it."""
    if engine not in ("local", "ray"):
        raise ScenarioError(f"engine: must be local or ray, got '{engine}'")
    if ray_address is not None and engine != "ray":
        raise ScenarioError(f"ray_address: goes with engine ray, got '{ray_address}'. Name the engine, or leave it out")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise ScenarioError(f"workers: must be a whole number >= 1, got {workers}")
