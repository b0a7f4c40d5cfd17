"""The same result for any number of processes, and what happens when one of them ends."""

import dataclasses
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedfloor.arrays import Vector
from fedfloor.errors import FailedRunError, ModelError
from fedfloor.scenario.model import Model
from fedfloor.training.data.samples import Samples, batch_of
from fedfloor.training.network.quantised import Quantised, quantised
from fedfloor.training.schedule import RateSchedule
from fedfloor.training.tasks import EstimateTask, EvaluateTask, GradientTask
from fedfloor.training.work import Job, Work
from fedfloor.workers.engine import Engine, Pool, engine_for, train_devices
from fedfloor.workers.processes import packed_failure, unpacked_failure

DEVICES = 9
CNN = Model(name="cnn", input=(1, 28, 28), width=0.5)
DENSE = Model(name="mlp", input=(1, 28, 28), width=0.25)
NORMED = Model(name="cnn", input=(1, 28, 28), width=0.5, batch_norm=True)


def samples() -> Samples:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (360, 1, 28, 28), dtype=np.uint8)
    labels = rng.integers(0, 10, 360)
    first = np.concatenate([[0], np.cumsum(rng.multinomial(360 - 10 * DEVICES, [1 / DEVICES] * DEVICES) + 10)])
    return Samples(
        images, labels, first, rng.permutation(360), images[:90], labels[:90], np.array([127.0]), np.array([73.0])
    )


def job(model: Model, **changed: Any) -> Job:
    batch = np.arange(4, 4 + DEVICES)
    return Job(
        **{
            "model": model,
            "seed": 3,
            "schedule": RateSchedule(0.05),
            "iterations": 3,
            "batch": batch,
            "redraw": False,
            "apart": False,
            **changed,
        }
    )


def everything(engine: Engine) -> list[np.ndarray]:
    """All that an engine computes."""
    weights, found, devices = engine.work.first_weights(), [], np.arange(DEVICES)
    for n, loss, _, trained in train_devices(engine, 5, devices, np.ones_like(devices), weights):
        found += [np.array([n, loss]), trained.copy()]
    for (confusion, loss), _ in engine.run([EvaluateTask(n, n + 30) for n in (0, 30, 60)], weights):
        assert confusion is not None
        found += [confusion, np.array(loss)]
    for result, gradient in engine.run([EstimateTask(n, 8) for n in range(DEVICES)], weights):
        found += [np.array([result.sigma, result.norm, result.smoothness]), gradient.copy()]
    for loss, gradient in engine.run([GradientTask(n, None) for n in range(DEVICES)], weights):
        found += [np.array(loss), gradient.copy()]
    return found


@pytest.mark.parametrize(
    ("model", "boundary"),
    [
        pytest.param(CNN, 32, marks=pytest.mark.slow),
        (DENSE, 32),
        pytest.param(NORMED, 32, marks=pytest.mark.slow),
        pytest.param(DENSE, 8, marks=pytest.mark.slow),
    ],
    ids=["cnn", "mlp", "batch norm", "few bits across the cut"],
)
def test_any_number_of_processes_gives_the_same_bits(model: Model, boundary: int) -> None:
    with engine_for(job(model, boundary=boundary), samples(), 1) as engine:
        alone = everything(engine)
    for workers in (2, 3):
        with engine_for(job(model, boundary=boundary), samples(), workers) as engine:
            assert isinstance(engine, Pool)
            for one, other in zip(alone, everything(engine), strict=True):
                assert np.array_equal(one, other)


@pytest.mark.parametrize("model", [CNN, DENSE], ids=["cnn", "mlp"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_device_trains_alike_whoever_else_does(model: Model, workers: int) -> None:
    devices = np.array([3, 0, 4])
    with engine_for(job(model), samples(), workers) as engine:
        weights = engine.work.first_weights()
        found = [
            (n, loss, trained.copy())
            for n, loss, _, trained in train_devices(engine, 2, devices, np.ones_like(devices), weights)
        ]
        assert [n for n, _, _ in found] == devices.tolist()
        for n, loss, trained in found:
            ((_, alone, _, by_itself),) = train_devices(engine, 2, np.array([n]), np.array([1]), weights)
            assert loss == pytest.approx(alone, rel=1e-6)
            assert np.linalg.norm(trained - by_itself) <= 1e-6 * np.linalg.norm(trained)


@pytest.mark.parametrize("model", [CNN, DENSE], ids=["cnn", "mlp"])
def test_a_round_that_no_device_trains_in_has_no_results(model: Model) -> None:
    nobody = np.array([], int)
    with engine_for(job(model), samples(), 1) as engine:
        assert list(train_devices(engine, 0, nobody, nobody, engine.work.first_weights())) == []


@pytest.mark.parametrize("model", [CNN, NORMED], ids=["cnn", "batch norm"])
def test_halves_apart_train_as_the_network_in_one_piece(model: Model) -> None:
    trained = {}
    for apart in (False, True):
        work = Work(job(model, apart=apart), samples())
        out = np.empty((DEVICES, work.layout.size), np.float32)
        cuts = np.arange(DEVICES) % 7
        work.train(0, np.arange(DEVICES), cuts, work.first_weights(), out)
        trained[apart] = out
    assert np.linalg.norm(trained[True] - trained[False]) <= 1e-6 * np.linalg.norm(trained[False])


def trained(model: Model, cut: int, data: Samples | None = None, **changed: Any) -> np.ndarray:
    """Weights of two devices after a round."""
    work = Work(job(model, **changed), data or samples())
    out = np.empty((2, work.layout.size), np.float32)
    work.train(4, np.array([1, 6]), np.array([cut, cut]), work.first_weights(), out)
    return out


def as_floats(pictures: Samples) -> Samples:
    return dataclasses.replace(pictures, images=pictures.images.astype(np.float32))


@pytest.mark.parametrize("model", [CNN, DENSE], ids=["cnn", "mlp"])
def test_few_bits_across_the_cut_are_used_wherever_a_cut_is(model: Model) -> None:
    depth = 6 if model is CNN else 2
    for cut in range(depth + 1):
        full = trained(model, cut, apart=True)
        for bits, closeness in ((16, 1e-3), (8, 0.1)):
            coarse = trained(model, cut, boundary=bits)
            distance = np.linalg.norm(coarse - full) / np.linalg.norm(full)
            if cut in (0, depth):  # pictures are sent as they are, and at the last cut nothing is
                assert distance <= 1e-6
            else:
                assert 1e-6 < distance < closeness


@pytest.mark.parametrize("redraw", [False, True])
def test_samples_that_are_no_pictures_are_rounded_when_they_are_sent(redraw: bool) -> None:
    data = as_floats(samples())
    full, coarse = (trained(CNN, 0, data, boundary=bits, redraw=redraw) for bits in (32, 8))
    assert 1e-6 < np.linalg.norm(coarse - full) / np.linalg.norm(full) < 0.1
    assert np.array_equal(trained(CNN, 6, data, boundary=8), trained(CNN, 6, data))  # they stay on the device


def test_a_batch_that_is_sent_once_a_round_is_rounded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    rounding = quantised

    def counted(values: Vector, bits: int, rng: np.random.Generator) -> Quantised:
        sizes.append(values.size)
        return rounding(values, bits, rng)

    monkeypatch.setattr("fedfloor.training.network.quantised.quantised", counted)
    data = as_floats(samples())
    for cut, redraw, expected in ((0, False, 1), (0, True, 3), (2, False, 2 * 3), (6, False, 0)):
        sizes.clear()
        trained(CNN, cut, data, boundary=8, redraw=redraw)
        assert len(sizes) == 2 * expected  # two devices
    assert sizes == []


def test_activations_that_are_not_finite_show_in_the_loss_even_if_rounded() -> None:
    work = Work(job(CNN, boundary=8), samples())
    weights, out = work.first_weights(), np.empty((1, work.layout.size), np.float32)
    weights[0] = 3e38
    assert not np.isfinite(work.train(0, np.array([0]), np.array([2]), weights, out)).all()


def test_devices_in_a_stack_train_as_one_by_one() -> None:
    stacked, single = Work(job(DENSE), samples()), Work(job(DENSE, apart=True), samples())
    assert (stacked.stacks > 1, single.stacks) == (True, 1)
    results = []
    for work in (stacked, single):
        out = np.empty((DEVICES, work.layout.size), np.float32)
        losses = work.train(2, np.arange(DEVICES), np.zeros(DEVICES, int), work.first_weights(), out)
        results.append((losses, out))
    assert np.allclose(results[0][0], results[1][0], rtol=1e-6, equal_nan=True)
    assert np.linalg.norm(results[0][1] - results[1][1]) <= 1e-6 * np.linalg.norm(results[1][1])


def test_a_redrawn_batch_differs_in_every_iteration() -> None:
    once, often = Work(job(CNN), samples()), Work(job(CNN, redraw=True), samples())
    out = np.empty((2, once.layout.size), np.float32)
    once.train(0, np.array([0]), np.array([0]), once.first_weights(), out[:1])
    often.train(0, np.array([0]), np.array([0]), often.first_weights(), out[1:])
    assert not np.array_equal(out[0], out[1])


def test_gradients_of_single_samples_add_up() -> None:
    work = Work(job(CNN), samples())
    mean, direct = np.empty(work.layout.size, np.float32), np.empty(work.layout.size, np.float32)
    found = work.estimate(1, 12, work.first_weights(), mean)
    work.gradient(1, 12, work.first_weights(), direct)
    assert np.allclose(mean, direct, atol=1e-5 * np.abs(direct).max())
    assert found.norm == pytest.approx(np.linalg.norm(direct), rel=1e-5)
    single = np.empty((12, work.layout.size), np.float32)  # by hand: one sample at a time
    numbers = work._some(1, 12)
    for k, number in enumerate(numbers):
        alone = Samples(
            **{
                **{f: getattr(work.samples, f) for f in Samples.__slots__},
                "first": np.array([0, 0, 1]),
                "held": np.array([number]),
            }
        )
        Work(job(CNN), alone).gradient(1, None, work.first_weights(), single[k])
    spread = np.sqrt(np.mean(np.sum((single.astype(float) - single.mean(0)) ** 2, axis=1)))
    assert found.sigma == pytest.approx(spread, rel=1e-4)


def test_a_process_that_ends_is_named() -> None:
    with engine_for(job(CNN), samples(), 2) as engine:
        assert isinstance(engine, Pool)
        os.kill(engine._workers[0]._process.pid, signal.SIGKILL)
        with pytest.raises(FailedRunError, match=r"a training process was ended by SIGKILL.*--resume"):
            everything(engine)


@pytest.mark.slow
def test_processes_end_quietly_when_the_one_that_started_them_is_killed() -> None:
    code = """
import numpy as np
from tests.workers.test_engine import CNN, DEVICES, engine_for, job, samples, train_devices

with engine_for(job(CNN, iterations=10**9), samples(), 2) as engine:  # so that no task ends by itself
    print(*(worker._process.pid for worker in engine._workers), flush=True)
    devices = np.arange(DEVICES)
    next(train_devices(engine, 0, devices, np.ones_like(devices), engine.work.first_weights()))
"""
    command, folder = [sys.executable, "-c", code], Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        processes = [Path("/proc") / pid.decode() for pid in parent.stdout.readline().split()]
        assert len(processes) == 2
        time.sleep(1.0)  # so that they are at work
        parent.kill()
        deadline = time.monotonic() + 10.0
        while any(process.exists() for process in processes) and time.monotonic() < deadline:
            time.sleep(0.05)
        left = [process for process in processes if process.exists()]
        for process in left:
            os.kill(int(process.name), signal.SIGKILL)
        assert (left, parent.stderr.read()) == ([], b"")


def test_what_fails_in_a_process_fails_here() -> None:
    with engine_for(job(CNN), samples(), 2) as engine, pytest.raises(IndexError):
        list(engine.run([GradientTask(DEVICES + 5, None)], engine.work.first_weights()))


class _StubbornError(Exception):
    """Cannot be made anew from its message, or not even be sent."""

    def __init__(self, code: int, *, holds: Any = None) -> None:
        super().__init__(f"valve {code} is stuck")
        self.holds = holds


@pytest.mark.parametrize("holds", [None, lambda: None], ids=["cannot be unpickled", "cannot be pickled"])
def test_an_exception_that_cannot_travel_is_told_of(holds: Any) -> None:
    def fail(code: int) -> None:
        raise _StubbornError(code, holds=holds)

    try:
        fail(7)
    except _StubbornError as error:
        failure = pickle.loads(pickle.dumps(packed_failure(error)))
    found = unpacked_failure(failure)
    assert isinstance(found, FailedRunError)
    assert re.search(r"_StubbornError: valve 7 is stuck \(.*test_engine\.py, line \d+\)\. Fix the cause, ", str(found))


def broken_in_a_process() -> nn.Module:
    """Cannot be made where a variable of the worker processes is set."""
    if os.environ.get("OMP_WAIT_POLICY") == "passive":
        raise _StubbornError(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def test_what_fails_when_a_process_begins_fails_here() -> None:
    model = Model(name="tests.workers.test_engine:broken_in_a_process", input=(1, 28, 28))
    with pytest.raises(ModelError, match="_StubbornError: valve 3 is stuck"), engine_for(job(model), samples(), 2):
        pass


def test_a_failure_in_a_process_says_where() -> None:
    with engine_for(job(CNN), samples(), 2) as engine, pytest.raises(IndexError) as caught:
        list(engine.run([GradientTask(DEVICES + 5, None)], engine.work.first_weights()))
    assert re.search(r"in another process: IndexError: .*\.py, line \d+", caught.value.__notes__[0])


def test_frozen_weights_stay_and_count_nowhere() -> None:
    work = Work(job(Model(name="tests.training.networks:half_frozen", input=(1, 28, 28))), samples())
    assert work.stacks == 1
    start, out = work.first_weights(), np.empty((1, work.layout.size), np.float32)
    work.train(0, np.array([0]), np.array([0]), start, out)
    assert np.array_equal(out[0][~work.layout.learnt], start[~work.layout.learnt])
    assert not np.array_equal(out[0], start)
    found = work.estimate(0, 8, start, out[0])
    direct = np.empty_like(out[0])
    work.gradient(0, 8, start, direct)
    assert found.norm == pytest.approx(float(np.linalg.norm(direct)), rel=1e-5)


def test_counters_of_batch_norm_are_not_learnt() -> None:
    layout = Work(job(NORMED), samples()).layout
    assert 0 < np.count_nonzero(~layout.learnt) < layout.size
    assert Work(job(CNN), samples()).layout.learnt.all()


STACKED = (("logistic", True), ("half_frozen", False), ("by_rows", False), ("raises_backward", False))


def test_only_plain_dense_networks_are_stacked() -> None:
    for name, stacked in STACKED:
        work = Work(job(Model(name=f"tests.training.networks:{name}", input=(1, 28, 28))), samples())
        assert (work.stacks > 1) == stacked, name


@pytest.mark.parametrize(
    ("model", "changed", "cut"),
    [(DENSE, {}, 1), (CNN, {}, 1), (CNN, {"apart": True}, 2), (CNN, {"apart": True}, 0), (CNN, {"boundary": 8}, 1),
     (DENSE, {"apart": True}, 2)],
    ids=str,
)  # fmt: skip
def test_sample_losses_are_measured_without_a_change_of_training(model: Model, changed: Any, cut: int) -> None:
    devices, cuts, results = np.array([1, 4]), np.full(2, cut), []
    for asks in (False, True):
        work = Work(job(model, **changed, sample_losses=asks), samples())
        out = np.empty((2, work.layout.size), np.float32)
        results.append((work.train(5, devices, cuts, work.first_weights(), out), out))
    (without, plain), (measured, watched) = results
    assert np.array_equal(plain, watched)
    assert np.array_equal(without[:, 0], measured[:, 0])
    assert np.isnan(without[:, 1]).all()
    assert np.all(measured[:, 1] > measured[:, 0] ** 2)


@pytest.mark.parametrize(("model", "changed"), [(DENSE, {}), (CNN, {}), (CNN, {"apart": True})], ids=str)
def test_the_mean_square_is_that_of_single_samples(model: Model, changed: Any) -> None:
    work = Work(job(model, iterations=1, sample_losses=True, **changed), samples())
    first, out = work.first_weights(), np.empty((1, work.layout.size), np.float32)
    ((loss, square),) = work.train(5, np.array([4]), np.array([1]), first, out)
    work.layout.load(first)
    held, mean, deviation = work.samples, work.samples.mean, work.samples.deviation
    numbers = batch_of(held.of_device(4), int(work.job.batch[4]), work.job.seed, 5, 4, 0)
    images = torch.from_numpy((held.images[numbers].astype(np.float32) - mean) / deviation).float()
    with torch.no_grad():
        scores = work.network.train()(images).double().numpy()
    chance = np.exp(scores - scores.max(axis=1, keepdims=True))
    single = -np.log(chance / chance.sum(axis=1, keepdims=True))[np.arange(numbers.size), held.labels[numbers]]
    assert loss == pytest.approx(single.mean(), rel=1e-4)
    assert square == pytest.approx(np.square(single).mean(), rel=1e-4)
