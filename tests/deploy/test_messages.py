"""Messages to frames and back: what arrives is what was sent, and what is wrong is refused with its reason."""

import importlib.resources
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfloor.deploy import fields, wire_pb2
from fedfloor.deploy.coding import (
    AHEAD,
    FRESH_S,
    LEAST_CHUNK,
    MOST_CHUNK,
    MOST_FRAME,
    PROTOCOL,
    STRETCH,
    Decoder,
    Pace,
    encode,
)
from fedfloor.deploy.fields import DTYPES, Entries, Layout, LinkError, fields_of, is_finite
from fedfloor.deploy.messages import Boundary, Expected, Hello, Message, Model, Ready, Refused, Turn, Welcome
from tests.deploy.examples import MESSAGES, expected, fuzzed, numbers, same

ROOT = Path(__file__).parents[2]
TURN = Turn(7, 2)
MODEL = Expected(Model, {"weights": Layout("float32", (100_000,))})


def arrived(message: Message, *, turn: Turn = TURN) -> object:
    """A message after its way through frames."""
    decoder = Decoder()
    envelopes = [decoder.feed(frame, [expected(message)], TURN) for frame in encode(message, turn)]
    assert not any(envelopes[:-1])
    assert envelopes[-1] is not None
    assert envelopes[-1].turn == turn
    return envelopes[-1].message


def changed(message: Message, change: Callable[[Any], object]) -> bytes:
    """The first frame of a message after something was done to it."""
    frame = wire_pb2.Frame()
    frame.ParseFromString(next(encode(message, TURN)))
    change(frame)
    data: bytes = frame.SerializeToString()
    return data


def test_the_generated_code_is_that_of_the_schema(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "-Isrc", f"--python_out={tmp_path}"]
    subprocess.run([*command, "src/fedfloor/deploy/wire.proto"], cwd=ROOT, check=True, timeout=60)
    generated = (tmp_path / "fedfloor" / "deploy" / "wire_pb2.py").read_text(encoding="utf-8")
    assert generated == importlib.resources.files("fedfloor.deploy").joinpath("wire_pb2.py").read_text(encoding="utf-8")


def test_messages_have_the_fields_of_the_schema_in_its_order() -> None:
    bodies = {field.name: field for field in wire_pb2.Frame.DESCRIPTOR.fields if field.containing_oneof}
    bodies = {name: field for name, field in bodies.items() if field.message_type is not None}
    kinds = {type(message) for message in MESSAGES}
    assert {kind.__name__.lower() for kind in kinds} == {name for name in bodies if not name.startswith("_")}
    for kind in kinds:
        body = bodies[kind.__name__.lower()].message_type
        assert body.name == kind.__name__
        assert [row.name for row in fields_of(kind)] == [field.name for field in body.fields]
        for row in fields_of(kind):
            if isinstance(row.kind, Entries):
                entry = body.fields_by_name[row.name].message_type
                assert [part.name for part in fields_of(row.kind.kind)] == [field.name for field in entry.fields]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_arrives_as_it_was_sent(message: Message) -> None:
    assert same(message, arrived(message))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 4, 5), (40, 0), (50_000, 3), (1,) * 8], ids=str)
def test_tensors_of_every_type_and_shape_arrive(dtype: str, shape: tuple[int, ...]) -> None:
    assert same(Model(numbers(*shape, dtype=dtype)), arrived(Model(numbers(*shape, dtype=dtype))))


@pytest.mark.parametrize("chunk", [LEAST_CHUNK, MOST_CHUNK])
@pytest.mark.parametrize("size", [0, 1, LEAST_CHUNK - 1, LEAST_CHUNK, LEAST_CHUNK + 1, MOST_CHUNK + 1, 3_300_000])
def test_tensors_of_every_size_arrive(size: int, chunk: int) -> None:
    message, decoder = Model(numbers(size, dtype="uint8")), Decoder()
    frames = list(encode(message, TURN, Pace(chunk, time.monotonic())))
    assert all(len(frame) <= MOST_FRAME for frame in frames)
    assert (len(frames) == 1) == (size <= chunk)
    envelopes = [decoder.feed(frame, [expected(message)], TURN) for frame in frames]
    assert envelopes[-1] is not None
    assert same(message, envelopes[-1].message)


def test_a_connection_that_is_fast_begins_its_next_message_with_large_chunks() -> None:
    pace, message = Pace(), Model(numbers(3_300_000, dtype="uint8"))
    assert len(list(encode(message, TURN, pace))) > 6  # as if they were sent in no time
    assert len(list(encode(message, TURN, pace))) == 4  # it was fast just now
    pace.learned -= FRESH_S
    assert len(list(encode(message, TURN, pace))) == 6  # two that show how fast it is now, and four large ones


def test_small_messages_do_not_make_a_connection_fast() -> None:
    pace = Pace()
    for _ in range(20):
        list(encode(Model(numbers(STRETCH, dtype="uint8")), TURN, pace))
    assert pace.chunk == LEAST_CHUNK


def test_chunks_take_a_tenth_of_a_second_and_no_less_than_the_least() -> None:
    pace = Pace(MOST_CHUNK)
    pace.learn(AHEAD + 1_000_000, 1.0, now=7.0)
    assert pace.chunk == 100_000
    pace.learn(AHEAD + 1_000_000, 100.0, now=7.0)
    assert pace.chunk == LEAST_CHUNK
    pace.learn(AHEAD + 1_000_000, 0.0, now=7.0)
    assert pace.chunk == 4 * LEAST_CHUNK


def test_a_link_that_becomes_slow_during_a_message_gets_small_chunks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slow = 0.0, 250_000.0  # [s], [byte/s]
    sizes: list[int] = []
    monkeypatch.setattr("fedfloor.deploy.coding.time.monotonic", lambda: clock)
    for frame in encode(Model(numbers(6 * MOST_CHUNK, dtype="uint8")), TURN, Pace(MOST_CHUNK)):
        is_slow = sum(sizes) > 2.5 * MOST_CHUNK
        clock += len(frame) / (slow if is_slow else 1e9)  # as long as the link takes for it
        sizes.append(len(frame))
    first = int(np.argmax(np.cumsum(sizes) > 2.5 * MOST_CHUNK)) + 1  # the first that meets the slow link
    assert max(sizes[:first]) > MOST_CHUNK  # with its head
    assert sizes[first] > MOST_CHUNK  # which nobody could know before
    assert max(sizes[first + 1 : -1]) < LEAST_CHUNK + 100
    assert sum(sizes[first + 1 :]) > MOST_CHUNK


def test_two_large_tensors_of_one_message_arrive() -> None:
    message = Boundary(0, None, numbers(70_000), numbers(40_000, dtype="int64"))
    assert same(message, arrived(message))


def test_arrays_that_are_not_in_order_arrive_in_order() -> None:
    for values in (numbers(300, 400).T, numbers(600, 3)[::2], numbers(100).astype(">f4")):
        message = arrived(Model(values))
        assert isinstance(message, Model)
        assert np.array_equal(message.weights, values)
        assert message.weights.flags.writeable


def test_frames_are_encoded_as_protobuf_reads_them() -> None:
    frames = list(encode(Model(numbers(700_000, dtype="uint8")), TURN))
    assert len(frames) > 3
    tail = b""
    for data in frames:
        frame = wire_pb2.Frame.FromString(data)
        assert (frame.protocol, frame.round, frame.attempt) == (PROTOCOL, 7, 2)
        assert frame.tail_size == len(frame.tail)
        tail += frame.tail
    assert tail == numbers(700_000, dtype="uint8").tobytes()


def test_frames_that_protobuf_orders_otherwise_are_read_too() -> None:
    decoder = Decoder()
    for data in encode(Model(numbers(100_000)), TURN):
        frame = wire_pb2.Frame.FromString(data)
        tail = wire_pb2.Frame(tail=frame.tail).SerializeToString()
        frame.ClearField("tail")
        envelope = decoder.feed(tail + frame.SerializeToString(), [MODEL], None)
    assert envelope is not None
    assert same(Model(numbers(100_000)), envelope.message)


def test_replies_of_another_round_or_attempt_are_dropped() -> None:
    decoder = Decoder()
    for turn in (Turn(6, 2), Turn(7, 1), Turn(8, 2)):
        for message in (Model(numbers(200_000)), Ready(1.0), Model(numbers(3, dtype="int8"))):
            assert [decoder.feed(frame, [MODEL], TURN) for frame in encode(message, turn)][-1] is None
    envelopes = [decoder.feed(frame, [MODEL], TURN) for frame in encode(Model(numbers(100_000)), TURN)]
    assert envelopes[-1] is not None


def test_messages_that_belong_to_no_round_are_never_dropped() -> None:
    envelope = Decoder().feed(next(encode(Ready(1.0), Turn())), [Expected(Ready)], TURN)
    assert envelope is not None
    assert envelope.turn == Turn()


def test_a_large_message_of_another_round_takes_no_memory() -> None:
    frames = list(encode(Model(numbers(10_000_000, dtype="uint8")), Turn(1, 1)))
    decoder = Decoder()
    tracemalloc.start()
    for frame in frames:
        decoder.feed(frame, [MODEL], TURN)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1_000_000


def refusal(frames: list[bytes], *choices: Expected) -> str:
    """Why frames are refused; the last one is the wrong one."""
    decoder = Decoder()
    for frame in frames[:-1]:
        decoder.feed(frame, choices, TURN)
    with pytest.raises(LinkError) as caught:
        decoder.feed(frames[-1], choices, TURN)
    return str(caught.value)


def setter(path: str, value: object) -> Callable[[Any], None]:
    """A change that sets a field somewhere in a frame."""

    def change(frame: Any) -> None:
        *parts, name = path.split(".")
        for part in parts:
            frame = frame[int(part)] if part.isdigit() else getattr(frame, part)
        setattr(frame, name, value)

    return change


BY_NAME = {type(message).__name__: message for message in MESSAGES}
TRAINED, ORDER, SUMS, HELLO = BY_NAME["Trained"], BY_NAME["Order"], BY_NAME["Sums"], BY_NAME["Hello"]
SMALL = Model(numbers(10))
WRONG = {
    "another protocol": (SMALL, setter("protocol", 1), f"speaks protocol 1, this one protocol {PROTOCOL}"),
    "no protocol": (SMALL, lambda frame: frame.ClearField("protocol"), "speaks protocol 0"),
    "no body": (TRAINED, lambda frame: frame.ClearField("trained"), "no message that this version knows"),
    "missing tensor": (SMALL, lambda frame: frame.model.ClearField("weights"), "Model: the field 'weights' is missing"),
    "missing number": (TRAINED, lambda frame: frame.trained.ClearField("loss"), "Trained: the field 'loss' is missing"),
    "missing in an entry": (
        TRAINED, lambda frame: frame.trained.devices[1].ClearField("name"),
        "Trained.devices[1]: the field 'name' is missing",
    ),
    "unknown dtype": (SMALL, setter("model.weights.dtype", "object"), "Model.weights: unknown dtype 'object'"),
    "complex dtype": (SMALL, setter("model.weights.dtype", "complex64"), "Model.weights: unknown dtype 'complex64'"),
    "wrong dtype": (
        SMALL, lambda frame: (setter("model.weights.dtype", "float16")(frame), setter("model.weights.size", 20)(frame),
                              setter("tail", b"\0" * 20)(frame)),
        "Model.weights: expected float32 of 10, got float16 of 10",
    ),
    "wrong shape": (
        SMALL, lambda frame: frame.model.weights.shape.append(1), "expected float32 of 10, got float32 of 10 x 1"
    ),
    "many dimensions": (SMALL, lambda frame: frame.model.weights.shape.extend([1] * 8), "9 dimensions, at most 8"),
    "endless shape": (
        SMALL, lambda frame: frame.model.weights.shape.extend([2**63, 2**63]), "at most 2,147,483,648 are allowed"
    ),
    "oversize": (
        SMALL, lambda frame: (frame.model.weights.shape.append(10**7), setter("model.weights.size", 4 * 10**8)(frame),
                              frame.ClearField("tail")),
        "expected float32 of 10, got float32 of 10 x 10000000",
    ),
    "size against shape": (SMALL, setter("model.weights.size", 41), "has 40 bytes, but the message says 41"),
    "truncated data": (SMALL, setter("tail", b"\0" * 39), "Model.weights: a chunk of 39 bytes, expected 40."),
    "too much data": (SMALL, setter("tail", b"\0" * 41), "Model.weights: a chunk of 41 bytes, expected 40."),
    "no data": (SMALL, lambda frame: frame.ClearField("tail"), "Model.weights: a chunk of 0 bytes, expected 40."),
    "data of no tensor": (TRAINED, setter("tail", b"\0"), "Trained: 1 bytes follow that belong to no tensor"),
    "weights not finite": (
        SMALL, setter("tail", np.full(10, np.nan, np.float32).tobytes()),
        "Model.weights: contains numbers that are not finite",
    ),
    "loss not finite": (TRAINED, setter("trained.loss", np.nan), "Trained.loss: must be a finite number, got nan"),
    "energy not finite": (TRAINED, setter("trained.energy_j", np.inf), "Trained.energy_j: must be a finite number"),
    "negative seconds": (
        TRAINED, setter("trained.devices.0.seconds", -1.0),
        "Trained.devices[0].seconds: must be a finite number of at least 0, got -1.0",
    ),
    "negative in a list": (
        ORDER, lambda frame: frame.order.frequencies_hz.append(-5.0), "Order.frequencies_hz[2]: must be a finite number"
    ),
    "not finite in a list": (SUMS, lambda frame: frame.sums.sum.append(float("-inf")), "Sums.sum[2]: must be a finite"),
    "long list": (SUMS, lambda frame: frame.sums.sum.extend([1.0] * 5000), "Sums.sum: 5,002 entries, at most 4,096"),
    "large cut": (ORDER, lambda frame: frame.order.cuts.append(10**6), "Order.cuts: 1000000 is more than 4096"),
    "large channel": (ORDER, setter("order.channel", 2**32 - 1), "Order.channel: 4294967295 is more than"),
    "long name": (HELLO, setter("hello.name", "x" * 201), "Hello.name: 201 bytes of text, at most 200"),
    "profile is no text": (
        HELLO, setter("tail", b"\xff" * 13), "Hello.profile: is not a text in UTF-8"
    ),
    "endless round": (SMALL, setter("round", 2**63), "the round 9223372036854775808 is more than"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_frame_is_refused_with_its_reason(case: str) -> None:
    message, change, reason = WRONG[case]
    frame = changed(message, change)
    assert reason in refusal([frame], expected(message))


def test_bytes_that_are_no_frame_are_refused() -> None:
    assert "cannot be read" in refusal([b"\xff\xff\xff"], MODEL)
    assert f"at most {MOST_FRAME:,}" in refusal([b"\0" * (MOST_FRAME + 1)], MODEL)


def test_a_message_that_is_not_expected_is_refused() -> None:
    frames = list(encode(Ready(1.0), TURN))
    assert "Ready: this message is not expected here, but Model or Welcome." in refusal(
        frames, MODEL, Expected(Welcome)
    )


def test_a_tensor_that_must_be_missing_is_refused() -> None:
    layouts = {"activations": Layout("float32", (5,)), "labels": None}
    message = Boundary(0, None, numbers(5), numbers(5, dtype="int64"))
    reason = "Boundary.labels: int64 of 5, but no such tensor is expected here."
    assert refusal(list(encode(message, TURN)), Expected(Boundary, layouts)) == reason
    layouts = {"activations": Layout("float32", (5,)), "labels": Layout("int64", (5,))}
    message = Boundary(0, None, numbers(5), None)
    reason = "Boundary: the field 'labels' is missing."
    assert refusal(list(encode(message, TURN)), Expected(Boundary, layouts)) == reason


def test_a_first_dimension_may_be_smaller_if_the_receiver_says_so() -> None:
    layout = Layout("float32", (50, 4), at_most=True)
    assert layout.admits(Layout("float32", (50, 4)))
    assert layout.admits(Layout("float32", (0, 4)))
    assert not layout.admits(Layout("float32", (51, 4)))
    assert not layout.admits(Layout("float32", (50, 3)))
    assert not layout.admits(Layout("float32", (4,)))


def test_chunks_are_refused_if_they_are_not_those_of_the_tensor() -> None:
    first, second, *_ = encode(Model(numbers(100_000)), TURN)

    def chunk(size: int) -> bytes:
        data: bytes = wire_pb2.Frame(protocol=PROTOCOL, round=7, attempt=2, tail=b"\0" * size).SerializeToString()
        return data

    left = 400_000 - LEAST_CHUNK
    assert "belongs to no tensor" in refusal([chunk(100)], MODEL)
    assert f"Model.weights: a chunk of 100 bytes, expected 32,768 to {left:,}." in refusal([first, chunk(100)], MODEL)
    assert "a chunk of 0 bytes" in refusal([first, second, chunk(0)], MODEL)
    assert f"a chunk of {left + 1:,} bytes" in refusal([first, chunk(left + 1)], MODEL)
    assert f"truncated: {left:,} bytes are missing, but the message model follows" in refusal([first, first], MODEL)
    *_, other = encode(Model(numbers(100_000)), Turn(7, 3))
    assert "a chunk of another round" in refusal([first, other], MODEL)
    assert "cannot be read" in refusal([first, b"\xff"], MODEL)


def test_a_number_that_is_not_finite_is_found_wherever_chunks_part() -> None:
    for place in (0, LEAST_CHUNK // 4, 99_999):
        values = numbers(100_000)
        values[place] = np.nan
        decoder = Decoder()
        with pytest.raises(LinkError, match=r"Model.weights: contains numbers that are not finite"):
            [decoder.feed(frame, [MODEL], TURN) for frame in encode(Model(values), TURN)]


def test_tails_that_lie_about_their_size_are_read_as_protobuf_reads_them() -> None:
    frame = next(encode(SMALL, TURN))
    for size in (0, 39, 41, 2**32 - 1):
        wrong = frame[:1] + size.to_bytes(4, "little") + frame[5:]
        envelope = Decoder().feed(wrong, [expected(SMALL)], TURN)
        assert envelope is not None
        assert same(SMALL, envelope.message)


def test_a_tensor_that_is_refused_takes_no_memory() -> None:
    _, change, _ = WRONG["oversize"]
    frame = changed(SMALL, change)
    tracemalloc.start()
    refusal([frame], MODEL)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100_000


def test_a_refusal_by_another_version_can_be_read() -> None:
    frame = changed(Refused("We speak protocol 3."), setter("protocol", 3))
    envelope = Decoder().feed(frame, [Expected(Refused)], TURN)
    assert envelope is not None
    assert same(Refused("We speak protocol 3."), envelope.message)


def test_a_long_reason_is_cut_off_and_a_long_name_is_not() -> None:
    message = arrived(Refused("ü" * 5000))
    assert isinstance(message, Refused)
    assert message.reason == "ü" * 2048
    with pytest.raises(LinkError, match=r"Hello.name"):
        arrived(Hello("device", "x" * 5000, "", ""))


def test_a_tensor_of_another_type_cannot_be_sent() -> None:
    with pytest.raises(LinkError, match=r"tensors of float64 cannot be sent"):
        next(encode(Model(np.zeros(3)), TURN))


def test_finite_numbers_whose_sum_overflows_are_finite() -> None:
    assert is_finite(np.full(100, 3e38, np.float32))
    assert is_finite(np.full(100, 6e4, np.float16))
    assert not is_finite(np.array([np.inf, -np.inf], np.float32))
    assert not is_finite(np.array([1.0, np.nan], np.float16))
    assert is_finite(np.array([], np.float32))


def test_every_field_of_every_message_says_what_it_may_hold() -> None:
    kinds = (fields.Text, fields.Whole, fields.Flag, fields.Real, fields.Reals, fields.Wholes, Entries, fields.Numbers)
    for message in MESSAGES:
        assert all(isinstance(row.kind, kinds) for row in fields_of(type(message)))


@pytest.mark.parametrize("many", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_fuzzed_frames_are_read_or_refused_and_nothing_else(many: int) -> None:
    rng = np.random.default_rng(0)
    valid = [frame for message in [*MESSAGES, Model(numbers(70_000))] for frame in encode(message, TURN)]
    choices = list({type(message): expected(message) for message in MESSAGES}.values())
    decoder, refused = Decoder(), 0
    tracemalloc.start()
    for _ in range(many):
        try:
            decoder.feed(fuzzed(rng, valid), choices, TURN)
        except LinkError as error:
            assert len(str(error)) < 1000  # noqa: PT017 - the reason goes back to whoever sent the frame
            decoder, refused = Decoder(), refused + 1
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert many // 2 < refused < many
    assert most < 50_000_000
