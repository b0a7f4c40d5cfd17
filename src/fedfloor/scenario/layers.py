"""The layer list of a network: one description that costs and cuts share (Table II, Sec. II-B3)."""

__all__ = ["Attachment", "LayerKind", "LayerSpec", "parameter_count", "unchained"]

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedfloor.scenario.section import Flag, Int1, Section

#: layers a cut can lie behind
LayerKind = Literal["convolution", "max_pooling", "average_pooling", "linear"]

#: what belongs to the layer before it; `activation` keeps its output for the backward pass, `activation_in` its input
Attachment = Literal["activation", "activation_in", "batch_norm", "dropout", "flatten"]

Shape = Annotated[tuple[Int1, ...], Field(min_length=1)]


class LayerSpec(Section):
    """One layer between two possible cuts, with everything attached to it."""

    name: Annotated[str, Field(min_length=1)]
    kind: LayerKind
    input: Shape  #: (C, H, W) or (S,), one sample
    output: Shape  #: (C, H, W) or (S,), one sample; shape before a flatten that follows
    kernel: tuple[Int1, Int1] | None = None  #: (Hf, Wf) of a convolution or pooling
    groups: Int1 = 1  #: of a convolution
    bias: Flag = True  #: of a convolution or linear layer
    attached: tuple[Attachment, ...] = ()

    @model_validator(mode="after")
    def _shapes_fit_the_kind(self) -> Self:
        if self.kind == "linear":
            if self.kernel is not None or self.groups != 1:
                raise ValueError(f"layer '{self.name}' is linear: it has no kernel and no groups. Remove them")
            if self.input[:-1] != self.output[:-1]:
                raise ValueError(f"layer '{self.name}' is linear: only the last size may change")
            return self
        if self.kernel is None:
            raise ValueError(f"layer '{self.name}' is a {self.kind} and needs its kernel, as in kernel = [3, 3]")
        if len(self.input) != 3 or len(self.output) != 3:
            raise ValueError(f"layer '{self.name}' is a {self.kind}: input and output are [channels, height, width]")
        for way, channels in (("input", self.input[0]), ("output", self.output[0])):
            if self.kind == "convolution" and channels % self.groups:
                raise ValueError(
                    f"layer '{self.name}': {channels} {way} channels do not split into {self.groups} groups"
                )
        if self.kind != "convolution" and self.input[0] != self.output[0]:
            raise ValueError(f"layer '{self.name}' is a {self.kind}: it keeps the number of channels")
        for before, after, width in zip(self.input[1:], self.output[1:], self.kernel, strict=True):
            if after > before + (2 * width if self.kind == "convolution" else 0) or width > 2 * before + 1:
                raise ValueError(
                    f"layer '{self.name}': a kernel of {width} does not turn a size of {before} into {after}"
                )
        return self

    @property
    def input_size(self) -> int:
        """Numbers per sample that enter the layer."""
        return math.prod(self.input)

    @property
    def output_size(self) -> int:
        """Numbers per sample that leave the layer, S_o or C_o H_o W_o."""
        return math.prod(self.output)

    @property
    def weights(self) -> int:
        """Entries of the weight tensor, without bias and normalisation."""
        if self.kind == "convolution":
            assert self.kernel is not None
            return self.input[0] // self.groups * math.prod(self.kernel) * self.output[0]
        return self.input[-1] * self.output[-1] if self.kind == "linear" else 0

    @property
    def parameters(self) -> int:
        """All trained parameters of the layer and what is attached to it."""
        channels = self.output[-1] if self.kind == "linear" else self.output[0]
        bias = channels if self.bias and self.weights else 0
        return self.weights + bias + 2 * channels * self.attached.count("batch_norm")


def parameter_count(layers: Sequence[LayerSpec]) -> int:
    """Trained parameters of the whole network; its size gamma is 32 bit each."""
    return sum(layer.parameters for layer in layers)


def unchained(layers: Sequence[LayerSpec]) -> tuple[int, str] | None:
    """First layer whose input is not what the layer before it puts out, and the reason; None if all fit."""
    for index, (below, above) in enumerate(pairwise(layers), start=1):
        flattened = "flatten" in below.attached and above.input == (below.output_size,)
        if not flattened and above.input != below.output:
            return index, f"'{above.name}' takes {list(above.input)} but '{below.name}' gives {list(below.output)}"
    return None
