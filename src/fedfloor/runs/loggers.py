"""Optional loggers: a training run's rounds as curves in TensorBoard or MLflow, beside the run folder's own log."""

__all__ = ["LOGGERS", "Logger", "MlflowLogger", "TensorboardLogger", "logging_to", "open_loggers", "scalars"]

import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from fedfloor.errors import FailedRunError, FedfloorError, MissingExtraError
from fedfloor.runs.folder import read_records, training_loss
from fedfloor.scenario.resolved import Scenario

RUN_ID = "mlflow-run-id"  #: file of a run folder: which MLflow run it belongs to


class Logger(Protocol):
    """Where rounds are shown while a run goes."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Show one round, given as it is logged, unless it is shown already."""

    def close(self, *, failed: bool = False) -> None:
        """Finish; `failed` if the run did not come to its end."""


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """What is shown of a logged round: what it has no value for, as an accuracy between evaluations, is left out."""
    found = {
        "delay_s": record["delay_s"],
        "clock_s": record["clock_s"],
        "training_loss": training_loss(record),
        "completed": sum(floor["completed"] for floor in record["gateways"]),
        "accuracy": record["accuracy"],
        "loss": record["loss"],
    }
    return {key: float(value) for key, value in found.items() if value is not None}


class TensorboardLogger:
    """TensorBoard event files in `<run folder>/tensorboard`; every round is on disk before the next one starts.

    A resumed run adds a file with the rounds that those before it do not hold, so that none is shown twice and none is
    missing: equal runs leave equal logs, so what is there is right.
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
        self._folder = folder / "tensorboard"
        self._writer: Any = None  # opened by the first round: a new run wants an empty folder
        self._last = -1  # round

    def write(self, record: Mapping[str, Any]) -> None:
        """Add one round to the event file, unless it is in one already."""
        step = record["round"]
        values = [self._summary.Value(tag=key, simple_value=value) for key, value in scalars(record).items()]
        try:
            if self._writer is None:
                self._open()
            if step > self._last:
                self._add(step=step, summary=self._summary(value=values))
                self._last = step
        except OSError as error:
            raise FailedRunError(
                f"{self._folder}: cannot be written: {error.strerror}. Make room, then go on with --resume"
            ) from None

    def close(self, *, failed: bool = False) -> None:  # noqa: ARG002  # an event file knows no end
        """Close the event file."""
        if self._writer is not None:
            with contextlib.suppress(OSError):  # a full disk was told of when it was met
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


class MlflowLogger:
    """A run in the MLflow store that MLFLOW_TRACKING_URI names; MLflow's own default is `mlflow.db` where one works.

    The experiment is named after the scenario, the run after the run folder. A resumed run goes on with the same MLflow
    run, whose id lies in the run folder, and sends the rounds that this one does not have. If it was deleted, or the
    store is another one, a new MLflow run gets all rounds.
    """

    def __init__(self, folder: Path, scenario: Scenario, policy: str) -> None:
        try:
            import mlflow  # noqa: PLC0415
            from mlflow.entities import Metric, Param  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise MissingExtraError("logger 'mlflow'", "mlflow") from error
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)  # news of a database's tables would tear the progress bar
        self._metric, self._param, self._folder = Metric, Param, folder
        self._settings = _settings(scenario, policy)
        self._run: str | None = None
        self._last = -1  # round
        try:
            self._client = mlflow.MlflowClient()
            experiment = self._client.get_experiment_by_name(scenario.name)
            found = None if experiment is None else experiment.experiment_id
            self._experiment = found or self._client.create_experiment(scenario.name)
        except Exception as error:  # MLflow lets errors of its database and of the network through
            advice = "Set MLFLOW_TRACKING_URI to a store or server that is there"
            raise FedfloorError(f"logger 'mlflow': {_first_line(error)}. {advice}") from error

    def write(self, record: Mapping[str, Any]) -> None:
        """Send one round, unless the MLflow run has it already."""
        try:
            if self._run is None:
                self._run = self._continued() or self._begun()
            if record["round"] <= self._last:
                return
            now = time.time_ns() // 1_000_000  # [ms]
            metrics = [self._metric(key, value, now, record["round"]) for key, value in scalars(record).items()]
            self._client.log_batch(self._run, metrics=metrics)
            self._last = record["round"]
        except Exception as error:  # as above
            advice = "Mend it, then go on with --resume"
            raise FailedRunError(f"logger 'mlflow': {_first_line(error)}. {advice}") from error

    def close(self, *, failed: bool = False) -> None:
        """End the MLflow run."""
        if self._run is None:
            return
        try:
            with contextlib.redirect_stdout(sys.stderr):  # it names the run's page, which is no part of our answer
                self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")
        except Exception as error:  # as above
            if not failed:  # else the reason why the run failed is what counts
                raise FailedRunError(f"logger 'mlflow': {_first_line(error)}. The run itself is complete") from error

    def _begun(self) -> str:
        """A new MLflow run."""
        where = str(self._folder.resolve())
        run = self._client.create_run(
            self._experiment, run_name=self._folder.resolve().name, tags={"fedfloor.folder": where}
        )
        params = [self._param(key, str(value)) for key, value in self._settings.items()]
        self._client.log_batch(run.info.run_id, params=params)
        (self._folder / RUN_ID).write_text(f"{run.info.run_id}\n", encoding="utf-8")
        return str(run.info.run_id)

    def _continued(self) -> str | None:
        """The MLflow run of a resumed folder, if it is still there."""
        path = self._folder / RUN_ID
        run = path.read_text(encoding="utf-8").strip() if path.exists() else ""
        if not run:
            return None
        try:
            if self._client.get_run(run).info.lifecycle_stage != "active":
                return None
        except Exception as error:
            if getattr(error, "error_code", None) == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        self._client.update_run(run, status="RUNNING")
        self._last = max((entry.step for entry in self._client.get_metric_history(run, "completed")), default=-1)
        return run


#: name on the command line -> what it opens
LOGGERS: Mapping[str, Callable[[Path, Scenario, str], Logger]] = {
    "mlflow": MlflowLogger,
    "tensorboard": TensorboardLogger,
}


def open_loggers(names: Iterable[str], folder: Path | None, scenario: Scenario, policy: str) -> list[Logger]:
    """The loggers of these names for the run in this folder; they touch the folder when the first round is written."""
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in LOGGERS:
            raise FedfloorError(f"logger '{name}': is not known. Known: {', '.join(LOGGERS)}")
        if folder is None:
            raise FedfloorError(f"logger '{name}': needs a run folder. Name one with out")
    return [LOGGERS[name](folder, scenario, policy) for name in chosen if folder is not None]


@contextlib.contextmanager
def logging_to(
    names: Iterable[str], folder: Path | None, scenario: Scenario, policy: str
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """What to call with every round once it is logged; at the end all loggers are closed, as failed if the run did.

    Rounds that the run folder holds from before a resume are shown too, if a logger lacks them.
    """
    opened = open_loggers(names, folder, scenario, policy)

    behind = True

    def write(*records: Mapping[str, Any]) -> None:
        nonlocal behind
        earlier = read_records(folder) if behind and opened and folder is not None else []
        behind = False
        for logger in opened:
            for record in (*earlier, *records):
                logger.write(record)

    failed = True
    try:
        yield write
        if behind:  # a resume that found nothing left to do
            write()
        failed = False
    finally:
        with contextlib.ExitStack() as stack:  # all of them, whatever one of them meets
            for logger in opened:
                stack.callback(logger.close, failed=failed)


def _settings(scenario: Scenario, policy: str) -> dict[str, Any]:
    """What tells one run from another; not its rounds, which a resume may raise while MLflow's params are final."""
    training = scenario.training
    return {
        "policy": policy,
        "seed": scenario.seed,
        "model": scenario.model.name,
        "data": scenario.data.name,
        "cost_model": scenario.costs.model,
        "channels": scenario.radio.channels,
        "floors": len(scenario.floors),
        "devices": len(scenario.devices),
        "limits": scenario.limits,
        "local_iterations": training.local_iterations,
        "learning_rate": training.learning_rate,
        "batch_fraction": training.batch_fraction,
        "redraw_batch": training.redraw_batch,
        "min_cut": training.min_cut,
    }


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
