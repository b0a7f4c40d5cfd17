"""Tops in other processes: the bits of those in this process, and what happens when a process or its parent ends."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfloor.arrays import Ints, Vector
from fedfloor.deploy import tops
from fedfloor.deploy.tops import PooledTop, TopPool
from fedfloor.errors import FailedRunError, ModelError
from fedfloor.scenario.model import Model
from fedfloor.training.halves import DeviceRound, MisfitError, Top
from fedfloor.training.network.built import BuiltNetwork, Inputs
from fedfloor.training.network.quantised import Quantised
from fedfloor.workers.crew import LostError

CNN = Model(name="cnn", input=(1, 28, 28), width=0.5)
DROPS = Model(name="tests.training.networks:two_layers", input=(1, 28, 28))
SLOW = Model(name="tests.deploy.test_tops:slow", input=(1, 28, 28))
INPUTS = Inputs(np.array([120.0]), np.array([70.0]))
BATCH, DEVICES, STEPS = 4, 5, 2


def slow() -> Any:
    """A network whose steps take a while, so that something can happen within one."""
    from torch import nn

    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.ReLU(), nn.Linear(8, 10))
    network[3].register_forward_pre_hook(lambda _, inputs: None if inputs[0].is_meta else time.sleep(3.0))
    return network


def leaves_in_a_step() -> Any:
    """A network that tries to end its process."""
    from torch import nn

    def leave(_: object, inputs: Any) -> None:
        if not inputs[0].is_meta:
            raise SystemExit(3)

    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.ReLU(), nn.Linear(8, 10))
    network[3].register_forward_pre_hook(leave)
    return network


@dataclasses.dataclass(frozen=True)
class Shop:
    """A pool of two processes that several tests use, because every process takes seconds to start."""

    runner: asyncio.Runner
    pool: TopPool

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a test that must not hang."""
        self.runner.run(in_time(work))


async def in_time(work: Coroutine[Any, Any, Any]) -> Any:
    async with asyncio.timeout(120.0):
        return await work


def bounded(work: Coroutine[Any, Any, None]) -> None:
    """Run a test with a pool of its own that must not hang."""
    asyncio.run(in_time(work))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def resident(pid: int) -> int:
    """Pages of memory that a process uses."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


def pids(pool: TopPool) -> list[int]:
    return [process._process.pid for process in pool._processes]


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    before, old = descriptors(), children()
    with asyncio.Runner() as runner:
        pool = TopPool(2)
        runner.run(in_time(pool.__aenter__()))
        yield Shop(runner, pool)
        runner.run(in_time(pool.__aexit__(None, None, None)))
    assert descriptors() <= before
    assert children() <= old  # not even zombies are left


def settings(device: int, cut: int, boundary: int = 32) -> DeviceRound:
    return DeviceRound(seed=3, index=2, device=device, cut=cut, learning_rate=0.02, boundary=boundary)


def messages(model: Model, device: int, cut: int, boundary: int = 32) -> tuple[Vector, list[tuple[Any, Ints]]]:
    """Weights above the cut, and what a device sends up in its steps."""
    network, rng = BuiltNetwork(model, 3), np.random.default_rng(device)
    weights = rng.normal(0.0, 0.1, network.layout.size).astype(np.float32)[network.below(cut) :]
    sent: list[tuple[Any, Ints]] = []
    for _ in range(STEPS):
        numbers = rng.standard_normal((BATCH, *network.sent_shape(cut, boundary)), np.float32)
        received = numbers if boundary == 32 else Quantised(np.float32(0.01), (40 * numbers).astype(np.int8))
        sent.append((received, rng.integers(0, 10, BATCH)))
    return weights, sent


async def in_a_pool(pool: TopPool, model: Model, device: int, cut: int, boundary: int = 32) -> list[Any]:
    """Losses, gradients and weights of a top in a pool."""
    weights, sent = messages(model, device, cut, boundary)
    top = await pool.begin(model, settings(device, cut, boundary), INPUTS, weights)
    results: list[Any] = [await top.step(*message) for message in sent]
    return [*results, await top.end()]


def here(model: Model, device: int, cut: int, boundary: int = 32) -> list[Any]:
    """The same in this process."""
    weights, sent = messages(model, device, cut, boundary)
    top = Top(BuiltNetwork(model, 3), settings(device, cut, boundary), INPUTS, weights)
    results: list[Any] = [top.step(*message) for message in sent]
    return [*results, top.weights()]


def as_bytes(results: list[Any]) -> list[bytes]:
    *steps, weights = results
    found = [weights.tobytes()]
    for loss, gradient in steps:
        parts = dataclasses.astuple(gradient) if isinstance(gradient, Quantised) else (gradient,)
        found += [np.float64(loss).tobytes(), *(np.asarray(part).tobytes() for part in parts)]
    return found


WORK = [(CNN, 2, 32), (CNN, 0, 32), (CNN, 3, 8), (DROPS, 1, 32), (DROPS, 1, 8)]  # network, cut, bits of each device


async def assert_the_bits_of_this_process(pool: TopPool) -> None:
    found = await asyncio.gather(*(in_a_pool(pool, model, n, *more) for n, (model, *more) in enumerate(WORK)))
    for n, (model, *more) in enumerate(WORK):
        assert as_bytes(found[n]) == as_bytes(here(model, n, *more))


def test_two_processes_give_the_bits_of_this_one(shop: Shop) -> None:
    shop.run(assert_the_bits_of_this_process(shop.pool))


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 3])
def test_any_number_of_processes_gives_the_bits_of_this_one(processes: int) -> None:
    async def check() -> None:
        async with TopPool(processes) as pool:
            await assert_the_bits_of_this_process(pool)

    bounded(check())


def test_tops_go_where_the_fewest_are(shop: Shop) -> None:
    pool = shop.pool

    async def check() -> None:
        weights, _ = messages(CNN, 0, 2)

        async def begin() -> PooledTop:
            return await pool.begin(CNN, settings(0, 2), INPUTS, weights)

        first = [await begin() for _ in range(5)]
        assert [process.tops for process in pool._processes] == [3, 2]
        first[0].abandon()
        await first[2].end()
        assert [process.tops for process in pool._processes] == [1, 2]
        first.append(await begin())
        assert first[-1]._process is pool._processes[0]
        for top in first:  # for some of them once more
            top.abandon()

    shop.run(check())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def test_a_process_killed_in_a_step_is_replaced_and_other_tops_go_on(shop: Shop) -> None:
    pool = shop.pool

    async def check() -> None:
        weights, sent = messages(SLOW, 0, 1)
        doomed = await pool.begin(SLOW, settings(0, 1), INPUTS, weights)
        others, steps = messages(CNN, 1, 2)
        healthy = await pool.begin(CNN, settings(1, 2), INPUTS, others)
        beside = await pool.begin(SLOW, settings(2, 1), INPUTS, weights)  # in the process of the first
        victim = pids(pool)[0]
        step = asyncio.create_task(doomed.step(*sent[0]))
        await asyncio.sleep(0.5)
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(LostError, match=r"trained the top was ended by SIGKILL.*next round"):
            await step
        with pytest.raises(LostError, match="SIGKILL"):
            await beside.step(*sent[0])
        beside.abandon()
        doomed.abandon()
        assert not Path(f"/proc/{victim}").exists()  # not even as a zombie
        found = [*[await healthy.step(*message) for message in steps], await healthy.end()]
        assert as_bytes(found) == as_bytes(here(CNN, 1, 2))
        assert victim not in pids(pool)
        assert as_bytes(await in_a_pool(pool, CNN, 3, 2)) == as_bytes(here(CNN, 3, 2))
        assert len(set(pids(pool))) == 2

    shop.run(check())


@pytest.mark.slow
def test_a_process_killed_while_it_is_idle_disturbs_nobody(shop: Shop) -> None:
    pool = shop.pool

    async def check() -> None:
        victim = pids(pool)[0]
        os.kill(victim, signal.SIGKILL)
        await until(lambda: pool._processes[0].is_lost)
        assert as_bytes(await in_a_pool(pool, CNN, 0, 2)) == as_bytes(here(CNN, 0, 2))
        assert victim not in pids(pool)

    shop.run(check())


@pytest.mark.slow
def test_a_process_that_is_stuck_in_an_abandoned_step_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tops, "_PATIENCE", 0.2)

    async def check() -> None:
        async with TopPool(1) as pool:
            weights, sent = messages(CNN, 0, 2)
            top = await pool.begin(CNN, settings(0, 2), INPUTS, weights)
            os.kill(pids(pool)[0], signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(top.step(*sent[0]), 0.1)
            top.abandon()
            await until(lambda: pool._processes[0].is_lost)
            assert as_bytes(await in_a_pool(pool, CNN, 0, 2)) == as_bytes(here(CNN, 0, 2))

    bounded(check())


def test_a_step_that_is_cancelled_leaves_the_process_in_order(shop: Shop) -> None:
    pool = shop.pool

    async def check() -> None:
        weights, sent = messages(CNN, 0, 2)
        for _ in range(5):
            top = await pool.begin(CNN, settings(0, 2), INPUTS, weights)
            step = asyncio.create_task(top.step(*sent[0]))
            await asyncio.sleep(0)
            step.cancel()
            top.abandon()
            begin = asyncio.create_task(pool.begin(CNN, settings(0, 2), INPUTS, weights))
            await asyncio.sleep(0)
            begin.cancel()
        assert as_bytes(await in_a_pool(pool, CNN, 0, 2)) == as_bytes(here(CNN, 0, 2))
        assert [process.tops for process in pool._processes] == [0, 0]

    shop.run(check())


def test_what_fails_in_a_process_fails_here_and_leaves_other_tops_alone(shop: Shop) -> None:
    pool = shop.pool

    async def check() -> None:
        weights, sent = messages(CNN, 0, 2)
        top = await pool.begin(CNN, settings(0, 2), INPUTS, weights)
        with pytest.raises(MisfitError, match=r"weights of the top at cut 2 must be float32"):
            await pool.begin(CNN, settings(1, 2), INPUTS, weights[1:])
        with pytest.raises(MisfitError, match="activations must be float32"):
            await top.step(sent[0][0][:, 1:], sent[0][1])
        leaving = Model(name="tests.deploy.test_tops:leaves_in_a_step", input=(1, 28, 28))
        others, steps = messages(leaving, 1, 1)
        other = await pool.begin(leaving, settings(1, 1), INPUTS, others)
        with pytest.raises(ModelError, match=r"leaves_in_a_step': a training step failed: SystemExit: 3"):
            await other.step(*steps[0])
        other.abandon()
        missing = Model(name="tests.deploy.test_tops:nothing", input=(1, 28, 28))
        with pytest.raises(ModelError, match="nothing"):
            await pool.begin(missing, settings(1, 1), INPUTS, others)
        assert np.isfinite((await top.step(*sent[0])).loss)
        assert sum(process.tops for process in pool._processes) == 1
        top.abandon()

    shop.run(check())


def test_many_tops_leave_nothing_behind(shop: Shop) -> None:
    pool, model = shop.pool, Model(name="mlp", input=(1, 28, 28), width=0.02)
    weights, _ = messages(model, 0, 1)

    async def turn(k: int) -> None:
        top = await pool.begin(model, settings(k, 1), INPUTS, weights)
        if k % 3:
            await top.end()
        else:
            top.abandon()

    async def check() -> None:
        await asyncio.gather(*map(turn, range(10)))
        before, memory = descriptors(), [resident(pid) for pid in pids(pool)]
        for k in range(0, 300, 10):
            await asyncio.gather(*map(turn, range(k, k + 10)))
        assert descriptors() == before
        assert all(resident(pid) < 1.05 * own for pid, own in zip(pids(pool), memory, strict=True))
        assert [process.tops for process in pool._processes] == [0, 0]

    shop.run(check())


def test_a_pool_whose_processes_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedfloor.workers.processes.settings", lambda: {"PYTHONPATH": "/nowhere", "PYTHONHOME": "/"})
    old = children()

    async def check() -> None:
        with pytest.raises(FailedRunError, match="ended with code"):
            async with TopPool(2):
                pass

    bounded(check())
    assert children() <= old


PROGRAM = """
import asyncio
from tests.deploy.test_tops import INPUTS, SLOW, TopPool, messages, pids, settings

async def main():
    async with TopPool(1) as pool:
        weights, sent = messages(SLOW, 0, 1)
        top = await pool.begin(SLOW, settings(0, 1), INPUTS, weights)
        step = asyncio.create_task(top.step(*sent[0]))
        await asyncio.sleep(0.2)
        print(*pids(pool), flush=True)
        await step

asyncio.run(main())
"""


@contextmanager
def program() -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A program with a pool in the middle of a step, and the process of the pool."""
    command, folder = [sys.executable, "-c", PROGRAM], Path(__file__).parents[2]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        process = Path("/proc") / parent.stdout.readline().decode().strip()
        try:
            yield parent, process
        finally:
            parent.kill()
            if process.exists():
                os.kill(int(process.name), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_has_one_thread_and_ends_quietly_when_its_parent_is_killed() -> None:
    with program() as (parent, process):
        assert b"OMP_NUM_THREADS=1" in (process / "environ").read_bytes().split(b"\0")
        parent.kill()
        deadline = time.monotonic() + 20.0
        while process.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not process.exists()
        assert parent.stderr is not None
        assert parent.stderr.read() == b""


@pytest.mark.slow
def test_ctrl_c_reaches_only_the_program_which_ends_its_processes() -> None:
    with program() as (parent, process):
        assert os.getpgid(int(process.name)) != os.getpgid(parent.pid)
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.wait(60) != 0
        assert not process.exists()
        assert parent.stderr is not None
        assert parent.stderr.read().strip().endswith(b"KeyboardInterrupt")
