"""A plant of real machines, driven without a network: floors that train here, answer late, or are not there."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.api import evaluate
from fedfloor.arrays import Vector
from fedfloor.errors import FailedRunError, RunLogError
from fedfloor.rounds.events import Event
from fedfloor.rounds.lines import json_line
from fedfloor.rounds.listeners.checkpoint import load_checkpoint, signed
from fedfloor.rounds.plants.backhaul import FloorOrder, FloorReply
from fedfloor.rounds.record import RoundRecord
from fedfloor.runs.planned import planned_run
from fedfloor.scheduling.state import IDLE, Decision
from fedfloor.training.data.holding import Holding, gather
from fedfloor.training.network.weights import average
from fedfloor.workers.engine import train_devices
from tests.rounds.hall import ROUNDS, SETTINGS, Deployment


@pytest.fixture(scope="module")
def holding() -> Holding:
    """The data of the devices and the test set; no setting below changes it."""
    return gather(planned_run("quick", "random", ROUNDS, overrides=SETTINGS, training=True).scenario)


def stripped(record: RoundRecord) -> dict[str, Any]:
    """A logged round without what only real machines log."""
    table: dict[str, Any] = json.loads(json_line(record))
    table.pop("weather", None)
    for gateway in table["gateways"]:
        for key in [key for key in gateway if key.startswith("predicted")]:
            del gateway[key]
    return table


def lines(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "timings.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


EQUAL = {
    "plain": ("random", ()),
    "decided cuts": ("ddsra:v=1", ()),
    "rounded updates": ("random", ("precision.upload=8", "precision.download=16")),
    "rates of updates": ("round_robin", ("participation.rates=updates",)),
    "energy and memory that do not suffice": (
        "round_robin",
        ("limits=true", "baseline.frequency_share=1.0", "training.batch_fraction=0.2"),
    ),
}


@pytest.mark.parametrize("case", EQUAL)
def test_a_round_in_which_nothing_is_lost_is_the_simulated_one_to_the_last_bit(
    case: str, holding: Holding, tmp_path: Path
) -> None:
    policy, more = EQUAL[case]
    driven, plant, _ = Deployment(holding, policy, more).run(tmp_path / "deployed")
    learnt = fedfloor.run("quick", policy, overrides=[*SETTINGS, *more], rounds=ROUNDS, workers=1, out=tmp_path / "run")
    assert [stripped(record) for record in driven.records] == [stripped(record) for record in learnt.records]
    rates = {gateway.target_rate for gateway in driven.records[-1].gateways}
    assert (len(rates) > 1) == (case == "rates of updates")
    failures = {gateway.failure for record in driven.records for gateway in record.gateways}
    assert (failures > {None}) == (case == "energy and memory that do not suffice")
    checkpoint = load_checkpoint(tmp_path / "run")
    assert checkpoint is not None
    assert np.array_equal(plant.weights, plant.engine.work.layout.vector(checkpoint.state.weights))


def test_the_log_has_the_times_that_were_measured_beside_those_that_were_predicted(
    holding: Holding, tmp_path: Path
) -> None:
    Deployment(holding, hall={"slowness": 2.0}).run(tmp_path / "run")
    for record in lines(tmp_path / "run"):
        assert record["delay_s"] == max(gateway["delay_s"] for gateway in record["gateways"])
        for gateway in record["gateways"]:
            if not gateway["selected"]:
                assert gateway["predicted_s"] is gateway["predicted_train_s"] is None
                continue
            for part in ("download", "train", "upload"):
                assert gateway[f"{part}_s"] == 2.0 * gateway[f"predicted_{part}_s"] > 0.0
            assert gateway["delay_s"] == pytest.approx(2.0 * gateway["predicted_s"])
    columns = fedfloor.read(tmp_path / "run", per="gateway")
    assert sum(seconds is not None for seconds in columns["predicted_s"]) == 3 * ROUNDS


def test_orders_carry_the_decision_and_a_deadline(holding: Holding, tmp_path: Path) -> None:
    more = ("deploy.deadline_factor=2", "deploy.deadline_margin_s=0.5")
    driven, _, hall = Deployment(holding, "ddsra:v=1", more).run(tmp_path / "run")
    orders = iter(hall.orders)
    for record in driven.records:
        for m, gateway in enumerate(record.gateways):
            if not gateway.selected:
                continue
            order = next(orders)
            assert (order.floor, order.channel, order.power) == (m, gateway.channel, gateway.power_w)
            assert order.cut.tolist() == [device.cut for device in gateway.devices]
            assert order.frequency.tolist() == [device.gateway_frequency_hz for device in gateway.devices]
            assert order.predicted.total == gateway.predicted_s
            assert order.deadline == pytest.approx(2.0 * order.predicted.total + 0.5)
            assert order.upload_rate * order.predicted.upload == pytest.approx(
                order.download_rate * order.predicted.download
            )
    assert next(orders, None) is None


def test_floors_that_never_answer_are_lost_and_the_run_goes_on(holding: Holding, tmp_path: Path) -> None:
    events: list[Event] = []
    mute = {(index, floor) for index in (1, 2) for floor in range(6)} | {(3, floor) for floor in range(0, 6, 2)}
    driven, _, hall = Deployment(holding, hall={"mute": mute}).run(tmp_path / "run", tell=events.append)
    assert [len(record.gateways) for record in driven.records] == [6] * ROUNDS
    for record in driven.records:
        for m, gateway in enumerate(record.gateways):
            lost = gateway.selected and (record.round, m) in mute
            assert gateway.failure == ("lost" if lost else None)
            assert gateway.completed == (gateway.selected and not lost)
            if lost:
                assert isinstance(gateway.predicted_s, float)
                assert gateway.delay_s == pytest.approx(3.0 * gateway.predicted_s + 10.0)
                assert (gateway.loss, gateway.energy_j) == (None, 0.0)
                assert [device.energy_j for device in gateway.devices] == [0.0, 0.0, 0.0]
    assert any(gateway.completed for gateway in driven.records[3].gateways)
    reasons = [reason for event in events for reason in event.lost]
    assert len(reasons) == sum(gateway.failure is not None for record in driven.records for gateway in record.gateways)
    assert all(reason.endswith(": no answer in time") for reason in reasons)
    assert hall.settled == [
        (record.round, [gateway.completed for gateway in record.gateways]) for record in driven.records
    ]


def test_a_round_that_nobody_completes_leaves_the_weights_as_they_are(holding: Holding) -> None:
    plant, _ = Deployment(holding, hall={"mute": {(0, floor) for floor in range(6)}}).plant()
    before = plant.weights.copy()
    plant.observe()
    plant.execute(Decision(np.array([0, 1, 2, IDLE, IDLE, IDLE])))
    assert np.array_equal(plant.weights, before)


def test_a_floor_that_is_not_there_is_left_out_by_the_solver_and_lost_by_others(
    holding: Holding, tmp_path: Path
) -> None:
    away = {"away": {0, 3}}
    driven, _, _ = Deployment(holding, "ddsra:v=1", hall=away).run(tmp_path / "ddsra")
    assert not any(record.gateways[m].selected for record in driven.records for m in away["away"])
    assert all(sum(gateway.completed for gateway in record.gateways) == 3 for record in driven.records)
    driven, _, hall = Deployment(holding, "round_robin", hall=away).run(tmp_path / "round_robin")
    for record in driven.records:
        for m, gateway in enumerate(record.gateways):
            assert gateway.failure == ("lost" if gateway.selected and m in away["away"] else None)
            if gateway.failure:
                assert gateway.delay_s == gateway.predicted_s == 0.0
        assert record.weather is not None
        assert not any(record.weather.uplink_gain[0])
        assert all(record.weather.uplink_gain[1])
    assert not {order.floor for order in hall.orders} & away["away"]


def test_a_floor_without_devices_is_not_there(holding: Holding) -> None:
    plant, _ = Deployment(holding, hall={"missing": {3, 4, 5, 6}}).plant()
    gains = plant.observe().weather.downlink_gain
    assert not gains[1].any()
    assert gains[2].all()


def test_a_device_that_drops_out_is_left_out_and_the_weights_are_renormalised(holding: Holding) -> None:
    plant, hall = Deployment(holding, hall={"missing": {1}}).plant()
    plant.observe()
    start = plant.weights.copy()
    outcome = plant.execute(Decision(np.array([0, 1, IDLE, IDLE, IDLE, IDLE])))
    devices, batch = np.array([0, 2, 3, 4, 5]), hall.engine.work.job.batch
    trained = {n: vector.copy() for n, _, _, vector in train_devices(hall.engine, 0, devices, np.ones(5, int), start)}
    floors = [[0, 2], [3, 4, 5]]
    models = [average(((float(batch[n]), trained[n]) for n in floor), start.size) for floor in floors]
    points = [float(batch[floor].sum()) for floor in floors]
    assert np.array_equal(plant.weights, average(zip(points, models, strict=True), start.size))
    assert outcome.completed.tolist() == [True, True, False, False, False, False]
    assert (outcome.device_energy[:6] > 0.0).tolist() == [True, False, True, True, True, True]


UNUSABLE: dict[str, tuple[Callable[[Any], FloorReply], str]] = {
    "a weight that is not a number": (
        lambda reply: dataclasses.replace(reply, model=np.where(np.arange(reply.model.size) == 7, np.nan, reply.model)),
        "its model is not finite",
    ),
    "a model of another precision": (
        lambda reply: dataclasses.replace(reply, model=reply.model.astype(float)),
        "its model must be float32",
    ),
    "an infinite weight": (
        lambda reply: dataclasses.replace(
            reply, model=np.where(np.arange(reply.model.size) == 7, np.float32(np.inf), reply.model)
        ),
        "its model is not finite",
    ),
    "a model of another size": (lambda reply: dataclasses.replace(reply, model=reply.model[1:]), "its model must be"),
    "a loss that is not a number": (lambda reply: dataclasses.replace(reply, loss=np.nan), "its training loss is nan"),
    "no points": (lambda reply: dataclasses.replace(reply, points=0.0), "points must be > 0, got 0"),
    "endless points": (lambda reply: dataclasses.replace(reply, points=np.inf), "points must be > 0, got inf"),
    "nobody who took part": (
        lambda reply: dataclasses.replace(reply, took_part=np.zeros(3, bool)),
        "no device took part",
    ),
    "too many who took part": (
        lambda reply: dataclasses.replace(reply, took_part=np.ones(4, bool)),
        "must have an entry for each of its 3 devices",
    ),
    "too few energies": (
        lambda reply: dataclasses.replace(reply, device_energy=np.ones(2)),
        "must have an entry for each of its 3 devices",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_reply_that_cannot_be_used_loses_its_floor_only(case: str, holding: Holding) -> None:
    spoil, reason = UNUSABLE[case]
    events: list[Event] = []
    plant, hall = Deployment(holding, hall={"spoil": lambda reply: spoil(reply) if reply.floor == 1 else reply}).plant(
        events.append
    )
    plant.observe()
    start = plant.weights.copy()
    outcome = plant.execute(Decision(np.array([0, 1, IDLE, IDLE, IDLE, IDLE])))
    assert outcome.failure == (None, "lost", None, None, None, None)
    (told,) = (event.lost for event in events if event.lost)
    assert len(told) == 1
    assert told[0].startswith(f"{plant.scenario.floors[1].name}: ")
    assert reason in told[0]
    assert np.isfinite(plant.weights).all()
    alone = hall.train(0, hall.orders[0], start)
    assert alone.model is not None
    assert np.array_equal(plant.weights, alone.model)


def test_an_order_without_a_reply_is_lost(holding: Holding, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, hall = Deployment(holding).plant()
    monkeypatch.setattr(hall, "carry_out", lambda *_: iter(()))
    plant.observe()
    outcome = plant.execute(Decision(np.array([0, IDLE, IDLE, IDLE, IDLE, IDLE])))
    assert outcome.failure[0] == "lost"
    assert outcome.delay[0] >= 0.0


def test_without_a_test_set_there_is_no_accuracy(holding: Holding, tmp_path: Path) -> None:
    driven, plant, _ = Deployment(holding, tests=False).run(tmp_path / "run")
    assert [record.accuracy for record in driven.records] == [None] * ROUNDS
    assert plant.evaluate() is None


def test_a_measured_rate_is_the_predicted_rate_of_the_next_round(holding: Holding) -> None:
    plant, hall = Deployment(holding, more=("deploy.gains=measured",), hall={"slowness": 3.0}).plant()
    drawn = plant.observe().weather
    decision = Decision(np.array([2, 0, IDLE, IDLE, IDLE, IDLE]))
    plant.execute(decision)
    plant.settle(np.zeros(6))
    state = plant.observe()
    plant.execute(decision)
    (first, _, second, _) = hall.orders
    assert second.predicted.download == pytest.approx(3.0 * first.predicted.download)
    assert second.predicted.upload == pytest.approx(3.0 * first.predicted.upload)
    known = np.zeros((6, 3), bool)
    known[0, 2] = known[1, 0] = True
    fresh = plant._simulated._climate.weather(1)
    assert np.array_equal(state.weather.uplink_gain[~known], fresh.uplink_gain[~known])
    assert not state.weather.uplink_interference[known].any()
    assert drawn.uplink_interference[known].all()


def test_energy_that_machines_report_replaces_the_weathers(holding: Holding, tmp_path: Path) -> None:
    more = ("limits=true", "deploy.energy=reported")
    driven, _, hall = Deployment(holding, "round_robin", more, hall={"gateway_energy": 0.0}).run(tmp_path / "run")
    assert not hall.orders
    for record in driven.records:
        assert {gateway.energy_budget_j for gateway in record.gateways} == {0.0}
        assert {gateway.failure for gateway in record.gateways if gateway.selected} == {"energy"}
    plant, _ = Deployment(holding, more=more).plant()
    assert (
        plant.observe().weather.gateway_energy.tolist() == plant._simulated._climate.weather(0).gateway_energy.tolist()
    )


def test_batteries_keep_what_machines_did_not_spend(holding: Holding) -> None:
    def metered(reply: FloorReply) -> FloorReply:
        return dataclasses.replace(reply, gateway_energy=0.001, device_energy=np.array([0.0, np.nan, 0.002]))

    more = ("limits=true", "battery={gateway_capacity_j = 100.0, device_capacity_j = 100.0}")
    plant, _ = Deployment(holding, more=more, hall={"spoil": metered}).plant()
    for _ in range(8):
        available = plant.observe().weather
        outcome = plant.execute(Decision(np.array([0, IDLE, IDLE, IDLE, IDLE, IDLE])))
        plant.settle(np.zeros(6))
        if outcome.completed[0]:
            assert outcome.gateway_energy[0] == 0.001
            assert outcome.device_energy[[0, 2]].tolist() == [0.0, 0.002]
            assert outcome.device_energy[1] == outcome.usage.device_energy[1]
            assert plant._simulated.gateway_level[0] == available.gateway_energy[0] - 0.001
            return
    pytest.fail("no round had the energy")


RESUMED = ("participation.rates=updates", "deploy.gains=measured", "training.checkpoint_every=2")


@pytest.fixture(scope="module")
def whole(holding: Holding, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody interrupted, with everything that a plant of real machines keeps."""
    folder = tmp_path_factory.mktemp("deployed") / "run"
    Deployment(holding, "ddsra:v=1", RESUMED, hall={"slowness": 1.5, "mute": {(1, 2)}}).run(folder)
    return folder


@pytest.mark.parametrize("stop", [1, 3])  # before the first checkpoint, and one round after it
def test_a_base_station_that_was_killed_resumes_to_the_last_bit(
    stop: int, holding: Holding, whole: Path, tmp_path: Path
) -> None:
    deployment = Deployment(holding, "ddsra:v=1", RESUMED, hall={"slowness": 1.5, "mute": {(1, 2)}})

    def kill(event: Event) -> None:
        if event.record is not None and event.record.round == stop - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deployment.run(tmp_path / "run", tell=kill)
    driven, _, _ = deployment.run(tmp_path / "run", resume=True)
    assert len(driven.timings) == ROUNDS - stop // 2 * 2
    assert contents(tmp_path / "run") == contents(whole)


def test_a_deployed_run_is_reported_planned_and_evaluated_like_any_other(whole: Path, tmp_path: Path) -> None:
    assert fedfloor.report(whole, out=tmp_path / "report").page.is_file()
    assert 0.0 <= (evaluate(whole)["accuracy"] or 0.0) <= 1.0
    for record in lines(whole):
        planned = fedfloor.plan(whole, round=record["round"])
        for again, logged in zip(planned["gateways"], record["gateways"], strict=True):
            assert again["channel"] == logged["channel"]
            if logged["selected"]:
                assert again["delay_s"] == logged["predicted_s"]
                assert again["train_s"] == logged["predicted_train_s"]


def test_a_run_with_rounded_updates_is_evaluated_although_gateways_keep_the_errors(
    holding: Holding, tmp_path: Path
) -> None:
    Deployment(holding, more=("precision.upload=8",)).run(tmp_path / "run")
    checkpoint = load_checkpoint(tmp_path / "run")
    assert checkpoint is not None
    assert not checkpoint.state.memory
    assert 0.0 <= (evaluate(tmp_path / "run")["accuracy"] or 0.0) <= 1.0


@pytest.mark.parametrize("key", ["measured_uplink_gain", "update_divergence"])
def test_a_checkpoint_that_lacks_what_machines_measured_is_refused(
    key: str, holding: Holding, whole: Path, tmp_path: Path
) -> None:
    deployment = Deployment(holding, "ddsra:v=1", RESUMED)
    for name, content in contents(whole).items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(content)
    state = tmp_path / "run" / "checkpoint" / "state.json"
    values = json.loads(state.read_text())
    del values[key]
    state.write_bytes(signed(values))
    with pytest.raises(RunLogError, match=f"does not fit the scenario: {key} must be"):
        deployment.run(tmp_path / "run", resume=True)


def test_a_mean_that_overflows_ends_the_run(holding: Holding, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, hall = Deployment(holding, more=("precision.upload=16",)).plant()

    def huge(_: int, orders: Sequence[FloorOrder], weights: Vector) -> Iterator[FloorReply]:
        for order in orders:
            update = np.full(weights.size, 3e38, np.float32)
            yield FloorReply(order.floor, update, 5.0, 1.0, np.ones(order.cut.size, bool), order.predicted)

    monkeypatch.setattr(hall, "carry_out", huge)
    decision = Decision(np.array([0, IDLE, IDLE, IDLE, IDLE, IDLE]))
    plant.observe()
    plant.execute(decision)
    plant.settle(np.zeros(6))
    plant.observe()
    with pytest.raises(FailedRunError, match=r"round 1: the averaged weights are not finite\. Lower"):
        plant.execute(decision)
