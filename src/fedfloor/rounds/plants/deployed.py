"""A plant of real machines: decisions become orders, and what floors send back in time is averaged.

Nothing here knows how orders travel: `backhaul.py` has all that the plant asks of a network.
"""

__all__ = ["DeployedPlant"]

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import JsonValue

from fedfloor.arrays import Bools, Floats, Ints, Vector
from fedfloor.costs.compute import floor_sum, split_at
from fedfloor.costs.plant import floor_of_devices, mean_gains
from fedfloor.costs.radio import transmit_time
from fedfloor.rounds.events import Event, Tell, silent
from fedfloor.rounds.outcome import Outcome, Seconds
from fedfloor.rounds.plants.backhaul import Backhaul, FloorOrder, FloorReply, Parts, lost_reply
from fedfloor.rounds.plants.contract import PlantState, numbers_from, numbers_to
from fedfloor.rounds.plants.estimates import Estimates
from fedfloor.rounds.plants.global_model import GlobalModel, Received
from fedfloor.rounds.plants.simulated import SimulatedPlant, starting_rates
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.state import Decision, RoundState
from fedfloor.theory.participation import GradientStatistics, corrected_delta
from fedfloor.training.aggregation.registry import make_rule
from fedfloor.training.network.weights import mean_of
from fedfloor.weather.measured import MeasuredGains
from fedfloor.workers.engine import Engine


@dataclass(slots=True, eq=False)
class DeployedPlant:
    """Keeps the global model between rounds, and what is known of the machines."""

    scenario: Scenario
    engine: Engine  #: evaluates; its samples are the test set, and the mean and deviation that the machines agreed on
    backhaul: Backhaul
    tell: Tell = silent  #: told which floors got orders, and why floors were lost
    tests_all: bool = False  #: test the model in every round, as any may be the last of a run that ends early
    redraws_weather: bool = field(init=False, default=False)
    _simulated: SimulatedPlant = field(init=False)
    _model: GlobalModel = field(init=False)
    _gains: MeasuredGains | None = field(init=False, default=None)  #: None: those of the weather
    _state: RoundState | None = field(init=False, default=None)
    _completed: Bools = field(init=False)  #: (M,) of the last round that was executed
    _estimates: Estimates | None = field(init=False, default=None)  #: None: rates do not need gradients
    _estimate_time: float | None = field(init=False, default=None)  #: [s] wall clock of this round's estimate

    def __post_init__(self) -> None:
        floors = len(self.scenario.floors)
        self._simulated = SimulatedPlant(self.scenario, starting_rates(self.scenario))
        rule = make_rule(self.scenario.aggregation)
        self._model = GlobalModel(self.scenario, self.engine, rule, feedback=False, tests_all=self.tests_all)
        self._completed = np.zeros(floors, bool)
        if self.scenario.deploy.gains == "measured":
            self._gains = MeasuredGains(self.scenario.radio, floors)
        if self.scenario.participation.rates == "estimated":
            floor_of = floor_of_devices(self.scenario.floors)
            self._estimates = Estimates(self.scenario, self.engine.work.job.batch, floor_of)

    @property
    def index(self) -> int:
        """Number of the next round."""
        return self._simulated.index

    @property
    def weights(self) -> Vector:
        """W^t, (P,)."""
        return self._model.weights

    def observe(self) -> RoundState:
        """The scenario's weather, with what was measured and reported in its place where the scenario asks for it.

        The gains of a floor that is not there are 0. An absent device changes nothing here: decisions and predictions
        count on all devices of a floor, and the floor goes on without those that are missing.
        """
        rates = self._model.rates if self._estimates is None else self._estimated(self._estimates)
        if rates is not None:
            self._simulated.target_rate = rates
        drawn, presence = self._simulated.observe(), self.backhaul.observe()
        weather = drawn.weather if self._gains is None else self._gains.applied(drawn.weather)
        devices_there = floor_sum(presence.devices.astype(float), drawn.plant.devices.floor, presence.floors.size)
        weather = weather.reaching(presence.floors & (devices_there > 0))
        if self.scenario.deploy.energy == "reported" and self.scenario.limits:
            weather = dataclasses.replace(
                weather,
                gateway_energy=_reported(presence.gateway_energy, weather.gateway_energy),
                device_energy=_reported(presence.device_energy, weather.device_energy),
            )
        self._state = dataclasses.replace(self._simulated.see(weather), last_loss=self._model.last_loss)
        return self._state

    def execute(self, decision: Decision) -> Outcome:
        """Give orders to the floors that can complete the round, average those that answer in time, and evaluate.

        A floor that lacks memory or energy by the cost model gets no order and fails as in a simulation.
        """
        begun = time.perf_counter()
        predicted = self._simulated.execute(decision)
        orders = [self._order(m, decision, predicted) for m in np.flatnonzero(predicted.completed).tolist()]
        replies = self._replies(orders)
        received = [
            Received(reply.floor, reply.points, reply.loss, reply.model, order.iterations)
            for order, reply in zip(orders, replies, strict=True)
            if reply.model is not None
        ]
        loss = self._model.advance(self.index, received, decision.weight)
        if self._gains is not None:
            self._learn_gains(self._gains, orders, replies)
        train_time = time.perf_counter() - begun
        tested = self._model.tested(self.index)
        bound = None if self._estimates is None else self._estimates.bound
        outcome = dataclasses.replace(
            self._measured(predicted, replies),
            predicted=predicted.usage,
            loss=loss,
            accuracy=tested.accuracy,
            raw_accuracy=tested.raw_accuracy,
            test_loss=tested.loss,
            divergence_bound=np.full(loss.size, np.nan) if bound is None else bound,
            divergence=np.full(loss.size, np.nan),
            seconds=Seconds(self._estimate_time, train_time, tested.seconds),
        )
        self._simulated.book(outcome)
        self._completed = outcome.completed
        return outcome

    def settle(self, queue: Floats) -> None:
        """Keep the queues, tell the floors, and advance to the next round."""
        self.backhaul.settle(self.index, self._completed)
        self._simulated.settle(queue)

    def snapshot(self) -> PlantState:
        """Weights, queues, rates, batteries, last losses, measured gains, and how inputs are scaled."""
        more: dict[str, JsonValue] = {}
        if self._gains is not None:
            more["measured_uplink_gain"] = numbers_to(self._gains.uplink.ravel())
            more["measured_downlink_gain"] = numbers_to(self._gains.downlink.ravel())
        if self._estimates is not None:
            more |= self._estimates.snapshot()
        return self._model.snapshot(self._simulated.snapshot(), more)

    def restore(self, state: PlantState) -> None:
        """Continue from a snapshot."""
        self._model.restore(state)
        self._simulated.restore(state)
        if self._gains is not None:
            shape, size = self._gains.uplink.shape, self._gains.uplink.size
            up = numbers_from(state.values, "measured_uplink_gain", size, gaps=True)
            down = numbers_from(state.values, "measured_downlink_gain", size, gaps=True)
            self._gains.uplink, self._gains.downlink = up.reshape(shape), down.reshape(shape)
        if self._estimates is not None:
            self._estimates.restore(state.values, gaps=True)

    def evaluate(self) -> tuple[Ints | None, float] | None:
        """Confusion matrix (true, predicted) on the test set, and the mean loss; None without a test set."""
        return self._model.evaluate() if self._model.has_test_set else None

    def _estimated(self, estimates: Estimates) -> Floats | None:
        """Rates (M,) from gradients, which the floors are asked for in rounds that are due; None before the first.

        It takes no time of the round's clock, as in a simulation. Who does not answer keeps its last estimate.
        """
        self._estimate_time = None
        if self.index % self.scenario.participation.estimate_every == 0:
            begun = time.perf_counter()
            self.tell(Event(estimating=True))
            self._estimate(estimates)
            self._estimate_time = time.perf_counter() - begun
        return estimates.rates

    def _estimate(self, estimates: Estimates) -> None:
        """Estimate what Theorem 1 asks for at the current weights; see `LearningPlant`."""
        devices, limit = estimates.floor.size, self.scenario.participation.estimate_samples
        deadline = self._survey_deadline(limit)
        surveys = self.backhaul.survey(self.index, self.weights, limit, deadline)
        if not surveys:
            return
        sigma, norm, own, delta, along, held = np.full((6, devices), np.nan)
        counts = [float(np.nansum(entry.samples)) for entry in surveys]
        mean = mean_of(counts, (entry.gradient for entry in surveys), self.weights.size)
        for entry in surveys:
            place = estimates.floor == entry.floor
            sigma[place], norm[place], own[place] = entry.sigma, entry.norm, entry.smoothness
            held[place] = entry.samples
        for found in self.backhaul.compare(self.index, mean.astype(np.float32), deadline):
            place = estimates.floor == found.floor
            delta[place], along[place] = found.delta, found.smoothness
        took_part = np.isfinite(sigma + norm + own + delta + along)
        if took_part.any():
            delta = corrected_delta(delta, sigma, samples=limit, held=held)
            measured = GradientStatistics(sigma, delta, np.maximum(own, along), norm)
            estimates.learn(measured, took_part, float(np.square(mean).sum()))

    def _survey_deadline(self, limit: int) -> float:
        """How long floors may take for each of the two parts of an estimate [s].

        A device computes gradients of its samples at two points, with the whole network. Weights and a gradient of
        their size travel over both links.
        """
        plant, training, deploy = self._simulated.arrays, self.scenario.training, self.scenario.deploy
        every, devices = np.arange(len(self.scenario.devices)), plant.devices
        whole = split_at(plant, every, np.full(every.size, plant.workload.layers)).bottom_flop  # of a round
        steps = training.local_iterations * self.engine.work.job.batch
        seconds = 2 * limit * whole / steps / (devices.flops_per_cycle * devices.frequency)
        total = seconds.max() + self._transfer_time(32.0 * self.weights.size)
        return float(deploy.deadline_factor * total + deploy.deadline_margin_s)

    def _transfer_time(self, bits: float) -> float:
        """How long a message of this size takes to the farthest device and another one back [s], in mean weather."""
        plant, gain = self._simulated.arrays, mean_gains(self.scenario)
        band, links = plant.band, plant.devices.links
        quiet, noise = np.zeros_like(gain), band.noise_density
        down = transmit_time(
            bits, band.base_station_power, gain, quiet, bandwidth=band.downlink_bandwidth, noise_density=noise
        )
        up = transmit_time(
            bits, plant.gateways.max_power, gain, quiet, bandwidth=band.uplink_bandwidth, noise_density=noise
        )
        on_floor = 0.0 if links is None else float(np.max(bits / links.rate_up + bits / links.rate_down))
        return float(np.max(down + up)) + on_floor

    def _order(self, m: int, decision: Decision, predicted: Outcome) -> FloorOrder:
        assert self._state is not None
        usage, allocation, deploy = predicted.usage, predicted.allocation, self.scenario.deploy
        devices, workload = self._state.plant.devices.floor == m, self._state.plant.workload
        parts = Parts(float(usage.download[m]), float(usage.training[m]), float(usage.upload[m]))
        return FloorOrder(
            floor=m,
            channel=int(decision.channel[m]),
            power=float(allocation.power[m]),
            cut=allocation.cut[devices],
            frequency=allocation.frequency[devices],
            predicted=parts,
            download_rate=workload.download_bits / parts.download,
            upload_rate=workload.upload_bits / parts.upload,
            deadline=deploy.deadline_factor * parts.total + deploy.deadline_margin_s,
            iterations=None if predicted.iterations is None else int(predicted.iterations[m]),
        )

    def _replies(self, orders: Sequence[FloorOrder]) -> list[FloorReply]:
        """A reply to every order, in their order; what cannot be used of a floor makes it a lost one."""
        names = [self.scenario.floors[order.floor].name for order in orders]
        self.tell(Event(training=tuple(names)))
        begun, replies = time.perf_counter(), dict[int, FloorReply]()
        if orders:
            for reply in self.backhaul.carry_out(self.index, orders, self._model.downloaded(self.index)):
                replies.setdefault(reply.floor, reply)
        waited = Parts(download=time.perf_counter() - begun)
        usable = [
            _usable(
                replies.get(order.floor) or lost_reply(order, waited, "it did not answer"), order, self.weights.size
            )
            for order in orders
        ]
        lost = [f"{name}: {reply.reason}" for name, reply in zip(names, usable, strict=True) if reply.model is None]
        if lost:
            self.tell(Event(lost=tuple(lost)))
        return usable

    def _measured(self, predicted: Outcome, replies: Sequence[FloorReply]) -> Outcome:
        """The outcome with what was measured of the floors that got orders.

        What was not measured is the cost model's. Where it says nothing, devices that did not take part have spent
        nothing, and neither has a floor that was lost before it trained.
        """
        assert self._state is not None
        usage, failure, floor = predicted.usage, list(predicted.failure), self._state.plant.devices.floor
        completed = np.zeros_like(predicted.completed)
        download, training, upload = usage.download.copy(), usage.training.copy(), usage.upload.copy()
        gateway_energy, device_energy = predicted.gateway_energy.copy(), predicted.device_energy.copy()
        link_time = None if usage.link_time is None else usage.link_time.copy()
        for reply in replies:
            m, devices = reply.floor, floor == reply.floor
            completed[m] = reply.model is not None
            failure[m] = None if completed[m] else "lost"
            download[m], training[m], upload[m] = reply.seconds.download, reply.seconds.train, reply.seconds.upload
            trained = reply.seconds.train > 0.0 or completed[m]
            spent = np.full(1, np.nan if reply.gateway_energy is None else reply.gateway_energy)
            gateway_energy[m] = _spent(spent, gateway_energy[m] if trained else 0.0)[0]
            modelled = np.where(reply.took_part & trained, device_energy[devices], 0.0)
            spent = np.full(modelled.size, np.nan) if reply.device_energy is None else reply.device_energy
            device_energy[devices] = _spent(spent, modelled)
            if link_time is not None and reply.link_time is not None:
                link_time[devices] = _spent(reply.link_time, link_time[devices])
        happened = dataclasses.replace(usage, download=download, training=training, upload=upload, link_time=link_time)
        return dataclasses.replace(
            predicted,
            usage=happened,
            delay=happened.delay,
            completed=completed,
            failure=tuple(failure),
            gateway_energy=gateway_energy,
            device_energy=device_energy,
        )

    def _learn_gains(self, gains: MeasuredGains, orders: Sequence[FloorOrder], replies: Sequence[FloorReply]) -> None:
        """Keep the gains of the transfers that succeeded."""
        assert self._state is not None
        workload = self._state.plant.workload
        for order, reply in zip(orders, replies, strict=True):
            if reply.model is not None:
                gains.learn_download(order.floor, order.channel, workload.download_bits, reply.seconds.download)
                gains.learn_upload(
                    order.floor, order.channel, workload.upload_bits, reply.seconds.upload, power=order.power
                )


def _usable(reply: FloorReply, order: FloorOrder, size: int) -> FloorReply:
    """The reply, or that of a lost floor if its model cannot be averaged."""
    per_device = (reply.took_part, reply.device_energy, reply.link_time)
    if any(part is not None and part.shape != order.cut.shape for part in per_device):
        return lost_reply(
            order, reply.seconds, f"its reply must have an entry for each of its {order.cut.size} devices"
        )
    problem = _problem(reply, size)
    return dataclasses.replace(reply, model=None, reason=problem) if problem else reply


def _problem(reply: FloorReply, size: int) -> str:
    """Why the model of a reply cannot be averaged; an empty text if it can."""
    if reply.model is None:
        return reply.reason or "it gave no reason"
    if reply.model.shape != (size,) or reply.model.dtype != np.float32:
        return f"its model must be float32 ({size},), got {reply.model.dtype} {reply.model.shape}"
    if not (math.isfinite(reply.loss) and np.isfinite(reply.model).all()):
        advice = "Lower training.learning_rate if this happens to other floors too"
        return f"its training loss is {reply.loss:g} or its model is not finite. {advice}"
    if not reply.took_part.any():
        return "no device took part"
    if not (math.isfinite(reply.points) and reply.points > 0.0):
        return f"its number of points must be > 0, got {reply.points:g}"
    return ""


def _reported(energy: Floats, otherwise: Floats) -> Floats:
    """Energy [J] that machines report, which may be endless, and another where they report none; same shape."""
    return np.where(energy >= 0.0, energy, otherwise)


def _spent(measured: Floats, modelled: Floats | float) -> Floats:
    """Measured amounts where there are any, and those of the cost model elsewhere; same shape."""
    return np.where(np.isfinite(measured) & (measured >= 0.0), measured, modelled)
