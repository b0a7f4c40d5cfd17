"""Optional loggers by name: TensorBoard and MLflow beside the run folder's own log."""

__all__ = ["LOGGERS", "Logger", "Loggers", "open_loggers"]

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from fedfloor.errors import FedfloorError
from fedfloor.rounds.listeners.log import ROUNDS, read_log
from fedfloor.rounds.listeners.mlflow import MlflowLogger
from fedfloor.rounds.listeners.tensorboard import TensorboardLogger
from fedfloor.rounds.loop import FinishedRound
from fedfloor.rounds.record import RoundRecord
from fedfloor.scenario.resolved import Scenario


class Logger(Protocol):
    """Where rounds are shown while a run is going."""

    def write(self, record: RoundRecord) -> None:
        """Show one round, unless it is shown already."""

    def close(self, *, failed: bool = False) -> None:
        """Finish; `failed` if the run did not come to its end."""


#: name on the command line -> what it opens
LOGGERS: Mapping[str, Callable[[Path, Scenario, str], Logger]] = {
    "mlflow": MlflowLogger,
    "tensorboard": TensorboardLogger,
}


class Loggers:
    """Passes every round to some loggers, after the earlier rounds of a resumed run folder that they may lack."""

    def __init__(self, loggers: Iterable[Logger], folder: Path | None) -> None:
        self._loggers, self._folder = list(loggers), folder
        self._behind = bool(self._loggers) and folder is not None

    def hear(self, ended: FinishedRound) -> None:
        """Show one round."""
        self.catch_up()
        self._write(ended.record)

    def catch_up(self) -> None:
        """Show the rounds that the run folder already holds."""
        if self._behind and self._folder is not None and (self._folder / ROUNDS).exists():
            for record in read_log(self._folder / ROUNDS):
                self._write(record)
        self._behind = False

    def _write(self, record: RoundRecord) -> None:
        for logger in self._loggers:
            logger.write(record)


@contextlib.contextmanager
def open_loggers(names: Iterable[str], folder: Path | None, scenario: Scenario, policy: str) -> Iterator[Loggers]:
    """The loggers of these names for the run in this folder; at the end all are closed, as failed if the run failed.

    They touch the folder when the first round is written.
    """
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in LOGGERS:
            raise FedfloorError(f"logger '{name}': is not known. Known: {', '.join(LOGGERS)}")
        if folder is None:
            raise FedfloorError(f"logger '{name}': needs a run folder. Name one with out")
    loggers = [LOGGERS[name](folder, scenario, policy) for name in chosen if folder is not None]
    listener, failed = Loggers(loggers, folder), True
    try:
        yield listener
        listener.catch_up()  # a resumed run that had nothing left to do
        failed = False
    finally:
        with contextlib.ExitStack() as stack:  # all of them, whatever one of them meets
            for logger in loggers:
                stack.callback(logger.close, failed=failed)
