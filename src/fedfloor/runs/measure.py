"""Measure the layers of a network on this machine: `fedfloor profile --costs measured`."""

__all__ = [
    "Target",
    "measured_profile",
    "model_target",
    "refuse_profile_file",
    "representative",
    "scenario_target",
    "write_profile",
]

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedfloor import __version__
from fedfloor.costs.hardware import (
    FORMAT,
    VERSION,
    HardwareProfile,
    LayerTiming,
    Machine,
    MeasuredLayer,
    Power,
    Software,
    StepTiming,
    fingerprint,
    is_profile,
    profile_text,
    switched_capacitance,
)
from fedfloor.costs.layers import exact_costs
from fedfloor.costs.measured import fitted_rates
from fedfloor.errors import ModelError, ProfileError, RunLogError
from fedfloor.files import refused_write, write_whole
from fedfloor.runs.machine import PowerReading, processor_name, read_frequency, start_power_reading
from fedfloor.runs.planned import ScenarioSource, label_of, resolve
from fedfloor.runs.profile import inferred_layers, named_model
from fedfloor.runs.target import refuse_target
from fedfloor.runs.trust import refuse_code
from fedfloor.scenario import LayerSpec, build
from fedfloor.scenario.model import Costs, Model
from fedfloor.scenario.profiles import with_profiles

if TYPE_CHECKING:
    from fedfloor.training.measuring import Measurement

_SECONDS = 30.0  #: about how long steps are timed
_BATCHES = 4  #: most batches of a scenario that are measured


@dataclass(frozen=True, slots=True)
class Target:
    """The network and the batches to be measured."""

    model: Model  #: at the width that costs describe
    layers: tuple[LayerSpec, ...]
    batches: tuple[int, ...]  #: ascending


def model_target(name: str, shape: str | None, batches: Sequence[int], overrides: Sequence[str] = ()) -> Target:
    """A built-in network or `package.module:callable`, with these batches."""
    model = named_model(name, shape, overrides)
    layers = inferred_layers(model, Costs(), f"profile {name}")
    return Target(model, layers, tuple(sorted(set(batches))))


def scenario_target(
    source: ScenarioSource, batches: Sequence[int], overrides: Sequence[str] = (), *, own: bool = False
) -> Target:
    """The network that a scenario's costs describe, with these batches or some of those that its devices use."""
    file = with_profiles(resolve(source, overrides, own=own), lambda _: None)  # which need not have been measured yet
    label = label_of(source)
    scenario = build(file, label)
    refuse_code(scenario, "model", file=label, own=own, overrides=overrides)
    model = scenario.model
    if scenario.costs.width is not None:
        model = model.model_copy(update={"width": scenario.costs.width})
    layers = inferred_layers(model, Costs(), label)
    if fingerprint(layers) != fingerprint(scenario.layers):
        problem = f"model.layers: is not the layer list of '{model.name}', which would be measured"
        advice = "`fedfloor profile MODEL --format toml` prints the list that fits"
        raise ModelError(f"{label}: {problem}, got {len(scenario.layers)} layers. {advice}")
    used = [device.batch(scenario.training.batch_fraction) for device in scenario.devices]
    return Target(model, scenario.layers, tuple(sorted(set(batches))) or representative(used))


def representative(batches: Sequence[int]) -> tuple[int, ...]:
    """The smallest, the largest and up to two batches between them, as far apart as may be, ascending.

    Two batches that are close together would say little about the slope between them.
    """
    used = np.unique(batches)
    wanted = np.linspace(used[0], used[-1], _BATCHES)
    return tuple(sorted({int(used[np.argmin(np.abs(used - batch))]) for batch in wanted}))


def measured_profile(
    target: Target,
    *,
    frequency: float | None = None,
    power: str | None = None,
    seconds: float = _SECONDS,
    on_plan: Callable[[int], None] = lambda _: None,
    on_step: Callable[[], None] = lambda: None,
) -> HardwareProfile:
    """Time every layer of the target on this machine.

    `frequency` [Hz] is what the processor runs at, if the machine does not say it; `power` is a number of watts, a file
    or `rapl`.
    """
    from fedfloor.training.measuring import CLOCK, measure  # noqa: PLC0415  # `inferred_layers` has found torch

    readings = [] if frequency is not None else [reading for reading in [read_frequency()] if reading is not None]
    if frequency is None and not readings:
        problem = "this machine does not say how fast its processor runs"
        raise ProfileError(f"--frequency-ghz: is missing, and {problem}. Give it, as in --frequency-ghz 1.5")
    end_power = start_power_reading(power) if power is not None else None

    def step() -> None:
        if frequency is None:
            readings.extend(reading for reading in [read_frequency()] if reading is not None)
        on_step()

    measurement = measure(target.model, target.layers, target.batches, seconds=seconds, on_plan=on_plan, on_step=step)
    drawn = None if end_power is None else end_power()
    if frequency is not None:
        hertz, source = frequency, "given"
    else:
        hertz, source = statistics.median(hertz for hertz, _ in readings), readings[0][1]
    return _profile(target, measurement, hertz, source, drawn, CLOCK)


def _profile(
    target: Target, times: "Measurement", frequency: float, source: str, power: PowerReading | None, clock: str
) -> HardwareProfile:
    flop = exact_costs(target.layers).flop
    return HardwareProfile(
        format=FORMAT,
        version=VERSION,
        machine=Machine(
            cpu=processor_name()[:200],
            cores=os.cpu_count() or 1,
            system=f"{platform.system()} {platform.release()} {platform.machine()}"[:200],
        ),
        software=Software(python=platform.python_version(), torch=version("torch"), fedfloor=__version__),
        clock=clock,
        frequency_hz=frequency,
        frequency_source=source,
        model=target.model.name[:200],
        fingerprint=fingerprint(target.layers),
        repeats=times.repeats,
        steps=tuple(_step(times, b, batch) for b, batch in enumerate(target.batches)),
        layers=tuple(
            MeasuredLayer(
                layer=layer,
                flop_per_sample=flop[index],
                timings=tuple(_timing(times, b, index, batch) for b, batch in enumerate(target.batches)),
            )
            for index, layer in enumerate(target.layers)
        ),
        rates=dict(fitted_rates(target.layers, target.batches, times.forward[1] + times.backward[1])),
        power=None
        if power is None
        else Power(
            watts=power.watts,
            source=power.source,
            switched_capacitance=switched_capacitance(power.watts, frequency),
        ),
    )


def _step(times: "Measurement", b: int, batch: int) -> StepTiming:
    low, middle, high = times.step[:, b].round(9).tolist()  # the clock has no finer steps
    return StepTiming(batch=batch, seconds=middle, quartiles_s=(low, high))


def _timing(times: "Measurement", b: int, index: int, batch: int) -> LayerTiming:
    forward, backward = times.forward[:, b, index].round(9).tolist(), times.backward[:, b, index].round(9).tolist()
    return LayerTiming(
        batch=batch,
        forward_s=forward[1],
        forward_quartiles_s=(forward[0], forward[2]),
        backward_s=backward[1],
        backward_quartiles_s=(backward[0], backward[2]),
        device_bytes=float(times.device_bytes[b, index]),
        gateway_bytes=float(times.gateway_bytes[b, index]),
    )


def refuse_profile_file(path: Path) -> None:
    """Refuse a file to write to that is not a plain one, or that is there and is no hardware profile."""
    target = refuse_target(path, None, example="machine.json")
    if target.exists() and target.stat().st_size and not is_profile(target):
        raise RunLogError(f"{path}: exists and is not a hardware profile. Name another file")


def write_profile(path: Path, profile: HardwareProfile) -> None:
    """Write a hardware profile; until all of it is written, a file of that name stays as it was."""
    refuse_profile_file(path)
    try:
        write_whole(Path(os.path.realpath(path)), profile_text(profile).encode())
    except OSError as error:
        raise refused_write(path, error, again="measure again", advice="Name another place") from None
