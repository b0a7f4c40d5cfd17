"""A training run's rounds as curves in MLflow."""

__all__ = ["RUN_ID", "MlflowLogger"]

import contextlib
import logging
import sys
import time
from pathlib import Path

from fedfloor.errors import FailedRunError, FedfloorError, MissingExtraError
from fedfloor.files import write_whole
from fedfloor.rounds.listeners.curves import scalars
from fedfloor.rounds.record import RoundRecord
from fedfloor.scenario.resolved import Scenario

RUN_ID = "mlflow-run-id"  #: file of a run folder: which MLflow run it belongs to


class MlflowLogger:
    """A run in the MLflow store that MLFLOW_TRACKING_URI names; MLflow's own default is `mlflow.db` in this folder.

    The experiment is named after the scenario, the run after the run folder. A resumed run continues the same MLflow
    run, whose id lies in the run folder, and sends the rounds that it lacks. If that MLflow run was deleted, or the
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
            existing = None if experiment is None else experiment.experiment_id
            self._experiment = existing or self._client.create_experiment(scenario.name)
        except Exception as error:  # MLflow lets errors of its database and of the network through
            advice = "Set MLFLOW_TRACKING_URI to a store or server that is there"
            raise FedfloorError(f"logger 'mlflow': {_first_line(error)}. {advice}") from error

    def write(self, record: RoundRecord) -> None:
        """Send one round, unless the MLflow run has it already."""
        try:
            if self._run is None:
                self._run = self._continued() or self._begun()
            if record.round <= self._last:
                return
            now = time.time_ns() // 1_000_000  # [ms]
            metrics = [self._metric(key, value, now, record.round) for key, value in scalars(record).items()]
            self._client.log_batch(self._run, metrics=metrics)
            self._last = record.round
        except Exception as error:  # as above
            advice = "Fix the cause, then resume the run"
            raise FailedRunError(f"logger 'mlflow': {_first_line(error)}. {advice}") from error

    def close(self, *, failed: bool = False) -> None:
        """End the MLflow run."""
        if self._run is None:
            return
        try:
            with contextlib.redirect_stdout(
                sys.stderr
            ):  # it prints the run's page, which does not belong to our answer
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
        write_whole(self._folder / RUN_ID, f"{run.info.run_id}\n".encode())
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


def _settings(scenario: Scenario, policy: str) -> dict[str, object]:
    """What tells one run from another; not its rounds, which a resume may raise while MLflow's params are final."""
    training = scenario.training
    return {
        "policy": policy,
        "seed": scenario.seed,
        **({} if scenario.plant_seed is None else {"plant_seed": scenario.plant_seed}),
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
