"""The two halves of a network, a training step without a cut, and the step of the weights."""

__all__ = ["halves", "joined_step", "sgd_step"]

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedfloor.training.network.description import chain, cut_points


def halves(network: nn.Sequential, cut: int) -> tuple[nn.Sequential, nn.Sequential]:
    """Bottom and top of a network cut after its first `cut` layers; both share the network's weights."""
    modules = [module for _, module in chain(network)]
    at = cut_points(network)[cut]
    return nn.Sequential(*modules[:at]), nn.Sequential(*modules[at:])


def joined_step(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Forward and backward on the whole network; by the chain rule the gradients are those of every cut."""
    loss = functional.cross_entropy(network(x), y)
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)  # backward() would copy some of them
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    return loss.detach()


def sgd_step(parameters: list[nn.Parameter], rate: float) -> None:
    """Take the step w <- w - beta grad, and clear the gradients."""
    with torch.no_grad():
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        weights: list[Tensor] = [parameter for parameter in parameters if parameter.grad is not None]
        if weights:
            torch._foreach_add_(weights, grads, alpha=-rate)  # torch's own optimisers use it too
        for parameter in parameters:
            parameter.grad = None
