"""Pool of processes that train the tops of a gateway's devices, for a program that uses asyncio.

Processes, because torch has one random state in each, which dropout draws from, and because steps of several devices
then use several cores.
"""

__all__ = ["PooledTop", "TopPool"]

import asyncio
import itertools
import os
import pickle
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import Pipe
from types import TracebackType
from typing import Any, Self

from fedfloor.arrays import Labels, Vector
from fedfloor.scenario.model import Model
from fedfloor.training.halves import DeviceRound, Sent, TopStep
from fedfloor.training.network.built import Inputs
from fedfloor.workers.crew import LostError
from fedfloor.workers.parcels import Shelf, new_shelf, receive, send
from fedfloor.workers.processes import cores, ending_of, start_process, unpacked_failure

_PATIENCE = 30.0  #: [s] that a process may take to notice that a top is abandoned, before it is taken for stuck


class TopPool:
    """A number of processes, one for every core by default; they end with the block or with this process.

    A process that ends early is replaced. Its tops fail with a LostError, those of other processes go on.
    """

    def __init__(self, processes: int | None = None) -> None:
        self._count = cores() if processes is None else processes
        assert self._count > 0
        self._processes: list[_Process] = []
        self._numbers = itertools.count()
        self._closed = False

    async def __aenter__(self) -> Self:
        try:
            for _ in range(self._count):
                self._processes.append(_Process())
            await asyncio.gather(*(asyncio.wrap_future(process.ready) for process in self._processes))
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def begin(self, model: Model, settings: DeviceRound, inputs: Inputs, weights: Vector) -> "PooledTop":
        """Begin a device's round with the weights above its cut, in the process that has the fewest tops."""
        self.replace_lost()
        process = min(self._processes, key=lambda each: each.tops)
        top = PooledTop(self, process, next(self._numbers))
        try:
            await top.ask("begin", model, settings, inputs, weights)
        except BaseException:
            top.abandon()
            raise
        return top

    def replace_lost(self) -> None:
        """Start a process for every one that has ended."""
        for k, process in enumerate(self._processes):
            if process.is_lost and not self._closed:
                process.leave()
                self._processes[k] = _Process()

    async def _close(self) -> None:
        self._closed = True
        await asyncio.gather(*(asyncio.to_thread(process.end) for process in self._processes))


class PooledTop:
    """The top of one device in one round; see `training.halves.Top`. It ends by `end` or `abandon`."""

    def __init__(self, pool: TopPool, process: "_Process", number: int) -> None:
        self._pool, self._process, self._number = pool, process, number
        self._open = True
        process.tops += 1

    async def step(self, received: Sent | None = None, labels: Labels | None = None) -> TopStep:
        """See `Top.step`; raises a LostError if the process has ended."""
        step: TopStep = await self.ask("step", received, labels)
        return step

    async def end(self) -> Vector:
        """Return the weights, and end."""
        weights: Vector = await self.ask("end")
        self._release()
        return weights

    def abandon(self) -> None:
        """End without a result, also within a step or after the end; a process that is stuck in it is ended."""
        if not self._open:
            return
        self._release()
        abandoned = self._process.call("abandon", self._number)
        asyncio.get_running_loop().call_later(_PATIENCE, self._process.end_unless, abandoned)

    async def ask(self, name: str, *arguments: Any) -> Any:
        """Have the process do something with this top, and return its answer."""
        assert self._open
        try:
            return await asyncio.wrap_future(self._process.call(name, self._number, *arguments))
        except LostError:
            self._pool.replace_lost()
            raise

    def _release(self) -> None:
        self._open = False
        self._process.tops -= 1


class _Process:
    """A process, and a thread that sends it one request at a time and waits for the answer."""

    def __init__(self) -> None:
        self.tops = 0  #: number of those that it has
        self._ending: str | None = None  # how it ended, once that is known
        self._left = False
        self._connection, other_end = Pipe()
        memory = new_shelf()
        self._shelf = None if memory is None else Shelf(memory)
        try:
            with other_end:
                descriptors = [other_end.fileno(), *([] if memory is None else [memory])]
                arguments = ["-m", "fedfloor.deploy.top_process", *map(str, descriptors)]
                self._process = start_process(arguments, descriptors)
        finally:
            if memory is not None:
                os.close(memory)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="top-process")
        self.ready: Future[Any] = self._thread.submit(self._receive)

    @property
    def is_lost(self) -> bool:
        """Whether the process has ended."""
        return self._ending is not None or self._process.poll() is not None

    def call(self, name: str, *arguments: Any) -> Future[Any]:
        """Have the process call a method, after what was asked for before."""
        if self._left:
            refused: Future[Any] = Future()
            refused.set_exception(self._lost())
            return refused
        return self._thread.submit(self._ask, name, arguments)

    def end(self) -> None:
        """End the process, and wait until it has ended."""
        self.leave()
        self._thread.shutdown()

    def end_unless(self, answered: "Future[Any]") -> None:
        """Kill the process if it has not answered."""
        if not answered.done():
            self._process.kill()

    def leave(self) -> None:
        """Let go of the process, whatever it does; it has nothing that cannot be lost. Requests that wait fail."""
        self._left = True
        self._process.kill()
        self._thread.submit(self._connection.close)
        if self._shelf is not None:
            self._thread.submit(self._shelf.close)
        self._thread.submit(self._process.wait)
        self._thread.shutdown(wait=False)

    def _ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if self._ending is not None:
            raise self._lost()
        try:
            send(self._connection, (name, arguments), self._shelf)
        except (BrokenPipeError, ConnectionResetError):
            raise self._lost() from None
        return self._receive()

    def _receive(self) -> Any:
        try:
            answer, failure = receive(self._connection, self._shelf)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise self._lost() from None
        if failure is not None:
            raise unpacked_failure(failure)
        return answer

    def _lost(self) -> LostError:
        """The error of everything that the process was asked for and has not done."""
        self._ending = self._ending or ending_of(self._process)
        return LostError(f"the process that trained the top {self._ending}. The device can train in the next round")
