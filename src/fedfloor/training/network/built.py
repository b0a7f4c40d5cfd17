"""Networks in memory, ready for training: their weights as a vector, their halves, and how their inputs are scaled."""

__all__ = ["BuiltNetwork", "Half", "Inputs", "memory_format_of", "network_of", "seeded"]

import contextlib
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedfloor.arrays import Floats
from fedfloor.errors import ModelError, shown
from fedfloor.scenario.layers import Shape
from fedfloor.scenario.model import Model
from fedfloor.training.network.description import crossing_shapes, cut_points
from fedfloor.training.network.models import build_model
from fedfloor.training.network.split import halves
from fedfloor.training.network.weights import Layout, initial_weights

_RANDOM = threading.RLock()


@cache
def _has_accelerator() -> bool:
    """Whether torch has random states other than that of the processor."""
    return torch.cuda.is_available() or torch.xpu.is_available() or torch.backends.mps.is_available()


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let torch draw from a stream of its own in the block; threads take turns, because a process has one state."""
    with _RANDOM:
        if _has_accelerator():
            torch.manual_seed(seed)
        else:  # the same, without a record of the call stack for graphics cards that are not there
            torch.default_generator.manual_seed(seed)
        yield


def network_of(model: Model, seed: int) -> nn.Sequential:
    """Build a network with its first weights; users' models keep the weights they are created with."""
    with seeded(seed):
        network = cast("nn.Sequential", build_model(model))
    if ":" not in model.name:
        initial_weights(network, seed=seed)
    for name, tensor in itertools.chain(network.named_parameters(), network.named_buffers()):
        if tensor.is_meta:
            problem = f"'{name}' is on the device 'meta', where tensors have no values"
            raise ModelError(f"model {shown(model.name)}: {problem}. Create it on the CPU")
    return network


def memory_format_of(network: nn.Module) -> torch.memory_format:
    """Order of the numbers in memory: channels last if the network convolves, which is faster then."""
    convolves = any(isinstance(module, nn.Conv2d) for module in network.modules())
    return torch.channels_last if convolves else torch.contiguous_format


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Scale of the samples, which all machines of a plant agree on."""

    mean: Floats  #: (C,) per channel
    deviation: Floats  #: (C,) per channel

    def scaled(self, images: npt.NDArray[np.generic], network: "BuiltNetwork") -> Tensor:
        """Samples (B, ...) as a network takes them."""
        shape = (1, -1, *([1] * (images.ndim - 2))) if images.ndim > 1 else (1,)
        mean = torch.tensor(self.mean, dtype=torch.float32, device=network.device).view(shape)
        scale = torch.tensor(1.0 / self.deviation, dtype=torch.float32, device=network.device).view(shape)
        x = torch.from_numpy(np.require(images, requirements=["C", "W"])).to(network.device, torch.float32)
        return network.laid_out((x - mean).mul_(scale))


@dataclass(frozen=True, slots=True, eq=False)
class Half:
    """The layers below or above a cut; they share the weights of their network."""

    module: nn.Sequential
    layout: Layout
    parameters: list[nn.Parameter]

    @property
    def learns(self) -> bool:
        """Whether training changes any of its weights."""
        return any(parameter.requires_grad for parameter in self.parameters)


class BuiltNetwork:
    """A network on a torch device, which it uses with one thread."""

    def __init__(self, model: Model, seed: int, device: str = "cpu") -> None:
        torch.set_num_threads(1)
        self.model = model
        self.device = torch.device(device)
        network = network_of(model, seed).to(self.device)
        self.format = memory_format_of(network)
        self.network = network.to(memory_format=self.format)  # type: ignore[call-overload]
        self.layout = Layout(network)
        self.parameters = list(network.parameters())
        self.depth = len(cut_points(network)) - 1  #: number of layers, L
        self._halves: dict[int, tuple[Half, Half]] = {}

    @cached_property
    def crossing(self) -> tuple[Shape, ...]:
        """Shape of what crosses every cut 0..L, for one sample."""
        return crossing_shapes(self.network, self.model.input, label=self.model.name)

    def laid_out(self, x: Tensor) -> Tensor:
        """A batch with its numbers in the order of this network; only images can have their channels last."""
        return x.contiguous(memory_format=self.format if x.dim() == 4 else torch.contiguous_format)

    def sends_channels_last(self, cut: int, bits: int) -> bool:
        """Whether what crosses a cut is sent as it lies in memory, with its channels last.

        Numbers with fewer bits are not, because they are rounded with random numbers in the order of the channels.
        """
        return cut > 0 and bits == 32 and self.format is torch.channels_last and len(self.crossing[cut]) == 3

    def sent_shape(self, cut: int, bits: int = 32) -> Shape:
        """Shape of what is sent across a cut, for one sample."""
        shape = self.crossing[cut]
        return (*shape[1:], shape[0]) if self.sends_channels_last(cut, bits) else shape

    def halves(self, cut: int) -> tuple[Half, Half]:
        """Bottom and top of the network."""
        if cut not in self._halves:
            if not 0 <= cut <= self.depth:
                raise ModelError(f"{self.model.name}: the cut must be 0 to {self.depth}, got {cut}")
            parts = halves(self.network, cut)
            bottom, top = (Half(part, Layout(part), list(part.parameters())) for part in parts)
            tensors = [tensor.data_ptr() for part in parts for tensor in part.state_dict().values()]
            if tensors != [tensor.data_ptr() for tensor in self.network.state_dict().values()]:
                problem = f"cannot be cut after {cut} layers, because its weights are not stored in the layers' order"
                raise ModelError(f"{self.model.name}: {problem}. Remove the hooks that change its state_dict")
            self._halves[cut] = bottom, top
        return self._halves[cut]

    def below(self, cut: int) -> int:
        """Number of weights below a cut; they come first in the vector."""
        return self.halves(cut)[0].layout.size
