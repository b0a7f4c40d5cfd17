"""What a network costs, layer by layer and cut by cut: `fedfloor profile`."""

__all__ = ["Profile", "inferred_layers", "layers_toml", "named_model", "profile", "profile_layers"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import JsonValue

from fedfloor.arrays import Floats
from fedfloor.costs.compute import SplitCosts, split_costs
from fedfloor.costs.layers import COST_MODELS, LayerCosts, boundary_values, layer_costs
from fedfloor.costs.plant import Workload, network_workload
from fedfloor.errors import MissingExtraError, ModelError, ScenarioError, advice_for, named, shown
from fedfloor.notebooks.cards import card, html_table
from fedfloor.notebooks.frames import DataFrame, frame_of
from fedfloor.scenario import LayerSpec, parameter_count, parse_model
from fedfloor.scenario.catalogue import NETWORKS
from fedfloor.scenario.layers import BYTES_PER_NUMBER
from fedfloor.scenario.model import Costs, Model


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """A network's layer list with its costs."""

    model: str
    cost_model: str
    batch: int  #: samples in a batch
    layers: tuple[LayerSpec, ...]
    costs: LayerCosts  #: of every layer
    workload: Workload  #: of one iteration
    split: SplitCosts  #: of one iteration with a batch, each (L+1,): one entry per cut

    @property
    def parameters(self) -> int:
        """Number of trained parameters of the whole network."""
        return parameter_count(self.layers)

    @property
    def boundary_bytes(self) -> Floats:
        """What a device sends to its gateway per sample [byte], (L+1,)."""
        return BYTES_PER_NUMBER * boundary_values(self.layers)

    def table(self) -> dict[str, JsonValue]:
        """Everything that is printed, as plain data with units in the keys."""
        return {
            "model": self.model,
            "cost_model": self.cost_model,
            "batch": self.batch,
            "parameters": self.parameters,
            "model_bits": self.workload.model_bits,
            "layers": [self._layer(index) for index in range(len(self.layers))],
            "cuts": [self._cut(cut) for cut in range(len(self.layers) + 1)],
        }

    def to_pandas(self, per: Literal["layer", "cut"] = "layer") -> DataFrame:
        """The costs as a data frame with a row per `layer` or per `cut`. Needs the extra 'notebook'."""
        if per not in ("layer", "cut"):
            raise ModelError(f"to_pandas: per must be layer or cut, got {shown(per)}")
        count = len(self.layers)
        rows = (
            [self._layer(at) for at in range(count)] if per == "layer" else [self._cut(at) for at in range(count + 1)]
        )
        return frame_of({key: [row[key] for row in rows] for key in rows[0]})

    def _repr_html_(self) -> str:
        rows = [tuple(self._cut(cut).values()) for cut in range(len(self.layers) + 1)]
        title = f"{self.model}, {self.cost_model} costs of one iteration, batch {self.batch}"
        return card(title, html_table([*self._cut(0)], rows))

    def _layer(self, index: int) -> dict[str, JsonValue]:
        layer, costs = self.layers[index], self.costs
        return {
            **layer.model_dump(mode="json"),
            "parameters": layer.parameters,
            "forward_flop": costs.forward_flop[index],
            "error_flop": costs.error_flop[index],
            "gradient_flop": costs.gradient_flop[index],
            "other_forward_flop": costs.other_forward_flop[index],
            "other_backward_flop": costs.other_backward_flop[index],
            "weight_bytes": costs.weight_bytes[index],
            "gradient_bytes": costs.gradient_bytes[index],
            "output_bytes_per_sample": costs.output_bytes[index],
            "error_bytes_per_sample": costs.error_bytes[index],
            "fixed_bytes": costs.fixed_bytes[index],
            "bytes_per_sample": costs.sample_bytes[index],
        }

    def _cut(self, cut: int) -> dict[str, JsonValue]:
        split = self.split
        return {
            "cut": cut,
            "after": self.layers[cut - 1].name if cut else None,
            "device_flop": split.bottom_flop[cut],
            "gateway_flop": split.top_flop[cut],
            "device_bytes": split.bottom_bytes[cut],
            "gateway_bytes": split.top_bytes[cut],
            "boundary_bytes_per_sample": int(self.boundary_bytes[cut]),
        }

    @property
    def layers_toml(self) -> str:
        """The layer list as a scenario carries it under [model]."""
        return layers_toml(self.layers)


def profile(name: str, shape: str | None, *, batch: int, costs: str, overrides: Sequence[str] = ()) -> Profile:
    """Costs of a built-in network or of `package.module:callable` for samples of the given shape."""
    _refuse_unknown(costs)
    model = named_model(name, shape, overrides)
    layers = inferred_layers(model, Costs(), f"profile {named(name)}")
    return profile_layers(model.name, layers, batch=batch, costs=costs)


def _refuse_unknown(costs: str) -> None:
    if costs not in COST_MODELS:
        raise ModelError(f"costs: unknown cost model, got {shown(costs)}. {advice_for(costs, COST_MODELS)}")


def profile_layers(name: str, layers: tuple[LayerSpec, ...], *, batch: int, costs: str) -> Profile:
    """Costs of a layer list."""
    _refuse_unknown(costs)
    per_layer = layer_costs(layers, costs)
    workload = network_workload(layers, per_layer, local_iterations=1, min_cut=0)
    every_cut = np.arange(len(layers) + 1)
    split = split_costs(workload, every_cut, np.full(every_cut.size, float(batch)))
    return Profile(name, costs, batch, layers, per_layer, workload, split)


def named_model(name: str, shape: str | None, overrides: Sequence[str] = ()) -> Model:
    """A built-in network or `package.module:callable`, for samples of the given shape, as a scenario describes it."""
    if shape is not None:
        sizes = [_size(part, shape) for part in shape.split(",")]
    elif ":" in name:
        problem = "--input is missing. Give the shape of one sample, as in --input 3,32,32"
        raise ScenarioError(f"profile {named(name)}: {problem}")
    else:
        sizes = list(NETWORKS[name].input) if name in NETWORKS else [1]
    return parse_model({"name": name, "input": sizes}, overrides)


def inferred_layers(model: Model, costs: Costs, label: str) -> tuple[LayerSpec, ...]:
    """Layer list of the network that the costs describe; needs torch."""
    try:
        from fedfloor.training.network.description import infer_layers  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(
            f"{label}: the layers of '{model.name}' are inferred with torch, which", "train"
        ) from None
    return infer_layers(model, costs)


def layers_toml(layers: Sequence[LayerSpec]) -> str:
    """TOML text of the layer list as a scenario carries it under [model], one layer per line."""
    return "\n".join(["layers = [", *(f"  {{{', '.join(_keys(layer))}}}," for layer in layers), "]"])


def _keys(layer: LayerSpec) -> list[str]:
    keys = [f'name = "{layer.name}"', f'kind = "{layer.kind}"']
    keys += [f"input = {list(layer.input)}", f"output = {list(layer.output)}"]
    if layer.kernel is not None:
        keys.append(f"kernel = {list(layer.kernel)}")
    if layer.groups != 1:
        keys.append(f"groups = {layer.groups}")
    if not layer.bias:
        keys.append("bias = false")
    if layer.attached:
        items = ", ".join(f'"{item}"' for item in layer.attached)
        keys.append(f"attached = [{items}]")
    if layer.norm_sizes:
        keys.append(f"norm_sizes = {list(layer.norm_sizes)}")
    if layer.block is not None:
        keys.append(f"block = {_inline(layer.block.model_dump(exclude_defaults=True))}")
    return keys


def _inline(value: object) -> str:
    """TOML text of whole numbers, lists and tables of them, on one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_inline(entry)}' for key, entry in value.items())}}}"
    return str(list(value) if isinstance(value, tuple) else value)


def _size(part: str, shape: str) -> int:
    if not (part.isascii() and part.strip().isdigit() and 1 <= int(part[:9]) <= 10**6 and len(part) < 9):
        raise ScenarioError(
            f"--input {named(shape)}: must be whole numbers from 1 to 1,000,000 with commas between, got {shown(part)}"
        )
    return int(part)
