"""Whether a scenario describes the app that runs: simulated times and energies follow from its numbers."""

__all__ = ["model_remarks", "samples_remark"]

from collections.abc import Iterator, Mapping

import numpy as np
from flwr.app import ArrayRecord

from fedfloor.errors import counted
from fedfloor.scenario.resolved import Scenario

_WRONG = "the scenario does not describe the app, so times and energies are wrong"
_TOLERANCE = 0.01  #: relative difference that is not worth a remark


def model_remarks(arrays: ArrayRecord, scenario: Scenario) -> Iterator[str]:
    """In what the model of the scenario differs from the arrays that nodes are sent; nothing for trees as bytes."""
    dtypes = {name: np.dtype(array.dtype) for name, array in arrays.items()}
    real = {name: dtype for name, dtype in dtypes.items() if dtype.kind == "f"}
    sent = sum(int(np.prod(arrays[name].shape)) for name in real)
    if not sent:
        return
    described = sum(sum(layer.tensors) for layer in scenario.layers)
    if _differ(sent, described):
        yield f"{_WRONG}: model.layers have {described:,} numbers, but initial_arrays have {sent:,}. Correct the layers"
    bits, said = {8 * dtype.itemsize for dtype in real.values()}, scenario.precision.download
    if bits != {said}:
        found = " and ".join(str(width) for width in sorted(bits))
        yield f"{_WRONG}: precision.download is {said} bits, but numbers of initial_arrays have {found}. Correct it"


def samples_remark(counts: Mapping[int, float], scenario: Scenario) -> str:
    """Which floors have other numbers of samples than their nodes report; empty if none has."""
    described = {m: sum(device.samples for device in scenario.floors[m].devices) for m in counts}
    other = [m for m, count in counts.items() if _differ(count, described[m])]
    if not other:
        return ""
    first, more = other[0], f" (and {counted(len(other) - 1, 'more floor')})" if len(other) > 1 else ""
    name = scenario.floors[first].name
    problem = f"{name} has {described[first]:,} samples, but its node reports {_written(counts[first])}{more}"
    return f"{_WRONG}: {problem}. Correct the samples"


def _written(number: float) -> str:
    """Whole numbers in full, others with six digits."""
    return f"{number:,.0f}" if number.is_integer() else f"{number:,g}"


def _differ(found: float, described: float) -> bool:
    return abs(found - described) > _TOLERANCE * max(described, 1.0)
