"""Sending messages over Flower's grid and waiting for their replies, each by its own deadline."""

__all__ = ["Asked", "Mailbox", "Pending", "exchange", "pause_after"]

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedfloor.characters import safe_line
from fedfloor.deploy.fields import LinkError

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0  #: [s] between two looks for replies
_AFTERWARDS = 60.0  #: [s] that a message outlives the wait for its reply
Asked = tuple[int, int, RecordDict, float]  #: floor or node, node, content, deadline [s]


@dataclass(slots=True, eq=False)
class Pending:
    """A message under way, or what came of it."""

    key: int  #: floor or node that it was sent to
    begun: float  #: of `time.monotonic`
    deadline: float  #: [s] after that
    identity: str  #: of the message; empty if Flower did not take it
    reply: Message | None = None
    seconds: float = 0.0  #: until the reply was here, or nobody waited any longer
    reason: str = ""  #: why there is no reply

    def content(self) -> RecordDict:
        """What the reply says; a LinkError says why it says nothing."""
        if self.reply is None:
            raise LinkError(self.reason)
        if self.reply.has_error():
            raise LinkError(safe_line(f"Flower: {self.reply.error.reason}"))
        return self.reply.content


@dataclass(slots=True, eq=False)
class Mailbox:
    """Messages of one kind, and the replies to them."""

    grid: Grid
    kind: str
    pending: list[Pending] = field(default_factory=list)  #: in the order in which they were sent

    def send(self, key: int, node: int, content: RecordDict, deadline: float) -> None:
        """Send a message to a node; nobody waits for its reply after the deadline [s]."""
        begun, message = time.monotonic(), Message(content, node, self.kind, ttl=deadline + _AFTERWARDS)
        identity = next(iter(self.grid.push_messages([message])), None) or ""
        self.pending.append(Pending(key, begun, deadline, identity))

    def ended(self) -> list[Pending]:
        """Take out the messages of which it is known by now what came of them; waits for nothing."""
        sent = [entry.identity for entry in self.pending if entry.identity]
        replies = {reply.metadata.reply_to_message_id: reply for reply in self.grid.pull_messages(sent)} if sent else {}
        now = time.monotonic()
        for entry in self.pending:
            entry.reply, entry.seconds = replies.get(entry.identity), now - entry.begun
            if not entry.identity:
                entry.reason = "Flower did not take the message."
            elif entry.seconds > entry.deadline:
                entry.reason = f"no answer within {entry.deadline:.3g} s"
        ended = [entry for entry in self.pending if entry.reply is not None or entry.reason]
        self.pending = [entry for entry in self.pending if entry.reply is None and not entry.reason]
        return ended


def exchange(grid: Grid, kind: str, asked: Iterable[Asked]) -> Iterator[Pending]:
    """Send messages, and yield what comes of each, by its deadline."""
    mailbox = Mailbox(grid, kind)
    for entry in asked:
        mailbox.send(*entry)
    while mailbox.pending:
        yield from mailbox.ended()
        if mailbox.pending:
            time.sleep(pause_after(max(entry.seconds for entry in mailbox.pending)))


def pause_after(seconds: float) -> float:
    """How long to wait [s] before the next look for something that was not there in so many seconds."""
    return min(max(0.05 * seconds, _FIRST_PAUSE), _LONGEST_PAUSE)
