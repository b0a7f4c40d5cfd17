"""The Python functions: same names, same defaults, same errors as the command line."""

__all__ = ["Run", "load", "read", "resolve", "simulate"]

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfloor.errors import MissingExtraError
from fedfloor.rounds import run_rounds
from fedfloor.runlog import Grain, RunFolder, columns_of, read_records, round_record
from fedfloor.scenario import Scenario, ScenarioFile, build, expand, resolved_toml
from fedfloor.scenario import read as read_scenario
from fedfloor.scenario.file import Model
from fedfloor.scheduling.registry import PolicySpec, make_policy, parse_policy
from fedfloor.simulation import SimulatedPlant, simulated_rates


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A finished run: its rounds as they are logged, and the wall-clock figures beside them."""

    scenario: Scenario
    policy: PolicySpec  #: with every setting filled in
    records: tuple[dict[str, Any], ...]
    timings: tuple[dict[str, Any], ...]
    folder: Path | None  #: where the log is, if one was asked for


def resolve(
    source: str | Path, overrides: Sequence[str] = (), *, seed: int | None = None, rounds: int | None = None
) -> ScenarioFile:
    """A scenario with every group, distribution and layer settled, still in the reader's units.

    `source` is a TOML file or a preset's name; `overrides` are `section.key=value`.
    """
    label = str(source)
    chosen = {key: value for key, value in (("seed", seed), ("rounds", rounds)) if value is not None}
    file = expand(read_scenario(source, [*overrides, *(f"{key}={value}" for key, value in chosen.items())]), label)
    traces = {kind: str((Path(label).parent / path).resolve()) for kind, path in file.traces if path is not None}
    model = file.model if file.model.layers is not None else _with_layers(file, label)
    return file.model_copy(update={"model": model, "traces": file.traces.model_copy(update=traces)})


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


def simulate(
    scenario: str | Path,
    policy: str | None = None,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    out: str | Path | None = None,
    on_round: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Run:
    """Rounds of scheduling on the simulated network, without training.

    `policy` is `NAME[:key=value,...]`, the scenario's own if not given; with `out` the run folder is written there.

    Examples
    --------
    >>> import fedfloor
    >>> run = fedfloor.simulate("quick", policy="round_robin", rounds=4)
    >>> fedfloor.read(run)["round"]
    [0, 1, 2, 3]
    """
    file = resolve(scenario, overrides, seed=seed, rounds=rounds)
    plant = build(file, str(scenario))
    spec = parse_policy(policy) if policy else PolicySpec(plant.policy.name, tuple(plant.policy.settings.items()))
    spec, scheduler = make_policy(spec)
    driver = SimulatedPlant(plant, simulated_rates(plant))
    folder = RunFolder.create(Path(out), resolved_toml(file)) if out is not None else None
    records, timings = [], []
    try:
        begun = time.perf_counter()
        for record in run_rounds(driver, scheduler, plant.rounds):
            entry = round_record(record, str(spec))
            timing = {"round": entry["round"], "round_s": time.perf_counter() - begun}
            records.append(entry)
            timings.append(timing)
            if folder is not None:
                folder.append(entry, timing)
            on_round(entry)
            begun = time.perf_counter()
    finally:
        if folder is not None:
            folder.close()
    return Run(plant, spec, tuple(records), tuple(timings), folder.path if folder is not None else None)


def read(run: Run | str | Path, per: Grain = "round") -> dict[str, list[Any]]:
    """A run's log as columns of equal length, ready for a data frame.

    `per` is the grain of a row: `round`, `gateway` or `device`.

    Examples
    --------
    >>> import fedfloor
    >>> columns = fedfloor.read(fedfloor.simulate("quick", rounds=3), per="gateway")
    >>> len(columns["energy_j"])  # 3 rounds x 6 floors
    18
    """
    return columns_of(run.records if isinstance(run, Run) else read_records(Path(run)), per)


def _with_layers(file: ScenarioFile, label: str) -> Model:
    """The scenario's model with the layer list that its network has."""
    try:
        from fedfloor.training.description import infer_layers  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(
            f"{label}: model.layers: inferring the layers of '{file.model.name}'", "train"
        ) from None
    return file.model.model_copy(update={"layers": infer_layers(file.model, file.costs)})
