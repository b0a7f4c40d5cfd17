"""What a device or gateway says about itself when it joins a plant, as JSON."""

__all__ = ["MOST_BYTES", "JoiningProfile", "joining_text", "parse_joining", "this_machine"]

import json
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, Strict, ValidationError, field_validator, model_validator

from fedfloor import __version__
from fedfloor.costs.hardware import HardwareProfile
from fedfloor.errors import DeploymentError, MissingExtraError, shown
from fedfloor.runs.machine import memory_bytes, processor_name
from fedfloor.scenario.file import Name
from fedfloor.scenario.findings import one_line
from fedfloor.scenario.section import Flag, Int0, Section, finding
from fedfloor.workers.processes import cores

MOST_BYTES = 4 * 2**20  #: of the JSON text
_MOST_CLASSES = 100_000  #: as in a scenario
_MOST_LAYERS = 1_000  #: of measured costs
_MOST_BATCHES = 16
_MOST_LETTERS = 250  #: of any text, as of a name
_FREQUENCIES = (1e6, 1e10)  #: [Hz] that a processor can have
_LONGEST_STEP = 600.0  #: [s] of all layers


def _refuse_unshowable(text: str) -> str:
    """The text itself, if terminals and pages can show it."""
    if len(text) > _MOST_LETTERS or not text.isprintable():
        raise finding(f"must have at most {_MOST_LETTERS} characters, all of them printable, got {shown(text)}")
    return text


def _texts(value: JsonValue) -> Iterator[str]:
    """All texts in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield key
            yield from _texts(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)


Word = Annotated[str, Field(min_length=1), AfterValidator(_refuse_unshowable)]


class JoiningProfile(Section):
    """A machine that joins."""

    name: Name
    """of the device or the gateway, as in the scenario"""
    role: Literal["gateway"] | None = None
    """given if a gateway speaks of itself where devices are spoken of too"""
    cores: Annotated[int, Strict(), Field(ge=1, le=100_000)]
    """that its process may use"""
    processor: Word
    memory_bytes: Annotated[int, Strict(), Field(ge=1, le=10**18)]
    torch: Word
    """its version"""
    fedfloor: Word
    """its version"""
    samples: Int0 = 0
    """that a device holds; 0 for a gateway"""
    class_counts: Annotated[tuple[Int0, ...], Field(min_length=1, max_length=_MOST_CLASSES)] | None = None
    """samples of each class, only if the scenario allows that they leave the device"""
    costs: HardwareProfile | None = None
    """measured seconds and bytes of each layer, if it has measured them"""
    has_energy_source: Flag = False
    """whether it reports the energy that it has in a round"""

    @field_validator("costs")
    @classmethod
    def _costs_are_fit_to_keep_and_show(cls, costs: HardwareProfile | None) -> HardwareProfile | None:
        if costs is None:
            return None
        for name, count, most in (
            ("layers", len(costs.layers), _MOST_LAYERS),
            ("steps", len(costs.steps), _MOST_BATCHES),
            ("rates", len(costs.rates), _MOST_LAYERS),
        ):
            if count > most:
                raise finding(f"must have at most {most} entries, got {count}", below=name)
        low, high = _FREQUENCIES
        if not low <= costs.frequency_hz <= high:
            raise finding(f"must be {low:g} to {high:g}, got {costs.frequency_hz:g}", below="frequency_hz")
        for b, batch in enumerate(costs.batches):
            layers = sum(entry.timings[b].forward_s + entry.timings[b].backward_s for entry in costs.layers)
            seconds = layers + costs.steps[b].seconds
            if seconds > _LONGEST_STEP:
                problem = f"a step with a batch of {batch} must take at most {_LONGEST_STEP:g} s, got {seconds:g}"
                raise finding(problem, below="layers")
        for text in _texts(costs.model_dump(mode="json")):
            _refuse_unshowable(text)
        return costs

    @model_validator(mode="after")
    def _counts_add_up(self) -> Self:
        if self.class_counts is not None and sum(self.class_counts) != self.samples:
            problem = f"must add up to the {self.samples} samples, got {sum(self.class_counts)}"
            raise finding(problem, below="class_counts")
        return self


def this_machine(
    name: str,
    *,
    role: Literal["gateway"] | None = None,
    samples: int = 0,
    class_counts: Sequence[int] = (),
    allow_class_counts: bool = False,
    costs: HardwareProfile | None = None,
    has_energy_source: bool = False,
) -> JoiningProfile:
    """What this machine says about itself; the samples of each class stay here unless that is allowed."""
    try:
        torch = version("torch")
    except PackageNotFoundError:
        raise MissingExtraError("joining a plant", "deploy") from None
    try:
        return JoiningProfile(
            name=name,
            role=role,
            cores=cores(),
            processor=_shortened(processor_name()),
            memory_bytes=memory_bytes(),
            torch=torch,
            fedfloor=__version__,
            samples=samples,
            class_counts=tuple(class_counts) if allow_class_counts and class_counts else None,
            costs=costs,
            has_energy_source=has_energy_source,
        )
    except ValidationError as error:
        raise _refused(error, "this machine") from None


def joining_text(profile: JoiningProfile) -> str:
    """The profile as it is sent; what is not given is left out."""
    return json.dumps(profile.model_dump(mode="json", exclude_none=True), allow_nan=False, separators=(",", ":"))


def parse_joining(text: str | bytes, label: str) -> JoiningProfile:
    """Check what another machine has sent; `label` names that machine in messages."""
    if len(text) > MOST_BYTES:
        raise DeploymentError(f"{label}: profile: must have at most {MOST_BYTES} bytes, got {len(text)}")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DeploymentError(f"{label}: profile: is not valid JSON: {error!s:.300}") from None
    try:
        return JoiningProfile.model_validate(raw)
    except ValidationError as error:
        raise _refused(error, label) from None


def _refused(error: ValidationError, label: str) -> DeploymentError:
    """The first wrong field, in one line."""
    return DeploymentError(one_line(error, label, reference="docs/machines.md describes every key"))


def _shortened(text: str) -> str:
    """A name that the machine gives its processor, as others can show it."""
    return "".join(letter for letter in text if letter.isprintable())[:_MOST_LETTERS] or "unknown"
