"""What crosses a device's cut, in the form in which it is sent, and what both sides of it agree on."""

__all__ = ["activation_layout", "as_received", "as_sent", "device_round", "label_layout", "schedule_of"]

from typing import cast

import numpy as np
import numpy.typing as npt

from fedfloor.deploy.fields import Layout, LinkError
from fedfloor.deploy.tasks import DeviceTask
from fedfloor.training.halves import DeviceRound, Sent
from fedfloor.training.network.built import BuiltNetwork
from fedfloor.training.network.quantised import Quantised
from fedfloor.training.schedule import RateSchedule


def device_round(task: DeviceTask, index: int, cut: int) -> DeviceRound:
    """What both halves know of a device's round."""
    rate = schedule_of(task).rate(index)
    return DeviceRound(task.seed, index, task.number, cut, rate, task.boundary, momentum=task.momentum or 0.0)


def schedule_of(task: DeviceTask) -> RateSchedule:
    """The learning rate of every round."""
    kind, rounds, factor = task.schedule or "constant", task.schedule_rounds or 1, task.schedule_factor or 1.0
    return RateSchedule(task.learning_rate, kind, rounds, factor)


def as_sent(sent: Sent) -> tuple[float | None, npt.NDArray[np.generic]]:
    """The scale, which only rounded numbers have, and the tensor."""
    return (float(sent.scale), sent.steps) if isinstance(sent, Quantised) else (None, sent)


def as_received(scale: float | None, tensor: npt.NDArray[np.generic], task: DeviceTask) -> Sent:
    """The tensor as a half takes it; a scale that is missing or not asked for is a LinkError."""
    rounded = tensor.dtype in (np.int8, np.int16)
    if rounded != (scale is not None):
        raise LinkError(f"{task.name}: a tensor of {tensor.dtype} {'without' if rounded else 'with'} a scale arrived.")
    return tensor if scale is None else Quantised(np.float32(scale), cast("npt.NDArray[np.signedinteger]", tensor))


def activation_layout(task: DeviceTask, network: BuiltNetwork, cut: int) -> Layout:
    """Type and shape of what a device sends up, or is sent down, at a cut: of a whole batch or fewer samples."""
    numbers = "float32" if task.boundary == 32 else f"int{task.boundary}"
    dtype = "uint8" if cut == 0 and task.pictures else numbers
    return Layout(dtype, (task.batch, *network.sent_shape(cut, task.boundary)), at_most=True)


def label_layout(task: DeviceTask) -> Layout:
    """Type and shape of the labels of a batch: the smallest type that can number the classes, or float32."""
    classes = task.model.classes
    if task.predicts:
        return Layout("float32", (task.batch,), at_most=True)
    dtype = "uint8" if classes <= 2**8 else "int16" if classes <= 2**15 else "int64"
    return Layout(dtype, (task.batch,), at_most=True)
