"""Messages between processes of one machine whose arrays are written and read as they lie in memory."""

__all__ = ["Shelf", "new_shelf", "receive", "send"]

import mmap
import os
import pickle
from multiprocessing.connection import Connection
from typing import Any

_SHELF = 2**28  #: [byte] at most; memory is used only as far as messages need it
_LEAST = 2**16  #: [byte] smaller arrays go through the connection, which is no slower

Span = tuple[int, int]  #: of an array on the shelf: begin and end [byte]


class Shelf:
    """Memory that both processes of a connection see: a large array is put there instead of being sent in pieces.

    It holds the arrays of one message. The two sides must take turns, so that nobody writes while the other reads.
    """

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, _SHELF)

    def put(self, array: memoryview, begin: int) -> Span | None:
        """Copy an array to a place from `begin` on; None if it is too small or too large for that."""
        end = begin + array.nbytes
        if array.nbytes < _LEAST or end > _SHELF:
            return None
        self._memory[begin:end] = array
        return begin, end

    def copy(self, place: Span) -> bytearray:
        """A copy of what is at a place."""
        with memoryview(self._memory) as memory:
            return bytearray(memory[slice(*place)])

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()


def new_shelf() -> int | None:
    """Descriptor of memory for a shelf; None where the system has none that two processes can share like this."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        descriptor = os.memfd_create("fedfloor-shelf")
    except OSError:  # as in some sandboxes
        return None
    try:
        os.ftruncate(descriptor, _SHELF)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def send(connection: Connection, message: Any, shelf: Shelf | None = None) -> None:
    """Send a message; arrays in C order are copied at most once."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    arrays, places, begin = [buffer.raw() for buffer in buffers], list[Span | None](), 0
    for array in arrays:
        place = None if shelf is None else shelf.put(array, begin)
        begin = begin if place is None else place[1]
        places.append(place)
    connection.send_bytes(pickle.dumps((body, places)))
    for array, place in zip(arrays, places, strict=True):
        if place is None:
            connection.send_bytes(array)
        array.release()


def receive(connection: Connection, shelf: Shelf | None = None) -> Any:
    """Wait for a message of `send`. Raises EOFError or OSError if none comes any more.

    Small arrays of the message can only be read; large ones can also be written, so that nobody has to copy them.
    """
    body, places = pickle.loads(connection.recv_bytes())  # noqa: S301  # from a process of our own
    buffers: list[bytes | bytearray] = []
    for place in places:
        if place is None:
            buffers.append(connection.recv_bytes())
        else:
            assert shelf is not None
            buffers.append(shelf.copy(place))
    return pickle.loads(body, buffers=buffers)  # noqa: S301
