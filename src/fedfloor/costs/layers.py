"""FLOPs and bytes of every layer, Table II: `paper` to the letter, `exact` as torch does it.

What depends on the kind of a layer is in its row of `scenario.layers.KINDS`; this module assembles the arrays.
"""

__all__ = [
    "COST_MODELS",
    "LayerCosts",
    "boundary_values",
    "exact_costs",
    "layer_costs",
    "model_bits",
    "paper_costs",
    "passes_error",
    "sums_below",
    "velocity_bytes",
    "velocity_flop",
]

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from fedfloor.arrays import Bools, Floats
from fedfloor.scenario.layers import BYTES_PER_NUMBER, LayerSpec, parameter_count


@dataclass(frozen=True, slots=True, eq=False)
class LayerCosts:
    """Costs of L layers, each (L,); FLOPs and sample bytes are per sample."""

    forward_flop: Floats  #: products of the forward pass
    error_flop: Floats  #: products of the error passed down
    gradient_flop: Floats  #: products of the weight gradient
    other_forward_flop: Floats  #: bias, activation, pooling, normalisation
    other_backward_flop: Floats  #: the same on the way back
    weight_bytes: Floats  #: all parameters
    gradient_bytes: Floats  #: their gradients
    output_bytes: Floats  #: what the forward pass keeps
    error_bytes: Floats  #: what the backward pass adds

    @property
    def flop(self) -> Floats:
        """o_l + o'_l: forward and backward FLOPs per sample, (L,)."""
        products = self.forward_flop + self.error_flop + self.gradient_flop
        return products + self.other_forward_flop + self.other_backward_flop

    @property
    def fixed_bytes(self) -> Floats:
        """Part of g_{n,l} that does not depend on the batch, (L,)."""
        return self.weight_bytes + self.gradient_bytes

    @property
    def sample_bytes(self) -> Floats:
        """Part of g_{n,l} per sample of the batch, (L,)."""
        return self.output_bytes + self.error_bytes


def layer_costs(layers: Sequence[LayerSpec], cost_model: str) -> LayerCosts:
    """Costs of every layer by the named cost model."""
    return COST_MODELS[cost_model](layers)


def model_bits(layers: Sequence[LayerSpec]) -> float:
    """Size gamma of the model on the air [bit]."""
    return float(8 * BYTES_PER_NUMBER * parameter_count(layers))


def boundary_values(layers: Sequence[LayerSpec]) -> Floats:
    """Numbers per sample that the device sends up at every cut, (L+1,): the sample at cut 0, nothing at cut L."""
    return _array([layers[0].input_size, *(layer.output_size for layer in layers[:-1]), 0])


def passes_error(layers: Sequence[LayerSpec]) -> Bools:
    """Whether each layer passes an error down, (L,): those above the first trained one do."""
    trained = np.array([layer.learns for layer in layers])
    return np.concatenate([[False], np.logical_or.accumulate(trained)[:-1]])


def paper_costs(layers: Sequence[LayerSpec]) -> LayerCosts:
    """Table II to the letter; what it does not list (bias, activation, normalisation) costs nothing.

    A block is the sum of the layers inside it that the table lists.
    """
    # Paper note: the table's linear layer counts numbers, not bytes; we multiply by S_f as in the other rows.
    weight_bytes = BYTES_PER_NUMBER * _array(layer.weights for layer in layers)
    zero = np.zeros(len(layers))
    return LayerCosts(
        forward_flop=_array(layer.row.paper_forward_flop(layer) for layer in layers),
        error_flop=_array(layer.row.paper_error_flop(layer) for layer in layers),
        gradient_flop=_array(layer.row.paper_gradient_flop(layer) for layer in layers),
        other_forward_flop=zero,
        other_backward_flop=zero,
        weight_bytes=weight_bytes,
        gradient_bytes=weight_bytes,
        output_bytes=BYTES_PER_NUMBER
        * _array(layer.output_size if layer.block is None else layer.block.paper.outputs for layer in layers),
        error_bytes=BYTES_PER_NUMBER
        * _array(layer.input_size if layer.block is None else layer.block.paper.inputs for layer in layers),
    )


def exact_costs(layers: Sequence[LayerSpec]) -> LayerCosts:
    """What torch computes and holds in one step of plain SGD.

    Error and gradient each cost the forward products; the first trained layer passes no error down.
    """
    product = _array(layer.row.product_flop(layer) for layer in layers)
    error = np.where(passes_error(layers), _array(layer.error_flop for layer in layers), 0.0)
    other_forward = _array(
        layer.row.other_forward_flop(layer) + layer.output_size * sum(entry.forward_flop for entry in layer.attachments)
        for layer in layers
    )
    other_backward = _array(
        layer.row.other_backward_flop(layer)
        + layer.output_size * sum(entry.backward_flop for entry in layer.attachments)
        for layer in layers
    )
    parameter_bytes = BYTES_PER_NUMBER * _array(layer.parameters for layer in layers)
    kept_bytes = _array(
        layer.kept_bytes + layer.output_size * sum(entry.kept_bytes for entry in layer.attachments) for layer in layers
    )
    kept_bytes[0] += BYTES_PER_NUMBER * layers[0].input_size  # the batch itself
    # Only one layer's error lives at a time, and it falls as the network narrows. Charging each layer what its error
    # exceeds the next one's makes the sum over any top part its largest error.
    error_bytes = BYTES_PER_NUMBER * _array([*(layer.error_size for layer in layers), 0])
    return LayerCosts(
        forward_flop=product,
        error_flop=error,
        gradient_flop=_array(layer.gradient_flop for layer in layers),
        other_forward_flop=other_forward,
        other_backward_flop=other_backward,
        weight_bytes=parameter_bytes,
        gradient_bytes=parameter_bytes,
        output_bytes=kept_bytes,
        error_bytes=np.maximum(error_bytes[:-1] - error_bytes[1:], 0.0),
    )


def velocity_bytes(layers: Sequence[LayerSpec]) -> Floats:
    """Memory that momentum adds to every layer, (L,) [byte]: the velocity of its parameters."""
    return BYTES_PER_NUMBER * _array(layer.parameters for layer in layers)


def velocity_flop(layers: Sequence[LayerSpec]) -> Floats:
    """FLOPs that momentum adds to every layer in an iteration, (L,): v <- mu v + grad for each parameter."""
    return 2.0 * _array(layer.parameters for layer in layers)


#: cost models by name; `scenario/catalogue.py` says what each is
COST_MODELS: MappingProxyType[str, Callable[[Sequence[LayerSpec]], LayerCosts]] = MappingProxyType(
    {"exact": exact_costs, "paper": paper_costs}
)


def _array(counts: Iterable[int]) -> Floats:
    return np.array([*counts], float)


def sums_below(per_layer: Floats) -> Floats:
    """Sums over the first l layers for every cut l, (..., L) -> (..., L+1)."""
    return np.concatenate([np.zeros((*per_layer.shape[:-1], 1)), np.cumsum(per_layer, axis=-1)], axis=-1)
