"""A hardware profile: the JSON file of seconds and bytes per layer that `fedfloor profile --costs measured` writes."""

__all__ = [
    "FORMAT",
    "VERSION",
    "HardwareProfile",
    "LayerTiming",
    "Machine",
    "MeasuredLayer",
    "Power",
    "Rate",
    "Software",
    "StepTiming",
    "fingerprint",
    "is_profile",
    "parse_profile",
    "profile_from",
    "profile_text",
    "read_profile",
    "switched_capacitance",
    "unnamed",
]

import hashlib
import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, Strict, ValidationError, model_validator

from fedfloor.errors import ProfileError, shown
from fedfloor.scenario.findings import one_line
from fedfloor.scenario.layers import LayerSpec, unchained
from fedfloor.scenario.profiles import read_text
from fedfloor.scenario.section import Int1, PositiveReal, Section, finding

FORMAT = "fedfloor hardware profile"
VERSION = 1
_AGAIN = "Measure again with `fedfloor profile MODEL --costs measured`"

Seconds = Annotated[float, Strict(), Field(gt=0, le=1e6)]
Overhead = Annotated[float, Strict(), Field(ge=0, le=1e6)]
Bytes = Annotated[float, Strict(), Field(gt=0, le=1e18)]
Word = Annotated[str, Field(min_length=1, max_length=200)]


class Machine(Section):
    """The machine that was measured."""

    cpu: Word
    cores: Int1
    system: Word


class Software(Section):
    """Versions of what measured it."""

    python: Word
    torch: Word
    fedfloor: Word


class LayerTiming(Section):
    """One layer with one batch; times are medians over repeated steps, with the quartiles beside them."""

    batch: Int1
    forward_s: Seconds
    forward_quartiles_s: tuple[Seconds, Seconds]
    backward_s: Seconds
    """error, weight gradient and the optimiser's step on the weights of the layer"""
    backward_quartiles_s: tuple[Seconds, Seconds]
    device_bytes: Bytes
    """peak memory of a device whose half ends with this layer"""
    gateway_bytes: Bytes
    """peak memory of a gateway, per device, whose half begins with this layer"""


class StepTiming(Section):
    """What a half spends per step beside its layers: starting the two passes and the optimiser."""

    batch: Int1
    seconds: Overhead
    quartiles_s: tuple[Overhead, Overhead]


class MeasuredLayer(Section):
    """A layer and its timings, one for every batch."""

    layer: LayerSpec
    flop_per_sample: Annotated[float, Strict(), Field(ge=0, le=1e30)]
    """forward and backward, by the cost model `exact`"""
    timings: Annotated[tuple[LayerTiming, ...], Field(min_length=1)]


class Rate(Section):
    """Effective speed of one kind of layer, for layers that were not measured."""

    flop_per_s: PositiveReal
    """median over layers and batches of FLOP by `exact` per second"""
    error: Annotated[float, Strict(), Field(ge=0)]
    """median of |predicted / measured - 1| over the same layers and batches"""
    layers: Int1
    """number of layers behind it"""


class Power(Section):
    """Power drawn while the machine was measured."""

    watts: PositiveReal
    source: Word
    switched_capacitance: PositiveReal
    """v = P / f^3 [W/Hz^3]"""


class HardwareProfile(Section):
    """Costs of one network on one machine."""

    format: Literal["fedfloor hardware profile"]
    version: Annotated[int, Strict(), Field(ge=1, le=VERSION)]
    machine: Machine
    software: Software
    clock: Word
    """clock of the times: `thread_time` counts only the processor time of the measuring thread"""
    frequency_hz: PositiveReal
    """clock frequency during the measurement; cycles are seconds times it"""
    frequency_source: Word
    model: Word
    fingerprint: Word
    """of the layer list, without the names of the layers"""
    repeats: Int1
    """steps per batch"""
    steps: Annotated[tuple[StepTiming, ...], Field(min_length=1)]
    layers: Annotated[tuple[MeasuredLayer, ...], Field(min_length=1)]
    rates: dict[str, Rate]
    """by layer kind"""
    power: Power | None = None

    @property
    def batches(self) -> tuple[int, ...]:
        """Measured batches, ascending."""
        return tuple(step.batch for step in self.steps)

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        """The layer list of the measured network."""
        return tuple(entry.layer for entry in self.layers)

    @model_validator(mode="after")
    def _batches_agree(self) -> Self:
        if any(low >= high for low, high in pairwise(self.batches)):
            raise finding(f"batches must ascend, got {list(self.batches)}. {_AGAIN}", below="steps")
        for index, entry in enumerate(self.layers):
            batches = tuple(timing.batch for timing in entry.timings)
            if batches != self.batches:
                problem = f"has the batches {list(batches)}, steps has {list(self.batches)}"
                raise finding(f"{problem}. {_AGAIN}", below=f"layers[{index}].timings")
        return self

    @model_validator(mode="after")
    def _power_and_capacitance_agree(self) -> Self:
        if self.power is not None:
            expected, given = switched_capacitance(self.power.watts, self.frequency_hz), self.power.switched_capacitance
            if not math.isclose(given, expected, rel_tol=1e-6):
                problem = f"must be watts / frequency_hz^3 = {expected:g}, got {given:g}"
                raise finding(f"{problem}. {_AGAIN}", below="power.switched_capacitance")
        return self

    @model_validator(mode="after")
    def _layers_are_those_that_were_measured(self) -> Self:
        gap = unchained(self.specs)
        if gap is not None:
            index, reason = gap
            raise finding(f"a layer is missing or changed: {reason}. {_AGAIN}", below=f"layers[{index}].layer")
        expected = fingerprint(self.specs)
        if self.fingerprint != expected:
            problem = f"is {shown(self.fingerprint)}, that of the {len(self.layers)} layers is '{expected}'"
            raise finding(f"{problem}: a layer is missing or changed. {_AGAIN}", below="fingerprint")
        return self


def switched_capacitance(power: float, frequency: float) -> float:
    """Switched capacitance v = P / f^3 [W/Hz^3] of a processor that draws P [W] at f [Hz].

    With it the energy v c f^2 of c cycles is P times their c / f seconds.
    """
    return power / frequency**3


def fingerprint(layers: Sequence[LayerSpec]) -> str:
    """Short digest of a layer list that does not depend on the names of the layers."""
    text = json.dumps([layer.model_dump(mode="json", exclude={"name"}) for layer in layers], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unnamed(layer: LayerSpec) -> LayerSpec:
    """The layer without its name, to compare layers by what they compute."""
    return layer.model_copy(update={"name": ""})


def profile_text(profile: HardwareProfile) -> str:
    """The profile as its file contains it."""
    return json.dumps(profile.model_dump(mode="json", exclude_none=True), indent=1, allow_nan=False) + "\n"


def is_profile(path: Path) -> bool:
    """Whether a file says that it is a hardware profile, of whatever version."""
    try:
        raw = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(raw, dict) and raw.get("format") == FORMAT


def read_profile(path: Path) -> HardwareProfile:
    """Read a hardware profile from its file."""
    return profile_from(read_text(path), str(path))


def profile_from(text: str, label: str) -> HardwareProfile:
    """The hardware profile that a file with this text contains; `label` names it in messages."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{label}: not valid JSON: {error!s:.300}. {_AGAIN}") from None
    return parse_profile(raw, label)


def parse_profile(raw: object, label: str) -> HardwareProfile:
    """Check plain data and make a hardware profile of it; `label` names it in messages."""
    kind = raw.get("format") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or kind != FORMAT:
        raise ProfileError(f"{label}: format: must be '{FORMAT}', got {shown(kind)}. Name a hardware profile")
    version = raw.get("version")
    if isinstance(version, int) and version > VERSION:
        problem = f"is {shown(version)}, this fedfloor reads up to {VERSION}"
        raise ProfileError(f"{label}: version: {problem}. Update fedfloor, or measure again with this one")
    try:
        return HardwareProfile.model_validate(raw)
    except ValidationError as error:
        raise ProfileError(one_line(error, label, remedy=_AGAIN)) from None
