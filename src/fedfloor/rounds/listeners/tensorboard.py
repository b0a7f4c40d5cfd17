"""A training run's rounds as curves in TensorBoard."""

__all__ = ["EVENTS", "TensorboardLogger"]

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import Any

from fedfloor.errors import MissingExtraError
from fedfloor.files import failed_write
from fedfloor.rounds.listeners.curves import scalars
from fedfloor.rounds.record import RoundRecord
from fedfloor.scenario.resolved import Scenario

EVENTS = "tensorboard"  #: in a run folder: the event files


class TensorboardLogger:
    """TensorBoard event files in `<run folder>/tensorboard`; every round is flushed before the next one starts.

    A resumed run adds a file with the rounds that earlier files lack, so that no round is missing or shown twice.
    """

    def __init__(self, folder: Path, scenario: Scenario, policy: str) -> None:  # noqa: ARG002  # the curves say enough
        try:
            from tensorboard.backend.event_processing.event_file_loader import EventFileLoader  # noqa: PLC0415
            from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415
            from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
            from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise MissingExtraError("logger 'tensorboard'", "tensorboard") from error
        self._loader, self._event, self._summary, self._records = EventFileLoader, Event, Summary, RecordWriter
        self._folder = folder / EVENTS
        self._writer: Any = None  # opened by the first round: a new run wants an empty folder
        self._last = -1  # round

    def write(self, record: RoundRecord) -> None:
        """Add one round to the event file, unless it is in one already."""
        step = record.round
        values = [self._summary.Value(tag=key, simple_value=value) for key, value in scalars(record).items()]
        try:
            if self._writer is None:
                self._open()
            if step > self._last:
                self._add(step=step, summary=self._summary(value=values))
                self._last = step
        except OSError as error:
            raise failed_write(self._folder, error, again="resume the run") from None

    def close(self, *, failed: bool = False) -> None:  # noqa: ARG002  # an event file knows no end
        """Close the event file."""
        if self._writer is not None:
            with contextlib.suppress(OSError):  # a full disk was reported when it was met
                self._writer.close()

    def _open(self) -> None:
        self._folder.mkdir(exist_ok=True)
        held = [event for path in self._folder.glob("*.tfevents.*") for event in self._loader(str(path)).Load()]
        self._last = max((event.step for event in held if event.HasField("summary")), default=-1)
        # TensorBoard reads files in the order of their names, so nanoseconds follow the seconds.
        now = time.time_ns()
        name = f"events.out.tfevents.{now // 10**9:010d}.{now}.{socket.gethostname()}.{os.getpid()}"
        self._writer = self._records((self._folder / name).open("wb"))
        self._add(file_version="brain.Event:2")

    def _add(self, **content: Any) -> None:
        self._writer.write(self._event(wall_time=time.time(), **content).SerializeToString())
        self._writer.flush()
