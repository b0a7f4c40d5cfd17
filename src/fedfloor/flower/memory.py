"""What a Flower strategy remembers between rounds, such as the momenta of FedYogi, for checkpoints.

Kept are its attributes that hold arrays, and the numbers, texts, lists and dicts that have changed since it was made.
A strategy that wraps another one under the name `strategy` is followed.
"""

__all__ = ["StrategyMemory", "layers_of", "record_of"]

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import Strategy
from pydantic import JsonValue

from fedfloor.errors import shown

Tensors = Mapping[str, npt.NDArray[np.generic]]
Entries = MutableMapping[str, object]

_LAYERS = "layers"  #: key of the names of the classes


def layers_of(strategy: Strategy) -> Iterator[Strategy]:
    """A strategy, and those that it wraps."""
    layer: object = strategy
    while isinstance(layer, Strategy):
        yield layer
        layer = getattr(layer, "strategy", None)


def record_of(tensors: Tensors) -> ArrayRecord:
    """Tensors as Flower sends them."""
    return ArrayRecord({key: Array(np.asarray(tensor)) for key, tensor in tensors.items()})


@dataclass(frozen=True, slots=True, eq=False)
class StrategyMemory:
    """The memory of a strategy and of the configs it is given, which it may change."""

    strategy: Strategy
    configs: Mapping[str, ConfigRecord]  #: by name
    before: Mapping[str, JsonValue]  #: what was there before the first round, by path

    @classmethod
    def of(cls, strategy: Strategy, configs: Mapping[str, ConfigRecord]) -> "StrategyMemory":
        """The memory of a strategy that has not begun."""
        before = {path: _packed(owner[name], path, {}) for path, owner, name in _places(strategy, configs)}
        return cls(strategy, configs, before)

    def left_out(self) -> list[str]:
        """Attributes that no checkpoint can keep, such as objects of other libraries."""
        return [
            f"{name} ({type(owner[name]).__name__})"
            for path, owner, name in _places(self.strategy, self.configs)
            if _packed(owner[name], path, {}) is _UNKNOWN and not callable(owner[name])
        ]

    def saved(self) -> tuple[dict[str, JsonValue], dict[str, npt.NDArray[np.generic]]]:
        """What has to be kept: a description that is JSON, and tensors by name."""
        described: dict[str, JsonValue] = {_LAYERS: [type(layer).__name__ for layer in layers_of(self.strategy)]}
        tensors: dict[str, npt.NDArray[np.generic]] = {}
        for path, owner, name in _places(self.strategy, self.configs):
            arrays: dict[str, npt.NDArray[np.generic]] = {}
            packed = _packed(owner[name], path, arrays)
            if packed is not _UNKNOWN and (arrays or path not in self.before or packed != self.before[path]):
                described[path] = packed
                tensors |= arrays
        return described, tensors

    def restore(self, described: JsonValue, tensors: Tensors) -> None:
        """Give the strategy back what was saved; a ValueError says why it does not fit."""
        owners = _owners(self.strategy, self.configs)
        names: JsonValue = [type(layer).__name__ for layer in layers_of(self.strategy)]
        if not isinstance(described, dict) or described.get(_LAYERS) != names:
            began = described.get(_LAYERS) if isinstance(described, dict) else described
            raise ValueError(f"strategy: must be {shown(began)}, with which the run began, got {shown(names)}")
        for path, packed in described.items():
            place, _, name = path.partition(".")
            if path == _LAYERS:
                continue
            if place not in owners or not name:
                raise ValueError(f"strategy: {shown(path)} is none of its attributes")
            try:
                owners[place][name] = _unpacked(packed, tensors)
            except (KeyError, TypeError, IndexError, AttributeError) as error:
                raise ValueError(f"strategy: {path}: {shown(packed)} cannot be read: {error!r}") from None


def _owners(strategy: Strategy, configs: Mapping[str, ConfigRecord]) -> dict[str, Entries]:
    """Attributes of every layer, and the entries of the configs, by the first part of their paths."""
    owners: dict[str, Entries] = {str(n): vars(layer) for n, layer in enumerate(layers_of(strategy))}
    return owners | {name: cast("Entries", config) for name, config in configs.items()}


def _places(strategy: Strategy, configs: Mapping[str, ConfigRecord]) -> Iterator[tuple[str, Entries, str]]:
    """Path, owner and name of everything that may be remembered."""
    for place, owner in _owners(strategy, configs).items():
        for name in list(owner):
            if not isinstance(owner[name], Strategy):
                yield f"{place}.{name}", owner, name


_UNKNOWN: JsonValue = {"unknown": True}  #: stands for a value of a kind that is not kept


def _packed(value: object, path: str, tensors: dict[str, npt.NDArray[np.generic]]) -> JsonValue:
    """A value as JSON, whose arrays go into `tensors` under names that begin with the path; or `_UNKNOWN`."""
    if isinstance(value, np.ndarray | np.generic | Array):
        array = value.numpy() if isinstance(value, Array) else np.asarray(value)
        if array.dtype.kind not in "biuf":
            return _UNKNOWN
        tensors[path] = np.asarray(array, order="C")
        return {"Array" if isinstance(value, Array) else "number" if isinstance(value, np.generic) else "array": path}
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, float):
        return {"float": str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    kind = next((kind for kind in _CONTAINERS if type(value) is _CONTAINERS[kind]), None)
    if kind is None:
        return _UNKNOWN
    container: Any = value
    entries = list(container.items() if isinstance(container, Mapping) else enumerate(container))
    parts: list[JsonValue] = []
    for place, (key, part) in enumerate(entries):
        packed = _packed(part, f"{path}/{place}", tensors)
        if packed is _UNKNOWN or not isinstance(key, int | str):
            return _UNKNOWN
        parts.append([key, packed])
    return {kind: parts}


_CONTAINERS: Mapping[str, Callable[[Any], object]] = {
    "list": list, "tuple": tuple, "dict": dict, "arrays": ArrayRecord, "metrics": MetricRecord, "config": ConfigRecord,
}  # fmt: skip


def _unpacked(packed: JsonValue, tensors: Tensors) -> object:
    """The value that was packed."""
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "float":
        return float(str(content))
    if kind == "bytes":
        return bytes.fromhex(str(content))
    if kind in ("array", "number", "Array"):
        tensor = tensors[str(content)]
        return Array(tensor) if kind == "Array" else tensor[()] if kind == "number" else tensor
    entries: Any = content
    parts = {key: _unpacked(part, tensors) for key, part in entries}
    return _CONTAINERS[kind](parts.values() if kind in ("list", "tuple") else parts)
