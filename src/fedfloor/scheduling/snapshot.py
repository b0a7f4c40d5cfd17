"""A round as a JSON file in SI units: what `fedfloor plan` reads and `--export` writes."""

__all__ = [
    "Snapshot",
    "SnapshotDevice",
    "SnapshotGateway",
    "SnapshotLayer",
    "SnapshotRadio",
    "is_snapshot",
    "parse_snapshot",
    "read_snapshot",
    "snapshot_of",
    "state_of",
]

import json
import math
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import AfterValidator, Field, JsonValue, Strict, ValidationError, field_validator, model_validator

from fedfloor.arrays import Floats
from fedfloor.costs.plant import Band, Devices, Gateways, PlantArrays, Workload
from fedfloor.errors import SnapshotError, shown
from fedfloor.scenario.file import Baseline
from fedfloor.scenario.findings import one_line
from fedfloor.scenario.section import Int0, Int1, PositiveReal, Section, finding
from fedfloor.scheduling.state import RoundState
from fedfloor.theory.participation import uniform_rates
from fedfloor.weather.draws import Weather

Amount = Annotated[float, Strict(), Field(ge=0, le=1e30), AfterValidator(abs)]  # -0.0 is 0.0
Amounts = Annotated[tuple[Amount, ...], Field(min_length=1)]

#: stands for infinity, which JSON cannot express
_UNLIMITED = 1e30


class SnapshotRadio(Section):
    """Radio band between base station and gateways."""

    uplink_bandwidth_hz: PositiveReal
    downlink_bandwidth_hz: PositiveReal
    noise_w_per_hz: PositiveReal
    base_station_power_w: PositiveReal


class SnapshotLayer(Section):
    """One layer of the network."""

    name: str
    flops_per_sample: Amount  #: forward and backward
    fixed_bytes: Amount
    bytes_per_sample: Amount


class SnapshotDevice(Section):
    """One device of a floor."""

    name: Annotated[str, Field(min_length=1)]
    batch: Int1
    flops_per_cycle: PositiveReal
    switched_capacitance: PositiveReal
    frequency_hz: PositiveReal
    memory_bytes: Amount
    energy_j: Amount


class SnapshotGateway(Section):
    """One floor's gateway with its links and devices."""

    name: Annotated[str, Field(min_length=1)]
    flops_per_cycle: PositiveReal
    switched_capacitance: PositiveReal
    min_frequency_hz: Amount
    max_frequency_hz: PositiveReal
    memory_bytes: PositiveReal
    energy_j: Amount
    max_power_w: PositiveReal
    queue: Amount
    last_loss: Amount | None = None
    target_rate: Annotated[float, Strict(), Field(ge=0, le=1)] | None = None  #: None: the uniform rate
    uplink_gain: Amounts
    downlink_gain: Amounts
    uplink_interference_w: Amounts
    downlink_interference_w: Amounts
    devices: Annotated[tuple[SnapshotDevice, ...], Field(min_length=1)]

    @field_validator("uplink_gain", "downlink_gain")
    @classmethod
    def _gains_are_ratios(cls, gains: tuple[float, ...]) -> tuple[float, ...]:
        if max(gains) > 10.0:  # fading can lift a link without path loss above 1, but hardly above 10
            raise finding(f"a gain is a power ratio <= 10, not dB, got {max(gains):g}")
        return gains

    @model_validator(mode="after")
    def _frequencies_agree(self) -> Self:
        if self.min_frequency_hz > self.max_frequency_hz:
            problem = f"must be <= max_frequency_hz = {self.max_frequency_hz:g}, got {self.min_frequency_hz:g}"
            raise finding(problem, below="min_frequency_hz")
        return self


class Snapshot(Section):
    """Everything that one decision depends on."""

    tradeoff_v: Amount
    local_iterations: Int1
    model_bits: PositiveReal
    min_cut: Int0 = 0
    round: Int0 = 0
    seed: Int0 = 0
    baseline: Baseline | None = None
    radio: SnapshotRadio
    layers: Annotated[tuple[SnapshotLayer, ...], Field(min_length=1)]
    gateways: Annotated[tuple[SnapshotGateway, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        for key, cut in (("min_cut", self.min_cut), ("baseline.cut", self.baseline.cut if self.baseline else 0)):
            if cut > len(self.layers):
                raise finding(f"must be <= {len(self.layers)}, the number of layers, got {cut}", below=key)
        if self.baseline and self.baseline.cut < self.min_cut:
            raise finding(f"must be >= min_cut = {self.min_cut}, got {self.baseline.cut}", below="baseline.cut")
        share = self.baseline.frequency_share if self.baseline else 1.0
        for gateway in self.gateways:
            if share * gateway.max_frequency_hz < gateway.min_frequency_hz:
                problem = f"is below min_frequency_hz / max_frequency_hz of {shown(gateway.name)}, got {share:g}"
                raise finding(problem, below="baseline.frequency_share")
        channels = len(self.gateways[0].uplink_gain)
        names: set[tuple[str, str]] = set()  # (kind, name)
        for m, gateway in enumerate(self.gateways):
            for key in ("uplink_gain", "downlink_gain", "uplink_interference_w", "downlink_interference_w"):
                length = len(getattr(gateway, key))
                if length != channels:
                    problem = f"has {length} channels, gateways[0].uplink_gain has {channels}"
                    raise finding(f"{problem}. Give one value per channel", below=f"gateways[{m}].{key}")
            entries = [(f"gateways[{m}].name", "gateway", gateway.name)]
            for n, device in enumerate(gateway.devices):
                entries.append((f"gateways[{m}].devices[{n}].name", "device", device.name))
            for path, kind, name in entries:
                if (kind, name) in names:
                    raise finding(f"duplicate name, got {shown(name)} twice. Rename one of them", below=path)
                names.add((kind, name))
        return self


def read_snapshot(path: Path) -> Snapshot:
    """Read a snapshot from its file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SnapshotError(f"{path}: no such file. Give a snapshot or a run folder") from None
    except UnicodeDecodeError:
        raise SnapshotError(f"{path}: not UTF-8. Save the file as UTF-8") from None
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror}. Give a snapshot or a run folder") from None
    try:
        raw = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{path}: not valid JSON: {error}. Correct that line") from None
    return parse_snapshot(raw, str(path))


def is_snapshot(path: Path) -> bool:
    """Whether a file is a JSON object with the keys that every snapshot has, even if some values are wrong."""
    try:
        raw = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(raw, dict) and all(
        key in raw for key, field in Snapshot.model_fields.items() if field.is_required()
    )


def _without_duplicates(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Build a JSON object from its entries, and refuse a key that occurs twice."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        duplicate = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise ValueError(f"key {shown(duplicate)} is given twice")
    return entries


def parse_snapshot(raw: object, label: str) -> Snapshot:
    """Check plain data and make a snapshot of it; `label` names it in messages."""
    try:
        return Snapshot.model_validate(raw)
    except ValidationError as error:
        raise SnapshotError(
            one_line(error, label).replace("`fedfloor schema` describes", "docs/plan.md describes")
        ) from None


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
    return RoundState(
        index=snapshot.round,
        seed=snapshot.seed,
        plant=PlantArrays(
            workload=Workload.from_layers(
                layer("flops_per_sample"),
                layer("fixed_bytes"),
                layer("bytes_per_sample"),
                local_iterations=snapshot.local_iterations,
                model_bits=snapshot.model_bits,
                min_cut=snapshot.min_cut,
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
                floor=np.repeat(np.arange(len(gateways)), [len(entry.devices) for entry in gateways]),
                batch=device("batch"),
                flops_per_cycle=device("flops_per_cycle"),
                switched_capacitance=device("switched_capacitance"),
                frequency=device("frequency_hz"),
                memory_bytes=device("memory_bytes"),
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
    )


def snapshot_of(state: RoundState, tradeoff_v: float) -> dict[str, object]:
    """Write a round as plain data that `parse_snapshot` accepts; infinite budgets become very large numbers."""
    plant, weather, work = state.plant, state.weather, state.plant.workload
    sums = (work.flop_below, work.fixed_bytes_below, work.sample_bytes_below)
    flop, fixed, sample = (np.diff(column) for column in sums)
    return {
        "tradeoff_v": tradeoff_v,
        "local_iterations": work.local_iterations,
        "model_bits": work.model_bits,
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
        "layers": [
            {
                "name": f"layer{i + 1}",
                "flops_per_sample": flop[i],
                "fixed_bytes": fixed[i],
                "bytes_per_sample": sample[i],
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
    devices = state.plant.devices
    return {
        "name": devices.names[n],
        "batch": int(devices.batch[n]),
        "flops_per_cycle": devices.flops_per_cycle[n],
        "switched_capacitance": devices.switched_capacitance[n],
        "frequency_hz": devices.frequency[n],
        "memory_bytes": min(devices.memory_bytes[n], _UNLIMITED),
        "energy_j": min(state.weather.device_energy[n], _UNLIMITED),
    }
