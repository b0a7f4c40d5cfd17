"""Snapshots of rounds to states that a policy decides on, and back."""

__all__ = ["snapshot_of", "state_of"]

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.links import Links, Traffic
from fedfloor.costs.plant import Band, Devices, Gateways, PlantArrays, Workload, counted_costs, floor_of_devices
from fedfloor.scenario.file import Baseline
from fedfloor.scheduling.history import RECENT, History, Past
from fedfloor.scheduling.snapshot import Snapshot, SnapshotDevice, SnapshotLink, SnapshotTraffic
from fedfloor.scheduling.state import RoundState
from fedfloor.theory.participation import uniform_rates
from fedfloor.weather.draws import Weather

#: stands for infinity, which JSON cannot express
_UNLIMITED = 1e30
#: field of `Links` -> key of a snapshot
_LINK_KEYS = {
    "rate_up": "up_bps",
    "rate_down": "down_bps",
    "device_up": "joule_per_bit_up",
    "device_down": "joule_per_bit_down",
    "gateway_up": "gateway_joule_per_bit_up",
    "gateway_down": "gateway_joule_per_bit_down",
}


def state_of(snapshot: Snapshot) -> RoundState:
    """State of the round that a snapshot describes."""
    gateways = snapshot.gateways
    devices = [device for gateway in gateways for device in gateway.devices]

    def gateway(key: str) -> Floats:
        return np.array([getattr(entry, key) for entry in gateways], dtype=float)

    def device(key: str) -> Floats:
        return np.array([getattr(entry, key) for entry in devices], dtype=float)

    def layer(key: str) -> Floats:
        return np.array([getattr(entry, key) for entry in snapshot.layers], dtype=float)

    uniform = float(uniform_rates(len(gateways), len(gateways[0].uplink_gain))[0])
    state = RoundState(
        index=snapshot.round,
        seed=snapshot.seed,
        plant=PlantArrays(
            workload=Workload.from_layers(
                layer("flops_per_sample"),
                layer("fixed_bytes"),
                layer("bytes_per_sample"),
                local_iterations=snapshot.local_iterations,
                model_bits=snapshot.model_bits,
                upload_bits=snapshot.upload_bits,
                download_bits=snapshot.download_bits,
                min_cut=snapshot.min_cut,
                traffic=_traffic(snapshot),
            ),
            band=Band(
                snapshot.radio.uplink_bandwidth_hz,
                snapshot.radio.downlink_bandwidth_hz,
                snapshot.radio.noise_w_per_hz,
                snapshot.radio.base_station_power_w,
            ),
            gateways=Gateways(
                names=tuple(entry.name for entry in gateways),
                flops_per_cycle=gateway("flops_per_cycle"),
                switched_capacitance=gateway("switched_capacitance"),
                min_frequency=gateway("min_frequency_hz"),
                max_frequency=gateway("max_frequency_hz"),
                memory_bytes=gateway("memory_bytes"),
                max_power=gateway("max_power_w"),
            ),
            devices=Devices(
                names=tuple(entry.name for entry in devices),
                floor=floor_of_devices(gateways),
                batch=device("batch"),
                flops_per_cycle=device("flops_per_cycle"),
                switched_capacitance=device("switched_capacitance"),
                frequency=device("frequency_hz"),
                memory_bytes=device("memory_bytes"),
                links=_links(devices),
            ),
        ),
        weather=Weather(
            uplink_gain=gateway("uplink_gain"),
            downlink_gain=gateway("downlink_gain"),
            uplink_interference=gateway("uplink_interference_w"),
            downlink_interference=gateway("downlink_interference_w"),
            gateway_energy=gateway("energy_j"),
            device_energy=device("energy_j"),
        ),
        queue=gateway("queue"),
        target_rate=np.array([uniform if entry.target_rate is None else entry.target_rate for entry in gateways]),
        last_loss=np.array([np.nan if entry.last_loss is None else entry.last_loss for entry in gateways]),
        baseline=snapshot.baseline or Baseline(cut=snapshot.min_cut, frequency_share=1.0),
        history=_history(snapshot),
    )
    return replace(state, plant=_with_measurements(devices, state.plant))


def _history(snapshot: Snapshot) -> History | None:
    """The earlier rounds; None if the snapshot has none."""
    floors = [gateway.history for gateway in snapshot.gateways if gateway.history is not None]
    if not floors:
        return None
    shape = (min(snapshot.round, RECENT), len(floors))
    flags, numbers, losses = np.zeros((2, *shape), bool), np.zeros((2, *shape)), np.full((2, *shape), np.nan)
    recent = Past(flags[0], flags[1], numbers[0], losses[0], losses[1], numbers[1])
    for m, floor in enumerate(floors):
        for entry in floor.recent:
            at = entry.round - snapshot.round + shape[0], m
            recent.selected[at], recent.completed[at] = True, entry.completed
            recent.delay[at] = math.inf if entry.delay_s is None else entry.delay_s
            recent.energy[at] = entry.energy_j
            recent.loss[at] = math.nan if entry.loss is None else entry.loss
            recent.rms_loss[at] = math.nan if entry.rms_loss is None else entry.rms_loss

    def amounts(key: str) -> Floats:
        return np.array([math.nan if getattr(floor, key) is None else getattr(floor, key) for floor in floors], float)

    def numbers_of(key: str) -> Ints:
        return np.array([-1 if getattr(floor, key) is None else getattr(floor, key) for floor in floors], np.int64)

    return History(
        rounds=snapshot.round,
        recent=recent,
        selected=numbers_of("selected"),
        completed=numbers_of("completed"),
        last_selected=numbers_of("last_selected"),
        first_completed=numbers_of("first_completed"),
        last_completed=numbers_of("last_completed"),
        delay_sum=amounts("delay_sum_s"),
        most_delay=amounts("most_delay_s"),
        last_delay=amounts("last_delay_s"),
        loss_sum=amounts("loss_sum"),
        last_rms_loss=amounts("last_rms_loss"),
        energy_sum=amounts("energy_sum_j"),
    )


def _history_table(history: History, m: int) -> dict[str, object]:
    """The history of floor m as a snapshot has it."""
    recent, never = history.recent, -1
    rounds = {key: int(getattr(history, key)[m]) for key in ("last_selected", "first_completed", "last_completed")}
    return {
        "selected": int(history.selected[m]),
        "completed": int(history.completed[m]),
        **{key: None if number == never else number for key, number in rounds.items()},
        "delay_sum_s": history.delay_sum[m],
        "most_delay_s": history.most_delay[m],
        "last_delay_s": _finite(history.last_delay[m]),
        "loss_sum": history.loss_sum[m],
        "last_rms_loss": _finite(history.last_rms_loss[m]),
        "energy_sum_j": history.energy_sum[m],
        "recent": [
            {
                "round": history.first_recent + row,
                "completed": bool(recent.completed[row, m]),
                "delay_s": _finite(recent.delay[row, m]),
                "energy_j": recent.energy[row, m],
                "loss": _finite(recent.loss[row, m]),
                "rms_loss": _finite(recent.rms_loss[row, m]),
            }
            for row in np.flatnonzero(recent.selected[:, m]).tolist()
        ],
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _traffic(snapshot: Snapshot) -> Traffic | None:
    """What devices and gateways exchange; None without links."""
    if snapshot.traffic is None or all(layer.boundary_per_sample is None for layer in snapshot.layers):
        return None
    sizes = snapshot.traffic.model_dump()
    first = sizes.pop("input_per_sample")
    return Traffic(
        values=np.array([first, *(layer.boundary_per_sample or 0.0 for layer in snapshot.layers)]),
        parameters_below=np.cumsum([0.0, *(layer.parameters or 0.0 for layer in snapshot.layers)]),
        counters_below=np.cumsum([0.0, *(layer.counters for layer in snapshot.layers)]),
        iterations=snapshot.local_iterations,
        **sizes,
    )


def _links(devices: Sequence[SnapshotDevice]) -> Links | None:
    """Links of the devices; None if nobody has one."""
    if all(device.link is None for device in devices):
        return None
    rows = [device.link or SnapshotLink() for device in devices]
    return Links(
        **{
            name: np.array([math.inf if getattr(row, key) is None else getattr(row, key) for row in rows])
            for name, key in _LINK_KEYS.items()
        }
    )


def _with_measurements(devices: Sequence[SnapshotDevice], plant: PlantArrays) -> PlantArrays:
    """The plant with the cycles and bytes that devices have; those of other devices are counted."""
    if all(device.cycles is None and device.bytes is None for device in devices):
        return plant
    costs = counted_costs(plant)
    for n, device in enumerate(devices):
        if device.cycles is not None:
            costs.bottom_cycles[n], costs.top_cycles[n] = device.cycles.device, device.cycles.gateway
        if device.bytes is not None:
            costs.bottom_bytes[n], costs.top_bytes[n] = device.bytes.device, device.bytes.gateway
    return replace(plant, measured=costs)


def snapshot_of(state: RoundState, tradeoff_v: float) -> dict[str, object]:
    """Write a round as plain data that `parse_snapshot` accepts; infinite budgets become very large numbers."""
    plant, weather, work = state.plant, state.weather, state.plant.workload
    sums = (work.flop_below, work.fixed_bytes_below, work.sample_bytes_below)
    flop, fixed, sample = (np.diff(column) for column in sums)
    traffic = None if plant.devices.links is None else work.traffic
    sent_bits = {"upload_bits": work.upload_bits, "download_bits": work.download_bits}
    return {
        "tradeoff_v": tradeoff_v,
        "local_iterations": work.local_iterations,
        "model_bits": work.model_bits,
        **{key: bits for key, bits in sent_bits.items() if bits != work.model_bits},
        "min_cut": work.min_cut,
        "round": state.index,
        "seed": state.seed,
        "baseline": state.baseline.model_dump(),
        "radio": {
            "uplink_bandwidth_hz": plant.band.uplink_bandwidth,
            "downlink_bandwidth_hz": plant.band.downlink_bandwidth,
            "noise_w_per_hz": plant.band.noise_density,
            "base_station_power_w": plant.band.base_station_power,
        },
        **({} if traffic is None else {"traffic": _traffic_table(traffic)}),
        "layers": [
            {
                "name": f"layer{i + 1}",
                "flops_per_sample": flop[i],
                "fixed_bytes": fixed[i],
                "bytes_per_sample": sample[i],
                **({} if traffic is None else _crossing(traffic, i)),
            }
            for i in range(work.layers)
        ],
        "gateways": [
            {
                "name": name,
                "flops_per_cycle": plant.gateways.flops_per_cycle[m],
                "switched_capacitance": plant.gateways.switched_capacitance[m],
                "min_frequency_hz": plant.gateways.min_frequency[m],
                "max_frequency_hz": plant.gateways.max_frequency[m],
                "memory_bytes": min(plant.gateways.memory_bytes[m], _UNLIMITED),
                "energy_j": min(weather.gateway_energy[m], _UNLIMITED),
                "max_power_w": plant.gateways.max_power[m],
                "queue": state.queue[m],
                "last_loss": None if math.isnan(state.last_loss[m]) else state.last_loss[m],
                "target_rate": state.target_rate[m],
                **({} if state.history is None else {"history": _history_table(state.history, m)}),
                "uplink_gain": weather.uplink_gain[m].tolist(),
                "downlink_gain": weather.downlink_gain[m].tolist(),
                "uplink_interference_w": weather.uplink_interference[m].tolist(),
                "downlink_interference_w": weather.downlink_interference[m].tolist(),
                "devices": [_device(state, int(n)) for n in np.flatnonzero(plant.devices.floor == m)],
            }
            for m, name in enumerate(plant.gateways.names)
        ],
    }


def _device(state: RoundState, n: int) -> dict[str, object]:
    devices, links, measured = state.plant.devices, state.plant.devices.links, state.plant.measured
    table: dict[str, object] = {
        "name": devices.names[n],
        "batch": int(devices.batch[n]),
        "flops_per_cycle": devices.flops_per_cycle[n],
        "switched_capacitance": devices.switched_capacitance[n],
        "frequency_hz": devices.frequency[n],
        "memory_bytes": min(devices.memory_bytes[n], _UNLIMITED),
        "energy_j": min(state.weather.device_energy[n], _UNLIMITED),
    }
    if links is not None:
        values = {key: float(getattr(links, name)[n]) for name, key in _LINK_KEYS.items()}
        table["link"] = {key: value if math.isfinite(value) else None for key, value in values.items()}
    if measured is not None:
        table["cycles"] = {"device": measured.bottom_cycles[n].tolist(), "gateway": measured.top_cycles[n].tolist()}
        table["bytes"] = {"device": measured.bottom_bytes[n].tolist(), "gateway": measured.top_bytes[n].tolist()}
    return table


def _traffic_table(traffic: Traffic) -> dict[str, object]:
    sizes = {key: getattr(traffic, key) for key in SnapshotTraffic.model_fields if key != "input_per_sample"}
    return {"input_per_sample": traffic.values[0], **sizes}


def _crossing(traffic: Traffic, i: int) -> dict[str, object]:
    """What a layer adds to the traffic."""
    crossing = {"parameters": np.diff(traffic.parameters_below)[i], "boundary_per_sample": traffic.values[i + 1]}
    counters = 0.0 if traffic.counters_below is None else np.diff(traffic.counters_below)[i]
    return {**crossing, **({"counters": counters} if counters else {})}
