"""Sending messages over Flower's grid and waiting for their replies, each by its own deadline."""

__all__ = ["Asked", "Pending", "exchange"]

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.session import quoted

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0  #: [s] between two looks for replies
_AFTERWARDS = 60.0  #: [s] that a message outlives the wait for its reply
Asked = tuple[int, int, RecordDict, float]  #: floor or node, node, content, deadline [s]


@dataclass(slots=True, eq=False)
class Pending:
    """A message under way, or what came of it."""

    key: int  #: floor or node that it was sent to
    begun: float  #: of `time.monotonic`
    deadline: float  #: [s] after that
    reply: Message | None = None
    seconds: float = 0.0  #: until the reply was here, or nobody waited any longer
    reason: str = ""  #: why there is no reply

    def content(self) -> RecordDict:
        """What the reply says; a LinkError says why it says nothing."""
        if self.reply is None:
            raise LinkError(self.reason)
        if self.reply.has_error():
            raise LinkError(quoted(f"Flower: {self.reply.error.reason}"))
        return self.reply.content


def exchange(grid: Grid, kind: str, asked: Iterable[Asked]) -> Iterator[Pending]:
    """Send messages, and yield what comes of each, by its deadline."""
    pending: dict[str, Pending] = {}
    for key, node, content, deadline in asked:
        entry = Pending(key, time.monotonic(), deadline)
        message = Message(content, node, kind, ttl=deadline + _AFTERWARDS)
        identity = next(iter(grid.push_messages([message])), None)
        if identity:
            pending[identity] = entry
        else:
            entry.reason = "Flower did not take the message."
            yield entry
    while pending:
        for reply in grid.pull_messages(list(pending)):
            done = pending.pop(reply.metadata.reply_to_message_id, None)
            if done is not None:
                done.reply, done.seconds = reply, time.monotonic() - done.begun
                yield done
        now = time.monotonic()
        for identity, entry in list(pending.items()):
            entry.seconds = now - entry.begun
            if entry.seconds > entry.deadline:
                entry.reason = f"no answer within {entry.deadline:.3g} s"
                yield pending.pop(identity)
        if pending:
            longest = max(entry.seconds for entry in pending.values())
            time.sleep(min(max(0.05 * longest, _FIRST_PAUSE), _LONGEST_PAUSE))
