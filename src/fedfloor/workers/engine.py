"""Where the work is done: here, or in several processes with one thread each, always with the same result.

Tasks are handed out in order and their results are taken in order, and no task depends on who does it: sums come out
the same to the last bit for any number of processes.
"""

__all__ = [
    "Engine",
    "Local",
    "Processes",
    "engine_for",
    "in_order",
    "train_devices",
]

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any, Protocol, TypeVar

import numpy as np

from fedfloor.arrays import Ints, Vector
from fedfloor.errors import FailedRunError
from fedfloor.training.data.samples import Samples
from fedfloor.training.tasks import Task, carry_out
from fedfloor.training.work import Job, Work
from fedfloor.workers.crew import environment, unpacked_failure
from fedfloor.workers.sharing import Place, release, shared

W = TypeVar("W")
R = TypeVar("R")

_RESULT_BYTES = 100_000_000  #: for results that wait for an earlier one, beyond two per process
_WINDOW = 8  #: stacks whose devices are sorted by the size of their batches


class Engine(Protocol):
    """Carries tasks out on given weights."""

    work: Work

    def run(self, tasks: Sequence[Task], weights: Vector) -> Iterator[tuple[Any, Vector]]:
        """Results in the order of the tasks: what the method returned, and the vectors it filled, (k, P).

        The vectors are good until the next result is asked for.
        """

    def close(self) -> None:
        """End what was started."""


def in_order(
    tasks: Sequence[Task],
    window: int,
    workers: Sequence[W],
    send: Callable[[W, int], None],
    receive: Callable[[], list[tuple[W, int, R]]],
) -> Iterator[R]:
    """Results in the order of the tasks, which workers do at the same time.

    At most `window` tasks are begun and not yet taken. `send` gives a task to an idle worker, `receive` waits for
    workers that are done.
    """
    idle, results = list(workers), {}
    waiting: list[int] = []  # tasks that may begin, the next one last
    known = 0
    for number in range(len(tasks)):
        while number not in results:
            if known < min(len(tasks), number + window):
                waiting = [*range(min(len(tasks), number + window) - 1, known - 1, -1), *waiting]
                known = min(len(tasks), number + window)
                if known == len(tasks):  # the long ones first, so that all end at about the same time
                    waiting.sort(key=lambda at: (tasks[at].effort, -at))
            while idle and waiting:
                send(idle.pop(), waiting.pop())
            for worker, at, result in receive():
                results[at] = result
                idle.append(worker)
        yield results.pop(number)


def train_devices(
    engine: Engine, index: int, devices: Ints, cuts: Ints, weights: Vector
) -> Iterator[tuple[int, float, Vector]]:
    """Local training in a round: device, its mean loss and its weights, in the order of `devices` (k,).

    Devices that train at once have batches of about one size, because the shorter ones are filled up.
    """
    batch, at_once = engine.work.job.batch[devices], engine.work.stacks
    if at_once == 1:
        pieces = list(np.arange(devices.size)[:, None])
    else:
        windows = [
            np.arange(devices.size)[k : k + _WINDOW * at_once] for k in range(0, devices.size, _WINDOW * at_once)
        ]
        order = np.concatenate([window[np.argsort(batch[window], kind="stable")] for window in windows])
        pieces = [order[k : k + at_once] for k in range(0, order.size, at_once)]
    tasks = [
        Task("train", (index, devices[piece], cuts[piece]), piece.size, float(batch[piece].sum())) for piece in pieces
    ]
    early: dict[int, tuple[float, Vector]] = {}  # results whose turn has not come
    following = 0
    for piece, (losses, trained) in zip(pieces, engine.run(tasks, weights), strict=True):
        for k, loss, vector in zip(piece.tolist(), losses.tolist(), trained, strict=True):
            early[k] = loss, vector if k == following else vector.copy()
            while following in early:
                yield int(devices[following]), *early.pop(following)
                following += 1


class Local:
    """All work in this process."""

    def __init__(self, job: Job, samples: Samples) -> None:
        self.work = Work(job, samples)

    def run(self, tasks: Sequence[Task], weights: Vector) -> Iterator[tuple[Any, Vector]]:
        """See `Engine`."""
        for task in tasks:
            out = np.empty((task.vectors, self.work.layout.size), np.float32)
            yield carry_out(self.work, task, weights, out), out

    def close(self) -> None:
        """Nothing to end."""


class Processes:
    """Work spread over processes that see the same data and weights in shared memory."""

    def __init__(self, job: Job, samples: Samples, count: int) -> None:
        self.work = Work(job, samples)
        size = self.work.layout.size
        places, arrays = {}, {}
        for name in ("images", "labels", "first", "held", "test_images", "test_labels"):
            given = getattr(samples, name)
            places[name], arrays[name] = shared(given.shape, given.dtype)
            if given.size:
                arrays[name][...] = given
        self.work.samples = Samples(**arrays, mean=samples.mean, deviation=samples.deviation)
        places["weights"], self._weights = shared((size,), np.float32)
        self._slots = 2 * count + 2 + min(16 * count, _RESULT_BYTES // (4 * size * self.work.stacks + 1))
        places["results"], self._results = shared((self._slots, self.work.stacks, size), np.float32)
        self._workers: list[_Worker] = []
        try:
            for _ in range(count):
                self._workers.append(_Worker(job, places, samples))
            for worker in self._workers:
                worker.hear()  # it has found everything
        except BaseException:
            self.close()
            raise
        finally:
            release(places.values())

    def run(self, tasks: Sequence[Task], weights: Vector) -> Iterator[tuple[Any, Vector]]:
        """See `Engine`."""
        self._weights[:] = weights
        doing: dict[int, int] = {}  # connection -> task

        def send(worker: _Worker, at: int) -> None:
            worker.say((tasks[at], at % self._slots))
            doing[worker.connection.fileno()] = at

        def receive() -> list[tuple[_Worker, int, Any]]:
            busy = [worker for worker in self._workers if worker.connection.fileno() in doing]
            ready = wait([worker.connection for worker in busy])
            heard = [worker for worker in busy if worker.connection in ready]
            return [(worker, doing.pop(worker.connection.fileno()), worker.hear()) for worker in heard]

        for number, result in enumerate(in_order(tasks, self._slots, self._workers, send, receive)):
            yield result, self._results[number % self._slots, : tasks[number].vectors]

    def close(self) -> None:
        """Let the processes end."""
        for worker in self._workers:
            worker.close()


class _Worker:
    """One process, and the connection to it."""

    def __init__(self, job: Job, places: dict[str, Place], samples: Samples) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  # our own module, in this interpreter
                [sys.executable, "-m", "fedfloor.workers.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno(), *(place.descriptor for place in places.values())],
                start_new_session=True,  # Ctrl-C is for the process that started it
                env=environment(),
                stdin=subprocess.DEVNULL,
            )
        self.say((job, places, samples.mean, samples.deviation))

    def say(self, message: Any) -> None:
        """Send a message."""
        try:
            self.connection.send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended() from None

    def hear(self) -> Any:
        """Wait for an answer; what failed there fails here."""
        try:
            answer, failure = self.connection.recv()
        except (EOFError, ConnectionResetError):
            raise self._ended() from None
        if failure is not None:
            raise unpacked_failure(failure)
        return answer

    def _ended(self) -> FailedRunError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        reason = f"ended with code {code}" + (", killed, perhaps for want of memory" if code == -9 else "")
        return FailedRunError(
            f"a training process {reason}. Go on with --resume, with fewer --workers if memory is short"
        )

    def close(self) -> None:
        """Hang up, and see the process end."""
        self.connection.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def engine_for(job: Job, samples: Samples, workers: int) -> Iterator[Engine]:
    """An engine with so many processes; one needs none beside this one."""
    alone = workers <= 1 or job.device != "cpu" or os.name != "posix"
    engine: Engine = Local(job, samples) if alone else Processes(job, samples, workers)
    try:
        yield engine
    finally:
        engine.close()
