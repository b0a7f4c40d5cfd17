"""A round as a JSON file in SI units: what `fedfloor plan` reads and `--export` writes."""

__all__ = [
    "Snapshot",
    "SnapshotDevice",
    "SnapshotGateway",
    "SnapshotHalves",
    "SnapshotHistory",
    "SnapshotLayer",
    "SnapshotLink",
    "SnapshotRadio",
    "SnapshotRecent",
    "SnapshotTraffic",
    "is_snapshot",
    "parse_snapshot",
    "read_snapshot",
    "received_snapshot",
]

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, JsonValue, Strict, ValidationError, field_validator, model_validator

from fedfloor.errors import SnapshotError, shown
from fedfloor.scenario.file import Baseline
from fedfloor.scenario.findings import one_line
from fedfloor.scenario.section import Flag, Int0, Int1, PositiveReal, Section, finding
from fedfloor.scheduling.history import RECENT

Amount = Annotated[float, Strict(), Field(ge=0, le=1e30), AfterValidator(abs)]  # -0.0 is 0.0
Amounts = Annotated[tuple[Amount, ...], Field(min_length=1)]


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
    parameters: Amount | None = None  #: numbers in its tensors; needed if a device has a link
    counters: Amount = 0.0  #: whole numbers that it has beside, such as the number of batches that batch norm has seen
    boundary_per_sample: Amount | None = None  #: numbers that cross a cut after this layer, likewise


class SnapshotTraffic(Section):
    """How devices and gateways talk; needed if a device has a link."""

    input_per_sample: Amount  #: numbers of a sample
    batches: Int1 = 1  #: per round
    value_bits: Int1 = 32  #: of a number that crosses a cut >= 1
    tensor_bits: Int0 = 0  #: of the scale of every tensor there
    sample_bits: Int1 = 32  #: of a number of a sample
    batch_bits: Int0 = 0  #: of the scale of every batch of samples
    label_bits: Int0 = 8
    weight_bits_up: Int1 = 32
    weight_bits_down: Int1 = 32


class SnapshotLink(Section):
    """Link between a device and its gateway."""

    up_bps: PositiveReal | None = None  #: null: takes no time
    down_bps: PositiveReal | None = None
    joule_per_bit_up: Amount = 0.0  #: spent by the device on what it sends
    joule_per_bit_down: Amount = 0.0  #: spent by the device on what it receives
    gateway_joule_per_bit_up: Amount = 0.0  #: spent by the gateway on what the device sends
    gateway_joule_per_bit_down: Amount = 0.0  #: spent by the gateway on what it sends


class SnapshotHalves(Section):
    """Measured values of a device's half and of its gateway's, one for every cut."""

    device: Amounts
    gateway: Amounts


class SnapshotDevice(Section):
    """One device of a floor."""

    name: Annotated[str, Field(min_length=1)]
    batch: Int1
    flops_per_cycle: PositiveReal
    switched_capacitance: PositiveReal
    frequency_hz: PositiveReal
    memory_bytes: Amount
    energy_j: Amount
    link: SnapshotLink | None = None
    cycles: SnapshotHalves | None = None  #: measured, of one round
    bytes: SnapshotHalves | None = None  #: measured


class SnapshotRecent(Section):
    """One of the last rounds, in which the floor was selected."""

    round: Int0
    completed: Flag
    delay_s: Amount | None  #: null: without end
    energy_j: Amount
    loss: Amount | None = None
    rms_loss: Amount | None = None


class SnapshotHistory(Section):
    """The earlier rounds of a floor: totals of the whole run, and the last rounds in which it was selected."""

    selected: Int0
    completed: Int0
    last_selected: Int0 | None = None  #: round; null: never, like the next two
    first_completed: Int0 | None = None
    last_completed: Int0 | None = None
    delay_sum_s: Amount = 0.0  #: over the rounds that it completed, like the next two
    most_delay_s: Amount = 0.0
    last_delay_s: Amount | None = None
    loss_sum: Amount = 0.0
    last_rms_loss: Amount | None = None
    energy_sum_j: Amount = 0.0
    recent: tuple[SnapshotRecent, ...] = ()

    @model_validator(mode="after")
    def _numbers_agree(self) -> Self:
        if self.completed > self.selected:
            raise finding(f"must be <= selected = {self.selected}, got {self.completed}", below="completed")
        for key, times in (
            ("last_selected", self.selected),
            ("first_completed", self.completed),
            ("last_completed", self.completed),
        ):
            if (getattr(self, key) is None) != (times == 0):
                count = key.split("_")[1]
                raise finding(f"must be a round if {count} > 0 and null otherwise, got {getattr(self, key)}", below=key)
        for key in ("last_delay_s", "last_rms_loss"):  # a floor that completes may have no measured loss
            is_there = getattr(self, key) is not None
            if (is_there and self.completed == 0) or (not is_there and key == "last_delay_s" and self.completed > 0):
                raise finding(f"must be a number only if completed > 0, got {getattr(self, key)}", below=key)
        first, last, selected = self.first_completed, self.last_completed, self.last_selected
        if first is not None and last is not None and selected is not None and not first <= last <= selected:
            order = "first_completed <= last_completed <= last_selected"
            raise finding(f"must be in the order {order}, got {first}, {last}, {selected}", below="last_completed")
        if sum(entry.completed for entry in self.recent) > self.completed or len(self.recent) > self.selected:
            problem = f"must have at most {self.selected} rounds, {self.completed} of them completed"
            raise finding(problem, below="recent")
        rounds = [entry.round for entry in self.recent]
        if any(later <= earlier for earlier, later in pairwise(rounds)):
            raise finding("must be in the order of the rounds, each at most once", below="recent")
        return self


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
    history: SnapshotHistory | None = None  #: needed by policies that decide by earlier rounds
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
    upload_bits: PositiveReal | None = None  #: None: model_bits
    download_bits: PositiveReal | None = None  #: None: model_bits
    min_cut: Int0 = 0
    round: Int0 = 0
    seed: Int0 = 0
    baseline: Baseline | None = None
    radio: SnapshotRadio
    traffic: SnapshotTraffic | None = None
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

    @model_validator(mode="after")
    def _histories_fit(self) -> Self:
        first = max(0, self.round - RECENT)
        for m, gateway in enumerate(self.gateways):
            if (gateway.history is None) != (self.gateways[0].history is None):
                missing = m if gateway.history is None else 0
                problem = "is missing, but another gateway has one. Give every gateway its history, or none"
                raise finding(problem, below=f"gateways[{missing}].history")
            if gateway.history is None:
                continue
            rounds = [gateway.history.last_selected, gateway.history.last_completed, gateway.history.first_completed]
            latest = max((number for number in rounds if number is not None), default=-1)
            if latest >= self.round:
                problem = f"must be of rounds before round = {self.round}, got one of round {latest}"
                raise finding(problem, below=f"gateways[{m}].history")
            if gateway.history.selected > self.round:
                problem = f"must be at most round = {self.round}, got {gateway.history.selected}"
                raise finding(problem, below=f"gateways[{m}].history.selected")
            for i, entry in enumerate(gateway.history.recent):
                if not first <= entry.round < self.round:
                    problem = f"must be from {first} to {self.round - 1}, got {entry.round}"
                    raise finding(problem, below=f"gateways[{m}].history.recent[{i}].round")
            entries = len(gateway.history.recent)
            if first == 0 and entries != gateway.history.selected:
                problem = f"must have an entry for each of the {gateway.history.selected} rounds in which the floor was"
                raise finding(f"{problem} selected, got {entries}", below=f"gateways[{m}].history.recent")
        return self

    @model_validator(mode="after")
    def _links_are_described(self) -> Self:
        linked = [
            f"gateways[{m}].devices[{n}].link"
            for m, gateway in enumerate(self.gateways)
            for n, device in enumerate(gateway.devices)
            if device.link is not None
        ]
        if linked and self.traffic is None:
            raise finding(f"is missing, but {linked[0]} needs it. Say how many numbers a sample has", below="traffic")
        if linked and self.traffic is not None and self.traffic.input_per_sample == 0.0:
            raise finding("must be > 0, got 0. Say how many numbers a sample has", below="traffic.input_per_sample")
        for i, layer in enumerate(self.layers if linked else ()):
            for key, meaning in (("parameters", "weights it has"), ("boundary_per_sample", "numbers it puts out")):
                if getattr(layer, key) is None:
                    problem = f"is missing, but {linked[0]} needs it. Say how many {meaning}"
                    raise finding(problem, below=f"layers[{i}].{key}")
            crossing, place = layer.boundary_per_sample, f"layers[{i}].boundary_per_sample"
            if i == len(self.layers) - 1 and crossing != 0.0:
                problem = f"must be 0, because nothing crosses a cut after the last layer, got {shown(crossing)}"
                raise finding(f"{problem}. Write 0", below=place)
            if i < len(self.layers) - 1 and crossing == 0.0:
                raise finding(
                    "must be > 0 for all layers but the last, got 0. Say how many numbers it puts out", below=place
                )
        return self

    @model_validator(mode="after")
    def _measurements_fit(self) -> Self:
        cuts = len(self.layers) + 1
        for m, gateway in enumerate(self.gateways):
            for n, device in enumerate(gateway.devices):
                for key in ("cycles", "bytes"):
                    halves, place = getattr(device, key), f"gateways[{m}].devices[{n}].{key}"
                    for side in SnapshotHalves.model_fields if halves is not None else ():
                        length = len(getattr(halves, side))
                        if length != cuts:
                            problem = f"must have {cuts} values, got {length}. Give one for every cut from 0"
                            raise finding(problem, below=f"{place}.{side}")
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
    return _snapshot_in(text, str(path))


def received_snapshot(content: bytes, label: str) -> Snapshot:
    """Read a snapshot from what a program received; `label` names it in messages."""
    if not content.strip():
        raise SnapshotError(f"{label}: is empty. Send the JSON of a snapshot")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SnapshotError(f"{label}: not UTF-8. Send the snapshot as UTF-8") from None
    return _snapshot_in(text, label)


def _snapshot_in(text: str, label: str) -> Snapshot:
    try:
        raw = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{label}: not valid JSON: {error}. Correct that line") from None
    return parse_snapshot(raw, label)


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
        raise SnapshotError(one_line(error, label, reference="docs/plan.md describes every key")) from None
