"""Floors as SuperNodes: the messages of grpc, the weights of a simulation, and mistakes that are named."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

import fedfloor
from fedfloor.arrays import Vector
from fedfloor.deploy.coding import Decoder, Packed, _split, pack, unpack
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.link import dial
from fedfloor.deploy.messages import Failed, Hello, Inputs, Order, Turn
from fedfloor.deploy.orders import expected_orders
from fedfloor.deploy.serving import DeployedRun
from fedfloor.deploy.station import Station, StationOptions
from fedfloor.errors import DeploymentError, ScenarioError
from fedfloor.flower.floors.client import client_app_for
from fedfloor.flower.floors.config import FloorsConfig
from fedfloor.flower.floors.exchange import exchange
from fedfloor.flower.floors.grid import GridFloors
from fedfloor.flower.floors.records import TRAIN
from fedfloor.flower.floors.server import run_over, server_app_for
from fedfloor.reports.reading import collect
from fedfloor.rounds.listeners.checkpoint import load_checkpoint
from tests.conftest import known
from tests.deploy.floors import Loop, wait_until
from tests.flower.fleet import fleet
from tests.flower.two_floors import PLANT, an_order, config, meet, plant, told


def weights_of(folder: Path) -> dict[str, npt.NDArray[np.generic]]:
    return dict(known(load_checkpoint(folder)).state.weights)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        (),
        ("precision.upload=8", "precision.download=16", "precision.boundary=16"),
        ("participation.rates=estimated", "participation.estimate_every=2", "deploy.allow_gradients=true"),
    ],
    ids=["whole", "rounded", "estimated"],
)
def test_a_run_over_flower_is_that_of_a_simulation(tmp_path: Path, more: tuple[str, ...]) -> None:
    keys = config(*more, policy="ddsra", rounds=3)
    with fleet(client_app_for(keys), 2) as grid:
        done = run_over(grid, FloorsConfig.of(keys, {"out": str(tmp_path / "flower")}))
    alone = fedfloor.run("quick", "ddsra", 3, overrides=[*PLANT, *more], out=tmp_path / "alone", workers=1)
    exact = "participation.rates=estimated" not in more
    for ours, theirs in zip(done.records, alone.records, strict=True):
        assert [gateway.channel for gateway in ours.gateways] == [gateway.channel for gateway in theirs.gateways]
        assert [gateway.completed for gateway in ours.gateways] == [gateway.completed for gateway in theirs.gateways]
        for one, other in zip(ours.gateways, theirs.gateways, strict=True):
            assert one.queue == pytest.approx(other.queue, rel=0.0 if exact else 1e-4, abs=0.0)
        assert ours.clock == pytest.approx(theirs.clock, rel=0.0 if exact else 1e-4, abs=0.0)
    weights, others = weights_of(tmp_path / "flower"), weights_of(tmp_path / "alone")
    assert weights.keys() == others.keys()
    assert len(weights) > 0
    for name, tensor in weights.items():
        assert np.abs(tensor.astype(float) - others[name]).max() <= 1e-5
    assert any(entry.completed for record in done.records for entry in record.gateways)
    assert collect([tmp_path / "flower"]).clock_name == "modelled time"


def test_both_ways_to_a_floor_carry_the_same_bytes() -> None:
    tasks, network = plant()
    weights = np.random.default_rng(0).normal(size=network.layout.size).astype(np.float32)
    order, contents, loop = an_order(tasks[0]), list[RecordDict](), Loop()
    app = ClientApp()

    @app.query("hello")
    def hello(message: Message, context: Context) -> Message:
        return client_app_for({})(message, context)

    @app.train("order")
    def keep(message: Message, context: Context) -> Message:
        contents.append(message.content)
        raise ValueError("nothing is trained here")

    async def frames_of_order(port: int) -> list[bytes]:
        session = (await dial(f"127.0.0.1:{port}", Hello("gateway", tasks[0].floor, "", "{}"))).session
        decoder, frames = Decoder(), list[bytes]()
        while True:  # as the session itself reads; it would decode them at once
            frames.append(await session._read())
            envelope = decoder.feed(frames[-1], expected_orders(tasks[0], network.layout), None)
            if envelope is not None:
                assert isinstance(envelope.message, Order)
                await session.send(Failed("nothing is trained here"), envelope.turn)
                return frames

    with Station(tasks, StationOptions("127.0.0.1:0", None, 0.1)) as station:
        station._attempt = 1  # that of all messages over Flower
        frames = loop.start_for(frames_of_order(station.port))
        wait_until(lambda: station._floors[0].session is not None)
        (over_grpc,) = station.carry_out(4, [order], weights)
        sent = [_split(frame) for frame in frames.result(30.0)]
    loop.close()
    with fleet(app, 1) as grid:
        floors = GridFloors(grid, tasks, FloorsConfig.of(config()))
        meet(floors, 1)
        (over_flower,) = floors.carry_out(4, [order], weights)
    assert over_grpc.model is None
    assert over_flower.model is None
    head = sent[0][0]
    head.ClearField("tail_size")
    (content,) = contents
    (array,) = content.array_records["order.tensors"].values()
    assert content.config_records["order"]["frame"] == head.SerializeToString()
    assert b"".join(tail for _, tail in sent) == array.numpy().tobytes() == weights.tobytes()


def test_a_floor_that_fails_is_lost_and_costs_its_deadline() -> None:
    tasks, network = plant()
    with fleet(client_app_for(config()), 1) as grid:
        floors = GridFloors(grid, tasks, FloorsConfig.of(config()))
        meet(floors, 1)  # without a scale of the inputs
        (reply,) = floors.carry_out(0, [an_order(tasks[0])], np.zeros(network.layout.size, np.float32))
        presence = floors.observe()
    assert reply.model is None
    assert reply.seconds.total == 60.0
    assert "Inputs" in reply.reason
    assert presence.floors.tolist() == [True, False]
    assert presence.devices.tolist() == [True, True, False, False]


def failing(real: ClientApp, *failing_orders: int) -> ClientApp:
    """The app of a floor that fails in some of its orders, before it does anything; they count from 0."""
    app, count = ClientApp(), iter(range(100))
    app.query("hello")(real)

    @app.train("order")
    def train(message: Message, context: Context) -> Message:
        if next(count) in failing_orders:
            raise RuntimeError("the process was killed")
        return real(message, context)

    return app


def test_a_lost_order_leaves_the_rounding_errors_as_they_are() -> None:
    tasks, network = plant("precision.upload=8")
    keys, nothing = config("precision.upload=8"), np.zeros(network.layout.size, np.float32)

    def last_model(rounds: tuple[int, ...], *failing_orders: int) -> Vector:
        with fleet(failing(client_app_for(keys), *failing_orders), 1) as grid:
            floors = GridFloors(grid, tasks, FloorsConfig.of(keys))
            meet(floors, 1)
            floors._inputs = Inputs(np.zeros(1), np.ones(1))
            for index in rounds:
                (reply,) = floors.carry_out(index, [an_order(tasks[0])], nothing)
                floors.settle(index, np.array([reply.model is not None, False]))
        return known(reply.model)

    whole = last_model((0, 2, 3))
    assert np.array_equal(last_model((0, 1, 2, 3), 1), whole)
    assert not np.array_equal(last_model((3,)), whole)  # so that the errors of the rounds before count


def test_measured_seconds_of_a_floor_are_its_work_and_twice_half_of_flowers() -> None:
    tasks, network = plant()
    keys, nothing = config(clock="measured"), np.zeros(network.layout.size, np.float32)
    with fleet(failing(client_app_for(keys), 1), 1) as grid:
        floors = GridFloors(grid, tasks, FloorsConfig.of(keys))
        meet(floors, 1)
        floors._inputs = Inputs(np.zeros(1), np.ones(1))
        begun = time.monotonic()
        (reply,) = floors.carry_out(0, [an_order(tasks[0])], nothing)
        took = time.monotonic() - begun
        (lost,) = floors.carry_out(1, [an_order(tasks[0])], nothing)
        took_both = time.monotonic() - begun
    assert reply.model is not None
    assert reply.seconds.download == reply.seconds.upload > 0.0
    assert reply.seconds.train > 0.0
    assert reply.seconds.total <= took
    assert floors.seconds[-1] == pytest.approx(reply.seconds.download + reply.seconds.upload)
    assert known(reply.link_time).tolist() == [0.0, 0.0]
    assert lost.model is None
    assert 0.0 < lost.seconds.total <= took_both - took


def test_an_order_that_is_missing_is_named() -> None:
    tasks, _ = plant()
    with fleet(client_app_for(config()), 1) as grid:
        floors = GridFloors(grid, tasks, FloorsConfig.of(config()))
        floors._inputs = Inputs(np.zeros(1), np.ones(1))
        asked = [(0, node, floors._content(0, []), 60.0) for node in grid.get_node_ids()]
        (done,) = exchange(grid, TRAIN, asked)
        with pytest.raises(LinkError, match=r"^0 messages Order came instead of one"):
            floors._answers(0, done.content())


@pytest.mark.slow
def test_a_run_that_is_resumed_is_that_of_a_run_that_was_not_stopped(tmp_path: Path) -> None:
    def run(folder: str, rounds: int, *, resume: bool = False) -> DeployedRun:
        keys = config(policy="ddsra:v=1", rounds=rounds, out=str(tmp_path / folder), resume=resume)
        with fleet(client_app_for(keys), 2) as grid:
            return run_over(grid, FloorsConfig.of(keys))

    whole = run("whole", 2)
    run("parts", 1)
    resumed = run("parts", 2, resume=True)
    assert resumed.resumed == 1
    assert resumed.records == whole.records
    weights, others = weights_of(tmp_path / "parts"), weights_of(tmp_path / "whole")
    assert weights.keys() == others.keys()
    for name, tensor in weights.items():
        assert np.array_equal(tensor, others[name])


def test_a_mistake_is_one_line_in_the_log_of_flower(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    context = Context(run_id=7, node_id=1, node_config={}, state=RecordDict(), run_config={"scenario": "quik"})
    with fleet(client_app_for({}), 1) as grid, pytest.raises(ScenarioError):
        server_app_for({})(grid, context)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert line.startswith("fedfloor: error: ")
    assert "quik" in line
    assert "\n" not in line


def test_gains_are_not_measured_by_the_time_that_flower_takes(tmp_path: Path) -> None:
    keys = config("deploy.gains=measured", clock="measured", out=str(tmp_path / "run"))
    problem = (
        r"^app config: clock: must be 'model' if the scenario has deploy\.gains = 'measured', got 'measured': .*Set"
    )
    with fleet(client_app_for(keys), 1) as grid, pytest.raises(DeploymentError, match=problem):
        run_over(grid, FloorsConfig.of(keys))
    assert not (tmp_path / "run").exists()


def test_a_network_that_the_user_names_needs_no_further_trust() -> None:
    more = ("model.name=tests.training.networks:logistic", "baseline.cut=1")
    tasks, _ = plant(*more)
    keys = config(*more, wait=3.0)
    with fleet(client_app_for(keys), 2) as grid:
        assert GridFloors(grid, tasks, FloorsConfig.of(keys)).agree().mean.shape == (1,)


def test_floors_agree_on_the_scale_of_what_their_devices_hold(tmp_path: Path) -> None:
    tasks, _ = plant()
    rng, keys = np.random.default_rng(1), config(inputs="agreed", wait=3.0)
    pictures = {device.name: rng.integers(0, 256, (5, 1, 28, 28), np.uint8) for device in tasks[1].devices}
    for name, samples in pictures.items():
        np.savez(tmp_path / f"{name}.npz", samples=samples, labels=np.arange(5))

    with fleet(told(client_app_for(keys), floor="hall-1", data=f"{tmp_path}/{{device}}.npz"), 1) as grid:
        floors = GridFloors(grid, tasks, FloorsConfig.of(keys))
        inputs = floors.agree()
        gateways, devices = floors.machines()
    whole = np.concatenate(list(pictures.values())).astype(float)
    assert inputs.mean == pytest.approx([whole.mean()])
    assert inputs.deviation == pytest.approx([whole.std()])
    assert [machine.name for machine in gateways] == ["hall-1"]
    assert [(machine.name, machine.samples) for machine in devices] == [(name, 5) for name in pictures]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("rounds", "three", "app config: rounds: must be a whole number, got 'three'"),
        ("clock", "fast", "app config: clock: input should be 'model' or 'measured', got 'fast'"),
        ("inputs", "mine", "app config: inputs: input should be 'agreed' or 'scenario', got 'mine'"),
        ("patience", -1.0, "app config: patience: must be >= 0, got -1.0"),
    ],
)
def test_a_wrong_key_of_the_app_is_named(key: str, value: float | str, problem: str) -> None:
    with pytest.raises(DeploymentError, match=problem):
        FloorsConfig.of({}, {key: value, "someone-elses-key": 1})


def test_a_message_in_one_piece_must_have_all_its_bytes_and_no_others() -> None:
    tasks, network = plant()
    expected = expected_orders(tasks[0], network.layout)
    message = pack(Inputs(np.zeros(1), np.ones(1)), Turn())
    with pytest.raises(LinkError, match=r"Inputs: this message is not expected here"):
        unpack(message, expected)
    order = Order(0, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0, np.ones(2, int), np.ones(2), 1.0, np.ones(network.layout.size, "f4"))
    whole = pack(order, Turn(1, 2))
    assert np.array_equal(unpack(whole, expected).message.weights, order.weights)  # type: ignore[union-attr]
    with pytest.raises(LinkError, match=r"Order: its tensors have 40 bytes, expected [\d,]+"):
        unpack(Packed(whole.frame, (np.ones(10, np.float32),)), expected)
    with pytest.raises(LinkError, match="Order: is of round 1"):
        unpack(whole, expected, Turn(2, 2))


@pytest.mark.slow
def test_too_few_supernodes_are_refused_in_a_simulation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fedfloor.flower.nodes._REGISTERED", 0.1)
    keys = config(out=str(tmp_path / "run"))
    problem = (
        r"^quick: has 2 floors, but the federation only has 1 node\. Run it with --federation-config 'num-supernodes=2'"
    )
    with fleet(client_app_for(keys), 1) as grid, pytest.raises(ScenarioError, match=problem):
        run_over(grid, FloorsConfig.of(keys))
    assert not (tmp_path / "run").exists()


def test_floors_without_a_supernode_are_named_before_the_first_round(said: Callable[[], list[str]]) -> None:
    tasks, _ = plant()
    keys = config(wait=3.0)
    with fleet(told(client_app_for(keys), floor="assembly"), 1) as grid:
        GridFloors(grid, tasks, FloorsConfig.of(keys)).agree()
    assert any(line.startswith("no SuperNode has said within 3 s that it is hall-1. The run") for line in said())
