"""Training against loops written by hand: same devices, batches and steps, both sides in turn; part of `make bench`."""

__all__ = ["rows"]

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, multiprocessing, nn
from torch.nn import functional

from fedfloor.scenario.model import Model
from fedfloor.training.data.samples import Samples, batch_of
from fedfloor.training.network.built import network_of
from fedfloor.training.network.models import build_model
from fedfloor.training.network.weights import average
from fedfloor.training.schedule import RateSchedule
from fedfloor.training.work import Job
from fedfloor.workers.engine import Engine, engine_for, train_devices

Row = tuple[str, str, str]


def made_up(shape: tuple[int, ...], devices: int, each: int) -> Samples:
    """Samples of noise for so many devices."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (devices * each, *shape), dtype=np.uint8)
    labels = rng.integers(0, 10, devices * each)
    first = np.arange(devices + 1) * each
    channels = shape[0]
    return Samples(
        images, labels, first, np.arange(labels.size), images[:1], labels[:1], np.full(channels, 127.0),
        np.full(channels, 73.0),
    )  # fmt: skip


def batch_by_hand(samples: Samples, job: Job, index: int, n: int) -> tuple[Tensor, Tensor]:
    """The batch that both sides train on."""
    numbers = batch_of(samples.of_device(n), int(job.batch[n]), job.seed, index, n, 0)
    x = (torch.from_numpy(samples.images[numbers]).float() - 127.0) / 73.0
    return x, torch.from_numpy(samples.labels[numbers])


def train_by_hand(network: nn.Module, start: Tensor, x: Tensor, y: Tensor, job: Job) -> Tensor:
    """What one writes without a framework: load, K steps of SGD, take the weights out."""
    nn.utils.vector_to_parameters(start, network.parameters())
    optimiser = torch.optim.SGD(network.parameters(), lr=job.learning_rate)
    for _ in range(job.iterations):
        optimiser.zero_grad()
        functional.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return nn.utils.parameters_to_vector(network.parameters()).detach()


def _by_hand(job: Job, samples: Samples, weights: Tensor, results: Tensor, tasks: Any, done: Any) -> None:
    """A process of the loop written by hand."""
    torch.set_num_threads(1)
    network = build_model(job.model)
    while (task := tasks.get()) is not None:
        index, n = task
        results[n] = train_by_hand(network, weights.clone(), *batch_by_hand(samples, job, index, n), job)
        done.put(n)


class HandWritten:
    """Two processes, a queue of devices, weights in shared memory, one average at the end."""

    def __init__(self, job: Job, samples: Samples, start: Tensor) -> None:
        context = multiprocessing.get_context("spawn")
        self.weights = start.clone()
        self._results = torch.empty(job.batch.size, start.numel())
        for tensor in (self.weights, self._results):
            tensor.share_memory_()  # type: ignore[no-untyped-call]
        self._tasks, self._done = context.Queue(), context.Queue()
        shared = (job, samples, self.weights, self._results, self._tasks, self._done)
        self._processes = [context.Process(target=_by_hand, args=shared, daemon=True) for _ in range(2)]
        self._shares = torch.from_numpy(job.batch / job.batch.sum()).float()
        for process in self._processes:
            process.start()

    def round(self, index: int) -> None:
        """One round of all devices."""
        count = len(self._shares)
        for n in range(count):
            self._tasks.put((index, n))
        for _ in range(count):
            self._done.get()
        self.weights.copy_(self._shares @ self._results)

    def close(self) -> None:
        """End the processes."""
        for _ in self._processes:
            self._tasks.put(None)
        for process in self._processes:
            process.join()


def round_of(engine: Engine, weights: Any, index: int) -> Any:
    """One round of all devices on our side."""
    batch = engine.work.job.batch
    results = train_devices(engine, index, np.arange(batch.size), np.zeros(batch.size, np.int64), weights)
    models = ((float(batch[n]), model) for n, _, _, model in results)
    return average(models, weights.size)


def timed(work: Callable[[], object]) -> float:
    """Wall clock of one call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def against_two_processes(width: float, turns: int) -> Iterator[Row]:
    """VGG-11, the paper's batches, two processes on both sides."""
    rng = np.random.default_rng(1)
    samples = made_up((3, 32, 32), 6, 2000)
    model = Model(name="vgg11", input=(3, 32, 32), width=width)
    job = Job(model, 1, RateSchedule(0.001), 5, rng.integers(20, 100, 6), redraw=False, apart=False)
    start = nn.utils.parameters_to_vector(network_of(model, 1).parameters()).detach()
    theirs = HandWritten(job, samples, start)
    try:
        with engine_for(job, samples, 2) as engine:
            weights = engine.work.first_weights()
            times = []
            for turn in range(turns + 1):
                begun = time.perf_counter()
                weights = round_of(engine, weights, turn)
                times.append((time.perf_counter() - begun, timed(lambda t=turn: theirs.round(t))))  # type: ignore[misc]
            apart = float(np.linalg.norm(weights - theirs.weights.numpy()) / np.linalg.norm(weights))
    finally:
        theirs.close()
    ours, hand = np.median(times[1:], axis=0)
    note = f"{hand:.2f} s / {ours:.2f} s a round, weights {apart:.0e} apart"
    yield f"VGG-11 x {width:g}: two processes by hand / ours", f"{hand / ours:.2f}x", note


def against_plain_loop(turns: int = 5) -> Iterator[Row]:
    """A small dense network on a hundred devices, one process on both sides."""
    rng = np.random.default_rng(1)
    samples = made_up((1, 28, 28), 100, 400)
    model = Model(name="mlp", input=(1, 28, 28))
    job = Job(model, 1, RateSchedule(0.01), 5, rng.integers(10, 40, 100), redraw=False, apart=False)
    network = network_of(model, 1)
    start = nn.utils.parameters_to_vector(network.parameters()).detach()
    shares = torch.from_numpy(job.batch / job.batch.sum()).float()
    current = start.clone()

    def plain(index: int) -> None:
        total = torch.zeros_like(current)
        for n in range(job.batch.size):
            total += shares[n] * train_by_hand(network, current.clone(), *batch_by_hand(samples, job, index, n), job)
        current.copy_(total)

    with engine_for(job, samples, 1) as engine:
        weights, times = engine.work.first_weights(), []
        for turn in range(turns + 1):
            begun = time.perf_counter()
            weights = round_of(engine, weights, turn)
            times.append((time.perf_counter() - begun, timed(lambda t=turn: plain(t))))  # type: ignore[misc]
    apart = float(np.linalg.norm(weights - current.numpy()) / np.linalg.norm(weights))
    ours, hand = np.median(times[1:], axis=0)
    note = f"{1e3 * hand:.0f} ms / {1e3 * ours:.0f} ms a round, weights {apart:.0e} apart"
    yield "784-128-10, 100 devices: plain loop / ours", f"{hand / ours:.2f}x", note


def memory_of_the_papers_run() -> Iterator[Row]:
    """Greatest proportional set size of all processes of a run of the paper's setting at full width."""
    what = "paper-cifar10-random at full width, 2 rounds: memory"
    if not os.environ.get("FEDFLOOR_DATA"):
        yield what, "-", "FEDFLOOR_DATA does not name a folder with CIFAR-10"
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "fedfloor",
            "run",
            "paper-cifar10-random",
            "--rounds",
            "2",
            "--quiet",
            "--out",
            f"{folder}/run",
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        most = 0
        while process.poll() is None:
            most = max(most, sum(_proportional(pid) for pid in (process.pid, *_children(process.pid))))
            time.sleep(0.25)
    yield what, f"{most / 1e9:.2f} GB", "summed proportional set size, estimates and evaluation included"


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def rows() -> Iterator[Row]:
    """Everything there is to say of training."""
    torch.set_num_threads(1)
    yield from against_plain_loop()
    yield from against_two_processes(0.25, 7)
    yield from against_two_processes(1.0, 3)
    yield from memory_of_the_papers_run()
