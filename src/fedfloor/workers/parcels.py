"""Messages between processes of one machine whose arrays are written and read as they lie in memory."""

__all__ = ["receive", "send"]

import pickle
from multiprocessing.connection import Connection
from typing import Any


def send(connection: Connection, message: Any) -> None:
    """Send a message; arrays in C order are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    connection.send_bytes(pickle.dumps((body, len(buffers))))
    for buffer in buffers:
        with buffer.raw() as raw:
            connection.send_bytes(raw)


def receive(connection: Connection) -> Any:
    """Wait for a message of `send`; its arrays can only be read. Raises EOFError or OSError if none comes any more."""
    body, count = pickle.loads(connection.recv_bytes())  # noqa: S301  # from a process of our own
    buffers = [connection.recv_bytes() for _ in range(count)]
    return pickle.loads(body, buffers=buffers)  # noqa: S301
