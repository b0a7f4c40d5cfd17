"""Replies that would spoil the model of all or end the run: a lost floor, whose cause is in the log."""

import json
import tomllib
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, FedXgbBagging, FedYogi, QFedAvg, Strategy

from fedfloor.errors import FedfloorError
from fedfloor.flower import FedFloor
from fedfloor.rounds.listeners.log import read_log
from tests.flower.federation import Federation, line_app, line_arrays
from tests.flower.test_lost import EVERYBODY

BAD = 2  #: partition that sends wrong replies
Said = Callable[[], list[str]]
Spoil = Callable[[RecordDict], object]


def spoilt(spoil: Spoil, partitions: tuple[int, ...] = (BAD,), kind: str = "train") -> Federation:
    """A federation in which some partitions send other contents than they should."""

    def change(partition: int, reply: Message) -> None:
        if partition in partitions and reply.metadata.message_type == kind:
            spoil(reply.content)

    return Federation(line_app(), 6, change)


def plant_of(floors: int) -> dict[str, Any]:
    """The preset `quick` with fewer floors, all of which train in every round."""
    preset = resources.files("fedfloor.scenario.presets").joinpath("quick.toml")
    table: dict[str, Any] = tomllib.loads(preset.read_text(encoding="utf-8"))
    first, others = table["floors"]
    table["floors"] = [first] if floors == 1 else [first, {**others, "count": floors - 1}]
    table["radio"]["channels"] = floors
    return table | {"limits": False, "participation": {"rates": "uniform", "simulated_rates": "uniform"}}


def arrays(**changed: object) -> Spoil:
    """Send other arrays; None leaves one out."""

    def change(content: RecordDict) -> None:
        whole = {name: array for name, array in content.array_records["arrays"].items() if name not in changed}
        for name, values in changed.items():
            if values is not None:
                whole[name] = values if isinstance(values, Array) else Array(np.asarray(values))
        content["arrays"] = ArrayRecord(whole)

    return change


def metric(key: str, value: object) -> Spoil:
    return lambda content: content.metric_records["metrics"].update({key: value})  # type: ignore[dict-item]


def without_weight(content: RecordDict) -> None:
    del content.metric_records["metrics"]["num-examples"]


def two_records(content: RecordDict) -> None:
    content["more"] = ArrayRecord({"b": Array(np.zeros(3, np.float32))})


def other_record(content: RecordDict) -> None:
    content["weights"] = content.array_records["arrays"]
    del content["arrays"]


def nothing(content: RecordDict) -> None:
    for name in list(content):
        del content[name]


def only_config(content: RecordDict) -> None:
    nothing(content)
    content["config"] = ConfigRecord({"done": True})


GARBAGE = Array("float32", (3,), "numpy.ndarray", b"\x93NUMPY garbage")
FOREIGN = Array("float32", (3,), "torch.pickle", b"garbage")


@pytest.mark.parametrize("make", [FedAvg, lambda: FedYogi(eta=0.5)], ids=["FedAvg", "FedYogi"])
@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (metric("num-examples", float("nan")), "the metric 'num-examples' must be a number from 0 to 1e+18, got nan"),
        (metric("num-examples", float("inf")), "the metric 'num-examples' must be a number from 0 to 1e+18, got inf"),
        (metric("num-examples", -10), "the metric 'num-examples' must be a number from 0 to 1e+18, got -10"),
        (metric("num-examples", [3, 4]), "the metric 'num-examples' must be a number from 0 to 1e+18, got [3, 4]"),
        (without_weight, "the reply has no metric 'num-examples', by which the strategy weights replies"),
        (metric("secret", 1.0), "the names of its records and metrics differ from those of other replies: "),
        (metric("train_loss", [1.0]), "the names of its records and metrics differ from those of other replies: "),
        (arrays(b=np.full(3, np.nan, np.float32)), "the array 'b' has values that are not finite numbers"),
        (arrays(b=np.full(3, -np.inf, np.float32)), "the array 'b' has values that are not finite numbers"),
        (arrays(b=np.full(3, -3e38, np.float32)), "the array 'b' has a value of magnitude 3e+38, more than 1e+18"),
        (arrays(b=np.zeros((3, 2), np.float32)), "the array 'b' must have the shape (3,), as in the message, got "),
        (arrays(b=np.zeros(3, complex)), "the array 'b' must hold real numbers, got complex128"),
        (arrays(b=np.array(["x", "y", "z"])), "the array 'b' must hold real numbers, got <U1"),
        (arrays(b=np.array([True, False, True])), ""),
        (arrays(b=np.arange(3)), ""),
        (arrays(b=GARBAGE), "the array 'b' cannot be read: "),
        (arrays(b=FOREIGN), "the array 'b' cannot be read: "),
        (arrays(b=None), "the reply has no array 'b', which the message had"),
        (arrays(c=np.zeros(3, np.float32)), "the reply has an array 'c', which the message did not have"),
        (two_records, "the reply must have 1 ArrayRecord, as many as the message, got 2"),
        (other_record, "the names of its records and metrics differ from those of other replies: "),
        (nothing, "the reply has no metric 'num-examples'"),
        (only_config, "the reply has no metric 'num-examples'"),
    ],
)  # fmt: skip
def test_one_wrong_reply_is_a_lost_floor_and_the_model_that_of_the_others(
    make: Callable[[], Strategy], spoil: Spoil, cause: str, said: Said, tmp_path: Path
) -> None:
    strategy = FedFloor(make(), "quick", "random", overrides=EVERYBODY, out=tmp_path)
    result = strategy.start(spoilt(spoil), line_arrays(), num_rounds=2)
    assert {name: array.numpy().shape for name, array in result.arrays.items()} == {"b": (3,), "a": ()}
    assert all(np.abs(array.numpy()).max() < 10 for array in result.arrays.values())
    failure = "lost" if cause else None
    for record in read_log(tmp_path / "rounds.jsonl"):
        assert [floor.failure for floor in record.gateways] == [None, None, failure, None, None, None]
    lost = [line for line in said() if " is lost: " in line]
    assert all(cause in line for line in lost)
    assert len(lost) == (2 if cause else 0)


def test_a_loss_that_decides_about_the_model_must_be_finite(said: Said) -> None:
    strategy = FedFloor(QFedAvg(client_learning_rate=0.1), "quick", "random", overrides=EVERYBODY)
    result = strategy.start(spoilt(metric("train_loss", float("inf"))), line_arrays(), num_rounds=1)
    assert all(np.isfinite(array.numpy()).all() for array in result.arrays.values())
    assert [line for line in said() if "is lost: the metric 'train_loss' must be a finite number, got inf" in line]


def test_a_model_that_a_strategy_spoils_itself_is_not_used(said: Said, tmp_path: Path) -> None:
    class Dividing(FedAvg):
        def aggregate_train(self, *given: object) -> tuple[ArrayRecord | None, MetricRecord | None]:
            arrays, metrics = super().aggregate_train(*given)  # type: ignore[arg-type]
            assert arrays is not None
            return ArrayRecord({name: Array(np.full(array.shape, np.nan)) for name, array in arrays.items()}), metrics

    strategy = FedFloor(Dividing(), "quick", "random", overrides=EVERYBODY, out=tmp_path)
    result = strategy.start(Federation(line_app(), 6), line_arrays(), num_rounds=1)
    assert not result.arrays
    (record,) = read_log(tmp_path / "rounds.jsonl")
    assert {floor.failure for floor in record.gateways} == {"lost"}
    assert [line for line in said() if "the aggregated model is not used" in line and "not finite" in line]


@pytest.mark.parametrize("channels", [1, 3])
def test_if_no_reply_can_be_used_the_app_is_wrong(channels: int) -> None:
    everywhere, strategy = (
        tuple(range(6)),
        FedFloor(FedAvg(), "quick", "random", overrides=[f"radio.channels={channels}"]),
    )
    problem = r"^no reply so far can be used: the reply has no metric 'num-examples'"
    with pytest.raises(FedfloorError, match=problem + ".*Correct the ClientApp, or pass check_replies=False"):
        strategy.start(spoilt(without_weight, everywhere), line_arrays(), num_rounds=8)
    problem = r"^no reply so far can be used: the metric 'num-examples' is 0 in all replies of the round"
    with pytest.raises(FedfloorError, match=problem):
        strategy.start(spoilt(metric("num-examples", 0), everywhere), line_arrays(), num_rounds=8)


def test_one_wrong_floor_does_not_make_the_app_wrong(said: Said) -> None:
    strategy = FedFloor(FedAvg(), "quick", "round_robin", overrides=["radio.channels=1"])
    assert strategy.start(spoilt(without_weight, (0,)), line_arrays(), num_rounds=8).arrays
    assert [line for line in said() if " is lost: the reply has no metric" in line]


def test_a_strategy_that_expects_other_replies_can_have_them() -> None:
    class Sparse(FedAvg):
        """Nodes send only some of the numbers."""

        def aggregate_train(self, *given: object) -> tuple[ArrayRecord | None, MetricRecord | None]:
            replies: list[Message] = given[1]  # type: ignore[assignment]
            assert all(reply.content.array_records["arrays"]["b"].numpy().shape == (2,) for reply in replies)
            return line_arrays(), None

    sparse = arrays(b=np.zeros(2, np.float32))
    strategy = FedFloor(Sparse(), "quick", "random", check_replies=False)
    assert strategy.start(spoilt(sparse, tuple(range(6))), line_arrays(), num_rounds=1).arrays
    poison = arrays(b=np.full(2, np.nan, np.float32))
    with pytest.raises(FedfloorError, match=r"the array 'b' has values that are not finite.*Correct the ClientApp$"):
        strategy.start(spoilt(poison, tuple(range(6))), line_arrays(), num_rounds=1)


def two_metric_records(content: RecordDict) -> None:
    content["more"] = MetricRecord({"speed": 1.0})


def test_if_replies_are_even_the_metrics_of_earlier_ones_count(said: Said, tmp_path: Path) -> None:
    asked: list[int] = []

    def change(partition: int, reply: Message) -> None:
        if reply.metadata.message_type == "train":
            asked.append(partition)
            if partition == 0 and len(asked) > 2:  # from the second round on
                del reply.content.metric_records["metrics"]["train_loss"]

    strategy = FedFloor(FedAvg(), plant_of(2), "random", out=tmp_path)
    strategy.start(Federation(line_app(), 2, change), line_arrays(), num_rounds=2)
    first, second = read_log(tmp_path / "rounds.jsonl")
    assert [floor.failure for floor in first.gateways] == [None, None]
    assert [floor.failure for floor in second.gateways] == ["lost", None]


@pytest.mark.parametrize("bad", [0, 1])
def test_a_metric_that_one_of_two_floors_adds_makes_that_floor_lost(bad: int, tmp_path: Path) -> None:
    def change(partition: int, reply: Message) -> None:
        if partition == bad and reply.metadata.message_type == "train":
            reply.content.metric_records["metrics"]["more"] = 1.0

    strategy = FedFloor(FedAvg(), plant_of(2), "random", out=tmp_path)
    strategy.start(Federation(line_app(), 2, change), line_arrays(), num_rounds=1)
    (record,) = read_log(tmp_path / "rounds.jsonl")
    assert [floor.failure for floor in record.gateways] == ["lost" if m == bad else None for m in range(2)]


@pytest.mark.parametrize("floors", [1, 2])
def test_a_second_record_of_metrics_is_refused_before_the_strategy_sees_it(floors: int) -> None:
    def change(partition: int, reply: Message) -> None:
        if reply.metadata.message_type == "train":
            two_metric_records(reply.content)

    problem = r"^no reply so far can be used: the reply must have one MetricRecord, got 'metrics', 'more'"
    with pytest.raises(FedfloorError, match=problem):
        FedFloor(FedAvg(), plant_of(floors), "random").start(
            Federation(line_app(), floors, change), line_arrays(), num_rounds=1
        )


def test_a_mask_beside_other_arrays_must_keep_its_length(said: Said) -> None:
    def change(partition: int, reply: Message) -> None:
        if reply.metadata.message_type == "train":
            arrays(mask=np.ones(4 + partition, np.uint8))(reply.content)

    app, begun = ClientApp(), ArrayRecord({"b": Array(np.zeros(3)), "mask": Array(np.ones(4, np.uint8))})

    @app.train()
    def train(message: Message, context: Context) -> Message:
        content = {"arrays": begun, "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)  # type: ignore[arg-type]

    FedFloor(FedAvg(fraction_evaluate=0.0), plant_of(2), "random").start(
        Federation(app, 2, change), begun, num_rounds=1
    )
    (line,) = [line for line in said() if " is lost: " in line]
    assert "the array 'mask' must have the shape (4,), as in the message, got (5,)" in line


def test_trees_as_bytes_may_have_any_length() -> None:
    app, trees = ClientApp(), FedXgbBagging(fraction_evaluate=0.0)
    tree = {
        "learner": {"gradient_booster": {"model": {"gbtree_model_param": {"num_trees": "1", "num_parallel_tree": "1"}}}}
    }
    model = tree["learner"]["gradient_booster"]["model"]
    model |= {"iteration_indptr": [0, 1], "trees": [{"id": 0}], "tree_info": [0]}  # type: ignore[dict-item]

    @app.train()
    def train(message: Message, context: Context) -> Message:
        assert message.content.array_records["arrays"]["0"].numpy().dtype == np.uint8
        grown = np.frombuffer(json.dumps(tree).encode(), np.uint8)
        content = {"arrays": ArrayRecord([grown]), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)  # type: ignore[arg-type]

    begun = ArrayRecord([np.frombuffer(b"", np.uint8)])
    result = FedFloor(trees, "quick", "random", overrides=EVERYBODY).start(Federation(app, 6), begun, num_rounds=2)
    grown = json.loads(result.arrays["0"].numpy().tobytes())["learner"]["gradient_booster"]["model"]
    assert len(grown["trees"]) == 12


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (metric("num-examples", float("nan")), "'num-examples' must be a number"),
        (metric("eval_acc", float("nan")), "'eval_acc' must be a finite number, got nan"),
        (metric("eval_acc", 50.0), "'eval_acc' must be from 0 to 1, got 50"),
        (metric("more", 1.0), "differ from those of other replies"),
        (nothing, "no metric 'num-examples'"),
    ],
)
def test_one_wrong_evaluation_does_not_count(spoil: Spoil, cause: str, said: Said, tmp_path: Path) -> None:
    strategy = FedFloor(FedAvg(), "quick", "random", out=tmp_path)
    strategy.start(spoilt(spoil, kind="evaluate"), line_arrays(), num_rounds=1)
    (record,) = read_log(tmp_path / "rounds.jsonl")
    assert (record.accuracy, record.loss) == pytest.approx((0.5, 2.0))
    (line,) = [line for line in said() if "does not count" in line]
    assert cause in line


def test_a_node_without_an_accuracy_does_not_make_the_shares_of_others_wrong(said: Said) -> None:
    def change(partition: int, reply: Message) -> None:
        if reply.metadata.message_type == "evaluate":
            metrics = reply.content.metric_records["metrics"]
            if partition == BAD:
                del metrics["eval_acc"]
            else:
                metrics["eval_acc"] = 50.0

    class Careless(FedAvg):
        def aggregate_evaluate(self, *given: object) -> MetricRecord | None:
            replies: list[Message] = given[1]  # type: ignore[assignment]
            every = [reply.content.metric_records["metrics"] for reply in replies]
            return next(metrics for metrics in every if "eval_acc" in metrics)

    strategy = FedFloor(Careless(), "quick", "random", check_replies=False)
    with pytest.raises(FedfloorError, match=r"metric 'eval_acc': must be from 0 to 1, got 50"):
        strategy.start(Federation(line_app(), 6, change), line_arrays(), num_rounds=1)
    assert not [line for line in said() if "does not count" in line]


def test_errors_of_nodes_are_one_line_without_control_characters(said: Said) -> None:
    def change(partition: int, reply: Message) -> None:
        if partition == BAD and reply.metadata.message_type == "train":
            reply.__dict__["_content"] = None
            reply.__dict__["_error"] = Error(2, "broken\x1b[2J\nINFO : all is well\u202e" + 1000 * "x")

    FedFloor(FedAvg(), "quick", "random", overrides=EVERYBODY).start(
        Federation(line_app(), 6, change), line_arrays(), num_rounds=1
    )
    lines = [line for line in said() if "broken" in line]
    assert len(lines) == 2, "our line, and that of the strategy"
    for line in lines:
        assert line.strip().isprintable()
        assert "broken\ufffd[2J INFO" in line
        assert len(line) < 400


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_initial_arrays_that_are_not_finite_are_refused(value: float) -> None:
    wrong = ArrayRecord({"b": Array(np.full(3, value, np.float32))})
    federation = Federation(line_app(), 6)
    with pytest.raises(FedfloorError, match=r"^initial_arrays: the array 'b' has .*Begin with a model that can"):
        FedFloor(FedAvg(), "quick").start(federation, wrong)
    assert federation.trained == []
