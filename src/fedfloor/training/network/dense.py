"""Training of several devices' small dense networks at once: one matrix product per layer for all of them.

The update of the weights is part of the product, so no gradient is ever written to memory. On small networks most of
the time goes into moving weights, not into arithmetic.
"""

__all__ = ["AT_ONCE", "DenseStack", "is_dense"]

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedfloor.arrays import Vector
from fedfloor.training.network.description import chain

AT_ONCE = 8  #: devices whose weights fit a core's cache together

#: activation -> its derivative as a function of its output
_ACTIVATIONS: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.ReLU: lambda out: (out > 0).to(out.dtype),
    nn.Sigmoid: lambda out: out * (1.0 - out),
    nn.Tanh: lambda out: 1.0 - out * out,
}

#: attributes that hold hooks; torch has no public way to ask for them
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_dense(network: nn.Module) -> bool:
    """Whether a network is a flatten, then plain linear layers with simple activations in between, all trained."""
    first, *modules = (module for _, module in chain(network) if not isinstance(module, nn.Identity))
    alternate = all(
        _is_plain(module) or (type(module) in _ACTIVATIONS and isinstance(previous, nn.Linear))
        for previous, module in zip([None, *modules], modules, strict=False)
    )
    trainable = all(
        parameter.requires_grad and parameter.dtype == torch.float32 for parameter in network.parameters()
    ) and not list(network.buffers())
    trainable = trainable and not any(_is_watched(part) for part in (*network.modules(), *network.parameters()))
    return type(first) is nn.Flatten and alternate and trainable and bool(modules) and _is_plain(modules[-1])


def _is_plain(module: nn.Module) -> bool:
    """Whether a module is an ordinary linear layer, without weights that are computed from others."""
    return type(module) is nn.Linear and {name for name, _ in module.named_parameters()} <= {"weight", "bias"}


def _is_watched(part: object) -> bool:
    """Whether a module or a weight has hooks or its own forward, which a stack would bypass."""
    return any(getattr(part, name, None) for name in _HOOKS) or "forward" in vars(part)


class DenseStack:
    """Copies of a network's weights, one for each of k devices."""

    def __init__(self, network: nn.Module, count: int, momentum: float = 0.0) -> None:
        self._momentum = momentum
        self._velocities: dict[int, tuple[Tensor, Tensor]] = {}  # of weight and bias, by layer, after the first step
        modules = [module for _, module in chain(network) if not isinstance(module, nn.Flatten | nn.Identity)]
        self._layers: list[tuple[Tensor, Tensor | None, nn.Module | None]] = []
        for module, follower in zip(modules, [*modules[1:], None], strict=True):
            if isinstance(module, nn.Linear):
                weight = module.weight.detach().expand(count, -1, -1).clone()  # (k, out, in)
                bias = None if module.bias is None else module.bias.detach().expand(count, 1, -1).clone()  # (k, 1, out)
                self._layers.append((weight, bias, None if isinstance(follower, nn.Linear) else follower))

    def step(self, x: Tensor, y: Tensor, share: Tensor, rate: float, squares: Tensor | None = None) -> Tensor:
        """Take one SGD step for every device; x (k, B, ...), y and sample weights `share` (k, B) -> losses (k,).

        Adds the mean squares of sample losses to `squares` (k,), float64, if they are asked for.
        """
        with torch.no_grad():
            outputs = [x.flatten(2)]  # (k, B, in)
            for weight, bias, activation in self._layers:
                product = outputs[-1] @ weight.transpose(1, 2) if bias is None else _affine(bias, outputs[-1], weight)
                outputs.append(product if activation is None else activation(product))
            scores = outputs.pop()  # (k, B, classes)
            if y.is_floating_point():
                single, error = _squared_error(scores, y)
            else:
                single, error = _cross_entropy(scores, y)
            losses = (single * share).sum(1)
            if squares is not None:
                squares += (single.cpu().double().square() * share.cpu().double()).sum(1)
            error.mul_(share.unsqueeze(2))
            for at in range(len(self._layers) - 1, -1, -1):
                weight, bias, _ = self._layers[at]
                below = None
                if at > 0:
                    below = error @ weight
                    activation = self._layers[at - 1][2]
                    if activation is not None:
                        below.mul_(_ACTIVATIONS[type(activation)](outputs[at]))
                if self._momentum == 0.0:
                    weight.baddbmm_(error.transpose(1, 2), outputs[at], alpha=-rate)
                    if bias is not None:
                        bias.sub_(error.sum(1, keepdim=True), alpha=rate)
                else:
                    self._roll(at, error, outputs[at], rate)
                if below is not None:
                    error = below
        return losses

    def _roll(self, at: int, error: Tensor, below: Tensor, rate: float) -> None:
        """Take the step of one layer with the velocity of the heavy ball, v <- mu v + grad."""
        weight, bias, _ = self._layers[at]
        if at not in self._velocities:
            sums = error.new_zeros(0) if bias is None else torch.zeros_like(bias)
            self._velocities[at] = torch.zeros_like(weight), sums
        velocity, bias_velocity = self._velocities[at]
        velocity.baddbmm_(error.transpose(1, 2), below, beta=self._momentum)
        weight.sub_(velocity, alpha=rate)
        if bias is not None:
            bias.sub_(bias_velocity.mul_(self._momentum).add_(error.sum(1, keepdim=True)), alpha=rate)

    def save(self, vectors: Vector) -> None:
        """Write the weights of every device into vectors (k, P), laid out like those of the network."""
        out, at = torch.from_numpy(vectors), 0
        for weight, bias, _ in self._layers:
            for part in (weight, bias):
                if part is not None:
                    length = part[0].numel()
                    out[: part.shape[0], at : at + length] = part.reshape(part.shape[0], -1)
                    at += length


def _cross_entropy(scores: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Losses (k, B) of single samples, and their gradients (k, B, classes) by the scores."""
    logs = scores.log_softmax(-1)
    single = -logs.gather(2, y.unsqueeze(2)).squeeze(2)
    return single, logs.exp_().sub_(functional.one_hot(y, logs.shape[2]))


def _squared_error(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Losses (k, B) of single samples, and their gradients (k, B, 1) by the outputs, as `loss_of` defines them."""
    apart = outputs - y.unsqueeze(2)
    return apart.squeeze(2).square(), 2.0 * apart


def _affine(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return torch.baddbmm(bias, x, weight.transpose(1, 2))
