"""`fedfloor simulate`: rounds of scheduling on the simulated plant, without training."""

__all__ = ["Run", "simulate_planned"]

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedfloor.arguments import checked, refuse_other
from fedfloor.errors import counted
from fedfloor.rounds.events import Event
from fedfloor.rounds.outcome import Seconds
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.rounds.record import RoundRecord, TimingRecord
from fedfloor.rounds.recording import timing_of
from fedfloor.rounds.summary import RunSummary, Tally
from fedfloor.runs.copies import copies_of, folder_toml
from fedfloor.runs.driving import claimed_folder, drive
from fedfloor.runs.folder import read_records
from fedfloor.runs.planned import PlannedRun
from fedfloor.runs.shown import Shown, run_card
from fedfloor.scenario import Scenario
from fedfloor.scheduling.registry import PolicySpec, shown_name


@dataclass(frozen=True, eq=False)  # without slots, which leave no room for what is read once
class Run(Shown):
    """A finished simulation: its rounds as they are logged, and their wall-clock times."""

    scenario: Scenario
    policy: PolicySpec  #: with every setting filled in
    summary: RunSummary
    solve_times: "array[float]"  #: (T,) [s] wall clock of every decision
    folder: Path | None  #: where the log is, if one was asked for
    _kept: tuple[RoundRecord, ...] = ()  #: the rounds of a run without a folder

    @cached_property
    def records(self) -> tuple[RoundRecord, ...]:  # type: ignore[override]  # read-only, as a field would be
        """All rounds; those of a run with a folder are read from its log when they are first asked for."""
        return self._kept if self.folder is None else tuple(read_records(self.folder, self.summary.rounds))

    @cached_property
    def timings(self) -> tuple[TimingRecord, ...]:
        """Wall-clock times of all rounds; a simulation takes time only to decide."""
        return tuple(timing_of(index, seconds, Seconds()) for index, seconds in enumerate(self.solve_times))

    def __repr__(self) -> str:
        rounds = counted(self.summary.rounds, "round")
        return f"Run({self.scenario.name}, {shown_name(str(self.policy))}, {rounds}, folder={self.folder})"

    def _repr_html_(self) -> str:
        rounds = counted(self.summary.rounds, "simulated round")
        title = f"{self.scenario.name}, {shown_name(str(self.policy))}: {rounds}"
        return run_card(title, self.summary, self.records)


@checked
def simulate_planned(planned: PlannedRun, *, on_round: Callable[[RoundRecord], None] = lambda _: None) -> Run:
    """Simulate a planned run, logging to its folder round by round; without a folder its rounds are kept."""
    refuse_other("planned", planned, PlannedRun, "`plan_runs` returns them")
    scenario = planned.scenario
    plant = SimulatedPlant(scenario, simulated_rates(scenario))
    tally, solve_times, kept = Tally(), array("d"), list[RoundRecord]()

    def tell(event: Event) -> None:
        if event.record is not None:
            on_round(event.record)

    with claimed_folder(planned) as folder:
        if folder is not None:
            folder.begin(folder_toml(planned.file, scenario), copies=copies_of(scenario))
        for ended in drive(plant, planned, folder, tell=tell):
            tally.add(ended.record)
            solve_times.append(ended.timing.solve_s)
            if folder is None:
                kept.append(ended.record)
    return Run(scenario, planned.policy, tally.summary(), solve_times, planned.folder, tuple(kept))
