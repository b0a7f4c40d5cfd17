"""What a Flower strategy remembers between rounds, such as the momenta of FedYogi, for checkpoints.

Kept are its attributes that hold arrays, and the numbers and texts that have changed since it was made. A strategy
that wraps another one under the name `strategy` is followed.
"""

__all__ = ["StrategyMemory", "layers_of", "remember"]

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import Strategy
from pydantic import JsonValue

from fedfloor.errors import shown

Tensors = Mapping[str, npt.NDArray[np.generic]]

_PLAIN = (bool, int, float, str)
_ARRAY = (np.ndarray, np.generic)  #: sums of arrays without a dimension are numbers of NumPy


def layers_of(strategy: Strategy) -> Iterator[Strategy]:
    """A strategy, and those that it wraps."""
    layer: object = strategy
    while isinstance(layer, Strategy):
        yield layer
        layer = getattr(layer, "strategy", None)


def _attributes(strategy: Strategy) -> Iterator[tuple[str, Strategy, str, object]]:
    """Path, owner, name and value of every attribute."""
    for depth, layer in enumerate(layers_of(strategy)):
        for name, value in vars(layer).items():
            yield f"{depth}.{name}", layer, name, value


def _arrays_in(value: object) -> tuple[str, Tensors] | None:
    """The kind of an attribute that holds arrays, and the arrays by name; None of any other."""
    if isinstance(value, ArrayRecord):
        return "record", {key: array.numpy() for key, array in value.items()}
    if isinstance(value, _ARRAY):
        return "array", {"": np.asarray(value)}
    if isinstance(value, dict) and value and all(isinstance(part, _ARRAY) for part in value.values()):
        named = all(isinstance(key, str) for key in value)
        return ("dict", {key: np.asarray(part) for key, part in value.items()}) if named else None
    if isinstance(value, list) and value and all(isinstance(part, _ARRAY) for part in value):
        return "list", {str(place): np.asarray(part) for place, part in enumerate(value)}
    return None


def remember(tensors: Tensors, kind: str) -> object:
    """The value of an attribute of a kind, from its arrays in their order; a ValueError for a kind that is none."""
    if kind == "record":
        return ArrayRecord({key: Array(np.asarray(tensor)) for key, tensor in tensors.items()})
    if kind == "array":
        return tensors[""]
    if kind == "dict":
        return dict(tensors)
    if kind == "list":
        return list(tensors.values())
    raise ValueError(f"strategy: must be record, array, dict or list, got {shown(kind)}")


@dataclass(frozen=True, slots=True, eq=False)
class StrategyMemory:
    """The memory of a strategy, as it was when the strategy was made."""

    strategy: Strategy
    made: Mapping[str, object]  #: numbers and texts, by path

    @classmethod
    def of(cls, strategy: Strategy) -> "StrategyMemory":
        """The memory of a strategy that has not begun."""
        return cls(strategy, {path: value for path, _, _, value in _attributes(strategy) if isinstance(value, _PLAIN)})

    def saved(self) -> tuple[dict[str, JsonValue], dict[str, npt.NDArray[np.generic]]]:
        """What has to be kept: a description that is JSON, and tensors by name."""
        described: dict[str, JsonValue] = {}
        tensors: dict[str, npt.NDArray[np.generic]] = {}
        for path, _, _, value in _attributes(self.strategy):
            held = _arrays_in(value)
            if held is not None:
                kind, arrays = held
                described[path] = {"kind": kind, "arrays": list(arrays)}
                tensors |= {f"{path}/{key}": np.asarray(array, order="C") for key, array in arrays.items()}
            elif isinstance(value, _PLAIN) and self.made.get(path) != value:
                described[path] = {"kind": "value", "value": value}
        return described, tensors

    def restore(self, described: JsonValue, tensors: Tensors) -> None:
        """Give the strategy back what was saved; a ValueError says why it does not fit."""
        owners = {path: (layer, name) for path, layer, name, _ in _attributes(self.strategy)}
        if not isinstance(described, dict):
            raise ValueError(f"strategy: must be a table, got {shown(described)}")
        for path, entry in described.items():
            if path not in owners or not isinstance(entry, dict):
                name = type(self.strategy).__name__
                raise ValueError(f"strategy: {shown(path)} is not an attribute of {name}, which the run began with")
            layer, name = owners[path]
            if entry.get("kind") == "value":
                setattr(layer, name, entry.get("value"))
                continue
            keys = entry.get("arrays")
            names = [str(key) for key in keys] if isinstance(keys, list) else []
            missing = [key for key in names if f"{path}/{key}" not in tensors]
            if missing:
                raise ValueError(f"strategy: {path}: the tensor {shown(missing[0])} is missing")
            held = {key: tensors[f"{path}/{key}"] for key in names}
            setattr(layer, name, remember(held, str(entry.get("kind"))))
