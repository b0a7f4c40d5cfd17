"""Messages to frames and back; what a frame claims is checked before memory is allocated for it."""

__all__ = [
    "AHEAD",
    "CHUNK_S",
    "FRESH_S",
    "LEAST_CHUNK",
    "MOST_CHUNK",
    "MOST_FRAME",
    "PROTOCOL",
    "STRETCH",
    "Decoder",
    "Envelope",
    "Pace",
    "Packed",
    "encode",
    "pack",
    "unpack",
]

import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from fedfloor.deploy.fields import DTYPES, Document, Layout, LinkError, Numbers, fields_of, is_finite
from fedfloor.deploy.messages import Expected, Message, Refused, Turn
from fedfloor.errors import MissingExtraError

try:
    from google.protobuf.message import DecodeError

    from fedfloor.deploy.wire_pb2 import Frame
except ModuleNotFoundError as error:
    raise MissingExtraError("a deployment", "deploy") from error

PROTOCOL = 3  #: version; both ends of a connection must have the same
MOST_FRAME = 2 * 2**20  #: [byte]
#: [byte] of a chunk, which is what a frame has of a message's tensors; only the last one may be smaller
LEAST_CHUNK, MOST_CHUNK = 2**15, 1_000_000
FIRST_CHUNK = 2**17  #: [byte] at most, until a message has shown how fast its connection is now
FRESH_S = 1.0  #: [s] for which what a message has shown holds for the next ones too
CHUNK_S = 0.1  #: [s] that a chunk may take on its way
AHEAD = 2**17  #: [byte] that a link takes before the other side has read any of them
STRETCH = 2 * AHEAD  #: [byte] that tell how fast a link is
MOST_ROUND = 2**53

#: name of the body in the envelope -> its message
_KINDS: dict[str, type[Message]] = {kind.__name__.lower(): kind for kind in get_args(Message)}
_FIXED32, _BYTES = 5, 2  #: types of fields on the wire


def _tag(name: str, kind: int) -> bytes:
    """What stands before the value of a field, as protobuf encodes it."""
    return _varint(Frame.DESCRIPTOR.fields_by_name[name].number << 3 | kind)


def _varint(number: int) -> bytes:
    """A number as protobuf encodes it."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


_SIZE_TAG, _TAIL_TAG = _tag("tail_size", _FIXED32), _tag("tail", _BYTES)
_SIZE_END = len(_SIZE_TAG) + 4


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message that arrived."""

    message: Message
    turn: Turn


@dataclass(slots=True)
class Pace:
    """How large chunks may be on a connection: they begin small and grow to what it takes in 0.1 s.

    A ping waits behind one or two chunks, so that a slow link is not taken for a dead one. A connection that has shown
    that it is fast begins its next message with larger chunks, but with the largest only if it has shown it just now:
    later it may be slow.
    """

    chunk: int = LEAST_CHUNK  #: [byte]
    learned: float = -math.inf  #: [s] of `time.monotonic`, when it was last adapted

    def first(self, now: float) -> int:
        """Bytes of the first chunk of a message."""
        return self.chunk if now - self.learned < FRESH_S else min(self.chunk, FIRST_CHUNK)

    def learn(self, sent: int, seconds: float, now: float) -> None:
        """Adapt to how long a stretch of a message took; the bytes that the link takes ahead say nothing."""
        rate = (sent - AHEAD) / max(seconds, 1e-6)  # [byte/s]
        self.chunk = max(LEAST_CHUNK, min(MOST_CHUNK, 4 * self.chunk, int(CHUNK_S * rate)))
        self.learned = now


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A message as one frame and its tensors, for a transport that sends tensors separately."""

    frame: bytes  #: everything but the numbers of its tensors
    tensors: tuple[npt.NDArray[Any], ...]  #: those that are not empty, in the order of the message's fields


def pack(message: Message, turn: Turn) -> Packed:
    """A message as one frame, which says how its tensors are laid out, and these tensors."""
    frame = Frame(protocol=PROTOCOL, round=turn.round, attempt=turn.attempt)
    body = getattr(frame, type(message).__name__.lower())
    body.SetInParent()
    tensors: list[npt.NDArray[Any]] = []
    for row in fields_of(type(message)):
        value = getattr(message, row.name)
        if value is None:
            continue
        if isinstance(row.kind, Numbers):
            array = _bytes_of(value) if isinstance(row.kind, Document) else _little_endian(value)
            row.kind.write(body, row.name, array)
            if array.nbytes:
                tensors.append(array)
        else:
            row.kind.write(body, row.name, value)
    return Packed(frame.SerializeToString(), tuple(tensors))


def unpack(packed: Packed, expected: Collection[Expected], turn: Turn | None = None) -> Envelope:
    """The message that was packed; a LinkError says what is wrong with it, or that it is of another turn."""
    partial, chunk = _opened(packed.frame, expected, turn)
    if partial.is_stale or chunk:
        raise LinkError(f"{partial.kind.__name__}: is of round {partial.turn.round}, or is not in one piece.")
    parts = [_raw(tensor) for tensor in packed.tensors]
    if sum(map(len, parts)) != partial.missing:
        there, missing = sum(map(len, parts)), partial.missing
        raise LinkError(f"{partial.kind.__name__}: its tensors have {there:,} bytes, expected {missing:,}.")
    partial.make_room()
    for part in parts:
        partial.fill(part)
    return Envelope(partial.message(), partial.turn)


def encode(message: Message, turn: Turn, pace: Pace | None = None) -> Iterator[bytes]:
    """The frames of a message: one, and more if its tensors do not fit into it.

    Ask for a frame when the one before it has been sent: the time between tells how large chunks may be.
    """
    pace, packed = Pace() if pace is None else pace, pack(message, turn)
    head = Frame(protocol=PROTOCOL, round=turn.round, attempt=turn.attempt).SerializeToString()
    tensors = [_raw(tensor) for tensor in packed.tensors]
    begun, sent = time.monotonic(), 0  # of the stretch under way
    most = pace.first(begun)
    chunk = _taken(tensors, most)
    yield _framed(packed.frame, chunk)
    while tensors:
        sent += sum(map(len, chunk))
        if sent >= STRETCH:
            now = time.monotonic()
            pace.learn(sent, now - begun, now)
            begun, sent, most = now, 0, pace.chunk
        chunk = _taken(tensors, most)
        yield _framed(head, chunk)


def _taken(tensors: list[memoryview], size: int) -> list[memoryview]:
    """Take the first bytes off the tensors that are still to be sent."""
    parts: list[memoryview] = []
    while tensors and size:
        part = tensors[0][:size]
        parts.append(part)
        size -= len(part)
        tensors[0] = tensors[0][len(part) :]
        if not tensors[0]:
            del tensors[0]
    return parts


def _framed(head: bytes, chunk: Collection[memoryview]) -> bytes:
    """A frame as protobuf encodes it, with one copy of the chunk; protobuf would make three."""
    size = sum(map(len, chunk))
    if not size:
        return head
    return b"".join((_SIZE_TAG, size.to_bytes(4, "little"), head, _TAIL_TAG, _varint(size), *chunk))


def _split(frame: bytes) -> tuple[Any, memoryview]:
    """The frame without its tail, and the tail: of frames as our encoder writes them without a copy."""
    if len(frame) > MOST_FRAME:
        raise LinkError(f"A frame has {len(frame):,} bytes, at most {MOST_FRAME:,} are allowed.")
    if frame.startswith(_SIZE_TAG):
        size = int.from_bytes(frame[len(_SIZE_TAG) : _SIZE_END], "little")
        start = _TAIL_TAG + _varint(size)
        end = len(frame) - size - len(start)
        if end >= _SIZE_END and frame[end : end + len(start)] == start:
            return _parsed(frame[:end]), memoryview(frame)[end + len(start) :]
    parsed = _parsed(frame)
    return parsed, memoryview(parsed.tail)


class Decoder:
    """Frames to messages, one after the other; it remembers the message whose chunks are arriving."""

    def __init__(self) -> None:
        self._partial: _Partial | None = None

    @property
    def is_inside(self) -> bool:
        """Whether chunks of a message are still to come."""
        return self._partial is not None

    def needs_more_than(self, frame: bytes) -> bool:
        """Whether a frame cannot be the last one of the message whose chunks are arriving."""
        return self._partial is not None and self._partial.missing > len(frame)

    def feed(self, frame: bytes, expected: Collection[Expected], turn: Turn | None) -> Envelope | None:
        """Return the message that a frame completes; raises a LinkError that says what is wrong with it.

        A message of another round or attempt than `turn` is dropped. None: of any.
        """
        if self._partial is None:
            self._partial = _begin(frame, expected, turn)
        else:
            self._partial.follow(frame)
        partial = self._partial
        if partial.missing:
            return None
        self._partial = None
        if partial.is_stale or _is_stale(partial.turn, turn):
            return None
        partial.check(expected)  # once more: the caller may have changed its mind between two chunks
        return Envelope(partial.message(), partial.turn)


@dataclass(slots=True)
class _Tensor:
    """A tensor that is arriving."""

    name: str
    layout: Layout
    array: npt.NDArray[Any] | None  #: None: nobody wants it
    missing: int  #: [byte]

    def fill(self, data: memoryview, place: str) -> None:
        """Copy the next bytes, and look at their numbers while the next ones are on their way."""
        start, end = self.layout.size - self.missing, self.layout.size - self.missing + len(data)
        self.missing -= len(data)
        if self.array is None or not data:
            return
        values = self.array.reshape(-1)
        values.view(np.uint8).data[start:end] = data
        if not is_finite(values[start // values.itemsize : end // values.itemsize]):
            raise LinkError(f"{place}.{self.name}: contains numbers that are not finite.")


@dataclass(slots=True)
class _Partial:
    """A message whose chunks are arriving."""

    kind: type[Message]
    turn: Turn
    is_stale: bool
    values: dict[str, Any]
    tensors: list[_Tensor] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """Bytes that are still to come."""
        return sum(tensor.missing for tensor in self.tensors)

    def check(self, expected: Collection[Expected]) -> None:
        """Raise a LinkError if the message, or the layout of a tensor, is not what the receiver expects."""
        name = self.kind.__name__
        choice = next((entry for entry in expected if entry.message is self.kind), None)
        if choice is None:
            names = " or ".join(entry.message.__name__ for entry in expected)
            raise LinkError(f"{name}: this message is not expected here, but {names}.")
        layouts = {tensor.name: tensor.layout for tensor in self.tensors}
        for row in fields_of(self.kind):
            if not isinstance(row.kind, Numbers):
                continue
            wanted = row.kind.layout if isinstance(row.kind, Document) else choice.tensors[row.name]
            there = layouts.get(row.name)
            if wanted is None and there is not None:
                raise LinkError(f"{name}.{row.name}: {there}, but no such tensor is expected here.")
            if wanted is not None and there is None:
                raise LinkError(f"{name}: the field '{row.name}' is missing.")
            if wanted is not None and there is not None and not wanted.admits(there):
                raise LinkError(f"{name}.{row.name}: expected {wanted}, got {there}.")

    def follow(self, frame: bytes) -> None:
        """Add the chunk of a frame that must belong to this message."""
        parsed, chunk = _split(frame)
        body = parsed.WhichOneof("body")
        if body is not None or Turn(parsed.round, parsed.attempt) != self.turn:
            other = "a chunk of another round" if body is None else f"the message {body}"
            raise LinkError(f"{self._place}: truncated: {self.missing:,} bytes are missing, but {other} follows.")
        self.check_size(chunk)
        self.fill(chunk)

    def check_size(self, chunk: memoryview) -> None:
        """Raise a LinkError if a frame brings too few or too many bytes."""
        missing = self.missing
        if not missing and chunk:
            raise LinkError(f"{self.kind.__name__}: {len(chunk):,} bytes follow that belong to no tensor.")
        least, most = min(LEAST_CHUNK, missing), min(MOST_CHUNK, missing)
        if not least <= len(chunk) <= most:
            expected = f"{least:,}" if least == most else f"{least:,} to {most:,}"
            raise LinkError(f"{self._place}: a chunk of {len(chunk):,} bytes, expected {expected}.")

    def make_room(self) -> None:
        """Allocate memory for the tensors, unless nobody wants them."""
        for tensor in self.tensors:
            if not self.is_stale:
                tensor.array = np.empty(tensor.layout.shape, DTYPES[tensor.layout.dtype])

    def fill(self, chunk: memoryview) -> None:
        """Copy the next bytes into the tensors that they belong to."""
        for tensor in self.tensors:
            part = chunk[: tensor.missing]
            tensor.fill(part, self.kind.__name__)
            chunk = chunk[len(part) :]

    @property
    def _place(self) -> str:
        """The message, and the tensor that is arriving."""
        return f"{self.kind.__name__}.{next(tensor.name for tensor in self.tensors if tensor.missing)}"

    def message(self) -> Message:
        """The complete message."""
        for row in fields_of(self.kind):
            array = next((tensor.array for tensor in self.tensors if tensor.name == row.name), None)
            if array is None:
                continue
            if isinstance(row.kind, Document):
                try:
                    self.values[row.name] = array.tobytes().decode("utf-8")
                except UnicodeDecodeError:
                    raise LinkError(f"{self.kind.__name__}.{row.name}: is not a text in UTF-8.") from None
            else:
                self.values[row.name] = array
        return self.kind(**self.values)


def _begin(frame: bytes, expected: Collection[Expected], turn: Turn | None) -> _Partial:
    """Read a frame that begins a message, and the chunk that it brings."""
    partial, chunk = _opened(frame, expected, turn)
    partial.check_size(chunk)
    partial.make_room()
    partial.fill(chunk)
    return partial


def _opened(frame: bytes, expected: Collection[Expected], turn: Turn | None) -> tuple[_Partial, memoryview]:
    """A message that a frame begins, and the chunk that it brings."""
    parsed, chunk = _split(frame)
    name = parsed.WhichOneof("body")
    if parsed.protocol != PROTOCOL and name != "refused":  # a refusal by another version must be readable
        raise LinkError(
            f"The other side speaks protocol {parsed.protocol}, this one protocol {PROTOCOL}. "
            "Install the same version of fedfloor on both machines."
        )
    if name is None and chunk:
        raise LinkError("A chunk arrived that belongs to no tensor.")
    if name is None:
        raise LinkError("A frame has no message that this version knows.")
    if parsed.round > MOST_ROUND:
        raise LinkError(f"{name}: the round {parsed.round} is more than {MOST_ROUND}.")
    own, kind, body = Turn(parsed.round, parsed.attempt), _KINDS[name], getattr(parsed, name)
    values = {row.name: row.value_in(body, kind.__name__) for row in fields_of(kind)}
    layouts = {name: layout for name, layout in values.items() if isinstance(layout, Layout)}
    tensors = [_Tensor(name, layout, None, layout.size) for name, layout in layouts.items()]
    partial = _Partial(kind, own, kind is not Refused and _is_stale(own, turn), values, tensors)
    if not partial.is_stale:
        partial.check(expected)
    return partial, chunk


def _is_stale(own: Turn, turn: Turn | None) -> bool:
    return turn is not None and own.attempt != 0 and own != turn


def _parsed(frame: bytes) -> Any:
    parsed = Frame()
    try:
        parsed.ParseFromString(frame)
    except DecodeError:
        raise LinkError(f"A frame of {len(frame):,} bytes cannot be read.") from None
    return parsed


def _raw(array: npt.NDArray[Any]) -> memoryview:
    """The bytes of an array that lies in one piece."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _bytes_of(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8", "replace"), np.uint8)


def _little_endian(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")
