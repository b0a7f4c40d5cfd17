"""A process that does tasks until its connection closes: `python -m fedfloor.workers.worker DESCRIPTOR`."""

__all__ = ["serve"]

import contextlib
import sys
from multiprocessing.connection import Connection

from fedfloor.training.data.samples import Samples
from fedfloor.training.tasks import carry_out
from fedfloor.training.work import Work
from fedfloor.workers.processes import end_with, packed_failure
from fedfloor.workers.sharing import attach


def serve(connection: Connection) -> None:
    """Receive the job and the places of the arrays, then one task after another."""
    job, places, mean, deviation = connection.recv()
    try:
        arrays = {name: attach(place) for name, place in places.items()}
        weights, results = arrays.pop("weights"), arrays.pop("results")
        work = Work(job, Samples(**arrays, mean=mean, deviation=deviation))
    except Exception as error:  # the other side decides what to do
        connection.send((None, packed_failure(error)))
        return
    connection.send((None, None))
    while True:
        task, slot = connection.recv()
        try:
            answer, failure = carry_out(work, task, weights, results[slot, : task.vectors]), None
        except Exception as error:
            answer, failure = None, packed_failure(error)
        connection.send((answer, failure))


if __name__ == "__main__":
    opened = Connection(int(sys.argv[1]))
    end_with(opened)
    with contextlib.suppress(EOFError, OSError):  # the other side has ended, perhaps within a message
        serve(opened)
