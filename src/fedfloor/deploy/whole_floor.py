"""A floor in one process: the gateway, and its devices trained one after the other, for who has no device machines.

It answers the same messages as a gateway. Devices still train their halves apart, with the same batches and the same
random numbers as real ones; frequencies and power of an order are only what the cost model counts with.
"""

__all__ = ["WholeFloor"]

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedfloor.arrays import Vector
from fedfloor.deploy.device import LocalData
from fedfloor.deploy.feedback import Feedback
from fedfloor.deploy.joining import joining_text, this_machine
from fedfloor.deploy.machines import class_counts
from fedfloor.deploy.messages import (
    Compare,
    Compared,
    Model,
    Order,
    Profile,
    Settled,
    Share,
    Sums,
    Survey,
    Surveyed,
    Trained,
    Turn,
)
from fedfloor.deploy.orders import floor_model, start_of
from fedfloor.deploy.scaling import added
from fedfloor.deploy.surveying import Surveyor, work_of
from fedfloor.deploy.tasks import FloorTask
from fedfloor.errors import DeploymentError
from fedfloor.training.network.built import BuiltNetwork, Inputs
from fedfloor.training.network.weights import average, mean_of
from fedfloor.training.tasks import TrainTask, carry_out


@dataclass(slots=True, eq=False)
class WholeFloor:
    """A floor and what its devices hold."""

    task: FloorTask
    held: Sequence[LocalData]  #: by the devices, in the order of the task
    feedback: Feedback | None = field(init=False)  #: None: nothing is rounded
    network: BuiltNetwork = field(init=False)  #: tells sizes; nothing is trained in it

    def __post_init__(self) -> None:
        first, task = self.task.devices[0], self.task
        self.network = BuiltNetwork(first.model, first.seed)
        pieces, run = self.network.layout.pieces, f"{first.plant} {first.seed}"
        self.feedback = Feedback(pieces, task.upload, folder=None, run=run) if task.upload < 32 else None

    def sums(self) -> Sums:
        """What the scale of the inputs is agreed from."""
        return added([data.sums() for data in self.held])

    def profiles(self) -> list[Profile]:
        """What there is to be told about the devices."""
        return [
            Profile(
                joining_text(
                    this_machine(
                        task.name,
                        samples=data.labels.size,
                        class_counts=() if task.predicts else class_counts(data.labels, task.model.classes),
                        allow_class_counts=task.allow_class_counts,
                    )
                )
            )
            for task, data in zip(self.task.devices, self.held, strict=True)
        ]

    def settle(self, message: Settled, turn: Turn) -> None:
        """Keep what rounding took from the update of a round, if it was used."""
        if self.feedback is not None:
            self.feedback.settle(turn.round, completed=message.completed)

    def train(self, order: Order, turn: Turn, inputs: Inputs) -> tuple[Trained, Model]:
        """Train all devices from the weights of an order; a DeploymentError or a ValueError says why that failed."""
        floor, layout = self.task, self.network.layout
        self._refuse(order)
        start = start_of(order, floor, layout)
        work = work_of(floor.devices, [(data.samples, data.labels) for data in self.held], inputs)
        models: list[Vector] = []
        losses: list[float] = []
        shares: list[Share] = []
        for task, cut in zip(floor.devices, order.cuts.tolist(), strict=True):
            begun, out = time.perf_counter(), np.empty((1, layout.size), np.float32)
            places = np.array([task.number]), np.array([cut])
            result = carry_out(work, TrainTask(turn.round, *places, order.iterations), start, out)
            losses.append(float(result[0, 0]))
            if not (math.isfinite(losses[-1]) and np.isfinite(out).all()):
                raise DeploymentError(f"{task.name}: its loss or its weights are not finite")
            models.append(out[0])
            shares.append(Share(task.name, time.perf_counter() - begun, 0.0, None))
        points = [float(min(task.batch, data.labels.size)) for task, data in zip(floor.devices, self.held, strict=True)]
        total = math.fsum(points)
        loss = math.fsum(weight * value for weight, value in zip(points, losses, strict=True)) / total
        model = average(zip(points, models, strict=True), layout.size)
        return Trained(loss, total, None, tuple(shares)), floor_model(model, start, floor, self.feedback, turn.round)

    def survey(self, message: Survey, inputs: Inputs) -> Surveyed:
        """What the devices find of their gradients; only their mean leaves the floor."""
        answers = [surveyor.survey(message.weights, max(message.samples, 1)) for surveyor in self._surveyors(inputs)]
        counts = [float(answer.devices[0].samples) for answer in answers]
        mean = mean_of(counts, (answer.gradient for answer in answers), self.network.layout.size)
        return Surveyed(tuple(answer.devices[0] for answer in answers), mean.astype(np.float32))

    def compare(self, survey: Survey, message: Compare, inputs: Inputs) -> Compared:
        """How far the gradients are from the mean of all floors; they are computed again, as nothing is kept."""
        found = []
        for surveyor in self._surveyors(inputs):
            surveyor.survey(survey.weights, max(survey.samples, 1))
            found.append(surveyor.compare(message.gradient).devices[0])
        return Compared(tuple(found))

    def _surveyors(self, inputs: Inputs) -> list[Surveyor]:
        if not all(task.allow_gradients for task in self.task.devices):
            raise DeploymentError(
                "a gradient would be sent, which the scenario does not allow (deploy.allow_gradients)"
            )
        devices = zip(self.task.devices, self.held, strict=True)
        return [Surveyor(task, data.samples, data.labels, inputs) for task, data in devices]

    def _refuse(self, order: Order) -> None:
        """Refuse an order that does not fit the floor's task."""
        devices, first, depth = len(self.task.devices), self.task.devices[0], self.network.depth
        if order.cuts.size != devices or order.frequencies_hz.size != devices:
            raise DeploymentError(f"the order must have {devices} cuts and frequencies")
        if order.cuts.min() < first.min_cut or order.cuts.max() > depth:
            problem = f"the cut must be training.min_cut = {first.min_cut} to {depth}"
            raise DeploymentError(f"{problem}, got {order.cuts.min()} to {order.cuts.max()}")
        most = first.local_iterations + (first.extra_iterations or 0)
        if order.iterations is not None and not 1 <= order.iterations <= most:
            raise DeploymentError(f"the number of iterations must be 1 to {most}, got {order.iterations}")
