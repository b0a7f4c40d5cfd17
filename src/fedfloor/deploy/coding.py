"""Messages to frames and back; what a frame claims is checked before memory is allocated for it."""

__all__ = ["INLINE", "LEAST_CHUNK", "MOST_CHUNK", "MOST_FRAME", "PROTOCOL", "Decoder", "Envelope", "encode"]

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

PROTOCOL = 1  #: version; both ends of a connection must have the same
MOST_FRAME = 2 * 2**20  #: [byte]
INLINE = 2**17  #: [byte] larger tensors travel in chunks
#: [byte] of a chunk; only the last one may be smaller. Chunks begin small and grow to what the link takes in 0.1 s: a
#: ping waits behind one or two of them, so that a slow link is not taken for a dead one.
LEAST_CHUNK, MOST_CHUNK = 2**15, 1_000_000
CHUNK_S = 0.1
MOST_ROUND = 2**53

#: name of the body in the envelope -> its message
_KINDS: dict[str, type[Message]] = {kind.__name__.lower(): kind for kind in get_args(Message)}
_CHUNK_TAG: bytes = (Frame.DESCRIPTOR.fields_by_name["chunk"].number << 3 | 2).to_bytes(1, "little")


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message that arrived."""

    message: Message
    turn: Turn


def encode(message: Message, turn: Turn) -> Iterator[bytes]:
    """The frames of a message: one, and the chunks of its large tensors.

    Ask for a frame when the one before it has been sent: the time between tells how large chunks may be.
    """
    frame = Frame(protocol=PROTOCOL, round=turn.round, attempt=turn.attempt)
    head = frame.SerializeToString()
    body = getattr(frame, type(message).__name__.lower())
    body.SetInParent()
    chunked = []
    for row in fields_of(type(message)):
        value = getattr(message, row.name)
        if value is None:
            continue
        if not isinstance(row.kind, Numbers):
            row.kind.write(body, row.name, value)
            continue
        array = _bytes_of(value) if isinstance(row.kind, Document) else _little_endian(value)
        row.kind.write(body, row.name, array)
        if array.nbytes <= INLINE:
            getattr(body, row.name).data = array.tobytes()
        else:
            chunked.append(array.reshape(-1).view(np.uint8).data)
    yield frame.SerializeToString()
    begun, sent, size = time.monotonic(), 0, LEAST_CHUNK
    for view in chunked:
        at = 0
        while at < len(view):
            part = view[at : at + size]
            yield b"".join((_chunk_head(head, len(part)), part))  # one copy; protobuf would make three
            at, sent = at + len(part), sent + len(part)
            rate = sent / max(time.monotonic() - begun, 1e-6)  # [byte/s]
            size = max(LEAST_CHUNK, min(MOST_CHUNK, 4 * size, int(CHUNK_S * rate)))


class Decoder:
    """Frames to messages, one after the other; it remembers the message whose chunks are arriving."""

    def __init__(self) -> None:
        self.dropped = 0  #: messages of another round or attempt
        self._partial: _Partial | None = None

    @property
    def is_inside(self) -> bool:
        """Whether chunks of a message are still to come."""
        return self._partial is not None

    @property
    def needs_more_than_one(self) -> bool:
        """Whether the next chunk will not be the last one of a message."""
        return self._partial is not None and self._partial.missing > MOST_CHUNK

    def feed(self, frame: bytes, expected: Collection[Expected], turn: Turn | None) -> Envelope | None:
        """Return the message that a frame completes; raises a LinkError that says what is wrong with it.

        A message of another round or attempt than `turn` is dropped and counted. None: of any.
        """
        if self._partial is None:
            self._partial = _begin(frame, expected, turn)
        else:
            self._partial.take(frame)
        partial = self._partial
        if partial.missing:
            return None
        self._partial = None
        if partial.is_stale or _is_stale(partial.turn, turn):
            self.dropped += 1
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

    def fill(self, data: memoryview) -> None:
        if self.array is not None:
            at = self.layout.size - self.missing
            self.array.reshape(-1).view(np.uint8).data[at : at + len(data)] = data
        self.missing -= len(data)


@dataclass(slots=True)
class _Partial:
    """A message whose chunks are arriving."""

    kind: type[Message]
    turn: Turn
    is_stale: bool
    head: bytes  #: with which the frames of its chunks begin
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

    def take(self, frame: bytes) -> None:
        """Add the next chunk."""
        tensor = next(tensor for tensor in self.tensors if tensor.missing)
        place = f"{self.kind.__name__}.{tensor.name}"
        data = self._chunk_in(frame, place, tensor.missing)
        least, most = min(LEAST_CHUNK, tensor.missing), min(MOST_CHUNK, tensor.missing)
        if not least <= len(data) <= most:
            raise LinkError(f"{place}: a chunk of {len(data):,} bytes, expected {least:,} to {most:,}.")
        tensor.fill(data)

    def _chunk_in(self, frame: bytes, place: str, missing: int) -> memoryview:
        for width in range(1, 4):  # what our own encoder writes needs no copy by protobuf
            at = len(self.head) + len(_CHUNK_TAG) + width
            if frame[:at] == _chunk_head(self.head, max(len(frame) - at, 0)):
                return memoryview(frame)[at:]
        parsed = _parsed(frame)
        body = parsed.WhichOneof("body")
        if body != "chunk" or Turn(parsed.round, parsed.attempt) != self.turn:
            other = "a chunk of another round" if body == "chunk" else f"the message {body}"
            raise LinkError(f"{place}: truncated: {missing:,} bytes are missing, but {other} follows.")
        return memoryview(parsed.chunk)

    def message(self) -> Message:
        """The complete message."""
        for row in fields_of(self.kind):
            array = next((tensor.array for tensor in self.tensors if tensor.name == row.name), None)
            if array is None:
                continue
            place = f"{self.kind.__name__}.{row.name}"
            if isinstance(row.kind, Document):
                try:
                    self.values[row.name] = array.tobytes().decode("utf-8")
                except UnicodeDecodeError:
                    raise LinkError(f"{place}: is not a text in UTF-8.") from None
            elif is_finite(array):
                self.values[row.name] = array
            else:
                raise LinkError(f"{place}: contains numbers that are not finite.")
        return self.kind(**self.values)


def _begin(frame: bytes, expected: Collection[Expected], turn: Turn | None) -> _Partial:
    """Read a frame that begins a message."""
    parsed = _parsed(frame)
    name = parsed.WhichOneof("body")
    if parsed.protocol != PROTOCOL and name != "refused":  # a refusal by another version must be readable
        raise LinkError(
            f"The other side speaks protocol {parsed.protocol}, this one protocol {PROTOCOL}. "
            "Install the same version of fedfloor on both machines."
        )
    if name == "chunk":
        raise LinkError("A chunk arrived that belongs to no tensor.")
    if name is None:
        raise LinkError("A frame has no message that this version knows.")
    if parsed.round > MOST_ROUND:
        raise LinkError(f"{name}: the round {parsed.round} is more than {MOST_ROUND}.")
    own, kind, body = Turn(parsed.round, parsed.attempt), _KINDS[name], getattr(parsed, name)
    head = Frame(protocol=parsed.protocol, round=own.round, attempt=own.attempt).SerializeToString()
    values = {row.name: row.value_in(body, kind.__name__) for row in fields_of(kind)}
    partial = _Partial(kind, own, kind is not Refused and _is_stale(own, turn), head, values)
    for row in fields_of(kind):
        if isinstance(layout := values[row.name], Layout):
            _check_data(getattr(body, row.name), layout, f"{kind.__name__}.{row.name}")
            partial.tensors.append(_Tensor(row.name, layout, None, layout.size))
    if not partial.is_stale:
        partial.check(expected)
    for tensor in partial.tensors:
        if not partial.is_stale:
            tensor.array = np.empty(tensor.layout.shape, DTYPES[tensor.layout.dtype])
        if tensor.layout.size <= INLINE:
            tensor.fill(memoryview(getattr(body, tensor.name).data))
    return partial


def _check_data(tensor: Any, layout: Layout, place: str) -> None:
    """Raise a LinkError unless a tensor has all its bytes in the frame, or none of them because chunks follow."""
    size = layout.size if layout.size <= INLINE else 0
    if len(tensor.data) != size:
        where = "with the message" if size or not layout.size else "with the message, because chunks follow"
        raise LinkError(f"{place}: {layout} needs {size:,} bytes {where}, got {len(tensor.data):,}.")


def _is_stale(own: Turn, turn: Turn | None) -> bool:
    return turn is not None and own.attempt != 0 and own != turn


def _parsed(frame: bytes) -> Any:
    if len(frame) > MOST_FRAME:
        raise LinkError(f"A frame has {len(frame):,} bytes, at most {MOST_FRAME:,} are allowed.")
    parsed = Frame()
    try:
        parsed.ParseFromString(frame)
    except DecodeError:
        raise LinkError(f"A frame of {len(frame):,} bytes cannot be read.") from None
    return parsed


def _chunk_head(head: bytes, size: int) -> bytes:
    """Everything of a frame with a chunk that stands before the chunk's bytes, as protobuf encodes it."""
    length = bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return head + _CHUNK_TAG + length


def _bytes_of(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8", "replace"), np.uint8)


def _little_endian(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")
