"""What a gateway and its devices must know to take part in a run, as the base station tells them when they join."""

__all__ = ["DeviceTask", "FloorTask", "floor_tasks", "parse_task", "permissions", "refuse_round", "task_text"]

import json
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat, ValidationError

from fedfloor.costs.compute import split_of_device
from fedfloor.costs.plant import arrays_of
from fedfloor.errors import DeploymentError
from fedfloor.scenario.file import Deploy, Label, Name, Training
from fedfloor.scenario.findings import one_line
from fedfloor.scenario.model import Model
from fedfloor.scenario.resolved import Scenario
from fedfloor.scenario.section import Flag, Int0, Int1, PositiveReal, Section

Seconds = Annotated[tuple[NonNegativeFloat, ...], Field(max_length=4097)]
_REMEDY = "Install the same version of fedfloor on both machines"  #: a task is written by a program
Kind = TypeVar("Kind", bound=Section)


class DeviceTask(Section):
    """What a device must know, and what its gateway must know of it."""

    plant: Label
    """name of the scenario"""
    floor: Name
    name: Name
    number: Int0
    """n, its place among all devices"""
    seed: Int0
    """of batches, dropout and rounding"""
    plant_seed: Int0 | None = None
    """of the division of a scenario's data; `seed` if not given"""
    model: Model
    predicts: Literal["numbers"] | None = None
    """labels are numbers to predict; null: they are classes"""
    local_iterations: Int1
    """K"""
    extra_iterations: Int1 | None = None
    """most iterations beyond K in a round; null: none"""
    learning_rate: PositiveReal
    """beta, of the first round and of estimates"""
    momentum: Annotated[float, Field(gt=0, le=0.9999)] | None = None
    """mu; null: none"""
    schedule: Literal["cosine", "step"] | None = None
    """of the learning rate; null: it is constant, and the next two have no effect"""
    schedule_rounds: Int1 | None = None
    schedule_factor: PositiveReal | None = None
    redraw_batch: Flag
    """draw a new batch in every iteration"""
    batch: Int1
    """D~_n; a device that holds less takes all it has"""
    min_cut: Int0
    """least number of layers that stay on the device"""
    boundary: Literal[32, 16, 8]
    """bits per number that crosses the cut"""
    pictures: Flag
    """samples are pictures with 8 bits per value, which cut 0 sends as they are"""
    allow_gradients: Flag = False
    """the scenario lets gradients leave the device, if the device does too"""
    allow_class_counts: Flag = False
    """the scenario lets a device tell how many samples of each class it holds, if the device does too"""
    measure: Flag | None = None
    """the device is to measure its layers and do nothing else; a task without it follows"""
    frequency_hz: PositiveFloat
    """f_n"""
    bottom_s: Seconds
    """modelled time of the device's computing in a round, for every cut 0..L"""
    top_cycles: Seconds
    """modelled cycles of the gateway's computing for the device in a round, for every cut 0..L"""


class FloorTask(Section):
    """What a gateway must know."""

    floor: Name
    number: Int0
    """m, its place among all floors"""
    max_frequency_hz: PositiveFloat
    """f_m^max"""
    upload: Literal[32, 16, 8]
    """bits per number of what it sends to the base station"""
    download: Literal[32, 16]
    """bits per number of what it receives"""
    measure: Flag | None = None
    """the gateway is to measure its layers; a task without it follows"""
    devices: Annotated[tuple[DeviceTask, ...], Field(min_length=1, max_length=4096)]


def floor_tasks(scenario: Scenario, *, measure: bool = False) -> tuple[FloorTask, ...]:
    """The tasks of all floors of a scenario; with `measure`, machines without a hardware profile are to measure."""
    plant, training = arrays_of(scenario), scenario.training
    cuts, numbers, tasks = np.arange(plant.workload.layers + 1), iter(range(len(scenario.devices))), []
    for m, floor in enumerate(scenario.floors):
        devices = []
        for device in floor.devices:
            n = next(numbers)
            split = split_of_device(plant, n, cuts)
            devices.append(
                DeviceTask(
                    plant=scenario.name,
                    floor=floor.name,
                    name=device.name,
                    number=n,
                    seed=scenario.seed,
                    plant_seed=scenario.plant_seed,
                    model=scenario.model,
                    predicts="numbers" if training.predicts_numbers else None,
                    local_iterations=training.local_iterations,
                    extra_iterations=training.extra_iterations or None,
                    learning_rate=training.learning_rate,
                    momentum=training.momentum or None,
                    **_schedule(training),
                    redraw_batch=training.redraw_batch,
                    batch=device.batch(training.batch_fraction),
                    min_cut=training.min_cut,
                    boundary=scenario.precision.boundary,
                    pictures=scenario.data.holds_pictures,
                    allow_gradients=scenario.deploy.allow_gradients,
                    allow_class_counts=scenario.deploy.allow_class_counts,
                    measure=(measure and device.profile is None) or None,
                    frequency_hz=device.frequency,
                    bottom_s=tuple((split.bottom_flop / device.flops_per_cycle / device.frequency).tolist()),
                    top_cycles=tuple((split.top_flop / floor.gateway.flops_per_cycle).tolist()),
                )
            )
        tasks.append(
            FloorTask(
                floor=floor.name,
                number=m,
                max_frequency_hz=floor.gateway.max_frequency,
                upload=scenario.precision.upload,
                download=scenario.precision.download,
                measure=(measure and floor.gateway.profile is None) or None,
                devices=tuple(devices),
            )
        )
    return tuple(tasks)


def _schedule(training: Training) -> dict[str, Any]:
    """The schedule of the learning rate; empty if it is constant, so that the task is that of older versions."""
    keys = ("schedule", "schedule_rounds", "schedule_factor")
    return {} if training.schedule == "constant" else {key: getattr(training, key) for key in keys}


def task_text(task: Section) -> str:
    """A task as it is sent."""
    return json.dumps(task.model_dump(mode="json", exclude_none=True), allow_nan=False, separators=(",", ":"))


def parse_task(text: str, kind: type[Kind], sender: str) -> Kind:
    """Check a task that another machine has sent; `sender` names that machine in messages."""
    try:
        return kind.model_validate(json.loads(text))
    except ValidationError as error:
        raise DeploymentError(one_line(error, f"the task of {sender}", remedy=_REMEDY)) from None
    except (ValueError, RecursionError) as error:
        problem = f"is not valid JSON: {error!s:.200}"
        raise DeploymentError(f"the task of {sender}: {problem}. {_REMEDY}") from None


def refuse_round(task: DeviceTask, *, cut: int, iterations: int, depth: int) -> None:
    """Refuse a round that the scenario does not allow a device, whose network has `depth` layers."""
    if not task.min_cut <= cut <= depth:
        raise DeploymentError(f"the cut must be training.min_cut = {task.min_cut} to {depth}, got {cut}")
    most = task.local_iterations + (task.extra_iterations or 0)
    if not 1 <= iterations <= most:
        extra = " + training.extra_iterations" if task.extra_iterations else ""
        limits = f"1 to training.local_iterations{extra} = {most}"
        raise DeploymentError(f"the number of iterations must be {limits}, got {iterations}")


def permissions(deploy: Deploy) -> list[str]:
    """Options with which a device allows all that the scenario allows, for trials."""
    keys = ("allow_samples", "allow_gradients", "allow_class_counts")
    return [f"--{key.replace('_', '-')}" for key in keys if getattr(deploy, key)]
