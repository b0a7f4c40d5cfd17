"""Messages between processes of one machine, with and without memory that both see."""

import os
import threading
from multiprocessing import Pipe

import numpy as np
import pytest

from fedfloor.workers import parcels
from fedfloor.workers.parcels import Shelf, new_shelf, receive, send


def test_arrays_arrive_however_many_fit_on_the_shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "_SHELF", 1_000_000)
    descriptor = new_shelf()
    if descriptor is None:
        pytest.skip("this system has no memory of this kind")
    one, other = Shelf(descriptor), Shelf(descriptor)  # as two processes map it
    os.close(descriptor)
    left, right = Pipe()
    arrays = [np.arange(count, dtype=np.float32) for count in (0, 10, 100_000, 100_000, 100_000, 500_000)]
    sending = threading.Thread(target=send, args=(left, ("step", arrays), one))
    sending.start()
    name, received = receive(right, other)
    sending.join()
    one.put(np.zeros(250_000, np.float32).data.cast("B"), 0)  # what was received is not what lies there
    assert name == "step"
    for sent, array in zip(arrays, received, strict=True):
        assert np.array_equal(sent, array)
    assert [array.flags.writeable for array in received] == [False, False, True, True, False, False]  # two fit
    for end in (left, right, one, other):
        end.close()
