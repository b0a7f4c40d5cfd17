"""The ClientApp: a SuperNode that is a floor."""

__all__ = ["client_app", "client_app_for"]

import threading
import time
from functools import lru_cache

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedfloor import __version__
from fedfloor.deploy.coding import Envelope
from fedfloor.deploy.device import LocalData, refuse_misfit
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.holdings import data_source
from fedfloor.deploy.joining import joining_text, this_machine
from fedfloor.deploy.messages import (
    Compare,
    Failed,
    Hello,
    Inputs,
    Order,
    Settled,
    Survey,
    Turn,
    Welcome,
)
from fedfloor.deploy.orders import expected_orders
from fedfloor.deploy.scaling import checked_inputs
from fedfloor.deploy.tasks import DeviceTask, FloorTask, parse_task
from fedfloor.deploy.whole_floor import WholeFloor
from fedfloor.errors import FailedRunError, FedfloorError
from fedfloor.flower.floors.config import FloorsConfig, Table
from fedfloor.flower.floors.data import samples_of
from fedfloor.flower.floors.records import COMPARE, HELLO, SECONDS, SUMS, SURVEY, TENSORS, Sent, heard_in, only, records
from fedfloor.scenario.model import Model
from fedfloor.training.network.built import BuiltNetwork

_KEPT = "fedfloor"  #: name of the record that a floor keeps between two messages


def client_app_for(defaults: Table) -> ClientApp:
    """A ClientApp that is a floor; the run's own configuration comes before these defaults."""
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        begun = time.perf_counter()
        try:
            config = FloorsConfig.of(defaults, context.run_config)
            content = records(_answer(message, context, config))
        except (FedfloorError, FailedRunError, ValueError) as error:
            content = records([(Failed(str(error)), Turn())])
        content[SECONDS] = MetricRecord({"work": time.perf_counter() - begun})
        return Message(content, reply_to=message)

    app.query("hello")(answer)
    app.query("sums")(answer)
    app.train("order")(answer)
    app.query("survey")(answer)
    app.query("compare")(answer)
    return app


def _answer(message: Message, context: Context, config: FloorsConfig) -> list[Sent]:
    """What a floor answers to a message."""
    kind = message.metadata.message_type
    if kind == HELLO:
        name = str(context.node_config.get("floor", context.node_config.get("partition-id", "")))
        profile = joining_text(this_machine(name or "floor"))
        return [(Hello(role="gateway", name=name, software=__version__, profile=profile), Turn())]
    floor, heard = _floor_of(message, context, config)
    if kind == SUMS:
        return [*((profile, Turn()) for profile in floor.profiles()), (floor.sums(), Turn())]
    inputs = checked_inputs(only(heard, Inputs), floor.task.devices[0].model.input[0])
    if kind == SURVEY:
        return [(floor.survey(only(heard, Survey), inputs), Turn())]
    if kind == COMPARE:
        return [(floor.compare(only(heard, Survey), only(heard, Compare), inputs), Turn())]
    order = only(heard, Order)
    turn = next(entry.turn for entry in heard if entry.message is order)
    kept = context.state.array_records.get(_KEPT)
    if floor.feedback is not None and kept is not None:
        floor.feedback.restore({name: array.numpy() for name, array in kept.items()})
    for entry in heard:
        if isinstance(entry.message, Settled):
            floor.settle(entry.message, entry.turn)
    trained, model = floor.train(order, turn, inputs)
    if floor.feedback is not None:
        arrays = {name: Array(np.ascontiguousarray(part)) for name, part in floor.feedback.kept().items()}
        context.state[_KEPT] = ArrayRecord(arrays)
    return [(trained, turn), (model, turn)]


def _floor_of(message: Message, context: Context, config: FloorsConfig) -> tuple[WholeFloor, list[Envelope]]:
    """The floor that a message is for, with its data, and what the message says."""
    welcome = message.content.config_records.get("welcome")
    if welcome is None:
        raise LinkError("The message brings no task.")
    first = RecordDict({name: message.content[name] for name in ("welcome", "welcome" + TENSORS)})
    text = only(heard_in(first, [Welcome]), Welcome).task
    task = parse_task(text, FloorTask, "the server")
    network = _NETWORKS.of(task.devices[0].model, task.devices[0].seed)
    floor = WholeFloor(task, _held(text, str(context.node_config.get("data", "")), config), network)
    orders = expected_orders(task, network.layout)
    return floor, heard_in(message.content, [Welcome, Inputs, Settled, *orders])


class _Networks(threading.local):
    """The last network of every thread, for one message after the other: every message brings its weights."""

    _last: tuple[Model, int, BuiltNetwork] | None = None

    def of(self, model: Model, seed: int) -> BuiltNetwork:
        """The network of a model; built again only if the last one was another."""
        if self._last is None or self._last[:2] != (model, seed):
            self._last = (model, seed, BuiltNetwork(model, seed))
        return self._last[2]


_NETWORKS = _Networks()


@lru_cache(maxsize=8)
def _held(text: str, data: str, config: FloorsConfig) -> tuple[LocalData, ...]:
    """What the devices of a floor hold: `data` with each one's name in place of {device}, or shares of the scenario.

    The floors of a simulation share processes, which read the data once.
    """
    task = parse_task(text, FloorTask, "the server")
    held = tuple(_share(device, config) if not data else _own(device, data, config) for device in task.devices)
    for part, device in zip(held, task.devices, strict=True):
        refuse_misfit(part, device)
    return held


def _own(device: DeviceTask, data: str, config: FloorsConfig) -> LocalData:
    return data_source(data.replace("{device}", device.name), config.folder)(device)


def _share(device: DeviceTask, config: FloorsConfig) -> LocalData:
    samples = samples_of(config, device)
    numbers = samples.of_device(device.number)
    return LocalData(samples.images[numbers], samples.labels[numbers])


client_app = client_app_for({})
