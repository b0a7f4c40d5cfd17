"""A plant made of random draws and the cost model."""

__all__ = ["SimulatedPlant", "carried_over", "simulated_outcome", "simulated_rates"]

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.costs.plant import PlantArrays, arrays_of
from fedfloor.rounds.loop import Outcome
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.state import Decision, RoundState, fixed_allocation
from fedfloor.scheduling.usage import figures
from fedfloor.theory.participation import uniform_rates
from fedfloor.weather.draws import Climate, climate_of


@dataclass(slots=True, eq=False)
class SimulatedPlant:
    """Keeps the queues, the batteries and the round's number between rounds; everything else is drawn or computed."""

    scenario: Scenario
    target_rate: Floats  #: (M,) [1] Gamma_m
    queue: Floats = field(init=False)  #: (M,) [1] Q_m(t)
    index: int = 0
    gateway_level: Floats = field(init=False)  #: (M,) [J] carried over from the round before
    device_level: Floats = field(init=False)  #: (N,) [J]
    _plant: PlantArrays = field(init=False)
    _climate: Climate = field(init=False)
    _state: RoundState | None = field(init=False, default=None)
    _outcome: Outcome | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.queue = np.zeros(len(self.scenario.floors))
        self.gateway_level = np.zeros(len(self.scenario.floors))
        self.device_level = np.zeros(len(self.scenario.devices))
        self._plant = arrays_of(self.scenario)
        self._climate = climate_of(self.scenario)

    def observe(self) -> RoundState:
        """Draw the round's weather; what the batteries hold adds to the energy that arrives."""
        drawn = self._climate.weather(self.index)
        self._outcome = None
        self._state = RoundState(
            index=self.index,
            seed=self.scenario.seed,
            plant=self._plant,
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

    def execute(self, decision: Decision) -> Outcome:
        """What the cost model says of the decision."""
        assert self._state is not None
        self._outcome = simulated_outcome(self._state, decision)
        return self._outcome

    def settle(self, queue: Floats) -> None:
        """Keep the queues, carry over what was not spent and go on to the next round."""
        assert self._outcome is not None
        self.carry(self._outcome.gateway_energy, self._outcome.device_energy)
        self.queue = queue
        self.index += 1

    def carry(self, gateway_spent: Floats, device_spent: Floats) -> None:
        """Leave in the batteries what the observed round did not spend, (M,) and (N,) [J]."""
        assert self._state is not None
        battery, available = self.scenario.battery, self._state.weather
        self.gateway_level = carried_over(
            available.gateway_energy, gateway_spent, capacity=np.array(battery.gateway_capacity)
        )
        self.device_level = carried_over(
            available.device_energy, device_spent, capacity=np.array(battery.device_capacity)
        )


def carried_over(available: Floats, spent: Floats, *, capacity: Floats) -> Floats:
    """Energy [J] that a battery keeps for the next round, same shape: what is left over, at most its capacity.

    Endless energy, as without limits, needs no battery: nothing is carried.
    """
    left = np.subtract(available, spent, out=np.zeros(available.shape), where=np.isfinite(available))
    return np.clip(left, 0.0, capacity)


def simulated_outcome(state: RoundState, decision: Decision) -> Outcome:
    """What the cost model says of a decision.

    No room: the floor fails after the download. Too little energy: it spends its budget and its full delay counts.
    A dead link: what cannot be delivered takes no time, and the floor is lost.
    """
    allocation = decision.allocation or fixed_allocation(state)
    asked = figures(state, decision.channel, allocation)
    reached = decision.selected & np.isfinite(asked.download)
    trains = reached & ~asked.short_of_memory
    delivers = trains & np.isfinite(asked.upload)
    busy = trains[state.plant.devices.floor]
    happened = dataclasses.replace(
        asked,
        download=np.where(reached, asked.download, 0.0),
        training=np.where(trains, asked.training, 0.0),
        upload=np.where(delivers, asked.upload, 0.0),
    )
    return Outcome(
        figures=happened,
        allocation=allocation,
        completed=delivers & ~asked.short_of_energy,
        failure=tuple(
            None if not selected else "memory" if full else "energy" if short else None if delivered else "lost"
            for selected, full, short, delivered in zip(
                decision.selected, asked.short_of_memory, asked.short_of_energy, delivers, strict=True
            )
        ),
        delay=happened.delay,
        gateway_energy=np.where(trains, np.minimum(asked.gateway_energy, state.weather.gateway_energy), 0.0),
        device_energy=np.where(busy, np.minimum(asked.device_energy, state.weather.device_energy), 0.0),
        loss=np.full(reached.size, np.nan),
    )


def simulated_rates(scenario: Scenario) -> Floats:
    """Participation rates Gamma_m (M,) where there are no gradients to estimate them from."""
    floors = len(scenario.floors)
    rates = scenario.participation.rates
    if rates == "estimated":
        rates = scenario.participation.simulated_rates
    if rates == "uniform":
        return uniform_rates(floors, scenario.radio.channels)
    return np.array(rates, dtype=float)
