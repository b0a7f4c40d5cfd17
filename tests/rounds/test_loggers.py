"""Loggers show what the run's own log says: read back by TensorBoard and MLflow themselves."""

import dataclasses
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.errors import FailedRunError, FedfloorError, MissingExtraError
from fedfloor.rounds.listeners.curves import scalars
from fedfloor.rounds.listeners.loggers import LOGGERS
from fedfloor.rounds.listeners.mlflow import RUN_ID
from fedfloor.rounds.record import GatewayRecord, RoundRecord
from tests.runs.small import SMALL, small_run

Curves = dict[str, list[tuple[int, float]]]


def needs(library: str) -> pytest.MarkDecorator:
    found = importlib.util.find_spec(library) is not None
    return pytest.mark.skipif(not found, reason=f"{library} is not installed: pip install 'fedfloor[{library}]'")


needs_tensorboard, needs_mlflow = needs("tensorboard"), needs("mlflow")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of an MLflow store of its own."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    return mlflow.MlflowClient()


#: MLflow 3.17 uses what SQLAlchemy 2.1 wants to drop, and leaves its connections to the garbage collector
quiet_mlflow = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def logged(folder: Path) -> Curves:
    """The curves that the run's own log holds, without the code under test."""
    curves: Curves = {}
    for line in (folder / "rounds.jsonl").read_text().splitlines():
        record = json.loads(line)
        done = [floor for floor in record["gateways"] if floor["completed"]]
        values = {key: record[key] for key in ("delay_s", "clock_s", "accuracy", "loss")}
        values |= {
            "completed": len(done),
            "training_loss": np.mean([floor["loss"] for floor in done]) if done else None,
        }
        for key, value in values.items():
            if value is not None:
                curves.setdefault(key, []).append((record["round"], float(value)))
    return curves


def assert_same_curves(one: Curves, other: Curves, tolerance: float) -> None:
    assert one.keys() == other.keys()
    for key, curve in one.items():
        assert [step for step, _ in curve] == [step for step, _ in other[key]], key
        assert [value for _, value in curve] == pytest.approx([value for _, value in other[key]], rel=tolerance), key


def shown_by_tensorboard(folder: Path) -> Curves:
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    tags = events.Tags()["tensors"]
    return {
        tag: [(event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
        for tag in tags
    }


def shown_by_mlflow(client: Any, run: str) -> Curves:
    keys = client.get_run(run).data.metrics
    return {key: [(entry.step, entry.value) for entry in client.get_metric_history(run, key)] for key in keys}


@needs_tensorboard
@pytest.mark.slow
def test_tensorboard_shows_what_is_logged(tmp_path: Path) -> None:
    small_run(tmp_path / "run", loggers=["tensorboard"])
    expected = logged(tmp_path / "run")
    keys = ("delay_s", "clock_s", "completed", "training_loss", "accuracy", "loss")
    assert {key: len(curve) for key, curve in expected.items()} == dict.fromkeys(keys, 6)
    assert_same_curves(shown_by_tensorboard(tmp_path / "run"), expected, 1e-6)  # events hold 32 bits


def interrupted_after(index: int) -> Callable[[Any], None]:
    """Stops a run when so many rounds are logged, before the loggers hear of the last one."""

    def stop(event: Any) -> None:
        if event.record is not None and event.record.round == index - 1:
            raise KeyboardInterrupt

    return stop


#: checkpoints are taken after 2, 4 and 6 rounds: with one shown but to be done again, with none, with one not shown,
#: with one not shown and none left to do
@pytest.mark.slow
@pytest.mark.parametrize("stops", [[5], [4], [3], [6], [4, 6], [1, 3, 5]], ids=str)
@needs_tensorboard
def test_tensorboard_shows_every_round_of_a_resumed_run_once(stops: list[int], tmp_path: Path) -> None:
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            small_run(tmp_path / "run", loggers=["tensorboard"], resume=True, on_event=interrupted_after(stop))
    small_run(tmp_path / "run", loggers=["tensorboard"], resume=True)
    assert_same_curves(shown_by_tensorboard(tmp_path / "run"), logged(tmp_path / "run"), 1e-6)


@needs_tensorboard
@pytest.mark.slow
def test_a_torn_event_is_written_again(tmp_path: Path) -> None:
    small_run(tmp_path / "run", loggers=["tensorboard"], rounds=3)
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    events.write_bytes(events.read_bytes()[:-7])
    small_run(tmp_path / "run", loggers=["tensorboard"], resume=True)
    assert_same_curves(shown_by_tensorboard(tmp_path / "run"), logged(tmp_path / "run"), 1e-6)


@needs_tensorboard
@pytest.mark.slow
def test_a_logger_that_comes_later_shows_all_rounds(tmp_path: Path) -> None:
    small_run(tmp_path / "run", rounds=3)
    small_run(tmp_path / "run", loggers=["tensorboard"], resume=True)
    assert_same_curves(shown_by_tensorboard(tmp_path / "run"), logged(tmp_path / "run"), 1e-6)


@needs_mlflow
@quiet_mlflow
def test_mlflow_shows_what_is_logged_and_the_settings(tmp_path: Path, store: Any) -> None:
    small_run(tmp_path / "first-run", loggers=["mlflow"], policy="ddsra:v=10")
    experiment = store.get_experiment_by_name("quick")
    (run,) = store.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("first-run", "FINISHED")
    assert run.data.params["policy"].startswith("ddsra:v=10")
    assert run.data.params["batch_fraction"] == "0.05"
    assert (run.data.params["floors"], run.data.params["devices"]) == ("6", "18")
    assert_same_curves(shown_by_mlflow(store, run.info.run_id), logged(tmp_path / "first-run"), 1e-12)


@needs_mlflow
@quiet_mlflow
def test_mlflow_goes_on_with_the_same_run(tmp_path: Path, store: Any) -> None:
    folder = tmp_path / "run"
    for stop in (4, 6):
        with pytest.raises(KeyboardInterrupt):
            small_run(folder, loggers=["mlflow"], resume=True, on_event=interrupted_after(stop))
        run = (folder / RUN_ID).read_text().strip()
        assert store.get_run(run).info.status == "FAILED"
    small_run(folder, loggers=["mlflow"], resume=True)
    (only,) = store.search_runs([store.get_experiment_by_name("quick").experiment_id])
    assert (only.info.run_id, only.info.status) == (run, "FINISHED")
    assert_same_curves(shown_by_mlflow(store, run), logged(folder), 1e-12)


@needs_mlflow
@quiet_mlflow
def test_a_deleted_mlflow_run_is_followed_by_a_new_one_with_all_rounds(tmp_path: Path, store: Any) -> None:
    small_run(tmp_path / "run", loggers=["mlflow"], rounds=2)
    first = (tmp_path / "run" / RUN_ID).read_text().strip()
    store.delete_run(first)
    small_run(tmp_path / "run", loggers=["mlflow"], rounds=4, resume=True)
    second = (tmp_path / "run" / RUN_ID).read_text().strip()
    assert first != second
    assert_same_curves(shown_by_mlflow(store, second), logged(tmp_path / "run"), 1e-12)


@needs_mlflow
@quiet_mlflow
def test_a_store_that_cannot_be_used_is_told_of_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://store")
    with pytest.raises(FedfloorError, match=r"logger 'mlflow': .*nowhere://store.*Set MLFLOW_TRACKING_URI"):
        small_run(tmp_path / "run", loggers=["mlflow"])
    assert not (tmp_path / "run").exists()


@needs_mlflow
@quiet_mlflow
def test_a_store_that_breaks_down_ends_the_run_resumably(tmp_path: Path, store: Any) -> None:
    plant = fedfloor.load("quick", SMALL)
    (tmp_path / "run").mkdir()
    logger = LOGGERS["mlflow"](tmp_path / "run", plant, "random")
    record = small_run(None, rounds=1).records[0]
    logger.write(record)
    store.delete_run((tmp_path / "run" / RUN_ID).read_text().strip())
    with pytest.raises(FailedRunError, match=r"logger 'mlflow': .*then resume the run"):
        logger.write(dataclasses.replace(record, round=1))
    logger.close(failed=True)  # says nothing: the first failure counts


@needs_tensorboard
def test_a_folder_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("")
    logger = LOGGERS["tensorboard"](tmp_path, fedfloor.load("quick"), "random")
    with pytest.raises(FailedRunError, match="tensorboard: cannot be written: File exists"):
        logger.write(small_run(None, rounds=1).records[0])
    logger.close()


@pytest.mark.parametrize("name", LOGGERS)
def test_a_missing_library_names_its_extra(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for module in [entry for entry in sys.modules if entry.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"logger '{name}' needs .* pip install 'fedfloor\[{name}\]'"):
        small_run(tmp_path / "run", loggers=[name])
    assert not (tmp_path / "run").exists()


def test_unknown_loggers_and_missing_folders_are_named(fedfloor_command: Callable[..., Any], tmp_path: Path) -> None:
    done = fedfloor_command("run", "quick", "--logger", "tensorbord", "--quiet")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "logger 'tensorbord': is not known. Known: mlflow, tensorboard" in done.stderr
    with pytest.raises(FedfloorError, match="logger 'tensorboard': needs a run folder"):
        small_run(None, loggers=["tensorboard"])


@needs_tensorboard
@pytest.mark.slow
def test_the_command_takes_a_logger_twice_as_one(fedfloor_command: Callable[..., Any], tmp_path: Path) -> None:
    sets = [part for entry in SMALL for part in ("--set", entry)]
    twice = ["--logger", "tensorboard", "--logger", "tensorboard"]
    done = fedfloor_command("run", "quick", "--policy", "random", *sets, *twice, "--workers", "1", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 1
    assert_same_curves(shown_by_tensorboard(tmp_path / "run"), logged(tmp_path / "run"), 1e-6)


def test_a_round_without_a_value_leaves_it_out() -> None:
    idle = GatewayRecord(
        name="hall", selected=False, completed=False, failure=None, delay_s=None, energy_j=0.0, queue=0.0,
        target_rate=0.5, loss=None,
    )  # fmt: skip
    record = RoundRecord(
        round=0, policy="random", delay_s=None, clock_s=None, accuracy=None, loss=None, gateways=(idle,)
    )
    assert scalars(record) == {"completed": 0.0}
