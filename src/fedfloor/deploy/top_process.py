"""Train tops until the connection closes: `python -m fedfloor.deploy.top_process DESCRIPTOR [SHELF]`."""

__all__ = ["serve"]

import contextlib
import sys
from multiprocessing.connection import Connection
from typing import Any

from fedfloor.arrays import Labels, Vector
from fedfloor.errors import FailedRunError
from fedfloor.scenario.model import Model
from fedfloor.training.halves import DeviceRound, Sent, Top, TopStep
from fedfloor.training.network.built import BuiltNetwork, Inputs
from fedfloor.training.tasks import TrainTask, named_model
from fedfloor.training.work import is_short_of_memory
from fedfloor.workers.parcels import Shelf, receive, send
from fedfloor.workers.processes import end_with, packed_failure


class _Tops:
    """Tops of this process, each in a network of its own; a network is used again when its top has ended."""

    def __init__(self) -> None:
        self._tops: dict[int, tuple[Top, BuiltNetwork]] = {}
        self._free: list[BuiltNetwork] = []

    def begin(self, number: int, model: Model, settings: DeviceRound, inputs: Inputs, weights: Vector) -> None:
        """Begin the round of one device."""
        with named_model(model.name, TrainTask):
            network = self._network(model, settings.seed)
            self._tops[number] = Top(network, settings, inputs, weights), network

    def step(self, number: int, received: Sent | None, labels: Labels | None) -> TopStep:
        """Do one iteration of a device."""
        top, network = self._tops[number]
        with named_model(network.model.name, TrainTask):
            return top.step(received, labels)

    def end(self, number: int) -> Vector:
        """Weights of a top, which is no longer needed then."""
        weights = self._tops[number][0].weights()
        self.abandon(number)
        return weights

    def abandon(self, number: int) -> None:
        """Forget a top, if there is one of that number."""
        entry = self._tops.pop(number, None)
        if entry is not None:
            self._free.append(entry[1])

    def _network(self, model: Model, seed: int) -> BuiltNetwork:
        """A network that no top uses; those of another model are forgotten, because a plant has one."""
        self._free = [network for network in self._free if network.model == model]
        return self._free.pop() if self._free else BuiltNetwork(model, seed)


def serve(connection: Connection, shelf: Shelf | None = None) -> None:
    """Say that this process is ready, then do what the other side asks for."""
    tops = _Tops()
    send(connection, (None, None))
    while True:
        name, arguments = receive(connection, shelf)
        send(connection, _answer(tops, name, arguments), shelf)


def _answer(tops: _Tops, name: str, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """The result of a method, or its failure, which the other side raises."""
    try:
        return getattr(tops, name)(*arguments), None
    except Exception as error:
        if is_short_of_memory(error):
            problem = "memory ran out while a gateway trained the top of a device"
            return None, packed_failure(FailedRunError(f"{problem}. Use fewer processes or a smaller batch"))
        return None, packed_failure(error)


if __name__ == "__main__":
    opened = Connection(int(sys.argv[1]))
    end_with(opened)
    with contextlib.suppress(EOFError, OSError):  # the other side has ended, perhaps within a message
        serve(opened, *(Shelf(int(descriptor)) for descriptor in sys.argv[2:]))
