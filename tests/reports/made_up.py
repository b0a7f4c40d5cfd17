"""Runs for tests of the report, made up so that answers can be worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import fedfloor
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.rounds.record import GatewayRecord, RoundRecord
from fedfloor.rounds.summary import summarise
from fedfloor.scenario import Scenario
from fedfloor.theory.bounds import Bound


def record(
    scenario: Scenario,
    index: int,
    *,
    policy: str,
    delay: float = 10.0,
    accuracy: float | None = None,
    selected: Sequence[bool] | None = None,
    failed: Sequence[int] = (),
    target: float = 0.5,
    energy: float = 5.0,
    loss: float | None = None,
    error: float | None = None,
) -> RoundRecord:
    """One round in which the selected floors complete, unless they fail for energy."""
    floors = scenario.floors
    chosen = [m < scenario.radio.channels for m in range(len(floors))] if selected is None else selected
    gateways = tuple(
        GatewayRecord(
            name=floor.name,
            selected=chosen[m],
            channel=0 if chosen[m] else None,
            completed=chosen[m] and m not in failed,
            failure="energy" if chosen[m] and m in failed else None,
            delay_s=delay if chosen[m] else 0.0,
            download_s=1.0 if chosen[m] else 0.0,
            train_s=2.0 if chosen[m] else 0.0,
            upload_s=delay - 3.0 if chosen[m] else 0.0,
            power_w=0.1 if chosen[m] else None,
            energy_j=energy if chosen[m] else 0.0,
            energy_budget_j=9.0,
            queue=0.0,
            target_rate=target,
            loss=loss,
        )
        for m, floor in enumerate(floors)
    )
    return RoundRecord(
        round=index,
        policy=policy,
        delay_s=delay,
        clock_s=delay * (index + 1),
        accuracy=accuracy,
        loss=1.0 if accuracy is not None else None if error is None else error**2,
        gateways=gateways,
    )


@cache
def _loaded(name: str, overrides: tuple[str, ...], seed: int) -> Scenario:
    return fedfloor.load(name, overrides, seed=seed)


def made_up(
    policy: str,
    seed: int = 1,
    *,
    name: str = "paper-cifar10",
    rounds: int = 10,
    of: int | None = None,
    accuracies: Sequence[float | None] = (),
    errors: Sequence[float | None] = (),
    variant: str = "",
    overrides: Sequence[str] = (),
    bounds: tuple[Bound, ...] | None = None,
    **values: Any,
) -> ReadRun:
    """A run whose rounds are all alike but for the accuracy, or for the error of a model that predicts numbers."""
    scenario = _loaded(name, tuple(overrides), seed).model_copy(update={"rounds": of or rounds})
    if errors:
        training = scenario.training.model_copy(update={"task": "regression"})
        scenario = scenario.model_copy(update={"training": training})
    tested = [[*part, *[None] * rounds][:rounds] for part in (accuracies, errors)]
    tests = [{"accuracy": accuracy, "error": error} for accuracy, error in zip(*tested, strict=True)]
    records = [record(scenario, t, policy=policy, **test, **values) for t, test in enumerate(tests)]
    folder = Path(f"{policy}-{seed}")
    return ReadRun(folder, scenario, policy, variant, tuple(records), summarise(records), None, bounds)


def gathered(*runs: ReadRun) -> Collection:
    """Runs as `collect` would hand them over."""
    labels = dict.fromkeys(run.label for run in runs)
    series = tuple(Series(label, tuple(run for run in runs if run.label == label)) for label in labels)
    return Collection(runs[0].scenario.name, series, (), ())


def real(run: ReadRun) -> ReadRun:
    """The same run as real machines would log it: with predictions beside its times."""
    records = [
        replace(entry, gateways=tuple(replace(floor, predicted_s=9.0) for floor in entry.gateways))
        for entry in run.records
    ]
    return replace(run, records=tuple(records))
