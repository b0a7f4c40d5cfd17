"""A floor in one process: the gateway, and its devices trained one after the other, for sites without device machines.

It answers the same messages as a gateway. Devices still train their halves apart, with the same batches and the same
random numbers as real ones; frequencies and power of an order are only what the cost model counts with.
"""

__all__ = ["WholeFloor"]

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

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
from fedfloor.deploy.orders import floor_model, refuse_incomplete_order, start_of
from fedfloor.deploy.scaling import added
from fedfloor.deploy.surveying import Surveyor, mean_survey, work_of
from fedfloor.deploy.tasks import FloorTask, refuse_round
from fedfloor.errors import DeploymentError
from fedfloor.training.floors import DeviceResult, floor_result
from fedfloor.training.network.built import BuiltNetwork, Inputs
from fedfloor.training.tasks import TrainTask, carry_out
from fedfloor.training.work import Work


@dataclass(slots=True, eq=False)
class WholeFloor:
    """A floor and what its devices hold."""

    task: FloorTask
    held: Sequence[LocalData]  #: by the devices, in the order of the task
    network: BuiltNetwork  #: in which all devices train; nobody else uses it meanwhile
    feedback: Feedback | None = field(init=False)  #: None: nothing is rounded

    def __post_init__(self) -> None:
        first, task = self.task.devices[0], self.task
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
        start, work = start_of(order, floor, layout), self._work(inputs)
        shares: list[Share] = []

        def results() -> Iterator[DeviceResult]:
            for task, data, cut in zip(floor.devices, self.held, order.cuts.tolist(), strict=True):
                begun, out = time.perf_counter(), np.empty((1, layout.size), np.float32)
                training = TrainTask(turn.round, np.array([task.number]), np.array([cut]), order.iterations)
                loss = float(carry_out(work, training, start, out)[0, 0])
                if not (math.isfinite(loss) and np.isfinite(out).all()):
                    raise DeploymentError(f"{task.name}: its loss or its weights are not finite")
                shares.append(Share(task.name, time.perf_counter() - begun, 0.0, None))
                yield DeviceResult(float(min(task.batch, data.labels.size)), loss, out[0])

        result = floor_result(results(), layout.size)
        trained = Trained(result.loss, result.points, None, tuple(shares))
        return trained, floor_model(result.model, start, floor, self.feedback, turn.round)

    def survey(self, message: Survey, inputs: Inputs) -> Surveyed:
        """What the devices find of their gradients; only their mean leaves the floor."""
        surveyors = self._surveyors(inputs)
        return mean_survey([surveyor.survey(message.weights, max(message.samples, 1)) for surveyor in surveyors])

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
        work = self._work(inputs)
        return [Surveyor(task, work) for task in self.task.devices]

    def _work(self, inputs: Inputs) -> Work:
        held = [(data.samples, data.labels) for data in self.held]
        return work_of(self.task.devices, held, inputs, self.network)

    def _refuse(self, order: Order) -> None:
        """Refuse an order that does not fit the floor's task."""
        refuse_incomplete_order(order, self.task)
        for task, cut in zip(self.task.devices, order.cuts.tolist(), strict=True):
            iterations = task.local_iterations if order.iterations is None else order.iterations
            refuse_round(task, cut=cut, iterations=iterations, depth=self.network.depth)
