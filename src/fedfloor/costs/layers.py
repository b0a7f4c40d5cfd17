"""FLOPs and bytes of every layer, Table II: `paper` to the letter, `exact` as torch does it."""

__all__ = [
    "BITS_PER_PARAMETER",
    "COST_MODELS",
    "LayerCosts",
    "exact_costs",
    "layer_costs",
    "model_bits",
    "paper_costs",
]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.scenario.layers import LayerSpec, parameter_count

BITS_PER_PARAMETER = 32
_S_F = BITS_PER_PARAMETER // 8  #: [byte] S_f, precision of weights, activations and gradients
_INDEX = 8  #: [byte] where max pooling found its maximum
_MASK = 1  #: [byte] whether dropout kept a number


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
    return float(BITS_PER_PARAMETER * parameter_count(layers))


def paper_costs(layers: Sequence[LayerSpec]) -> LayerCosts:
    """Table II to the letter; what it does not list (bias, activation, normalisation) costs nothing."""
    forward, error, gradient, weight = [], [], [], []
    for layer in layers:
        product = _product(layer)
        if layer.kind == "convolution":
            assert layer.kernel is not None
            (_, height, width), (filter_height, filter_width) = layer.output, layer.kernel
            # Paper note: the table's error count of a convolution has no factor C_i C_o; kept in this cost model.
            wide = 2 * filter_width + filter_width * width - 2
            high = 2 * filter_height + filter_height * height - 2
            counts = (product, 2 * wide * high, product)
        elif layer.kind == "linear":
            # Paper note: the table counts S_i S_o for a linear layer's gradient, half a product; kept.
            counts = (product, product, product // 2)
        else:
            counts = (layer.input_size, layer.input_size, 0)
        forward.append(counts[0])
        error.append(counts[1])
        gradient.append(counts[2])
        # Paper note: the table's linear layer counts numbers, not bytes; we multiply by S_f as in the other rows.
        weight.append(_S_F * layer.weights)
    none = np.zeros(len(layers))
    return LayerCosts(
        forward_flop=np.array(forward, float),
        error_flop=np.array(error, float),
        gradient_flop=np.array(gradient, float),
        other_forward_flop=none,
        other_backward_flop=none,
        weight_bytes=np.array(weight, float),
        gradient_bytes=np.array(weight, float),
        output_bytes=np.array([_S_F * layer.output_size for layer in layers], float),
        error_bytes=np.array([_S_F * layer.input_size for layer in layers], float),
    )


def exact_costs(layers: Sequence[LayerSpec]) -> LayerCosts:
    """What torch computes and holds in one step of plain SGD.

    Error and gradient each cost the forward products; the first trained layer passes no error down.
    """
    product = np.array([_product(layer) for layer in layers], float)
    error = product.copy()
    error[: np.flatnonzero(product)[0] + 1 if product.any() else 0] = 0.0
    small = np.array([_small_items(layer) for layer in layers], float).reshape(len(layers), 2)
    parameters = np.array([_S_F * layer.parameters for layer in layers], float)
    held = np.array([_held_bytes(layer) for layer in layers], float)
    held[0] += _S_F * layers[0].input_size  # the batch itself
    # Only one layer's error lives at a time, and it falls as the network narrows. Charging each layer what its error
    # exceeds the next one's makes the sum over any top part its largest error.
    errors = np.array([_S_F * layer.output_size for layer in layers] + [0], float)
    return LayerCosts(
        forward_flop=product,
        error_flop=error,
        gradient_flop=product,
        other_forward_flop=small[:, 0],
        other_backward_flop=small[:, 1],
        weight_bytes=parameters,
        gradient_bytes=parameters,
        output_bytes=held,
        error_bytes=np.maximum(errors[:-1] - errors[1:], 0.0),
    )


#: cost models by name; `scenario/catalogue.py` says what each is
COST_MODELS: MappingProxyType[str, Callable[[Sequence[LayerSpec]], LayerCosts]] = MappingProxyType(
    {"exact": exact_costs, "paper": paper_costs}
)


def _product(layer: LayerSpec) -> int:
    """FLOPs per sample of the matrix product: 2 C_i H_f W_f C_o H_o W_o, or 2 S_i S_o; 0 for pooling."""
    if layer.kind == "convolution":
        return 2 * layer.weights * layer.output[1] * layer.output[2]
    return 2 * layer.input_size * layer.output[-1] if layer.kind == "linear" else 0


def _small_items(layer: LayerSpec) -> tuple[int, int]:
    """FLOPs per sample outside the products, forward and backward."""
    size, forward, backward = layer.output_size, 0, 0
    if layer.weights and layer.bias:
        forward, backward = size, size  # add it; sum its gradient
    elif layer.kernel is not None and not layer.weights:
        taps = layer.kernel[0] * layer.kernel[1]
        if layer.kind == "max_pooling":
            forward, backward = (taps - 1) * size, size  # compare; route the error to the maximum
        else:
            forward, backward = taps * size, taps * size  # add and divide; spread the error
    per_number = {  # attachment -> FLOPs per number, forward and backward
        "activation": (1, 1),
        "activation_in": (1, 1),
        "batch_norm": (7, 11),  # mean 1, variance 2, normalise 2, scale and shift 2; the two sums and the error back
        "dropout": (1, 1),
        "flatten": (0, 0),
    }
    for item in layer.attached:
        forward += per_number[item][0] * size
        backward += per_number[item][1] * size
    return forward, backward


def _held_bytes(layer: LayerSpec) -> int:
    """Bytes per sample that autograd keeps of the layer until its backward pass."""
    held = _S_F * layer.output_size
    if layer.kind == "max_pooling":
        held += _INDEX * layer.output_size
    for item in layer.attached:
        if item in ("batch_norm", "activation_in"):
            held += _S_F * layer.output_size  # their input beside their output
        elif item == "dropout":
            held += (_S_F + _MASK) * layer.output_size
    return held
