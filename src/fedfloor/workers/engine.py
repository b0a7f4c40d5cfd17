"""Engines that carry out tasks: in this process, or in several processes with one thread each.

Tasks are started in order, their results are used in order, and no task depends on the process that does it. Sums are
therefore the same to the last bit for any number of processes.
"""

__all__ = [
    "CONTINUE",
    "Engine",
    "Local",
    "Pool",
    "engine_for",
    "in_order",
    "train_devices",
]

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any, Protocol, TypeVar

import numpy as np

from fedfloor.arrays import Ints, Vector
from fedfloor.errors import FailedRunError
from fedfloor.training.data.samples import Samples
from fedfloor.training.tasks import Task, TrainTask, carry_out
from fedfloor.training.work import Job, Work
from fedfloor.workers.processes import end_process, ending_of, start_process, unpacked_failure
from fedfloor.workers.sharing import Place, release, shared

W = TypeVar("W")
R = TypeVar("R")

#: what to do after a process was lost
CONTINUE = "Continue with --resume, or resume=True in Python, and with fewer workers if memory was short"
_RESULT_BYTES = 100_000_000  #: memory for results that wait for an earlier one, beyond two per process
_WINDOW = 8  #: number of stacks within which devices are sorted by the size of their batches


class Engine(Protocol):
    """Carries out tasks, all on the same weights."""

    work: Work

    def run(self, tasks: Sequence[Task[R]], weights: Vector) -> Iterator[tuple[R, Vector]]:
        """Results in the order of the tasks: what each returned, and the vectors that it filled, (k, P).

        The vectors are valid until the next result is requested.
        """

    def close(self) -> None:
        """End all processes of the engine."""


def in_order(
    tasks: Sequence[Task[object]],
    window: int,
    workers: Sequence[W],
    send: Callable[[W, int], None],
    receive: Callable[[], list[tuple[W, int, R]]],
) -> Iterator[R]:
    """Results in the order of the tasks, which several workers do at the same time.

    At most `window` tasks are running or have a result that was not yielded yet. `send` gives a task to an idle worker;
    `receive` waits for workers that have finished.
    """
    idle, results = list(workers), {}
    waiting: list[int] = []  # tasks that may start, the next one last
    end = 0  # first task that may not start yet
    for number in range(len(tasks)):
        while number not in results:
            if end < min(len(tasks), number + window):
                waiting = [*range(min(len(tasks), number + window) - 1, end - 1, -1), *waiting]
                end = min(len(tasks), number + window)
                if end == len(tasks):  # the long ones first, so that all workers end at about the same time
                    waiting.sort(key=lambda at: (tasks[at].effort, -at))
            while idle and waiting:
                send(idle.pop(), waiting.pop())
            for worker, at, result in receive():
                results[at] = result
                idle.append(worker)
        yield results.pop(number)


def train_devices(
    engine: Engine, index: int, devices: Ints, cuts: Ints, weights: Vector, *, iterations: Ints | None = None
) -> Iterator[tuple[int, float, float, Vector]]:
    """Train devices (k,) locally in a round: yields each device and its weights (P,), in order.

    Between them stand its mean loss and the mean square of its sample losses, nan if that is not measured.

    `iterations` (k,) says how many each does, if not K. Devices that train at once have batches of similar size,
    because shorter batches are padded, and do equally many iterations.
    """
    batch, at_once = engine.work.job.batch[devices], engine.work.stacks
    order = np.arange(devices.size)
    if at_once > 1:
        order = np.lexsort((batch, order // (_WINDOW * at_once)))  # by window, then by batch; of no devices none
    pieces = [
        alike[k : k + at_once]
        for window in np.split(order, range(_WINDOW * at_once, order.size, _WINDOW * at_once))
        for alike in ([window] if iterations is None else _alike(window, iterations, apart=at_once == 1))
        for k in range(0, alike.size, at_once)
    ]
    tasks = []
    for piece in pieces:
        count = None if iterations is None else int(iterations[piece[0]])
        effort = float(batch[piece].sum()) * (count or 1)
        tasks.append(TrainTask(index, devices[piece], cuts[piece], count, effort))
    early: dict[int, tuple[float, float, Vector]] = {}  # results whose turn has not come
    turn = 0  # place in `devices` whose result comes next
    for piece, (losses, trained) in zip(pieces, engine.run(tasks, weights), strict=True):
        for k, (loss, square), vector in zip(piece.tolist(), losses.tolist(), trained, strict=True):
            early[k] = loss, square, vector if k == turn else vector.copy()
            while turn in early:
                yield int(devices[turn]), *early.pop(turn)
                turn += 1


def _alike(window: Ints, iterations: Ints, *, apart: bool) -> list[Ints]:
    """A window of devices in groups that do equally many iterations; in one group if they train one by one anyway."""
    return [window] if apart else [window[iterations[window] == count] for count in np.unique(iterations[window])]


class Local:
    """Engine that does all work in this process."""

    def __init__(self, job: Job, samples: Samples) -> None:
        self.work = Work(job, samples)

    def run(self, tasks: Sequence[Task[R]], weights: Vector) -> Iterator[tuple[R, Vector]]:
        """See `Engine`."""
        for task in tasks:
            out = np.empty((task.vectors, self.work.layout.size), np.float32)
            yield carry_out(self.work, task, weights, out), out

    def close(self) -> None:
        """Do nothing: there are no other processes."""


class Pool:
    """Engine of several processes that share data and weights in memory."""

    def __init__(self, job: Job, samples: Samples, count: int) -> None:
        self.work = Work(job, samples)
        size = self.work.layout.size
        places, arrays = {}, {}
        for name in ("images", "labels", "first", "held", "test_images", "test_labels"):
            array = getattr(samples, name)
            places[name], arrays[name] = shared(array.shape, array.dtype)
            if array.size:
                arrays[name][...] = array
        self.work.samples = Samples(**arrays, mean=samples.mean, deviation=samples.deviation)
        places["weights"], self._weights = shared((size,), np.float32)
        self._slots = 2 * count + 2 + min(16 * count, _RESULT_BYTES // (4 * size * self.work.stacks + 1))
        places["results"], self._results = shared((self._slots, self.work.stacks, size), np.float32)
        self._workers: list[_Worker] = []
        try:
            for _ in range(count):
                self._workers.append(_Worker(job, places, samples))
            for worker in self._workers:
                worker.receive()  # it is ready
        except BaseException:
            self.close()
            raise
        finally:
            release(places.values())

    def run(self, tasks: Sequence[Task[R]], weights: Vector) -> Iterator[tuple[R, Vector]]:
        """See `Engine`."""
        self._weights[:] = weights
        running: dict[int, int] = {}  # connection -> task

        def send(worker: _Worker, at: int) -> None:
            worker.send((tasks[at], at % self._slots))
            running[worker.connection.fileno()] = at

        def receive() -> list[tuple[_Worker, int, Any]]:
            busy = [worker for worker in self._workers if worker.connection.fileno() in running]
            ready = wait([worker.connection for worker in busy])
            workers = [worker for worker in busy if worker.connection in ready]
            return [(worker, running.pop(worker.connection.fileno()), worker.receive()) for worker in workers]

        for number, result in enumerate(in_order(tasks, self._slots, self._workers, send, receive)):
            yield result, self._results[number % self._slots, : tasks[number].vectors]

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()


class _Worker:
    """A process, and the connection to it."""

    def __init__(self, job: Job, places: dict[str, Place], samples: Samples) -> None:
        self.connection, other_end = Pipe()
        with other_end:
            self._process = start_process(
                ["-m", "fedfloor.workers.worker", str(other_end.fileno())],
                [other_end.fileno(), *(place.descriptor for place in places.values())],
            )
        self.send((job, places, samples.mean, samples.deviation))

    def send(self, message: object) -> None:
        """Send a message."""
        try:
            self.connection.send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended() from None

    def receive(self) -> Any:
        """Wait for an answer; an exception in the process is raised here."""
        try:
            answer, failure = self.connection.recv()
        except (EOFError, ConnectionResetError):
            raise self._ended() from None
        if failure is not None:
            raise unpacked_failure(failure)
        return answer

    def _ended(self) -> FailedRunError:
        return FailedRunError(f"a training process {ending_of(self._process)}. {CONTINUE}")

    def close(self) -> None:
        """Close the connection, so that the process ends."""
        self.connection.close()
        end_process(self._process)


@contextlib.contextmanager
def engine_for(job: Job, samples: Samples, workers: int) -> Iterator[Engine]:
    """Engine with a number of processes; with one, all work is done in this process."""
    alone = workers <= 1 or job.device != "cpu" or os.name != "posix"
    engine: Engine = Local(job, samples) if alone else Pool(job, samples, workers)
    try:
        yield engine
    finally:
        engine.close()
