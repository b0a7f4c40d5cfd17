"""`fedfloor simulate`: rounds of scheduling on the simulated plant, without training."""

__all__ = ["Run", "simulate_planned"]

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedfloor.rounds.events import Event
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.rounds.record import RoundRecord, TimingRecord
from fedfloor.runs.driving import claimed_folder, drive
from fedfloor.runs.planned import PlannedRun
from fedfloor.scenario import Scenario, resolved_toml
from fedfloor.scheduling.registry import PolicySpec


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A finished simulation: its rounds as they are logged, and their wall-clock times."""

    scenario: Scenario
    policy: PolicySpec  #: with every setting filled in
    records: tuple[RoundRecord, ...]
    timings: tuple[TimingRecord, ...]
    folder: Path | None  #: where the log is, if one was asked for

    def __repr__(self) -> str:
        return f"Run({self.scenario.name}, {self.policy}, {len(self.records)} rounds, folder={self.folder})"


def simulate_planned(planned: PlannedRun, *, on_round: Callable[[RoundRecord], None] = lambda _: None) -> Run:
    """Simulate a planned run, logging to its folder round by round."""
    scenario = planned.scenario
    plant = SimulatedPlant(scenario, simulated_rates(scenario))

    def tell(event: Event) -> None:
        if event.record is not None:
            on_round(event.record)

    with claimed_folder(planned) as folder:
        if folder is not None:
            folder.begin(resolved_toml(planned.file))
        driven = drive(plant, planned, folder, tell=tell)
    return Run(scenario, planned.policy, driven.records, driven.timings, planned.folder)
