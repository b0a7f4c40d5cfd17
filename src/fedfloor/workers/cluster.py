"""Engine and crew on the machines of a Ray cluster; the only place that imports ray."""

__all__ = ["Actors", "RayCrew", "actors_for", "connected"]

import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from fedfloor.arrays import Vector
from fedfloor.errors import FailedRunError, MissingExtraError, ScenarioError
from fedfloor.training.data.samples import Samples
from fedfloor.training.tasks import Task, carry_out
from fedfloor.training.work import Job, Work
from fedfloor.workers.crew import LostError, News
from fedfloor.workers.engine import CONTINUE, Engine, in_order
from fedfloor.workers.processes import Failure, packed_failure, settings, unpacked_failure

try:
    import ray
    from ray._private import ray_constants
    from ray.exceptions import RayActorError, RayError, RayTaskError, WorkerCrashedError
    from ray.util.queue import Empty, Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ModuleNotFoundError as error:
    raise MissingExtraError("the engine 'ray'", "ray") from error


R = TypeVar("R")

_ATTEMPTS = 5  #: number of times that a lost process is restarted
_START = 120.0  #: [s] that processes of a cluster may take to start
_PATIENCE = 1.0  #: [s] between checks for lost work


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Join the cluster at an address, or start one on this machine that ends with the block."""
    if ray.is_initialized():  # by the program that calls us
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # leave the user's choice of devices alone
    _check_address(address)
    here = address is None or address == "local"
    try:
        with _on_loopback() if here else contextlib.nullcontext():
            ray.init(
                address="local" if here else address,
                include_dashboard=False if here else None,
                runtime_env={"env_vars": settings()},
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
    except Exception as error:  # Ray raises many kinds of errors here
        raise _no_answer(address or "local", _reason(error)) from None
    try:
        if here and ray.util.get_node_ip_address() != "127.0.0.1":  # a version of Ray that works in another way
            problem = f"Ray {ray.__version__} cannot be kept from listening on the network"
            raise ScenarioError(f"engine ray: {problem}. Start a cluster yourself and name its address")
        yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Have Ray listen on the loopback address only, so that no other machine can reach the cluster.

    Anyone who reaches a cluster can run code in it. Ray has no option for this: it replaces 127.0.0.1 by the address of
    the network card, except on systems where it supports no clusters of several machines.
    """
    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _check_address(address: str | None) -> None:
    """Refuse an address at which nothing answers; Ray itself would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if address is None or address in ("auto", "local"):
        return
    if not (colon and port.isdigit()):
        raise ScenarioError(f"ray_address: must be HOST:PORT, for example 10.0.0.1:6379, got '{address}'")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
    except (OSError, OverflowError) as error:
        raise _no_answer(address, str(error)) from None


def _no_answer(address: str, reason: str) -> ScenarioError:
    problem = f"ray_address {address}: no cluster answers: {reason}"
    return ScenarioError(f"{problem}. Start one with `ray start --head`, or leave the address out")


def _reason(error: Exception) -> str:
    """First line of Ray's message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")


def _cores() -> int:
    """Number of cores of the whole cluster."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


class _Hand:
    """A process of the cluster that carries out tasks."""

    def __init__(self) -> None:
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")  # shared data is only read
        self._work: Work | None = None

    def is_ready(self) -> bool:
        """Answer, which is possible once the process has a core."""
        return True

    def do(self, job: Job, samples: Samples, task: Task[R], weights: Vector) -> tuple[R | None, Vector, Failure | None]:
        """Carry out one task: its answer, the vectors that it filled, and its failure if it failed."""
        if self._work is None:  # job and samples are the same in every call
            self._work = Work(job, samples)
        out = np.empty((task.vectors, self._work.layout.size), np.float32)
        try:
            return carry_out(self._work, task, weights, out), out, None
        except Exception as error:  # the other side decides what to do
            return None, out[:0], packed_failure(error)


class Actors:
    """Engine of processes in a cluster; data and weights lie in the object store, weights once per round."""

    def __init__(self, job: Job, samples: Samples, count: int | None) -> None:
        self.work = Work(job, samples)
        self._common = [
            ray.put(job),
            ray.put(samples),
        ]  # sent with every task, because a restarted process has lost them
        hand = ray.remote(num_cpus=1, max_restarts=_ATTEMPTS, max_task_retries=_ATTEMPTS)(_Hand)
        self._hands = _ready([hand.remote() for _ in range(min(count or _cores(), _cores()))])

    def run(self, tasks: Sequence[Task[R]], weights: Vector) -> Iterator[tuple[R, Vector]]:
        """See `Engine`."""
        shared_weights, running = ray.put(weights), {}

        def send(hand: Any, at: int) -> None:
            running[hand.do.remote(*self._common, tasks[at], shared_weights)] = hand, at

        def receive() -> list[tuple[Any, int, tuple[Any, Vector]]]:
            ready, _ = ray.wait(list(running), num_returns=1)
            return [(*running.pop(reference), _answer(reference)) for reference in ready]

        yield from in_order(tasks, 2 * len(self._hands) + 2, self._hands, send, receive)

    def close(self) -> None:
        """End the processes."""
        for hand in self._hands:
            ray.kill(hand)


def _ready(hands: list[Any]) -> list[Any]:
    """Processes that get a core in time; others are ended, because the cluster may be busy with other work."""
    answers = {hand.is_ready.remote(): hand for hand in hands}
    ready, waiting = ray.wait(list(answers), num_returns=len(answers), timeout=_START)
    for reference in waiting:
        ray.kill(answers[reference])
    if not ready:
        problem = f"no core of the cluster was free within {_START:.0f} s"
        raise FailedRunError(f"{problem}. Check with `ray status` what uses them, and resume the run later")
    return [answers[reference] for reference in ready]


def _answer(reference: Any) -> tuple[Any, Vector]:
    try:
        answer, vectors, failure = ray.get(reference)
    except RayActorError as error:
        problem = f"a training process of the cluster was lost repeatedly: {_reason(error)}"
        raise FailedRunError(f"{problem}. {CONTINUE}") from None
    if failure is not None:
        raise unpacked_failure(failure)
    return answer, vectors


@contextlib.contextmanager
def actors_for(job: Job, samples: Samples, workers: int | None, address: str | None) -> Iterator[Engine]:
    """Engine on a cluster, with a number of processes or one for every core of the cluster."""
    with connected(address):
        engine = Actors(job, samples, workers)
        try:
            yield engine
        finally:
            engine.close()


class RayCrew:
    """Crew whose pieces of work are tasks of a cluster; see `Crew`."""

    def __init__(self, size: int | None = None) -> None:
        self._size = size
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._queue = Queue(
            actor_options={"num_cpus": 0, "scheduling_strategy": here}
        )  # on this machine, so that it lives as long as this process
        self._running: dict[Any, tuple[int, int]] = {}  # reference -> piece of work, attempt
        self._attempts: dict[int, int] = {}

    @property
    def size(self) -> int:
        """See `Crew`."""
        return self._size or _cores()

    def start(self, number: int, function: Callable[..., None], *arguments: Any) -> None:
        """See `Crew`."""
        attempt = self._attempts[number] = self._attempts.get(number, 0) + 1
        task = ray.remote(num_cpus=1, max_retries=0)(_tells)
        self._running[task.remote(self._queue, number, attempt, function, arguments)] = number, attempt

    def news(self) -> list[News]:
        """See `Crew`."""
        try:
            return self._news()
        except RayError as error:
            problem = f"the Ray cluster was lost: {_reason(error)}"
            raise FailedRunError(f"{problem}. Run the same command again to continue") from None

    def _news(self) -> list[News]:
        while True:
            items = self._messages(_PATIENCE)
            ready, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
            if ready:
                items += self._messages(0.0)  # which were sent before the end
            for reference in ready:
                number, _ = self._running.pop(reference)
                items.append(News(number, ended=True, error=_failure(reference)))
            if items:
                return items

    def _messages(self, timeout: float) -> list[News]:
        """Messages in the queue; those of an earlier attempt are dropped."""
        entries = []
        with contextlib.suppress(Empty):
            entries.append(self._queue.get(block=timeout > 0.0, timeout=timeout or None))
            while True:
                entries.append(self._queue.get(block=False))
        return [News(number, message) for number, attempt, message in entries if self._attempts[number] == attempt]

    def close(self) -> None:
        """See `Crew`."""
        with contextlib.suppress(RayError):  # the cluster may be lost
            for reference in self._running:
                ray.cancel(reference)  # so that it can clean up
            if self._running:
                _, busy = ray.wait(list(self._running), num_returns=len(self._running), timeout=_PATIENCE)
                for reference in busy:
                    ray.cancel(reference, force=True)
            self._queue.shutdown(force=True)


def _tells(queue: Any, number: int, attempt: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Do a piece of work in the cluster; its messages go into the queue."""
    function(lambda message: queue.put((number, attempt, message)), *arguments)


def _failure(reference: Any) -> BaseException | None:
    """Error of a task that has ended; None if it succeeded."""
    try:
        ray.get(reference)
    except WorkerCrashedError:
        return LostError("its process in the cluster was lost")
    except RayTaskError as error:
        return error.cause if isinstance(error.cause, Exception) else FailedRunError(str(error))
    except RayError as error:
        return LostError(f"the cluster lost it: {_reason(error)}")
    return None
