"""The two halves of a network, a training step without a cut, and the step of the weights."""

__all__ = ["Momentum", "Scored", "halves", "joined_step", "sgd_step", "squared_losses"]

from collections.abc import Callable
from typing import Self, TypeAlias

import torch
from torch import Tensor, nn

from fedfloor.training.network.description import chain, cut_points
from fedfloor.training.network.losses import loss_of

#: told the scores (B, classes) and the labels (B,) of every training step
Scored: TypeAlias = Callable[[Tensor, Tensor], None]


def halves(network: nn.Sequential, cut: int) -> tuple[nn.Sequential, nn.Sequential]:
    """Bottom and top of a network cut after its first `cut` layers; both share the network's weights."""
    modules = [module for _, module in chain(network)]
    at = cut_points(network)[cut]
    return nn.Sequential(*modules[:at]), nn.Sequential(*modules[at:])


def squared_losses(scores: Tensor, y: Tensor) -> float:
    """Mean of the squared losses of single samples, of scores (B, classes) and labels (B,); outside of the gradient."""
    with torch.no_grad():
        return float(loss_of(scores.detach(), y, "none").cpu().double().square().mean())


def joined_step(network: nn.Module, x: Tensor, y: Tensor, scored: Scored | None = None) -> Tensor:
    """Forward and backward on the whole network; by the chain rule the gradients are those of every cut."""
    scores = network(x)
    loss = loss_of(scores, y)
    if scored is not None:
        scored(scores, y)
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)  # backward() would copy some of them
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    return loss.detach()


def sgd_step(parameters: list[nn.Parameter], rate: float, momentum: "Momentum | None" = None) -> None:
    """Take the step w <- w - beta grad, or w <- w - beta v with momentum, and clear the gradients."""
    with torch.no_grad():
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        weights: list[Tensor] = [parameter for parameter in parameters if parameter.grad is not None]
        if weights:
            steps = grads if momentum is None else momentum.velocities(weights, grads)
            torch._foreach_add_(weights, steps, alpha=-rate)  # torch's own optimisers use it too
        for parameter in parameters:
            parameter.grad = None


class Momentum:
    """Velocities of the heavy ball in one round: v <- mu v + grad, from 0."""

    def __init__(self, mu: float) -> None:
        self._mu = mu
        self._velocities: dict[int, Tensor] = {}  # by the identity of the weight

    @classmethod
    def of(cls, mu: float) -> Self | None:
        """Momentum of a new round; None without."""
        return cls(mu) if mu > 0.0 else None

    def velocities(self, weights: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
        """The next velocities of some weights, from their gradients."""
        for weight, grad in zip(weights, grads, strict=True):
            velocity = self._velocities.get(id(weight))
            if velocity is None:
                self._velocities[id(weight)] = grad.clone()
            else:
                velocity.mul_(self._mu).add_(grad)
        return [self._velocities[id(weight)] for weight in weights]
