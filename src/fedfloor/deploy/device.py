"""A device: holds data, trains the bottom of the network, and sends nothing that its owner has not allowed."""

__all__ = ["Device", "LocalData", "refuse_misfit", "serve_device"]

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from fedfloor import __version__
from fedfloor.arrays import Labels
from fedfloor.deploy.actuators.contract import Actuator, Setting, carried_out
from fedfloor.deploy.crossing import activation_layout, as_received, as_sent, device_round, label_layout
from fedfloor.deploy.energy import EnergyBudget, EnergyMeter
from fedfloor.deploy.fields import Layout, LinkError
from fedfloor.deploy.guarding import papers_of
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.joining import joining_text, this_machine
from fedfloor.deploy.link import sessions
from fedfloor.deploy.machines import class_counts
from fedfloor.deploy.measuring import CostMeter
from fedfloor.deploy.messages import (
    Abandon,
    Begin,
    Bottom,
    Boundary,
    Compare,
    Compared,
    Expected,
    Failed,
    Gradient,
    Hello,
    Inputs,
    Profile,
    Ready,
    Settled,
    Sums,
    Survey,
    Surveyed,
    Turn,
)
from fedfloor.deploy.scaling import checked_inputs
from fedfloor.deploy.session import Session
from fedfloor.deploy.surveying import Surveyor, work_of
from fedfloor.deploy.tasks import DeviceTask, parse_task, refuse_round
from fedfloor.errors import DeploymentError, FailedRunError, FedfloorError
from fedfloor.training import halves
from fedfloor.training.data.samples import batch_of
from fedfloor.training.network import built

_LOG = logging.getLogger(__name__)
_FORWARD = 1.0 / 3.0  #: share of a step's work before the activations are sent; the backward pass does twice as much


@dataclass(frozen=True, slots=True, eq=False)
class LocalData:
    """What a device holds."""

    samples: npt.NDArray[np.generic]  #: (D, ...) uint8 or float32
    labels: Labels  #: (D,)

    def sums(self) -> Sums:
        """What the scale of the inputs is agreed from, per channel."""
        axes = (0, *range(2, self.samples.ndim))
        values = self.samples.astype(np.float64)
        total, squares = np.atleast_1d(values.sum(axis=axes)), np.atleast_1d(np.square(values).sum(axis=axes))
        return Sums(values.size // total.size, total, squares)


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """What a device's owner decides."""

    name: str
    gateway: str  #: HOST:PORT
    data: Callable[[DeviceTask], LocalData]
    actuator: Actuator
    credentials: Credentials | None  #: None: without TLS, on this machine only
    energy: EnergyBudget | None = None  #: what it may spend in a round; None: as the scenario says
    meter: EnergyMeter | None = None  #: what it has spent; None: computed from the model
    allow_samples: bool = False  #: cut 0, which sends the samples themselves
    allow_gradients: bool = False  #: send gradients of its loss, which estimated participation rates need
    allow_class_counts: bool = False  #: tell the gateway how many samples of each class there are
    own: bool = False  #: import a model that the plant names as `package.module:callable`
    meter_of_costs: CostMeter = field(default_factory=CostMeter)  #: measures layers if the plant asks for it


async def serve_device(options: Device) -> None:
    """Take part in the rounds of a gateway until cancelled; a gateway that is lost is dialled again."""
    hello = Hello(role="device", name=options.name, software=__version__, profile="{}")  # its profile needs the task
    kept: _Kept | None = None
    async for joined in sessions(options.gateway, hello, papers_of(options.credentials)):
        try:
            task = parse_task(joined.welcome.task, DeviceTask, options.gateway)
            _refuse_task(options, task)
            if task.measure:
                await _measure(options, task, joined.session)
                continue
            if kept is None or kept.task != task:
                kept = await _prepared(options, task)
            await _Device(options, kept, joined.session).serve()
        except LinkError as error:
            _LOG.warning("%s", error)
            if joined.session.is_open:  # what the gateway sent fits a message, but not this device
                await joined.session.close(str(error))
        except FedfloorError as error:
            _LOG.error("%s", error)  # a sentence for people, not a traceback
            await joined.session.close(str(error))


class _AbandonedError(Exception):
    """The gateway has given up the round of this device."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """What a device keeps between two connections with the same task."""

    task: DeviceTask
    data: LocalData
    network: built.BuiltNetwork
    sums: Sums
    profile: str  #: what the device says about itself, as JSON


def _refuse_task(options: Device, task: DeviceTask) -> None:
    """Refuse the task of another device, and one that would run code which this device's owner has not allowed."""
    if task.name != options.name:
        raise DeploymentError(f"{options.gateway}: sent the task of '{task.name}' to '{options.name}'")
    if ":" in task.model.name and not options.own:
        problem = f"model.name: names code that would run, '{task.model.name}'"
        raise DeploymentError(f"{options.gateway}: {problem}. If you trust that code, start the device with --own")


async def _measure(options: Device, task: DeviceTask, session: Session) -> None:
    """Tell the gateway what each layer costs here, and wait for the connection to end: the next task follows."""
    built.BuiltNetwork(task.model, task.seed)  # it sets torch to one thread, as in training
    costs = await options.meter_of_costs.costs(task.model, [task.batch])
    await session.send(Profile(joining_text(this_machine(options.name, costs=costs))))
    while True:
        await session.receive(Inputs, Settled)


def refuse_misfit(data: LocalData, task: DeviceTask) -> None:
    """Refuse data that is not what the network of the task takes."""
    shape, kind = data.samples.shape[1:], data.samples.dtype
    if shape != task.model.input:
        problem = f"samples must have the shape {list(task.model.input)}, as model.input says, got {list(shape)}"
        raise DeploymentError(f"--data: {problem}. Convert them")
    if task.pictures != (kind == np.uint8):
        must = "pictures with whole numbers from 0 to 255 (uint8)" if task.pictures else "numbers (float32)"
        raise DeploymentError(f"--data: samples of this plant must be {must}, got {kind}. Convert them")


async def _prepared(options: Device, task: DeviceTask) -> _Kept:
    """Read the data for a task, which may take a while, and check that both fit."""
    data = await asyncio.to_thread(options.data, task)
    refuse_misfit(data, task)
    profile = this_machine(
        options.name,
        samples=data.labels.size,
        class_counts=() if task.predicts else class_counts(data.labels, task.model.classes),
        allow_class_counts=options.allow_class_counts and task.allow_class_counts,
        has_energy_source=options.energy is not None,
    )
    network = built.BuiltNetwork(task.model, task.seed)
    await asyncio.to_thread(lambda: network.crossing)  # torch loads much for it, once, and trials have a deadline
    return _Kept(task, data, network, await asyncio.to_thread(data.sums), joining_text(profile))


@dataclass(slots=True, eq=False)
class _Device:
    """A device while it is connected."""

    options: Device
    kept: _Kept
    session: Session
    inputs: built.Inputs | None = field(init=False, default=None)
    surveyor: Surveyor | None = field(init=False, default=None)  #: made when it is first needed

    @property
    def task(self) -> DeviceTask:
        """What the gateway has told it when it joined."""
        return self.kept.task

    @property
    def network(self) -> built.BuiltNetwork:
        """In which it trains."""
        return self.kept.network

    async def serve(self) -> None:
        """Do what the gateway asks for until the connection ends."""
        await self.session.send(Profile(self.kept.profile))
        await self.session.send(self.kept.sums)
        whole = Layout("float32", (self.network.layout.size,))
        expected = (
            Expected(Begin, {"weights": replace(whole, at_most=True)}),
            Expected(Survey, {"weights": whole}),
            Expected(Compare, {"gradient": whole}),
        )
        while True:
            envelope = await self.session.receive(Inputs, Settled, Abandon, *expected)
            message = envelope.message
            if isinstance(message, Begin):
                await self._take_part(message, envelope.turn)
            elif isinstance(message, Survey | Compare):
                await self._take_survey(message, envelope.turn)
            elif isinstance(message, Inputs):
                self.inputs, self.surveyor = checked_inputs(message, self.task.model.input[0]), None
                await self._report()
            elif isinstance(message, Settled):
                if self.options.credentials is not None:
                    self.options.credentials.refresh()  # it says so in good time if the certificate is to expire
                await self._report()

    async def _report(self) -> None:
        energy = self.options.energy
        await self.session.send(Ready(None if energy is None else await asyncio.to_thread(energy.read)))

    async def _take_part(self, begin: Begin, turn: Turn) -> None:
        """Train in one round; what keeps the device from it is told to the gateway."""
        try:
            async with asyncio.timeout(begin.deadline_s):
                await self._train(begin, turn)
        except _AbandonedError:
            _LOG.info("Round %d: the gateway no longer waits for this device.", turn.round)
        except (TimeoutError, FedfloorError, ValueError) as error:
            reason = str(error) or f"not done within {begin.deadline_s:.3g} s"
            _LOG.warning("Round %d: %s", turn.round, reason)
            await self.session.send(Failed(f"{self.options.name}: {reason}"), turn)

    async def _take_survey(self, message: Survey | Compare, turn: Turn) -> None:
        """Take part in an estimate of the participation rates; the gateway stops waiting when it is too late."""
        try:
            surveyor = self._surveyor()
            answer: Surveyed | Compared
            if isinstance(message, Survey):
                answer = await asyncio.to_thread(surveyor.survey, message.weights, max(message.samples, 1))
            else:
                answer = await asyncio.to_thread(surveyor.compare, message.gradient)
        except (FedfloorError, FailedRunError, RuntimeError, ValueError) as error:  # torch raises RuntimeErrors
            _LOG.warning("Round %d: the participation rates are estimated without this device: %s", turn.round, error)
            await self.session.send(Failed(f"{self.options.name}: {error}"), turn)
        else:
            await self.session.send(answer, turn)

    def _surveyor(self) -> Surveyor:
        """What computes gradients here, if that is allowed."""
        if not (self.options.allow_gradients and self.task.allow_gradients):
            who = "the scenario does not allow (deploy.allow_gradients)"
            if self.task.allow_gradients:
                who = "this device does not allow (--allow-gradients)"
            raise DeploymentError(f"a gradient would be sent, which {who}")
        if self.inputs is None:
            raise DeploymentError("the scale of the inputs is not agreed yet")
        if self.surveyor is None:
            data = self.kept.data
            self.surveyor = Surveyor(self.task, work_of([self.task], [(data.samples, data.labels)], self.inputs))
        return self.surveyor

    async def _train(self, begin: Begin, turn: Turn) -> None:
        """Train the bottom and send it back."""
        actuator, bottom = self.options.actuator, self._bottom(begin, turn)
        setting = Setting(begin.frequency_hz, 1.0, steps=(begin.train_s / begin.iterations,) * begin.iterations)
        spent = None if self.options.meter is None else self.options.meter.start()
        seconds = loss = 0.0
        with carried_out(actuator, setting):
            for iteration in range(begin.iterations):
                samples, labels = self._batch(turn.round, iteration)
                if begin.cut == self.network.depth:
                    began = time.monotonic()
                    step = bottom.step(samples, labels)
                    if iteration < self.task.local_iterations:  # so that losses compare, whoever does more
                        loss += step / min(begin.iterations, self.task.local_iterations)
                    await actuator.step(setting.steps[iteration], began=began)
                    seconds += time.monotonic() - began
                else:
                    seconds += await self._split_step(bottom, begin, turn, iteration, samples, labels)
        energy = None if spent is None else spent()
        whole, count = begin.cut == self.network.depth, min(self.task.batch, self.kept.data.labels.size)
        await self.session.send(Bottom(seconds, energy, count, loss if whole else None, bottom.weights()), turn)

    def _bottom(self, begin: Begin, turn: Turn) -> halves.Bottom:
        task = self.task
        if self.inputs is None:
            raise DeploymentError("the scale of the inputs is not agreed yet")
        if begin.cut == 0 and not self.options.allow_samples:
            raise DeploymentError("cut 0 would send samples, which this device does not allow (--allow-samples)")
        refuse_round(task, cut=begin.cut, iterations=begin.iterations, depth=self.network.depth)
        settings = device_round(task, turn.round, begin.cut)
        return halves.Bottom(self.network, settings, self.inputs, begin.weights)

    async def _split_step(
        self,
        bottom: halves.Bottom,
        begin: Begin,
        turn: Turn,
        iteration: int,
        samples: npt.NDArray[np.generic] | None,
        labels: Labels | None,
    ) -> float:
        """One iteration with the gateway; returns how long the device computed [s]."""
        actuator, modelled = self.options.actuator, begin.train_s / begin.iterations
        began = time.monotonic()
        sent = bottom.forward(samples)
        await actuator.step(_FORWARD * modelled, began=began)
        seconds = time.monotonic() - began
        if sent is None:  # the gateway has this batch already
            return seconds
        scale, tensor = as_sent(sent)
        targets = None if labels is None else labels.astype(label_layout(self.task).dtype)
        await self.session.send(Boundary(iteration, scale, tensor, targets), turn)
        if not self.network.halves(begin.cut)[0].learns:  # then no gradient comes back
            return seconds
        expected = Expected(Gradient, {"gradient": activation_layout(self.task, self.network, begin.cut)})
        message = (await self.session.receive(expected, Abandon, turn=turn)).message
        if not isinstance(message, Gradient):
            raise _AbandonedError
        began = time.monotonic()
        bottom.backward(as_received(message.scale, message.gradient, self.task))
        await actuator.step((1.0 - _FORWARD) * modelled, began=began)
        return seconds + time.monotonic() - began

    def _batch(self, index: int, iteration: int) -> tuple[npt.NDArray[np.generic] | None, Labels | None]:
        """Samples and labels of an iteration; None for the batch of the iteration before."""
        if iteration > 0 and not self.task.redraw_batch:
            return None, None
        task, data = self.task, self.kept.data
        numbers = batch_of(np.arange(data.labels.size), task.batch, task.seed, index, task.number, iteration)
        return data.samples[numbers], data.labels[numbers]
