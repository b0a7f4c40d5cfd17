"""What a network costs, layer by layer and cut by cut: `fedfloor profile`."""

__all__ = ["Profile", "inferred_layers", "layers_toml", "profile"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfloor.costs.compute import split_costs
from fedfloor.costs.layers import LayerCosts, layer_costs, model_bits
from fedfloor.costs.plant import Workload
from fedfloor.errors import MissingExtraError, ScenarioError
from fedfloor.scenario import LayerSpec, parameter_count, parse_model
from fedfloor.scenario.catalogue import NETWORKS
from fedfloor.scenario.model import Costs, Model


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """A network's layer list with its costs."""

    layers: tuple[LayerSpec, ...]
    costs: LayerCosts
    figures: dict[str, Any]  #: the same as plain figures, with the totals of every cut

    @property
    def layers_toml(self) -> str:
        """The layer list as a scenario carries it under [model]."""
        return layers_toml(self.layers)


def profile(name: str, shape: str | None, *, batch: int, costs: str, overrides: Sequence[str] = ()) -> Profile:
    """Costs of a built-in network or of `package.module:callable` for samples of the given shape."""
    if shape is not None:
        sizes = [_size(part, shape) for part in shape.split(",")]
    elif ":" in name:
        raise ScenarioError(f"profile {name}: --input is missing. Give the shape of one sample, as in --input 3,32,32")
    else:
        sizes = list(NETWORKS[name].input) if name in NETWORKS else [1]
    model = parse_model({"name": name, "input": sizes}, overrides)
    layers = inferred_layers(model, Costs(), f"profile {name}")
    found = layer_costs(layers, costs)
    return Profile(layers, found, _figures(model.name, layers, found, costs, batch))


def inferred_layers(model: Model, costs: Costs, label: str) -> tuple[LayerSpec, ...]:
    """Layer list of the network whose costs are asked for; needs torch."""
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
    """The layer list as a scenario carries it under [model], one layer a line."""
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
    return keys


def _size(part: str, shape: str) -> int:
    if not (part.isascii() and part.strip().isdigit() and 1 <= int(part[:9]) <= 10**6 and len(part) < 9):
        raise ScenarioError(
            f"--input {shape}: must be whole numbers from 1 to 1,000,000 with commas between, got '{part}'"
        )
    return int(part)


def _figures(name: str, layers: Sequence[LayerSpec], costs: LayerCosts, cost_model: str, batch: int) -> dict[str, Any]:
    """Everything the tables show, as plain figures with units in the keys."""
    depth = len(layers)
    workload = Workload.from_layers(
        costs.flop, costs.fixed_bytes, costs.sample_bytes, local_iterations=1, model_bits=model_bits(layers), min_cut=0
    )
    split = split_costs(workload, np.arange(depth + 1), np.full(depth + 1, float(batch)))
    sent = [layers[0].input_size, *(layer.output_size for layer in layers)]
    return {
        "model": name,
        "cost_model": cost_model,
        "batch": batch,
        "parameters": parameter_count(layers),
        "model_bits": workload.model_bits,
        "layers": [
            {
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
            for index, layer in enumerate(layers)
        ],
        "cuts": [
            {
                "cut": cut,
                "after": layers[cut - 1].name if cut else None,
                "device_flop": split.bottom_flop[cut],
                "gateway_flop": split.top_flop[cut],
                "device_bytes": split.bottom_bytes[cut],
                "gateway_bytes": split.top_bytes[cut],
                "boundary_bytes_per_sample": 4 * sent[cut] if cut < depth else 0,
            }
            for cut in range(depth + 1)
        ],
    }
