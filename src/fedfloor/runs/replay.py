"""The states of logged rounds, reconstructed so that rounds can be decided again or measured afterwards."""

__all__ = ["replayed"]

import dataclasses
import math
from collections.abc import Container, Iterable, Iterator

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.rounds.past import result_of
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.rounds.record import RoundRecord
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.history import HistoryBuilder
from fedfloor.scheduling.state import RoundState


def replayed(
    scenario: Scenario,
    records: Iterable[RoundRecord],
    *,
    only: Container[int] | None = None,
    with_history: bool = False,
) -> Iterator[RoundState]:
    """The states at the start of the logged rounds; the records must fit the scenario.

    `only` leaves out all other rounds. Records are taken one by one, each before its state.

    Queues, rates and losses come from the log, and so does the history, if it is asked for. The weather is drawn again,
    unless the record carries it. What the batteries held follows from the weather of earlier rounds and the energy
    that they logged as spent.
    """
    plant = SimulatedPlant(scenario, simulated_rates(scenario))
    carries = scenario.limits and any(scenario.battery.gateway_capacity + scenario.battery.device_capacity)
    last_loss = np.full(len(scenario.floors), np.nan)
    past = HistoryBuilder(len(scenario.floors)) if with_history else None
    for index, record in enumerate(records):
        is_asked_for = only is None or index in only
        if is_asked_for or carries:
            plant.index = index
            plant.queue = np.array([gateway.queue for gateway in record.gateways])
            plant.target_rate = np.array([gateway.target_rate for gateway in record.gateways])
            state = dataclasses.replace(plant.observe(), last_loss=last_loss)
            if record.weather is not None:
                state = dataclasses.replace(state, weather=record.weather.weather)
            if past is not None:
                state = dataclasses.replace(state, history=past.history)
            if is_asked_for:
                yield state
        if past is not None:
            past.add(result_of(record))
        if carries:
            plant.carry(np.array([gateway.energy_j for gateway in record.gateways]), _device_energy(scenario, record))
        losses = [math.nan if gateway.loss is None else gateway.loss for gateway in record.gateways]
        last_loss = np.where(np.isnan(losses), last_loss, losses)


def _device_energy(scenario: Scenario, record: RoundRecord) -> Floats:
    """Energy [J] that every device spent, (N,); devices of floors that were not selected spent nothing."""
    parts = [
        [device.energy_j for device in gateway.devices] or [0.0] * len(floor.devices)
        for floor, gateway in zip(scenario.floors, record.gateways, strict=True)
    ]
    return np.array([energy for part in parts for energy in part])
