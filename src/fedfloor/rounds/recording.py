"""From the arrays of a round to the records of its logs."""

__all__ = ["record_of", "timing_of"]

import math
from collections.abc import Iterator
from itertools import repeat

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.rounds.outcome import Outcome, Seconds
from fedfloor.rounds.record import (
    ABSENT,
    DeviceRecord,
    GatewayRecord,
    Measured,
    MessageRecord,
    RoundRecord,
    TimingRecord,
    WeatherRecord,
)
from fedfloor.scheduling.state import IDLE, Decision, RoundState
from fedfloor.scheduling.usage import FloorUsage
from fedfloor.weather.draws import Weather


def record_of(
    state: RoundState,
    decision: Decision,
    outcome: Outcome,
    *,
    policy: str,
    delay: float,
    clock: float,
    with_weather: bool = False,
) -> RoundRecord:
    """The record of a round; delay [s] is that of the whole round, clock [s] the simulated time at its end."""
    return RoundRecord(
        round=state.index,
        policy=policy,
        delay_s=_number(delay),
        clock_s=_number(clock),
        accuracy=outcome.accuracy,
        raw_accuracy=ABSENT if outcome.raw_accuracy is None else outcome.raw_accuracy,
        loss=outcome.test_loss,
        gateways=tuple(_gateways(state, decision, outcome)),
        weather=_weather(state.weather) if with_weather else None,
    )


def timing_of(index: int, solve_s: float, seconds: Seconds) -> TimingRecord:
    """The times of a round: of the decision, and of what the plant did."""
    return TimingRecord(
        round=index,
        solve_s=solve_s,
        estimate_s=seconds.estimate,
        train_s=seconds.train,
        evaluate_s=seconds.evaluate,
        messages=tuple(
            MessageRecord(name=entry.name, message_s=entry.answered, predicted_s=_number(entry.predicted))
            for entry in seconds.messages
        ),
    )


def _gateways(state: RoundState, decision: Decision, outcome: Outcome) -> Iterator[GatewayRecord]:
    """The floors of a round; arrays become lists once, because single numbers of an array are slow to get."""
    names, usage = state.plant.gateways.names, outcome.usage
    first = np.searchsorted(state.plant.devices.floor, np.arange(len(names) + 1)).tolist()
    channel, completed, energy = decision.channel.tolist(), outcome.completed.tolist(), outcome.gateway_energy.tolist()
    delay, download = _numbers(outcome.delay), _numbers(usage.download)
    training, upload = _numbers(usage.training), _numbers(usage.upload)
    power, budget = _numbers(outcome.allocation.power), _numbers(state.weather.gateway_energy)
    queue, target_rate, loss = state.queue.tolist(), state.target_rate.tolist(), _numbers(outcome.loss)
    rms_loss = None if outcome.rms_loss is None else _numbers(outcome.rms_loss)
    weight = None if decision.weight is None else _numbers(decision.weight)
    bound = None if outcome.divergence_bound is None else _numbers(outcome.divergence_bound)
    divergence = None if outcome.divergence is None else _numbers(outcome.divergence)
    predicted = _predictions(outcome.predicted, len(names))
    iterations = None if outcome.iterations is None else outcome.iterations.tolist()
    for m, name in enumerate(names):
        selected = channel[m] != IDLE
        parts = predicted[m] if selected or outcome.predicted is None else (None, None, None, None)
        yield GatewayRecord(
            name=name,
            selected=selected,
            channel=channel[m] if selected else None,
            completed=completed[m],
            failure=outcome.failure[m],
            delay_s=delay[m],
            download_s=download[m],
            train_s=training[m],
            upload_s=upload[m],
            predicted_s=parts[0],
            predicted_download_s=parts[1],
            predicted_train_s=parts[2],
            predicted_upload_s=parts[3],
            iterations=ABSENT if iterations is None else iterations[m] if selected else None,
            power_w=power[m] if selected else None,
            energy_j=energy[m],
            energy_budget_j=budget[m],
            queue=queue[m],
            target_rate=target_rate[m],
            loss=loss[m],
            rms_loss=ABSENT if rms_loss is None else rms_loss[m],
            weight=ABSENT if weight is None else weight[m] if selected else None,
            divergence_bound=ABSENT if bound is None else bound[m],
            divergence=ABSENT if divergence is None else divergence[m],
            devices=tuple(_devices(state, outcome, slice(first[m], first[m + 1]))) if selected else (),
        )


def _predictions(usage: FloorUsage | None, floors: int) -> list[tuple[Measured, Measured, Measured, Measured]]:
    """Predicted delay, download, training and upload of every floor [s]; absent if the times are the cost model's."""
    if usage is None:
        return [(ABSENT, ABSENT, ABSENT, ABSENT)] * floors
    parts = (usage.delay, usage.download, usage.training, usage.upload)
    delay, download, training, upload = (_numbers(part) for part in parts)
    return list(zip(delay, download, training, upload, strict=True))


def _devices(state: RoundState, outcome: Outcome, part: slice) -> Iterator[DeviceRecord]:
    """The devices of one floor."""
    links = outcome.usage.link_time
    columns = zip(
        state.plant.devices.names[part],
        outcome.allocation.cut[part].tolist(),
        _numbers(outcome.allocation.frequency[part]),
        outcome.device_energy[part].tolist(),
        _numbers(state.weather.device_energy[part]),
        _numbers(outcome.usage.device_bytes[part]),
        repeat(ABSENT, part.stop - part.start) if links is None else _numbers(links[part]),
        strict=True,
    )
    for name, cut, frequency, energy, budget, memory, link in columns:
        yield DeviceRecord(
            name=name,
            cut=cut,
            gateway_frequency_hz=frequency,
            energy_j=energy,
            energy_budget_j=budget,
            memory_bytes=memory,
            link_s=link,
        )


def _weather(weather: Weather) -> WeatherRecord:
    return WeatherRecord(
        uplink_gain=_rows(weather.uplink_gain),
        downlink_gain=_rows(weather.downlink_gain),
        uplink_interference_w=_rows(weather.uplink_interference),
        downlink_interference_w=_rows(weather.downlink_interference),
        gateway_energy_j=tuple(_numbers(weather.gateway_energy)),
        device_energy_j=tuple(_numbers(weather.device_energy)),
    )


def _rows(values: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, values.tolist()))


def _number(value: float) -> float | None:
    """The number, or None for inf and nan, which JSON does not know."""
    return float(value) if math.isfinite(value) else None


def _numbers(values: Floats) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
