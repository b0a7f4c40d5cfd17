"""A device as its gateway sees it: what it reported, and its part in a round."""

__all__ = ["Member", "MemberRound", "Part"]

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np

from fedfloor.arrays import Labels, Vector
from fedfloor.characters import safe_line
from fedfloor.deploy.actuators.contract import Actuator, Setting, carried_out
from fedfloor.deploy.coding import Envelope
from fedfloor.deploy.crossing import activation_layout, as_received, as_sent, device_round, label_layout
from fedfloor.deploy.fields import Layout, LinkError
from fedfloor.deploy.machines import device_profile
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
    Message,
    Profile,
    Ready,
    Sums,
    Survey,
    Surveyed,
    Turn,
)
from fedfloor.deploy.scaling import checked_sums
from fedfloor.deploy.session import PARTING_S, Session
from fedfloor.deploy.surveying import checked_names
from fedfloor.deploy.tasks import DeviceTask
from fedfloor.deploy.tops import TopPool
from fedfloor.errors import DeploymentError
from fedfloor.training.halves import Sent
from fedfloor.training.network.built import BuiltNetwork, Inputs


@dataclass(frozen=True, slots=True, eq=False)
class MemberRound:
    """What a gateway decides for one device in a round."""

    turn: Turn
    cut: int  #: l_n
    frequency: float  #: [Hz] f_{m,n}, at which the gateway computes for it
    share: float  #: [1] of the gateway's maximum frequency
    power: float  #: [W] P_m
    iterations: int  #: K, or fewer for a trial
    deadline: float  #: [s]
    weights: Vector  #: (P,) of the whole network


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What came of a device's round."""

    weights: Vector  #: (P,) of the whole network after training
    loss: float  #: mean over the iterations
    points: float  #: samples in its batch
    device_s: float  #: [s] that the device computed
    link_s: float  #: [s] that were spent on sending and waiting
    energy: float | None  #: [J] of the device; None: not measured


@dataclass(slots=True, eq=False)
class Member:
    """A device that is connected."""

    task: DeviceTask
    session: Session
    network: BuiltNetwork  #: tells sizes and shapes; nothing is trained in it
    sums: Sums | None = field(init=False, default=None)
    profile: str | None = field(init=False, default=None)  #: what it says about itself, as JSON that was checked
    surveyed: Turn | None = field(init=False, default=None)  #: of the last gradient that it sent
    energy: float | None = field(init=False, default=None)  #: [J] that it reported last; None: it reports none
    is_tried: bool = field(init=False, default=False)  #: it has done its trial with the scale of inputs in use
    is_called: asyncio.Event = field(init=False, default_factory=asyncio.Event)  #: to a trial
    _training: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)  #: one round at a time
    _is_idle: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _listening: asyncio.Task[Envelope] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._is_idle.set()

    async def listen(self, on_news: Callable[[], None]) -> None:
        """Hear what the device reports between rounds; ends with a LinkError when the connection does."""
        while True:
            await self._is_idle.wait()
            self._listening = listening = asyncio.create_task(self.session.receive(Sums, Ready, Profile, turn=Turn()))
            listening.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # it may be of no use any more
            try:
                await asyncio.wait([listening])
            finally:
                listening.cancel()
            if not listening.cancelled():  # otherwise a round has begun, which receives by itself
                self._note(listening.result().message)
                on_news()

    def _note(self, message: Message) -> None:
        if isinstance(message, Sums):
            self.sums = checked_sums(message, self.task.model.input[0], 1)
        elif isinstance(message, Ready):
            self.energy = message.energy_j
        elif isinstance(message, Profile):
            if self.profile is not None:
                raise LinkError(f"{self.task.name}: sent a second profile.")
            device_profile(message.profile, [self.task])
            self.profile = message.profile

    @asynccontextmanager
    async def _in_round(self) -> AsyncIterator[None]:
        """Leave the device's messages to the round."""
        async with self._training:
            self._is_idle.clear()
            try:
                if self._listening is not None:
                    self._listening.cancel()
                    await asyncio.wait([self._listening])
                yield
            finally:
                self._is_idle.set()

    async def train(self, order: MemberRound, pool: TopPool, inputs: Inputs, actuator: Actuator) -> Part:
        """Train with the device in one round. Raises a LinkError or a DeploymentError if that fails."""
        try:
            async with asyncio.timeout(order.deadline), self._in_round():
                return await self._train(order, pool, inputs, actuator)
        except BaseException as error:
            if self.session.is_open:  # the device may be waiting for a gradient
                with contextlib.suppress(LinkError):
                    await self.session.send(Abandon(), order.turn, timeout=PARTING_S)
            if isinstance(error, TimeoutError):
                raise LinkError(f"{self.task.name}: not done within {order.deadline:.3g} s.") from None
            raise

    async def survey(self, message: Survey | Compare, turn: Turn) -> Surveyed | Compared:
        """Ask the device for its part in an estimate of the participation rates, within the message's deadline."""
        gradient = {"gradient": Layout("float32", (self.network.layout.size,))}
        expected = Expected(Surveyed, gradient) if isinstance(message, Survey) else Expected(Compared)
        try:
            async with asyncio.timeout(message.deadline_s), self._in_round():
                await self.session.send(message, turn)
                answer = await self._receive(expected, turn)
        except TimeoutError:
            raise LinkError(f"{self.task.name}: no answer within {message.deadline_s:.3g} s.") from None
        assert isinstance(answer, Surveyed | Compared)
        checked_names(answer, [self.task.name])
        if isinstance(answer, Surveyed):
            self.surveyed = turn
        return answer

    async def _train(self, order: MemberRound, pool: TopPool, inputs: Inputs, actuator: Actuator) -> Part:
        task, network, cut, turn = self.task, self.network, order.cut, order.turn
        below, begun, gateway_s = network.below(cut), time.monotonic(), 0.0
        share = order.iterations / task.local_iterations
        begin = Begin(
            cut=cut,
            iterations=order.iterations,
            frequency_hz=task.frequency_hz,
            train_s=share * task.bottom_s[cut],
            deadline_s=order.deadline,
            weights=order.weights[:below],
        )
        await self.session.send(begin, turn)
        if cut == network.depth:
            bottom = await self._bottom(turn, below)
            if bottom.loss is None:
                raise LinkError(f"{task.name}: sent no loss of the network that it trains as a whole.")
            return self._part(bottom, bottom.weights, bottom.loss, bottom.samples, begun, 0.0)
        settings = device_round(task, turn.round, cut)
        modelled = share * task.top_cycles[cut] / max(order.frequency, 1.0) / order.iterations
        setting = Setting(order.frequency, order.share, order.power, (modelled,) * order.iterations)
        top, loss, samples = await pool.begin(task.model, settings, inputs, order.weights[below:]), 0.0, 0
        try:
            with carried_out(actuator, setting):
                for iteration in range(order.iterations):
                    sent, labels = await self._boundary(turn, cut, iteration)
                    samples = samples if labels is None else labels.size
                    began = time.monotonic()
                    step = await top.step(sent, labels)
                    await actuator.step(modelled, began=began)
                    gateway_s += time.monotonic() - began
                    if iteration < task.local_iterations:  # so that losses compare, whoever does more
                        loss += step.loss / min(order.iterations, task.local_iterations)
                    if step.gradient is not None:
                        scale, tensor = as_sent(step.gradient)
                        await self.session.send(Gradient(iteration, scale, tensor), turn)
            bottom = await self._bottom(turn, below)
            above = await top.end()
        except BaseException:
            top.abandon()
            raise
        return self._part(bottom, np.concatenate([bottom.weights, above]), loss, samples, begun, gateway_s)

    async def _boundary(self, turn: Turn, cut: int, iteration: int) -> tuple[Sent | None, Labels | None]:
        """What the device sends up in an iteration; None for what the gateway has already."""
        is_new = iteration == 0 or self.task.redraw_batch
        if cut == 0 and not is_new:
            return None, None
        layouts = {
            "activations": activation_layout(self.task, self.network, cut),
            "labels": label_layout(self.task) if is_new else None,
        }
        message = await self._receive(Expected(Boundary, layouts), turn)
        assert isinstance(message, Boundary)
        if message.iteration != iteration:
            raise LinkError(f"{self.task.name}: sent iteration {message.iteration} instead of {iteration}.")
        labels: Labels | None = None
        if message.labels is not None:
            labels = message.labels.astype(np.float32) if self.task.predicts else message.labels.astype(np.int64)
        return as_received(message.scale, message.activations, self.task), labels

    async def _bottom(self, turn: Turn, size: int) -> Bottom:
        message = await self._receive(Expected(Bottom, {"weights": Layout("float32", (size,))}), turn)
        assert isinstance(message, Bottom)
        return message

    async def _receive(self, expected: Expected, turn: Turn) -> Message:
        """The next message of the round."""
        while True:
            message = (await self.session.receive(expected, Failed, Sums, Ready, Profile, turn=turn)).message
            if isinstance(message, Failed):
                raise DeploymentError(safe_line(message.reason))
            if isinstance(message, expected.message):
                return message
            self._note(message)

    def _part(self, bottom: Bottom, weights: Vector, loss: float, samples: int, begun: float, gateway_s: float) -> Part:
        if not 1 <= samples <= self.task.batch:
            raise LinkError(f"{self.task.name}: trained with {samples} samples, expected 1 to {self.task.batch}.")
        if not (math.isfinite(loss) and np.isfinite(weights).all()):
            raise LinkError(f"{self.task.name}: its loss or its weights are not finite.")
        link_s = max(time.monotonic() - begun - bottom.seconds - gateway_s, 0.0)
        return Part(weights, loss, float(samples), bottom.seconds, link_s, bottom.energy_j)
