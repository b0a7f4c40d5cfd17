"""A plant made of random draws and the cost model."""

__all__ = ["SimulatedPlant", "carried_over", "simulated_outcome", "simulated_rates", "starting_rates"]

import dataclasses
from dataclasses import dataclass, field

import numpy as np
from pydantic import JsonValue

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.compute import round_delay
from fedfloor.costs.plant import PlantArrays, arrays_of
from fedfloor.rounds.outcome import Outcome
from fedfloor.rounds.plants.contract import PlantState, numbers_from
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.free import free_iterations
from fedfloor.scheduling.state import Allocation, Decision, RoundState, fixed_allocation
from fedfloor.scheduling.usage import usage_of
from fedfloor.theory.participation import uniform_rates
from fedfloor.weather.draws import Climate, Weather, climate_of


@dataclass(slots=True, eq=False)
class SimulatedPlant:
    """Keeps queues, batteries and the number of the round; everything else is drawn or computed."""

    scenario: Scenario
    target_rate: Floats  #: (M,) [1] Gamma_m
    queue: Floats = field(init=False)  #: (M,) [1] Q_m(t)
    index: int = 0
    gateway_level: Floats = field(init=False)  #: (M,) [J] carried over from the round before
    device_level: Floats = field(init=False)  #: (N,) [J]
    redraws_weather: bool = field(init=False, default=True)
    arrays: PlantArrays = field(init=False)  #: of the scenario's plant, the same in every round
    _climate: Climate = field(init=False)
    _gateway_capacity: Floats = field(init=False)  #: (M,) [J] of batteries; 0 without one
    _device_capacity: Floats = field(init=False)  #: (N,) [J]
    _state: RoundState | None = field(init=False, default=None)
    _outcome: Outcome | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.queue = np.zeros(len(self.scenario.floors))
        self.gateway_level = np.zeros(len(self.scenario.floors))
        self.device_level = np.zeros(len(self.scenario.devices))
        self.arrays = arrays_of(self.scenario)
        self._climate = climate_of(self.scenario)
        self._gateway_capacity = np.array(self.scenario.battery.gateway_capacity)
        self._device_capacity = np.array(self.scenario.battery.device_capacity)

    def observe(self) -> RoundState:
        """Draw the weather of the round; energy in the batteries adds to the energy that arrives."""
        drawn = self._climate.weather(self.index)
        self._outcome = None
        self._state = RoundState(
            index=self.index,
            seed=self.scenario.seed,
            plant=self.arrays,
            weather=dataclasses.replace(
                drawn,
                gateway_energy=drawn.gateway_energy + self.gateway_level,
                device_energy=drawn.device_energy + self.device_level,
            ),
            queue=self.queue,
            target_rate=self.target_rate,
            last_loss=np.full(self.queue.size, np.nan),
            baseline=self.scenario.baseline,
        )
        return self._state

    def see(self, weather: Weather) -> RoundState:
        """The observed round under another weather than the one that was drawn."""
        assert self._state is not None
        self._state = dataclasses.replace(self._state, weather=weather)
        return self._state

    def execute(self, decision: Decision) -> Outcome:
        """What the cost model says of the decision."""
        assert self._state is not None
        self._outcome = simulated_outcome(self._state, decision)
        return self._outcome

    def book(self, outcome: Outcome) -> None:
        """Keep what really came of the round, in place of what the cost model says."""
        self._outcome = outcome

    def settle(self, queue: Floats) -> None:
        """Keep the queues, carry over the energy that was not spent, and advance to the next round."""
        assert self._outcome is not None
        self.carry(self._outcome.gateway_energy, self._outcome.device_energy)
        self.queue = queue
        self.index += 1

    def carry(self, gateway_spent: Floats, device_spent: Floats) -> None:
        """Leave in the batteries what the observed round did not spend, (M,) and (N,) [J]."""
        assert self._state is not None
        available = self._state.weather
        self.gateway_level = carried_over(available.gateway_energy, gateway_spent, capacity=self._gateway_capacity)
        self.device_level = carried_over(available.device_energy, device_spent, capacity=self._device_capacity)

    def snapshot(self) -> PlantState:
        """Queues, rates and batteries."""
        values: dict[str, JsonValue] = {
            "queue": self.queue.tolist(),
            "target_rate": self.target_rate.tolist(),
            "gateway_level_j": self.gateway_level.tolist(),
            "device_level_j": self.device_level.tolist(),
        }
        return PlantState(self.index, values, {})

    def restore(self, state: PlantState) -> None:
        """Continue from a snapshot."""
        floors, devices = self.queue.size, self.device_level.size
        self.queue = numbers_from(state.values, "queue", floors)
        self.target_rate = numbers_from(state.values, "target_rate", floors)
        self.gateway_level = numbers_from(state.values, "gateway_level_j", floors)
        self.device_level = numbers_from(state.values, "device_level_j", devices)
        self.index = state.index


def carried_over(available: Floats, spent: Floats, *, capacity: Floats) -> Floats:
    """Energy [J] that a battery keeps for the next round, same shape: what is left over, at most its capacity.

    Endless energy, as without limits, needs no battery, so nothing is carried.
    """
    if not capacity.any():
        return np.zeros(available.shape)
    left = np.subtract(available, spent, out=np.zeros(available.shape), where=np.isfinite(available))
    return np.clip(left, 0.0, capacity)


def simulated_outcome(state: RoundState, decision: Decision) -> Outcome:
    """What the cost model says of a decision.

    Too little memory: the floor fails after the download. Too little energy: it spends its budget and its full delay
    counts. A dead link: a transfer that cannot succeed takes no time, and the floor is lost. Floors that would wait for
    the slowest one do more iterations if the scenario lets them; the round takes no longer for it.
    """
    allocation = decision.allocation or fixed_allocation(state)
    workload = state.plant.workload
    outcome = _outcome_with(state, decision, allocation, None)
    if workload.extra_iterations == 0:
        return outcome
    within = round_delay(outcome.delay, decision.selected)
    extra = free_iterations(state, decision.channel, allocation, outcome.completed, within=within)
    longer = _outcome_with(state, decision, allocation, extra)
    return dataclasses.replace(longer, iterations=workload.local_iterations + extra)


def _outcome_with(state: RoundState, decision: Decision, allocation: Allocation, extra: Ints | None) -> Outcome:
    """The outcome if floors do so many iterations (M,) beyond K."""
    usage = usage_of(state, decision.channel, allocation, extra)
    reached = decision.selected & np.isfinite(usage.download)
    trains = reached & ~usage.short_of_memory
    delivers = trains & np.isfinite(usage.upload)
    busy = trains[state.plant.devices.floor]
    happened = dataclasses.replace(
        usage,
        download=np.where(reached, usage.download, 0.0),
        training=np.where(trains, usage.training, 0.0),
        upload=np.where(delivers, usage.upload, 0.0),
    )
    return Outcome(
        usage=happened,
        allocation=allocation,
        completed=delivers & ~usage.short_of_energy,
        failure=tuple(
            None if not selected else "memory" if full else "energy" if short else None if delivered else "lost"
            for selected, full, short, delivered in zip(
                decision.selected, usage.short_of_memory, usage.short_of_energy, delivers, strict=True
            )
        ),
        delay=happened.delay,
        gateway_energy=np.where(trains, np.minimum(usage.gateway_energy, state.weather.gateway_energy), 0.0),
        device_energy=np.where(busy, np.minimum(usage.device_energy, state.weather.device_energy), 0.0),
        loss=np.full(reached.size, np.nan),
    )


def simulated_rates(scenario: Scenario) -> Floats:
    """Participation rates Gamma_m (M,) where there is no training to learn them from."""
    floors = len(scenario.floors)
    rates = scenario.participation.rates
    if rates in ("estimated", "updates"):
        rates = scenario.participation.simulated_rates
    if rates == "uniform":
        return uniform_rates(floors, scenario.radio.channels)
    return np.array(rates, dtype=float)


def starting_rates(scenario: Scenario) -> Floats:
    """Participation rates Gamma_m (M,) of the first round of training: equal ones if training is to tell them."""
    if scenario.participation.rates in ("estimated", "updates"):
        return uniform_rates(len(scenario.floors), scenario.radio.channels)
    return simulated_rates(scenario)
