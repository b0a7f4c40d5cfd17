"""`FedFloor` on Flower's own grid: the rounds of a simulation, and the models of the wrapped strategy."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg, FedAvgM, FedXgbCyclic, FedYogi

import fedfloor
from fedfloor.errors import FedfloorError, PolicyError, RunLogError, ScenarioError
from fedfloor.flower import FedFloor
from fedfloor.reports.figures.accuracy_rounds import FIGURE
from fedfloor.reports.reading import collect
from fedfloor.reports.results import results_of
from fedfloor.reports.tables import tables
from fedfloor.rounds.listeners.log import read_log
from tests.conftest import Table, known
from tests.flower.federation import Federation, line_app, line_arrays

UNIFORM = ["participation.rates=uniform"]


def log_without_losses(folder: Path) -> list[Table]:
    """The rounds of a folder without what only training has."""
    rounds = [json.loads(line) for line in (folder / "rounds.jsonl").read_text(encoding="utf-8").splitlines()]
    for record in rounds:
        record["accuracy"] = record["loss"] = None
        for floor in record["gateways"]:
            floor["loss"] = None
    return rounds


def numbers(arrays: ArrayRecord) -> dict[str, list[float]]:
    return {key: array.numpy().tolist() for key, array in arrays.items()}


@pytest.mark.parametrize("policy", ["ddsra:v=1", "random", "round_robin"])
def test_decisions_queues_energies_and_clock_are_those_of_a_simulation(policy: str, tmp_path: Path) -> None:
    federation = Federation(line_app(), 6)
    strategy = FedFloor(FedAvg(), "quick", policy, overrides=UNIFORM, seed=3, out=tmp_path / "flower")
    strategy.start(federation, line_arrays(), num_rounds=10)
    fedfloor.simulate("quick", policy, 10, overrides=UNIFORM, seed=3, out=tmp_path / "simulated")
    assert log_without_losses(tmp_path / "flower") == log_without_losses(tmp_path / "simulated")
    scenarios = [(tmp_path / name / "scenario.toml").read_text() for name in ("flower", "simulated")]
    assert scenarios[0] == scenarios[1]
    records = read_log(tmp_path / "flower" / "rounds.jsonl")
    completed = [[m for m, floor in enumerate(record.gateways) if floor.completed] for record in records]
    assert federation.trained == [floors for floors in completed if floors]


def test_floors_without_energy_do_not_train_and_are_not_aggregated(tmp_path: Path) -> None:
    federation = Federation(line_app(), 6)
    FedFloor(FedAvg(), "quick", "random", out=tmp_path / "run").start(federation, line_arrays(), num_rounds=20)
    records = read_log(tmp_path / "run" / "rounds.jsonl")
    failed = [(t, m) for t, record in enumerate(records) for m, floor in enumerate(record.gateways) if floor.failure]
    assert failed, "the test needs rounds in which floors fail"
    rounds = [t for t, record in enumerate(records) if any(floor.completed for floor in record.gateways)]
    trained = dict(zip(rounds, federation.trained, strict=True))
    assert all(m not in trained.get(t, []) for t, m in failed)


def test_with_all_nodes_in_every_round_the_model_is_that_of_the_wrapped_strategy_alone() -> None:
    everybody = [*UNIFORM, "radio.channels=6", "limits=false"]
    alone = FedYogi(eta=0.5).start(Federation(line_app(), 6), line_arrays(), num_rounds=6)
    wrapped = FedFloor(FedYogi(eta=0.5), "quick", "random", overrides=everybody)
    result = wrapped.start(Federation(line_app(), 6), line_arrays(), num_rounds=6)
    for key, array in alone.arrays.items():
        assert np.allclose(array.numpy(), result.arrays[key].numpy(), rtol=1e-6)
    assert list(result.arrays) == list(alone.arrays)
    for ours, theirs in (
        (result.train_metrics_clientapp, alone.train_metrics_clientapp),
        (result.evaluate_metrics_clientapp, alone.evaluate_metrics_clientapp),
    ):
        assert {number: dict(metrics) for number, metrics in ours.items()} == {
            number: pytest.approx(dict(metrics)) for number, metrics in theirs.items()
        }


@pytest.mark.parametrize(
    "make",
    [
        FedAvg,
        lambda: FedYogi(eta=0.5),
        lambda: FedAvgM(server_momentum=0.9, server_learning_rate=0.5),
        lambda: DifferentialPrivacyServerSideFixedClipping(FedAvgM(server_momentum=0.9), 0.0, 5.0, 3),
    ],
    ids=["FedAvg", "FedYogi", "FedAvgM", "private FedAvgM"],
)
def test_a_resumed_run_is_the_run_that_was_not_stopped(make: type[FedAvg], tmp_path: Path) -> None:
    def run(out: Path, rounds: int, *, resume: bool = False) -> dict[str, list[float]]:
        strategy = FedFloor(make(), "quick", "round_robin", overrides=UNIFORM, out=out, resume=resume)
        return numbers(strategy.start(Federation(line_app(), 6), line_arrays(), num_rounds=rounds).arrays)

    whole = run(tmp_path / "whole", 8)
    run(tmp_path / "stopped", 5)
    assert run(tmp_path / "stopped", 8, resume=True) == whole
    logs = [(tmp_path / name / "rounds.jsonl").read_bytes() for name in ("whole", "stopped")]
    assert logs[0] == logs[1]


def test_a_node_that_fails_is_a_lost_floor_that_is_owed_its_round(tmp_path: Path) -> None:
    federation = Federation(line_app(fails=lambda partition, number: partition == 0 and number == 1), 6)
    overrides = [*UNIFORM, "radio.channels=6", "limits=false"]
    FedFloor(FedAvg(), "quick", "random", overrides=overrides, out=tmp_path).start(
        federation, line_arrays(), num_rounds=2
    )
    first, second = read_log(tmp_path / "rounds.jsonl")
    assert [floor.failure for floor in first.gateways] == ["lost", *[None] * 5]
    assert [floor.completed for floor in first.gateways] == [False, *[True] * 5]
    assert second.gateways[0].queue == first.gateways[0].target_rate
    assert first.gateways[0].floor_energy > 0
    assert second.gateways[0].completed


def test_seconds_of_messages_are_logged_beside_what_the_model_predicts(tmp_path: Path) -> None:
    FedFloor(FedAvg(), "quick", out=tmp_path).start(Federation(line_app(), 6), line_arrays(), num_rounds=1)
    (record,) = read_log(tmp_path / "rounds.jsonl")
    timing = json.loads((tmp_path / "timings.jsonl").read_text())
    delays = {floor.name: floor.delay_s for floor in record.gateways if floor.completed}
    assert {entry["name"]: entry["predicted_s"] for entry in timing["messages"]} == delays
    assert all(0 <= entry["message_s"] < 60 for entry in timing["messages"])
    assert "message_s" not in (tmp_path / "rounds.jsonl").read_text()


def test_losses_and_accuracies_of_nodes_and_server_are_logged(tmp_path: Path) -> None:
    app = line_app()
    FedFloor(FedAvg(), "quick", out=tmp_path / "nodes").start(Federation(app, 6), line_arrays(), num_rounds=2)
    for record in read_log(tmp_path / "nodes" / "rounds.jsonl"):
        assert (record.accuracy, record.loss) == pytest.approx((0.5, 2.0))
        assert all((floor.loss is not None) == floor.completed for floor in record.gateways)
    asked: list[int] = []

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        asked.append(number)
        return MetricRecord({"share": number / 10, "loss": 1.0})

    strategy = FedFloor(FedAvg(), "quick", out=tmp_path / "server", accuracy_key="share")
    strategy.start(Federation(app, 6), line_arrays(), num_rounds=2, evaluate_fn=evaluate)
    assert asked == [0, 1, 2]
    records = read_log(tmp_path / "server" / "rounds.jsonl")
    assert [(record.accuracy, record.loss) for record in records] == [(0.1, 1.0), (0.2, 1.0)]


def test_a_run_ends_at_an_accuracy_or_after_simulated_time(tmp_path: Path) -> None:
    def rounds(**until: float) -> int:
        folder = tmp_path / next(iter(until))
        strategy = FedFloor(FedAvg(fraction_evaluate=0.0), "quick", out=folder, **until)  # type: ignore[arg-type]
        strategy.start(
            Federation(line_app(), 6),
            line_arrays(),
            num_rounds=9,
            evaluate_fn=lambda number, _: MetricRecord({"accuracy": number / 10, "loss": 1.0 / (1 + number)}),
        )
        records = read_log(folder / "rounds.jsonl")
        if "until_clock" in until:
            assert records[-2].clock < until["until_clock"] <= records[-1].clock
        return len(records)

    assert rounds(until_accuracy=0.4) == 4
    assert rounds(until_loss=0.26) == 3
    assert 1 < rounds(until_clock=1.5) < 9
    for condition in ("until_accuracy=0.4", "until_loss=0.26", "until_clock=1.5"):
        folder = tmp_path / condition.partition("=")[0]
        assert json.loads((folder / "about.json").read_bytes())["ended"] == condition
        collection = collect([folder])
        assert collection.runs[0].ended
        assert (
            tables(collection)[0].rows[0][-2] == f"ended: {len(read_log(folder / 'rounds.jsonl'))} of 9 ({condition})"
        )


def test_a_run_that_goes_on_forgets_why_it_had_ended(tmp_path: Path) -> None:
    def start(**more: bool | float) -> None:
        strategy = FedFloor(FedAvg(), "quick", overrides=UNIFORM, out=tmp_path, **more)  # type: ignore[arg-type]
        strategy.start(Federation(line_app(), 6), line_arrays(), num_rounds=4)

    start(until_accuracy=0.4)
    assert collect([tmp_path]).runs[0].about.ended == "until_accuracy=0.4"
    start(resume=True)
    run = collect([tmp_path]).runs[0]
    assert (run.summary.rounds, run.about.ended) == (4, None)


def test_runs_of_several_strategies_are_several_series(tmp_path: Path) -> None:
    strategies = [FedAvg(), FedYogi(), DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.0, 5.0, 3)]
    for at, strategy in enumerate(strategies):
        wrapped = FedFloor(strategy, "quick", "random", overrides=UNIFORM, out=tmp_path / str(at))
        wrapped.start(Federation(line_app(), 6), line_arrays(), num_rounds=2)
    fedfloor.simulate("quick", "random", 2, overrides=UNIFORM, out=tmp_path / "simulated")
    assert not (tmp_path / "simulated" / "about.json").exists()
    (alone,) = collect([tmp_path / "1"]).series
    assert alone.label == "random"
    collection = collect([tmp_path])
    assert not collection.problems
    names = ["FedAvg", "FedYogi", "DifferentialPrivacyServerSideFixedClip.."]
    assert {series.label for series in collection.series} == {
        "random",
        *(f"random [strategy={name}]" for name in names),
    }


def test_figures_say_who_tested_the_models(tmp_path: Path) -> None:
    def start(name: str, evaluate: Callable[[int, ArrayRecord], MetricRecord] | None) -> None:
        strategy = FedFloor(FedAvg(), "quick", name, out=tmp_path / name)
        strategy.start(Federation(line_app(), 6), line_arrays(), num_rounds=2, evaluate_fn=evaluate)

    def note(*names: str) -> tuple[str, str]:
        (panel,) = known(FIGURE.plot)(results_of(collect([tmp_path / name for name in names])))
        axis = known(panel.plot).layout["yaxis"]
        assert isinstance(axis, dict)
        return panel.note, axis["title"]["text"]

    start("random", None)
    start("round_robin", lambda *_: MetricRecord({"accuracy": 0.5}))
    assert "test set" not in FIGURE.caption
    by_nodes = "by the nodes of Flower, on data of their own, and averaged by the strategy"
    assert note("random") == (f"Models were tested {by_nodes}.", "accuracy on nodes")
    assert note("round_robin") == ("Models were tested on the test set.", "test accuracy")
    both = f"Some runs were tested on the test set, others {by_nodes}: their lines do not compare."
    assert note("random", "round_robin") == (both, "accuracy")


def test_policies_that_decide_by_losses_get_those_of_the_nodes(tmp_path: Path) -> None:
    FedFloor(FedAvg(), "quick", "loss_driven", overrides=["limits=false"], out=tmp_path / "run").start(
        Federation(line_app(), 6), line_arrays(), num_rounds=3
    )
    records = read_log(tmp_path / "run" / "rounds.jsonl")
    last = {floor.name: floor.loss for record in records[:2] for floor in record.gateways if floor.completed}
    assert len(last) == 6, "the test needs a loss of every floor"
    lowest = sorted(last, key=lambda name: last[name] or 0.0)[:3]
    assert {floor.name for floor in records[2].gateways if floor.selected} == set(lowest)
    strategy = FedFloor(FedAvg(), "quick", "loss_driven", train_loss_key="mistakes")
    with pytest.raises(PolicyError, match=r"has no metric 'mistakes', by which the policy decides\. Name the metric"):
        strategy.start(Federation(line_app(), 6), line_arrays())


def test_the_folder_of_a_flower_run_is_one_of_ours(tmp_path: Path) -> None:
    run = tmp_path / "run"
    FedFloor(FedAvg(), "quick", out=run).start(Federation(line_app(), 6), line_arrays(), num_rounds=3)
    third = read_log(run / "rounds.jsonl")[2]
    planned = [floor["name"] for floor in fedfloor.plan(run, round=2)["gateways"] if floor["channel"] is not None]
    assert planned == [floor.name for floor in third.gateways if floor.selected]
    assert fedfloor.read(run)["accuracy"] == pytest.approx([0.5] * 3)
    report = fedfloor.report(run, out=tmp_path / "report")
    assert "quick" in Path(report.page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [(7, "has 6 floors, but the federation has 7 nodes"), (2, "has 6 floors, but the federation only has 2 nodes")],
)
def test_a_federation_of_another_size_is_refused(
    nodes: int, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fedfloor.flower.nodes._REGISTERED", 0.1)
    strategy = FedFloor(FedAvg(), "quick", out=tmp_path / "run")
    with pytest.raises(ScenarioError, match=rf"^quick: {problem}.*num-supernodes=6"):
        strategy.start(Federation(line_app(), nodes), line_arrays())
    assert not (tmp_path / "run").exists()


def test_a_strategy_that_samples_itself_is_refused_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    problem = "strategy FedAvg: fraction_train must be 1, got 0.5: the policy decides"
    with pytest.raises(FedfloorError, match=f"^{re.escape(problem)}"):
        FedFloor(FedAvg(fraction_train=0.5), "quick")
    assert [record.getMessage().startswith(f"fedfloor: error: {problem}") for record in caplog.records] == [True]
    strategy = FedFloor(FedXgbCyclic(), "quick")
    with pytest.raises(FedfloorError, match=r"^strategy FedXgbCyclic: samples nodes itself: it sends 1 messages to 3"):
        strategy.start(Federation(line_app(), 6), line_arrays())


def test_the_limits_of_the_wrapped_strategy_are_its_own_again_after_a_run() -> None:
    inner = FedAvg(min_train_nodes=4, min_available_nodes=5)
    FedFloor(inner, "quick", "random").start(Federation(line_app(), 6), line_arrays(), num_rounds=2)
    assert (inner.min_train_nodes, inner.min_available_nodes) == (4, 5)


def test_wrong_input_is_refused_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def start(strategy: FedFloor) -> None:
        strategy.start(Federation(line_app(), 6), line_arrays(), num_rounds=2)

    with pytest.raises(FedfloorError, match=r"^strategy: must be a Strategy, got 'FedAvg'"):
        FedFloor("FedAvg", "quick")  # type: ignore[arg-type]
    with pytest.raises(FedfloorError, match=r"^strategy: is a FedFloor already"):
        FedFloor(FedFloor(FedAvg(), "quick"), "quick")
    with pytest.raises(RunLogError, match=r"^resume: needs the run folder"):
        FedFloor(FedAvg(), "quick", resume=True)
    with pytest.raises(ScenarioError, match=r"until_accuracy: must be a number"):
        FedFloor(FedAvg(), "quick", until_accuracy=2.0)
    for policy in ("oort", "lyapunov"):
        with pytest.raises(PolicyError, match=rf"^policy '{policy}.*Choose another policy"):
            start(FedFloor(FedAvg(), "quick", policy))
    with pytest.raises(ScenarioError, match=r"training\.extra_iterations: must be 0 with Flower, got 3"):
        start(FedFloor(FedAvg(), "quick", overrides=["training.extra_iterations=3"]))
    with pytest.raises(ScenarioError, match="no-such-plant"):
        start(FedFloor(FedAvg(), "no-such-plant"))
    outer = DifferentialPrivacyServerSideFixedClipping(FedFloor(FedAvg(), "quick"), 0.1, 5.0, 3)
    with pytest.raises(FedfloorError, match=r"^FedFloor: runs its rounds itself"):
        outer.start(Federation(line_app(), 6), line_arrays(), num_rounds=1)
    strategy = FedFloor(FedAvg(fraction_evaluate=0.0), "quick", out=tmp_path / "percent")
    with pytest.raises(FedfloorError, match=r"^metric 'accuracy': must be from 0 to 1, got 53"):
        strategy.start(
            Federation(line_app(), 6), line_arrays(), evaluate_fn=lambda number, _: MetricRecord({"accuracy": 53.0})
        )


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    FedFloor(FedAvg(), "quick", out=tmp_path).start(Federation(line_app(), 6), line_arrays(), num_rounds=2)
    before = (tmp_path / "rounds.jsonl").read_bytes()
    other = ArrayRecord({"b": line_arrays()["b"]})
    with pytest.raises(
        RunLogError, match=r"initial_arrays: the shape of 'a' must be \[\], as when the run began, got None"
    ):
        FedFloor(FedAvg(), "quick", out=tmp_path, resume=True).start(Federation(line_app(), 6), other, num_rounds=3)
    assert (tmp_path / "rounds.jsonl").read_bytes() == before
