"""What the plant asks of floors, and what they answer, as messages: the same ones whatever carries them."""

__all__ = [
    "expected_answers",
    "expected_orders",
    "floor_comparison",
    "floor_model",
    "floor_reply",
    "floor_survey",
    "numbers_of",
    "order_message",
    "refuse_incomplete_order",
    "start_of",
]

import math
from collections.abc import Sequence

import numpy as np

from fedfloor.arrays import Floats, Vector
from fedfloor.deploy.feedback import Feedback
from fedfloor.deploy.fields import Layout, LinkError
from fedfloor.deploy.messages import Compare, Compared, Expected, Model, Order, Survey, Surveyed, Trained
from fedfloor.deploy.tasks import FloorTask
from fedfloor.errors import DeploymentError
from fedfloor.rounds.plants.backhaul import FloorComparison, FloorOrder, FloorReply, FloorSurvey, Parts
from fedfloor.training.network import weights as network_weights
from fedfloor.training.network.quantised import cast, cast_size, packed_size, uncast, unpack


def expected_orders(task: FloorTask, layout: network_weights.Layout) -> tuple[Expected, ...]:
    """What a floor may be asked for, with the tensors that belong to it."""
    whole = Layout("float32", (layout.size,))
    weights = whole if task.download == 32 else Layout("uint8", (cast_size(layout.pieces),))
    return (
        Expected(Order, {"weights": weights}),
        Expected(Survey, {"weights": whole}),
        Expected(Compare, {"gradient": whole}),
    )


def expected_answers(task: FloorTask, layout: network_weights.Layout) -> tuple[Expected, ...]:
    """What a floor may answer, as far as it has tensors."""
    whole = Layout("float32", (layout.size,))
    model = whole if task.upload == 32 else Layout("uint8", (packed_size(layout.pieces, task.upload),))
    return (Expected(Model, {"weights": model}), Expected(Surveyed, {"gradient": whole}))


def order_message(order: FloorOrder, weights: Vector, task: FloorTask, layout: network_weights.Layout) -> Order:
    """An order with the weights (P,) from which the floor starts."""
    sent = weights if task.download == 32 else np.frombuffer(cast(weights, layout.pieces), np.uint8)
    return Order(
        channel=order.channel,
        power_w=order.power,
        download_bps=order.download_rate,
        upload_bps=order.upload_rate,
        download_s=order.predicted.download,
        train_s=order.predicted.train,
        upload_s=order.predicted.upload,
        cuts=order.cut,
        frequencies_hz=order.frequency,
        deadline_s=order.deadline,
        weights=sent,
        iterations=order.iterations,
    )


def refuse_incomplete_order(order: Order, task: FloorTask) -> None:
    """Refuse an order that does not name a cut and a frequency for every device of the floor."""
    devices = len(task.devices)
    if order.cuts.size != devices or order.frequencies_hz.size != devices:
        raise DeploymentError(f"the order must have {devices} cuts and frequencies")


def start_of(order: Order, task: FloorTask, layout: network_weights.Layout) -> Vector:
    """The weights (P,) that an order brings, as the floor uses them."""
    return order.weights if task.download == 32 else uncast(order.weights.tobytes(), layout.pieces)


def floor_model(model: Vector, start: Vector, task: FloorTask, feedback: Feedback | None, index: int) -> Model:
    """A floor's model (P,) as it is sent: itself, what changed, or what changed with fewer bits."""
    if task.upload == task.download == 32:
        return Model(model)
    update = model - start
    if feedback is None:
        return Model(update)
    message = feedback.message(update, seed=task.devices[0].seed, index=index, floor=task.number)
    return Model(np.frombuffer(message, np.uint8))


def floor_reply(
    order: FloorOrder, trained: Trained, model: Model, task: FloorTask, layout: network_weights.Layout, parts: Parts
) -> FloorReply:
    """The reply to an order from what its floor has sent; a LinkError or a ValueError says what is wrong with it."""
    shares = {share.name: share for share in trained.devices}
    names = [device.name for device in task.devices]
    most = sum(device.batch for device in task.devices if device.name in shares)
    if trained.points > most:
        raise LinkError(f"It trained with {trained.points:g} samples, but the batches of its devices have {most}.")
    return FloorReply(
        floor=order.floor,
        model=_received(task, model, layout),
        points=trained.points,
        loss=trained.loss,
        took_part=np.array([name in shares for name in names]),
        seconds=parts,
        gateway_energy=trained.energy_j,
        device_energy=numbers_of([shares[name].energy_j if name in shares else 0.0 for name in names]),
        link_time=numbers_of([shares[name].link_s if name in shares else 0.0 for name in names]),
    )


def floor_survey(m: int, task: FloorTask, answer: Surveyed) -> FloorSurvey:
    """What the devices of floor m found of their gradients, in the order of its task."""
    slopes = {slope.name: slope for slope in answer.devices}
    rows = [slopes.get(device.name) for device in task.devices]
    numbers = [(row.samples, row.sigma, row.norm, row.smoothness) if row else (None,) * 4 for row in rows]
    return FloorSurvey(m, answer.gradient, *map(numbers_of, zip(*numbers, strict=True)))


def floor_comparison(m: int, task: FloorTask, answer: Compared) -> FloorComparison:
    """How far the gradients of the devices of floor m are from the mean, in the order of its task."""
    distances = {entry.name: entry for entry in answer.devices}
    rows = [distances.get(device.name) for device in task.devices]
    numbers = [(row.delta, row.smoothness) if row else (None, None) for row in rows]
    return FloorComparison(m, *map(numbers_of, zip(*numbers, strict=True)))


def numbers_of(values: Sequence[float | None]) -> Floats:
    """Numbers as an array, nan for None."""
    return np.array([math.nan if value is None else value for value in values])


def _received(task: FloorTask, model: Model, layout: network_weights.Layout) -> Vector:
    if task.upload == 32:
        return np.asarray(model.weights, np.float32)
    return unpack(model.weights.tobytes(), layout.pieces, task.upload)
