"""One message of every kind, with the layouts that its receiver expects."""

from typing import Any

import numpy as np

from fedfloor.deploy.fields import Layout, Numbers, fields_of
from fedfloor.deploy.messages import (
    Abandon,
    Begin,
    Bottom,
    Boundary,
    Compare,
    Compared,
    Distance,
    Expected,
    Failed,
    Gradient,
    Hello,
    Inputs,
    Message,
    Model,
    Order,
    Present,
    Profile,
    Ready,
    Received,
    Refused,
    Settled,
    Share,
    Slope,
    Sums,
    Survey,
    Surveyed,
    Trained,
    Welcome,
)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """A tensor whose numbers count to 100 again and again."""
    return np.resize(np.arange(100, dtype=dtype), shape)


MESSAGES: list[Message] = [
    Hello("device", "press-7", "0.9", '{"memory": 1}'),
    Welcome('{"Aufgabe": "prüfen"}'),
    Refused("This certificate is revoked."),
    Sums(50_000, np.array([-1.5, 2.0]), np.array([3.0, 4.0])),
    Inputs(np.array([-0.5]), np.array([0.25])),
    Ready(None),
    Ready(2.5, (Present("press-7", 1.5), Present("press-8", None))),
    Order(0, 0.2, 2e7, 1e6, 1.2, 9.2, 29.6, np.array([1]), np.array([1e9]), 120.0, numbers(100), 7),
    Order(
        3, 0.2, 2e7, 1e6, 1.2, 9.2, 29.6, np.array([1, 4]), np.array([1e9, 2e9]), 120.0, numbers(100),
    ),
    Received(),
    Begin(2, 5, 6e8, 1.5, 30.0, numbers(40)),
    Boundary(0, None, numbers(5, 8, 3, 3), numbers(5, dtype="int64")),
    Boundary(1, 0.125, numbers(5, 8, dtype="int8"), None),
    Gradient(1, None, numbers(5, 8, dtype="float16")),
    Bottom(2.5, 0.75, 12, None, numbers(40)),
    Bottom(2.5, None, 12, 2.3, numbers(40)),
    Trained(2.3, 100.0, None, (Share("press-7", 1.0, 0.5, None), Share("press-8", 2.0, 0.25, 3.0))),
    Model(numbers(1000, dtype="uint8")),
    Failed("The battery is empty."),
    Abandon(),
    Settled(False),
    Survey(64, 20.0, numbers(100)),
    Surveyed((Slope("press-7", 600, 1.5, 0.25, 3.0),), numbers(100)),
    Compare(20.0, numbers(100)),
    Compared((Distance("press-7", 0.5, 2.0),)),
    Profile('{"name": "press-7"}'),
]  # fmt: skip


def expected(message: Message) -> Expected:
    """What a receiver says that expects just this message."""
    layouts: dict[str, Layout | None] = {}
    for row in fields_of(type(message)):
        if type(row.kind) is Numbers:
            value = getattr(message, row.name)
            layouts[row.name] = None if value is None else Layout(value.dtype.name, value.shape)
    return Expected(type(message), layouts)


def same(one: Message, other: object) -> bool:
    """Whether two messages say the same."""
    if type(one) is not type(other):
        return False
    for row in fields_of(type(one)):
        left, right = getattr(one, row.name), getattr(other, row.name)
        if isinstance(left, np.ndarray):
            if left.dtype != right.dtype or left.shape != right.shape or not np.array_equal(left, right):
                return False
        elif left != right:
            return False
    return True


def fuzzed(rng: np.random.Generator, valid: list[bytes]) -> bytes:
    """A frame of random bytes, or a valid one with flipped bits, cut off, or joined with another."""
    frame = bytearray(valid[rng.integers(len(valid))])
    kind = rng.integers(5)
    if kind == 0:
        return rng.bytes(int(rng.integers(300)))
    if kind == 1:
        return bytes(frame[: rng.integers(len(frame) + 1)])
    if kind == 2:
        return bytes(frame) + valid[rng.integers(len(valid))]
    for _ in range(rng.integers(1, 8)):
        frame[rng.integers(len(frame))] ^= 1 << int(rng.integers(8))
    return bytes(frame)
