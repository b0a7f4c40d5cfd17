"""What a strategy remembers: a resumed run is the run that was not stopped, whatever the strategy keeps."""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, FedYogi, Krum, QFedAvg, Result

from fedfloor.errors import FedfloorError, RunLogError
from fedfloor.flower import FedFloor
from fedfloor.flower.memory import StrategyMemory
from tests.flower.federation import Federation, line_app, line_arrays
from tests.flower.test_strategy import UNIFORM, numbers


class Decaying(FedAvg):
    """Halves a learning rate in the config every second round, as Flower's tutorial does."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if server_round % 2 == 0:
            config["lr"] = float(str(config["lr"])) * 0.5
        return super().configure_train(server_round, arrays, config, grid)


class Hoarding(FedAvg):
    """Keeps state of many kinds, made in the first round, and adds some of it to the model."""

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        received = list(replies)
        arrays, metrics = super().aggregate_train(server_round, received)
        if not hasattr(self, "seen"):
            self.seen: list[int] = []
            self.by_node: dict[int, Any] = {}
            self.best: tuple[float, str] = (float("inf"), "none")
            self.total: Any = None
            self.kept: ArrayRecord | None = None
            self.nested: dict[str, Any] = {"steps": [np.zeros(2)], "name": b"raw"}
        self.seen.append(server_round)
        self.by_node[server_round % 2] = np.float64(server_round)
        self.best = min(self.best, (1.0 / server_round, "later"))
        self.total = Array(np.full(1, float(server_round)))
        self.kept = arrays
        self.nested["steps"][0] = self.nested["steps"][0] + 1.0
        assert arrays is not None
        extra = sum(self.seen) + float(self.by_node[server_round % 2]) + self.best[0]
        extra += float(self.nested["steps"][0].sum())
        moved = {name: Array(np.asarray(array.numpy() + np.float32(extra))) for name, array in arrays.items()}
        return ArrayRecord(moved), metrics


class Growing(FedAvg):
    """Its model has one more number after every round."""

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        super().aggregate_train(server_round, replies)
        return ArrayRecord({"trees": Array(np.arange(server_round, dtype=np.uint8))}), None


def start(make: Callable[[], FedAvg], out: Path, rounds: int, *, resume: bool = False, **options: Any) -> Result:
    strategy = FedFloor(make(), "quick", "round_robin", overrides=UNIFORM, out=out, resume=resume)
    arrays = options.pop("arrays", line_arrays())
    config = ConfigRecord({"lr": 1.0, "rates": [1.0, 2.0]})
    return strategy.start(Federation(line_app(), 6), arrays, num_rounds=rounds, train_config=config, **options)


@pytest.mark.parametrize(
    "make",
    [Hoarding, lambda: QFedAvg(client_learning_rate=0.5), lambda: Krum(num_malicious_nodes=0)],
    ids=["own", "QFedAvg", "Krum"],
)
def test_a_strategy_that_remembers_resumes_exactly(make: Callable[[], FedAvg], tmp_path: Path) -> None:
    whole = start(make, tmp_path / "whole", 8).arrays
    start(make, tmp_path / "stopped", 5)
    assert numbers(start(make, tmp_path / "stopped", 8, resume=True).arrays) == numbers(whole)


def test_a_config_that_the_strategy_changes_resumes_exactly(tmp_path: Path) -> None:
    rates: list[float] = []

    class Telling(Decaying):
        def configure_train(
            self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
        ) -> Iterable[Message]:
            messages = super().configure_train(server_round, arrays, config, grid)
            rates.append(float(str(config["lr"])))
            return messages

    start(Telling, tmp_path / "whole", 8)
    whole, rates[:] = list(rates), []
    start(Telling, tmp_path / "stopped", 5)
    start(Telling, tmp_path / "stopped", 8, resume=True)
    assert rates == whole


def test_a_model_that_grows_resumes(tmp_path: Path) -> None:
    app = line_app()
    start(Growing, tmp_path, 1)

    class Still(Growing):
        """Its nodes cannot train what is not their model, so nobody is asked."""

    strategy = FedFloor(
        Growing(), "quick", "round_robin", overrides=UNIFORM, out=tmp_path, resume=True, until_clock=0.1
    )
    result = strategy.start(Federation(app, 6), line_arrays(), num_rounds=2)
    assert result.arrays["trees"].numpy().tolist() == [0]


def test_another_strategy_does_not_resume_a_run(tmp_path: Path) -> None:
    start(FedAvg, tmp_path, 2)
    with pytest.raises(
        RunLogError, match=r"strategy: must be \['FedAvg'\], with which the run began, got \['FedYogi'\]"
    ):
        start(FedYogi, tmp_path, 3, resume=True)


def test_what_no_checkpoint_can_keep_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Accounting(FedAvg):
        def __init__(self) -> None:
            super().__init__()
            self.accountant = logging.Formatter()

        def start(self, *_: Any, **__: Any) -> Result:
            raise NotImplementedError

    assert StrategyMemory.of(FedAvg(), {}).left_out() == []
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    caplog.set_level(logging.WARNING, "flwr")
    start(Accounting, tmp_path, 1)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "fedfloor: checkpoints do not keep accountant (Formatter) of the strategy" in said
    assert "fedfloor: start of Accounting is not called: FedFloor runs the rounds" in said


def test_a_run_without_a_checkpoint_says_that_it_starts_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    caplog.set_level(logging.WARNING, "flwr")
    start(FedAvg, tmp_path, 1, resume=True)
    assert any("has no checkpoint yet, so the run starts again" in record.getMessage() for record in caplog.records)


def test_negative_losses_resume(tmp_path: Path) -> None:
    app = line_app()

    class Negative(FedAvg):
        """Nodes report losses below zero, as those of a likelihood may be."""

        def aggregate_train(
            self, server_round: int, replies: Iterable[Message]
        ) -> tuple[ArrayRecord | None, MetricRecord | None]:
            received = list(replies)
            for reply in received:
                reply.content.metric_records["metrics"]["train_loss"] = -1.5
            return super().aggregate_train(server_round, received)

    for rounds, resume in ((2, False), (3, True)):
        strategy = FedFloor(Negative(), "quick", "round_robin", overrides=UNIFORM, out=tmp_path, resume=resume)
        strategy.start(Federation(app, 6), line_arrays(), num_rounds=rounds)
    assert len((tmp_path / "rounds.jsonl").read_text().splitlines()) == 3


def test_names_that_checkpoints_need_are_refused() -> None:
    arrays = ArrayRecord({"memory/kernel": Array(np.zeros(3, np.float32))})
    with pytest.raises(FedfloorError, match=r"^initial_arrays: the name 'memory/kernel' begins with 'memory/'"):
        FedFloor(FedAvg(), "quick").start(Federation(line_app(), 6), arrays)


def test_values_of_every_kind_come_back() -> None:
    strategy = FedAvg()
    memory = StrategyMemory.of(strategy, {"config": ConfigRecord({"lr": 1.0})})
    values: dict[str, Any] = {
        "nothing": None, "flag": True, "count": 3, "rate": 0.5, "endless": float("inf"), "text": "a", "raw": b"\x00",
        "pair": (1, [2.0, {"x": "y"}]), "by_node": {7: [1.0]}, "empty": [],
    }  # fmt: skip
    vars(strategy).update(values)
    described, tensors = memory.saved()
    fresh = FedAvg()
    StrategyMemory.of(fresh, {"config": ConfigRecord({"lr": 1.0})}).restore(described, tensors)
    restored = {name: vars(fresh)[name] for name in values}
    assert restored == values
    assert [type(value) for value in restored.values()] == [type(value) for value in values.values()]
