"""The layer list of a network, and the table of layer kinds that costs and cuts share (Table II, Sec. II-B3)."""

__all__ = [
    "ATTACHMENTS",
    "BYTES_PER_NUMBER",
    "KINDS",
    "Attachment",
    "BlockCounts",
    "LayerKind",
    "LayerSpec",
    "PaperCounts",
    "Shape",
    "parameter_count",
    "unchained",
]

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Self, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from fedfloor.errors import shown
from fedfloor.scenario.section import Flag, Int0, Int1, Section, finding

BYTES_PER_NUMBER = 4  #: [byte] S_f, precision of weights, activations and gradients
_INDEX = 8  #: [byte] position of the maximum that max pooling remembers
_MASK = 1  #: [byte] whether dropout let a number pass

Count: TypeAlias = Callable[["LayerSpec"], int]


@dataclass(frozen=True, slots=True)
class LayerKind:
    """One row of the table of layer kinds; every count is for one sample and leaves attachments out."""

    short_name: str  #: stem of generated layer names, as in conv1
    misfit: Callable[["LayerSpec"], str | None]  #: why the layer's shapes do not fit its kind; None if they do
    channel_axis: int  #: axis of the output whose entries have a bias and a normalisation of their own
    biases_per_channel: int  #: trained parameters per output channel beside the weights, unless bias = false
    weights: Count  #: entries of the weight tensor
    product_flop: Count  #: matrix products of the forward pass
    paper_forward_flop: Count  #: Table II, forward
    paper_error_flop: Count  #: Table II, error passed down
    paper_gradient_flop: Count  #: Table II, gradient of the weights
    other_forward_flop: Count  #: outside the product, forward: bias or pooling
    other_backward_flop: Count  #: outside the products, backward
    kept_bytes: int  #: [byte] per output number, kept for the backward pass


@dataclass(frozen=True, slots=True)
class Attachment:
    """One row of the table of attachments: what follows a layer and belongs to it, so that no cut lies between."""

    forward_flop: int  #: per output number of the layer
    backward_flop: int  #: per output number of the layer
    kept_bytes: int  #: [byte] per output number, kept for the backward pass beside the layer's own output
    parameters_per_channel: int = 0  #: trained parameters per output channel
    statistics_per_channel: int = 0  #: numbers per output channel that the forward pass keeps up to date
    counters: int = 0  #: whole numbers that the forward pass keeps up to date
    flattens: bool = False  #: the layer above takes the output as one vector
    sized: bool = False  #: the sizes of its trained tensors do not follow from the layer and are in `norm_sizes`


def _none(_: "LayerSpec") -> int:
    return 0


def _input_size(layer: "LayerSpec") -> int:
    return layer.input_size


def _output_size(layer: "LayerSpec") -> int:
    return layer.output_size


def _bias_flop(layer: "LayerSpec") -> int:
    """Forward: add the bias. Backward: sum its gradient."""
    return layer.output_size if layer.bias else 0


def _image_misfit(layer: "LayerSpec", growth: int) -> str | None:
    """What a convolution and a pooling demand; per axis the output exceeds the input by at most `growth` kernels."""
    if layer.kernel is None:
        return "the kernel is missing. Add it, as in kernel = [3, 3]"
    if not len(layer.input) == len(layer.output) == 1 + len(layer.kernel):
        got = f"got {shown(list(layer.input))} and {shown(list(layer.output))}"
        axes = "[channels, length] with a kernel of one size" if len(layer.kernel) == 1 else "[channels, height, width]"
        return f"input and output must be {axes}, {got}"
    for before, after, width in zip(layer.input[1:], layer.output[1:], layer.kernel, strict=True):
        if after > before + growth * width or width > 2 * before + 1:
            return f"a kernel of {width} cannot turn a size of {before} into {after}"
    return None


def _convolution_misfit(layer: "LayerSpec") -> str | None:
    misfit = _image_misfit(layer, growth=2)
    for end, channels in (("input", layer.input[0]), ("output", layer.output[0])):
        if misfit is None and channels % layer.groups:
            misfit = f"{channels} {end} channels cannot be divided into {layer.groups} groups"
    return misfit


def _convolution_weights(layer: "LayerSpec") -> int:
    """C_i H_f W_f C_o; each group sees its share of the input channels."""
    return layer.input[0] // layer.groups * layer.kernel_size * layer.output[0]


def _convolution_product(layer: "LayerSpec") -> int:
    """2 C_i H_f W_f C_o H_o W_o; in one dimension without H_f and H_o."""
    return 2 * layer.weights * math.prod(layer.output[1:])


def _convolution_error_of_the_paper(layer: "LayerSpec") -> int:
    # Paper note: the table's error count of a convolution has no factor C_i C_o; kept in this cost model.
    # Paper note: the table knows images only; a signal is read as one of height 1, whose factor for the height is 1.
    assert layer.kernel is not None
    return 2 * math.prod(
        2 * filter_size + filter_size * size - 2
        for size, filter_size in zip(layer.output[1:], layer.kernel, strict=True)
    )


def _pooling_misfit(layer: "LayerSpec") -> str | None:
    misfit = _image_misfit(layer, growth=0)
    if misfit is None and layer.input[0] != layer.output[0]:
        misfit = f"pooling keeps the number of channels, got {layer.input[0]} in and {layer.output[0]} out"
    return misfit


def _comparisons(layer: "LayerSpec") -> int:
    """Max pooling, forward: compare the numbers under the kernel."""
    return (layer.kernel_size - 1) * layer.output_size


def _kernel_sweep(layer: "LayerSpec") -> int:
    """Average pooling. Forward: add and divide the numbers under the kernel. Backward: spread the error over them."""
    return layer.kernel_size * layer.output_size


def _linear_misfit(layer: "LayerSpec") -> str | None:
    if layer.kernel is not None or layer.groups != 1:
        return "a linear layer has no kernel and no groups. Remove them"
    if layer.input[:-1] != layer.output[:-1]:
        got = f"got input {list(layer.input)} and output {list(layer.output)}"
        return f"a linear layer changes only the last size, {got}"
    return None


def _linear_weights(layer: "LayerSpec") -> int:
    """S_i S_o."""
    return layer.input[-1] * layer.output[-1]


def _linear_product(layer: "LayerSpec") -> int:
    """2 S_i S_o, once for every row of the input."""
    return 2 * layer.input_size * layer.output[-1]


def _linear_gradient_of_the_paper(layer: "LayerSpec") -> int:
    # Paper note: the table counts S_i S_o for a linear layer's gradient, half a product; kept.
    return _linear_product(layer) // 2


def _block_misfit(layer: "LayerSpec") -> str | None:
    counts = layer.block
    if counts is None:
        return "its counts are missing. `fedfloor profile MODEL --format toml` prints them"
    if layer.kernel is not None or layer.groups != 1 or not layer.bias:
        return "a block has no kernel, groups or bias of its own. Remove them"
    if counts.error_size < layer.output_size:
        problem = f"must be at least the {layer.output_size} numbers of its output, got {counts.error_size}"
        return f"block.error_size {problem}"
    if counts.parameters > sum(counts.tensors):
        problem = f"must be at most the {sum(counts.tensors)} numbers of its tensors, got {counts.parameters}"
        return f"block.parameters {problem}"
    return None


def _counted(name: str) -> Count:
    """A number that is written out in the counts of a block."""
    return lambda layer: int(getattr(layer.counts, name))


def _listed(name: str) -> Count:
    """A number of the layers inside a block that Table II lists."""
    return lambda layer: int(getattr(layer.counts.paper, name))


#: layers that a cut can lie behind; the torch modules of each are in `training/network/description.py`
KINDS: Mapping[str, LayerKind] = MappingProxyType(
    {
        "convolution": LayerKind(
            short_name="conv",
            misfit=_convolution_misfit,
            channel_axis=0,
            biases_per_channel=1,
            weights=_convolution_weights,
            product_flop=_convolution_product,
            paper_forward_flop=_convolution_product,
            paper_error_flop=_convolution_error_of_the_paper,
            paper_gradient_flop=_convolution_product,
            other_forward_flop=_bias_flop,
            other_backward_flop=_bias_flop,
            kept_bytes=BYTES_PER_NUMBER,
        ),
        "max_pooling": LayerKind(
            short_name="pool",
            misfit=_pooling_misfit,
            channel_axis=0,
            biases_per_channel=0,
            weights=_none,
            product_flop=_none,
            paper_forward_flop=_input_size,
            paper_error_flop=_input_size,
            paper_gradient_flop=_none,
            other_forward_flop=_comparisons,
            other_backward_flop=_output_size,  # route the error to the maximum
            kept_bytes=BYTES_PER_NUMBER + _INDEX,
        ),
        "average_pooling": LayerKind(
            short_name="pool",
            misfit=_pooling_misfit,
            channel_axis=0,
            biases_per_channel=0,
            weights=_none,
            product_flop=_none,
            paper_forward_flop=_input_size,
            paper_error_flop=_input_size,
            paper_gradient_flop=_none,
            other_forward_flop=_kernel_sweep,
            other_backward_flop=_kernel_sweep,
            kept_bytes=BYTES_PER_NUMBER,
        ),
        "linear": LayerKind(
            short_name="linear",
            misfit=_linear_misfit,
            channel_axis=-1,
            biases_per_channel=1,
            weights=_linear_weights,
            product_flop=_linear_product,
            paper_forward_flop=_linear_product,
            paper_error_flop=_linear_product,
            paper_gradient_flop=_linear_gradient_of_the_paper,
            other_forward_flop=_bias_flop,
            other_backward_flop=_bias_flop,
            kept_bytes=BYTES_PER_NUMBER,
        ),
        "block": LayerKind(  # a user's module, whose counts are written out in the layer list
            short_name="block",
            misfit=_block_misfit,
            channel_axis=0,
            biases_per_channel=0,
            weights=_listed("weights"),
            product_flop=_counted("forward_flop"),
            paper_forward_flop=_listed("forward_flop"),
            paper_error_flop=_listed("error_flop"),
            paper_gradient_flop=_listed("gradient_flop"),
            other_forward_flop=_counted("other_forward_flop"),
            other_backward_flop=_counted("other_backward_flop"),
            kept_bytes=0,  # `BlockCounts.kept_bytes` has them
        ),
    }
)

#: what belongs to the layer before it; `activation` keeps its output for the backward pass, `activation_in` its input
ATTACHMENTS: Mapping[str, Attachment] = MappingProxyType(
    {
        "activation": Attachment(forward_flop=1, backward_flop=1, kept_bytes=0),
        "activation_in": Attachment(forward_flop=1, backward_flop=1, kept_bytes=BYTES_PER_NUMBER),
        "batch_norm": Attachment(
            forward_flop=7,  # mean 1, variance 2, normalise 2, scale and shift 2
            backward_flop=11,  # the two sums and the error back
            kept_bytes=BYTES_PER_NUMBER,
            parameters_per_channel=2,
            statistics_per_channel=2,  # running mean and variance
            counters=1,  # batches seen
        ),
        "group_norm": Attachment(forward_flop=7, backward_flop=11, kept_bytes=BYTES_PER_NUMBER, sized=True),
        "layer_norm": Attachment(forward_flop=7, backward_flop=11, kept_bytes=BYTES_PER_NUMBER, sized=True),
        "dropout": Attachment(forward_flop=1, backward_flop=1, kept_bytes=BYTES_PER_NUMBER + _MASK),
        "flatten": Attachment(forward_flop=0, backward_flop=0, kept_bytes=0, flattens=True),
    }
)


def _in_table(table: Mapping[str, object], what: str) -> AfterValidator:
    def refuse_unknown(name: str) -> str:
        if name not in table:
            raise finding(f"unknown {what}, got {shown(name)}. Known: {', '.join(table)}")
        return name

    return AfterValidator(refuse_unknown)


Shape = Annotated[tuple[Int1, ...], Field(min_length=1)]
_Kernel = Annotated[tuple[Int1, ...], Field(min_length=1, max_length=2)]
_KindName = Annotated[str, _in_table(KINDS, "layer kind"), WithJsonSchema({"enum": [*KINDS], "type": "string"})]
_AttachmentName = Annotated[
    str, _in_table(ATTACHMENTS, "attachment"), WithJsonSchema({"enum": [*ATTACHMENTS], "type": "string"})
]


class PaperCounts(Section):
    """Sums over the layers inside a block that Table II lists; all are 0 if there are none."""

    forward_flop: Int0 = 0  #: per sample
    error_flop: Int0 = 0  #: per sample
    gradient_flop: Int0 = 0  #: per sample
    weights: Int0 = 0  #: entries of the weight tensors
    inputs: Int0 = 0  #: numbers per sample that enter the layers
    outputs: Int0 = 0  #: numbers per sample that leave the layers


class BlockCounts(Section):
    """What a block costs; FLOPs and bytes are per sample."""

    forward_flop: Int0  #: products of the forward pass
    error_flop: Int0  #: products that the backward pass needs only to pass an error below the block
    gradient_flop: Int0  #: all other products of the backward pass
    other_forward_flop: Int0 = 0  #: outside the products: bias, activation, pooling and normalisation
    other_backward_flop: Int0 = 0  #: the same on the way back
    kept_bytes: Int0  #: [byte] kept for the backward pass, with the output and without the input
    error_size: Int1  #: numbers of the largest error inside
    parameters: Int0  #: trained parameters
    tensors: tuple[Int1, ...] = ()  #: sizes of its tensors of real numbers: parameters and buffers
    counters: Int0 = 0  #: whole numbers in its buffers
    paper: PaperCounts = PaperCounts()  #: for the cost model `paper`


_LATER_KEYS = ("norm_sizes", "block")  #: keys that the first versions of layer lists do not have


class LayerSpec(Section):
    """One layer between two possible cuts, with everything attached to it."""

    name: Annotated[str, Field(min_length=1)]
    kind: _KindName  #: its row is in KINDS
    input: Shape  #: (C, H, W), (C, W) or (S,), one sample
    output: Shape  #: (C, H, W), (C, W) or (S,), one sample; shape before a flatten that follows
    kernel: _Kernel | None = None  #: (Hf, Wf) of a convolution or pooling; (Wf,) in one dimension
    groups: Int1 = 1  #: of a convolution
    bias: Flag = True  #: of a convolution or linear layer
    attached: tuple[_AttachmentName, ...] = ()  #: their rows are in ATTACHMENTS
    norm_sizes: tuple[Int1, ...] = ()  #: entries of the trained tensors of attached group and layer norms, in order
    block: BlockCounts | None = None  #: of a block

    @model_validator(mode="after")
    def _shapes_fit_the_kind(self) -> Self:
        misfit = self.row.misfit(self)
        if misfit is None and self.block is not None and self.kind != "block":
            misfit = "only a block has counts of its own. Remove the key block, or set kind = 'block'"
        if misfit is None and self.norm_sizes and not any(attachment.sized for attachment in self.attachments):
            misfit = f"norm_sizes {shown(list(self.norm_sizes))} belong to no group_norm or layer_norm. Remove them"
        if misfit is not None:
            raise finding(f"layer {shown(self.name)} ({self.kind}): {misfit}")
        return self

    @model_serializer(mode="wrap")
    def _without_idle_keys(self, plain: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Keys that older versions do not know are left out while they have no effect."""
        keys: dict[str, object] = plain(self)
        idle = {name for name in _LATER_KEYS if getattr(self, name) == type(self).model_fields[name].default}
        return {name: value for name, value in keys.items() if name not in idle}

    @property
    def row(self) -> LayerKind:
        """Row of the layer's kind."""
        return KINDS[self.kind]

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """Rows of what is attached to the layer."""
        return tuple(ATTACHMENTS[name] for name in self.attached)

    @property
    def counts(self) -> BlockCounts:
        """What a block costs; only blocks have it."""
        assert self.block is not None
        return self.block

    @property
    def kernel_size(self) -> int:
        """Numbers per channel under the kernel, H_f W_f or W_f; 1 without a kernel."""
        return math.prod(self.kernel or ())

    @property
    def input_size(self) -> int:
        """Numbers per sample that enter the layer."""
        return math.prod(self.input)

    @property
    def output_size(self) -> int:
        """Numbers per sample that leave the layer: S_o, C_o H_o W_o or C_o W_o."""
        return math.prod(self.output)

    @property
    def weights(self) -> int:
        """Entries of the weight tensor, without bias and normalisation."""
        return self.row.weights(self)

    @property
    def learns(self) -> bool:
        """Whether the layer itself has parameters, so that the layers above must pass an error down."""
        return (self.weights if self.block is None else self.block.parameters) > 0

    @property
    def error_flop(self) -> int:
        """Products that pass the error below the layer."""
        return self.row.product_flop(self) if self.block is None else self.block.error_flop

    @property
    def gradient_flop(self) -> int:
        """Products of the weight gradient; in a block also of the errors inside."""
        return self.row.product_flop(self) if self.block is None else self.block.gradient_flop

    @property
    def kept_bytes(self) -> int:
        """Bytes per sample that are kept for the backward pass, without those of attachments."""
        return self.output_size * self.row.kept_bytes if self.block is None else self.block.kept_bytes

    @property
    def error_size(self) -> int:
        """Numbers per sample of the largest error: that of the output, or one inside a block."""
        return self.output_size if self.block is None else self.block.error_size

    @property
    def parameters(self) -> int:
        """All trained parameters of the layer and of what is attached to it."""
        own = self.weights if self.block is None else self.block.parameters
        per_channel = self.row.biases_per_channel if self.bias else 0
        per_channel += sum(attachment.parameters_per_channel for attachment in self.attachments)
        return own + per_channel * self.output[self.row.channel_axis] + sum(self.norm_sizes)

    @property
    def tensors(self) -> tuple[int, ...]:
        """Sizes of the tensors of real numbers that describe the layer: parameters, and statistics of a batch norm."""
        own = tuple(filter(None, [self.weights])) if self.block is None else self.block.tensors
        per_channel = self.row.biases_per_channel if self.bias else 0
        per_channel += sum(entry.parameters_per_channel + entry.statistics_per_channel for entry in self.attachments)
        channels = self.output[self.row.channel_axis]
        return (*own, *([channels] * per_channel), *self.norm_sizes)

    @property
    def counters(self) -> int:
        """Whole numbers that describe the layer beside its tensors."""
        own = 0 if self.block is None else self.block.counters
        return own + sum(attachment.counters for attachment in self.attachments)


def parameter_count(layers: Sequence[LayerSpec]) -> int:
    """Number of trained parameters of the whole network; its size gamma is 32 bit each."""
    return sum(layer.parameters for layer in layers)


def unchained(layers: Sequence[LayerSpec]) -> tuple[int, str] | None:
    """Return the first layer whose input differs from the output below it, with the reason; None if all fit."""
    for index, (below, above) in enumerate(pairwise(layers), start=1):
        flattens = any(attachment.flattens for attachment in below.attachments)
        if above.input != below.output and not (flattens and above.input == (below.output_size,)):
            taken, given = shown(list(above.input)), shown(list(below.output))
            return index, f"{shown(above.name)} takes {taken} but {shown(below.name)} gives {given}"
    return None
