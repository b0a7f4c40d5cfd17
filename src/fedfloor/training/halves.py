"""Split training as two machines do it (Sec. II-B3): what a device and its gateway compute in one round.

Only arrays go in and come out, so that the halves can be in one process or on two machines: the results are the same,
to the last bit, on processors of one kind.
"""

__all__ = ["Bottom", "DeviceRound", "MisfitError", "Sent", "Top", "TopStep"]

import contextlib
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedfloor.arrays import Labels, Vector
from fedfloor.streams import Stream, stream_seed
from fedfloor.training.network.built import BuiltNetwork, Half, Inputs, seeded
from fedfloor.training.network.losses import loss_of
from fedfloor.training.network.quantised import Quantised, at_the_cut, boundary_stream
from fedfloor.training.network.split import Momentum, Scored, sgd_step

#: what crosses the cut: numbers, or their steps with 16 or 8 bits; pictures (uint8) at cut 0
Sent = npt.NDArray[np.generic] | Quantised

_PLACES: dict[str, int] = {"bottom": 0, "top": 1}  #: half -> its place in the network and in the keys of its streams


class MisfitError(ValueError):
    """Weights, activations, labels or gradients that do not fit the network or the state of a half."""


@dataclass(frozen=True, slots=True)
class DeviceRound:
    """What both halves know of a device's round."""

    seed: int
    index: int  #: t, number of the round
    device: int  #: n, number of the device in the plant
    cut: int  #: l_n, layers on the device
    learning_rate: float  #: beta of the round
    boundary: int = 32  #: [bit] per number that crosses the cut
    momentum: float = 0.0  #: mu
    own_streams: bool = True  #: each half draws from its own random stream; otherwise in turn from torch's


class TopStep(NamedTuple):
    """What a gateway knows after one step of a top."""

    loss: float
    gradient: Sent | None  #: of the activations; None if the device has nothing to train


class _Side:
    """One half of a network in one round."""

    _name: ClassVar[Literal["bottom", "top"]]

    def __init__(
        self,
        network: BuiltNetwork,
        settings: DeviceRound,
        inputs: Inputs,
        weights: Vector,
        scored: Scored | None = None,
    ) -> None:
        """`scored` is told the scores of every step, on the half that computes the loss."""
        self._network, self._settings, self._inputs, self._scored = network, settings, inputs, scored
        self._half: Half = network.halves(settings.cut)[_PLACES[self._name]]
        size = self._half.layout.size
        if weights.shape != (size,) or weights.dtype != np.float32:
            expected, given = f"float32 ({size},)", f"{weights.dtype} {weights.shape}"
            raise MisfitError(f"the weights of the {self._name} at cut {settings.cut} must be {expected}, got {given}")
        self._half.layout.load(np.require(weights, requirements=["C", "W"]))
        self._half.module.train()
        self._momentum = Momentum.of(settings.momentum)
        self._channels_last = network.sends_channels_last(settings.cut, settings.boundary)
        self._iteration = -1  # counts the steps of this round
        self._x: Tensor | None = None  # the last batch, where it is kept
        self._y: Tensor | None = None

    def weights(self) -> Vector:
        """Weights of this half as they are now, the statistics of batch norm included."""
        vector = np.empty(self._half.layout.size, np.float32)
        self._half.layout.save(vector)
        return vector

    def _through(self, x: Tensor) -> Tensor:
        """Pass a batch through the layers; dropout draws from a stream of this half and iteration."""
        settings = self._settings
        address = (settings.index, settings.device, _PLACES[self._name], self._iteration)
        seed = stream_seed(settings.seed, Stream.DROPOUT, *address)
        with seeded(seed) if settings.own_streams else contextlib.nullcontext():
            output: Tensor = self._half.module(x)
        return output

    def _batch(self) -> Tensor:
        if self._x is None:
            raise MisfitError("the first iteration has no samples")
        return self._x

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Loss of a batch on the half that ends the network."""
        scores = self._through(x)
        if self._scored is not None:
            self._scored(scores, y)
        return loss_of(scores, y)

    def _learn(self, x: Tensor, labels: Labels | None) -> float:
        """One step of SGD with a batch, or with the last labels again, on the half that ends the network: the loss."""
        self._y = self._y if labels is None else _targets(labels, x, self._network)
        if self._y is None:
            raise MisfitError("the first batch has no labels")
        loss = self._loss(x, self._y)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        self._update()
        return float(loss.detach())

    def _update(self) -> None:
        sgd_step(self._half.parameters, self._settings.learning_rate, self._momentum)

    def _stream(self) -> np.random.Generator:
        """Random numbers that round what crosses the cut in this iteration."""
        settings = self._settings
        return boundary_stream(settings.seed, settings.index, settings.device, self._iteration)

    def _sent(self, tensor: Tensor, rng: np.random.Generator | None) -> Sent:
        """A tensor as it leaves this half, of the network's `sent_shape`; `rng` rounds it if fewer bits are sent."""
        tensor = tensor.detach().cpu()
        values: Vector = (tensor.permute(0, 2, 3, 1) if self._channels_last else tensor).contiguous().numpy()
        return values if rng is None else at_the_cut(values, self._settings.boundary, rng)

    def _arrived(self, sent: Sent, what: str, count: int) -> Tensor:
        """Numbers that the other half sent for a batch; raises a MisfitError if they are of another kind or shape."""
        cut, bits = self._settings.cut, self._settings.boundary
        shape = (count, *self._network.sent_shape(cut, bits))
        array, kind = (sent.steps, f"int{bits}") if isinstance(sent, Quantised) else (sent, "float32")
        if array.shape != shape or array.dtype != kind or isinstance(sent, Quantised) != (bits < 32):
            expected = "float32" if bits == 32 else f"int{bits} with a scale"
            raise MisfitError(f"{what} must be {expected} {shape}, got {array.dtype} {array.shape}")
        values = sent.values if isinstance(sent, Quantised) else np.require(sent, np.float32, ["C", "W"])
        tensor = torch.from_numpy(values)
        return tensor.permute(0, 3, 1, 2) if self._channels_last else tensor


class Bottom(_Side):
    """What a device computes: the layers below its cut, and the loss too if no layer is above it."""

    _name = "bottom"
    _output: Tensor | None = None  # waits for its gradient

    def forward(self, samples: npt.NDArray[np.generic] | None = None) -> Sent | None:
        """Begin an iteration: pass a new batch (B, ...), or the last one again, and return what is sent up.

        At cut 0 this is the batch: pictures as they are, other samples scaled. The gateway keeps it, so that nothing
        (None) is sent for the same batch again.
        """
        self._begin(samples)
        few = self._settings.boundary < 32
        if self._settings.cut > 0:
            self._output = self._through(self._batch())
            return self._sent(self._output, self._stream() if few else None)
        if samples is None or samples.dtype == np.uint8:
            return samples
        return self._sent(self._batch(), self._stream() if few else None)

    def backward(self, gradient: Sent) -> None:
        """End an iteration with the gradient that the gateway sends down: one step of SGD."""
        output, self._output = self._output, None
        if output is None:
            raise MisfitError("no batch waits for a gradient")
        values = self._arrived(gradient, "the gradient", len(output))
        if output.requires_grad:
            output.backward(torch.empty_like(output).copy_(values))  # type: ignore[no-untyped-call]
        self._update()

    def step(self, samples: npt.NDArray[np.generic] | None = None, labels: Labels | None = None) -> float:
        """Do a whole iteration on the device and return the loss; only where all layers are below the cut."""
        assert self._settings.cut == self._network.depth
        self._begin(samples)
        return self._learn(self._batch(), labels)

    def _begin(self, samples: npt.NDArray[np.generic] | None) -> None:
        self._iteration += 1
        scales = self._settings.cut > 0 or (samples is not None and samples.dtype != np.uint8)
        if samples is not None and scales:
            self._x = self._inputs.scaled(samples, self._network)


class Top(_Side):
    """What a gateway computes for one device: the layers above its cut, and the loss."""

    _name = "top"

    def step(self, received: Sent | None = None, labels: Labels | None = None) -> TopStep:
        """Do one iteration with what the device sent: the loss, and the gradient to send down; one step of SGD.

        `received` may be None at cut 0, and `labels` anywhere, if the batch is the last one again. What does not fit
        the network raises a MisfitError.
        """
        assert self._settings.cut < self._network.depth
        x = self._received(received, labels.size if labels is not None else None)
        self._iteration += 1
        loss = self._learn(x, labels)
        return TopStep(loss, None if x.grad is None else self._sent(x.grad, self._downward(x)))

    def _received(self, received: Sent | None, count: int | None) -> Tensor:
        """What the device sent, as the first layer above the cut takes it."""
        network = self._network
        count = count if count is not None else 0 if self._y is None else len(self._y)
        if self._settings.cut == 0:
            if received is not None:
                self._x = self._samples(received, count)
            return self._batch()
        if received is None:
            raise MisfitError("the activations are missing")
        x = self._arrived(received, "the activations", count).to(network.device)
        if x.dim() == 4:
            x = torch.empty(x.shape, device=network.device, memory_format=network.format).copy_(x)
        return x.requires_grad_(network.halves(self._settings.cut)[0].learns)

    def _samples(self, received: Sent, count: int) -> Tensor:
        if not isinstance(received, Quantised) and received.dtype == np.uint8:
            if received.shape != (shape := (count, *self._network.crossing[0])):
                raise MisfitError(f"the samples must be {shape}, got {received.shape}")
            return self._inputs.scaled(received, self._network)
        values = self._arrived(received, "the samples", count)
        return self._network.laid_out(values.to(self._network.device))

    def _downward(self, x: Tensor) -> np.random.Generator | None:
        """The stream that rounds the gradient: it continues where the device stopped with its activations."""
        if self._settings.boundary == 32:
            return None
        rng = self._stream()
        rng.random(tuple(x.shape), np.float32)  # what the device has drawn
        return rng


def _targets(labels: Labels, x: Tensor, network: BuiltNetwork) -> Tensor:
    """Labels of a batch (B,) for the loss; raises a MisfitError if they do not fit it."""
    classes = network.model.classes
    if labels.size == 0:
        raise MisfitError("the batch is empty")
    if labels.dtype == np.float32 and classes == 1:  # numbers to predict
        if labels.shape != (len(x),) or not np.isfinite(labels).all():
            raise MisfitError(f"the labels must be {len(x)} finite numbers, got {labels.shape}")
        return torch.from_numpy(np.require(labels, requirements=["C", "W"])).to(network.device)
    if labels.shape != (len(x),) or labels.dtype.kind not in "iu":
        raise MisfitError(f"the labels must be {len(x)} whole numbers, got {labels.dtype} {labels.shape}")
    if not (labels.min() >= 0 and labels.max() < classes):
        raise MisfitError(f"the labels must be 0 to {classes - 1}, got {labels.min()} to {labels.max()}")
    return torch.from_numpy(labels.astype(np.int64)).to(network.device)
