"""Time and memory of every layer on this machine, taken inside steps of split training.

A layer that is timed alone finds its data in the cache and its memory mapped; inside a step it does not. So whole split
steps are run, with a clock between the layers, at all cuts and batches in turn.
"""

__all__ = [
    "CLOCK",
    "HalfStamps",
    "Measurement",
    "Part",
    "StepTimes",
    "measure",
    "parts_of",
    "pinned",
    "timed_step",
    "times_of",
]

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedfloor.arrays import Floats, Ints
from fedfloor.errors import ModelError
from fedfloor.scenario.layers import BYTES_PER_NUMBER, LayerSpec
from fedfloor.scenario.model import Model
from fedfloor.training.network.built import memory_format_of, network_of
from fedfloor.training.network.description import chain, cut_points
from fedfloor.training.network.peak import allocator_peak
from fedfloor.training.network.split import halves, sgd_step
from fedfloor.training.work import undisturbed

#: processor time of the thread, which other processes do not lengthen, where that clock is fine enough
CLOCK = "thread_time" if time.get_clock_info("thread_time").resolution < 1e-6 else "perf_counter"
_clock: Callable[[], float] = getattr(time, CLOCK)

_TICK = 1e-9  #: [s] what a layer takes at least, so that no time is 0
_IN_A_ROW = 5  #: steps with one batch at one cut, as in a round: the first finds the caches cold, the others warm
_LEAST, _MOST = 3, 400  #: turns, in each of which every batch has its steps in a row
_PATIENCE = 1.5  #: how much longer than planned it may take
_WARM_UP = 3  #: steps per batch before the first that counts


@dataclass(frozen=True, slots=True)
class Part:
    """One layer with what is attached to it."""

    module: nn.Sequential
    parameters: list[nn.Parameter]


@dataclass(frozen=True, slots=True)
class HalfStamps:
    """Readings of the clock [s] in one half of one step."""

    span: range  #: its layers
    forward: list[float]  #: at the start, when the input is there, and after every layer
    begin: float  #: of the backward pass
    marks: list[float]  #: when the gradient of every layer's output is there; nan if it has none
    end: float  #: of the backward pass
    update: list[float]  #: before the first and after every layer's step of the weights


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """One step of split training, in seconds."""

    forward: Floats  #: (L,) with the loss in the last layer
    backward: Floats  #: (L,) error, weight gradient and the step of the weights
    overhead: Floats  #: (1,) or (2,) what each half that has layers spends beside them


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Lower quartile, median and upper quartile of the seconds, and bytes, for B batches and L layers."""

    forward: Floats  #: (3, B, L)
    backward: Floats  #: (3, B, L)
    step: Floats  #: (3, B) what a half takes beside its layers
    device_bytes: Ints  #: (B, L) peak of a bottom half that ends with the layer
    gateway_bytes: Ints  #: (B, L) peak of a top half that begins with the layer
    repeats: int  #: steps per batch


def measure(
    model: Model,
    layers: Sequence[LayerSpec],
    batches: Sequence[int],
    *,
    seconds: float,
    on_plan: Callable[[int], None] = lambda _: None,
    on_step: Callable[[], None] = lambda: None,
) -> Measurement:
    """Measure the layers of a network for about `seconds`, but at least 15 steps with every batch.

    `on_plan` is told how often `on_step` will be called, once the first steps have shown how long one takes.
    """
    with undisturbed(), pinned():
        torch.set_num_threads(1)
        network = network_of(model, seed=0)
        layout = memory_format_of(network)
        network = network.to(memory_format=layout)  # type: ignore[call-overload]
        network.train()
        parts = parts_of(network)
        order = layout if len(model.input) == 3 else torch.contiguous_format
        inputs = [
            (torch.randn(batch, *model.input).contiguous(memory_format=order), torch.randint(model.classes, (batch,)))
            for batch in batches
        ]
        depth, rng = len(parts), np.random.default_rng(0)
        spent = sum(_warm_up(parts, x, y, model.name) for x, y in inputs)
        turns = int(np.clip(seconds / max(_IN_A_ROW * spent, _TICK), _LEAST, _MOST))
        on_plan(len(batches) * (turns + depth))
        steps: list[list[list[HalfStamps]]] = [[] for _ in batches]
        cuts: list[int] = []
        deadline = time.perf_counter() + _PATIENCE * seconds
        for turn in range(turns):
            if turn >= _LEAST and time.perf_counter() > deadline:  # others have slowed this machine down
                break
            cuts = cuts or rng.permutation(depth + 1).tolist()
            cut = cuts.pop()
            for own, (x, y) in zip(steps, inputs, strict=True):
                own.extend(timed_step(parts, cut, x, y) for _ in range(_IN_A_ROW))
                on_step()
        peaks = [_peaks(network, layers, x, on_step) for x, _ in inputs]
    times = [[times_of(step, depth) for step in own] for own in steps]
    return Measurement(
        forward=np.stack([_quartiles([step.forward for step in own]) for own in times], axis=1),
        backward=np.stack([_quartiles([step.backward for step in own]) for own in times], axis=1),
        step=np.stack([_quartiles(np.concatenate([step.overhead for step in own])) for own in times], axis=1),
        device_bytes=np.array([device for device, _ in peaks]),
        gateway_bytes=np.array([gateway for _, gateway in peaks]),
        repeats=len(steps[0]),
    )


def timed_step(parts: Sequence[Part], cut: int, x: Tensor, y: Tensor) -> list[HalfStamps]:
    """One step of split training, as in `network.split`, with a clock between the layers; the top half comes first.

    The step of the weights has rate 0, which costs the same and changes nothing. What is done only for measuring is
    done while no clock runs, and there is little of it, because it takes room in the caches.
    """
    depth = len(parts)
    passes: list[tuple[range, list[float], list[Tensor]]] = []  # half, its stamps, its input and outputs of its layers
    value = x
    for span in (range(cut), range(cut, depth)):
        if not span:
            continue
        begin = _clock()
        outputs = [value.detach().requires_grad_(value.requires_grad)]
        stamps = [begin, _clock()]
        for index in span:
            outputs.append(parts[index].module(outputs[-1]))
            stamps.append(_clock())
        if span.stop == depth:
            outputs[-1] = functional.cross_entropy(outputs[-1], y)
            stamps[-1] = _clock()
        passes.append((span, stamps, outputs))
        value = outputs[-1]
    error, step = None, []
    for span, forward, outputs in reversed(passes):
        marks = _marks(outputs[1:])
        begin = _clock()
        if outputs[-1].requires_grad:
            outputs[-1].backward(error)  # type: ignore[no-untyped-call]
        end = _clock()
        sgd_step([], 0.0)  # starting it is part of the step, not of the first layer
        update = [_clock()]
        for index in span:
            sgd_step(parts[index].parameters, 0.0)
            update.append(_clock())
        step.append(HalfStamps(span, forward, begin, marks, end, update))
        error = outputs[0].grad
    return step


def times_of(step: Sequence[HalfStamps], depth: int) -> StepTimes:
    """Seconds of every layer of a step, and what is left of each half."""
    forward, backward, overhead = np.zeros(depth), np.zeros(depth), []
    for half in step:
        own = slice(half.span.start, half.span.stop)
        forward[own] = np.diff(half.forward[1:])
        # From the gradient of a layer's output to that of the layer below, or to the end of the pass.
        ends = [half.end if math.isnan(mark) else mark for mark in [math.nan, *half.marks[:-1]]]
        backward[own] = np.nan_to_num(np.subtract(ends, half.marks)) + np.diff(half.update)
        whole = half.forward[-1] - half.forward[0] + half.update[-1] - half.begin
        overhead.append(whole - forward[own].sum() - backward[own].sum())
    return StepTimes(np.maximum(forward, _TICK), np.maximum(backward, _TICK), np.maximum(overhead, 0.0))


def _marks(outputs: Sequence[Tensor]) -> list[float]:
    """Times at which the gradients of the outputs are there, once the backward pass has run; nan for those without."""
    marks = [math.nan] * len(outputs)

    def mark(index: int) -> Callable[[Tensor], None]:
        return lambda _: marks.__setitem__(index, _clock())

    for index, output in enumerate(outputs):
        if output.requires_grad:
            output.register_hook(mark(index))  # type: ignore[no-untyped-call]
    return marks


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """Keep this thread on one core until the block ends, where the system allows it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})  # the first core serves most interrupts
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def parts_of(network: nn.Sequential) -> list[Part]:
    """The network layer by layer."""
    modules = [module for _, module in chain(network)]
    pieces = [nn.Sequential(*modules[begin:end]) for begin, end in pairwise(cut_points(network))]
    return [Part(piece, list(piece.parameters())) for piece in pieces]


def _warm_up(parts: Sequence[Part], x: Tensor, y: Tensor, name: str) -> float:
    """Take the first steps with a batch; returns the seconds on the wall that the last of them took."""
    for _ in range(_WARM_UP):
        begin = time.perf_counter()
        try:
            timed_step(parts, len(parts) // 2, x, y)
        except ValueError as error:  # such as a normalisation of a single sample
            problem = f"a step with a batch of {len(x)} failed: {error}"
            raise ModelError(f"model '{name}': {problem}. Choose another size of batches") from error
        seconds = time.perf_counter() - begin
    return seconds


def _peaks(
    network: nn.Sequential, layers: Sequence[LayerSpec], x: Tensor, on_step: Callable[[], None]
) -> tuple[list[int], list[int]]:
    """Peak bytes of the bottom half that ends with each layer, and of the top half that begins with it."""
    device, gateway = [], []
    value = x
    for index, layer in enumerate(layers):
        bottom, _ = halves(network, index + 1)
        _, top = halves(network, index)
        received = BYTES_PER_NUMBER * len(x) * layer.output_size if index + 1 < len(layers) else 0
        device.append(allocator_peak(bottom, x) + received)  # the error that the gateway sends back
        with torch.no_grad():
            value = halves(network, index)[0](x)
        gateway.append(allocator_peak(top, value, error_down=index > 0))
        on_step()
    return device, gateway


def _quartiles(values: Sequence[Floats] | Floats) -> Floats:
    """Lower quartile, median and upper quartile over the first axis."""
    return np.asarray(np.quantile(np.asarray(values), [0.25, 0.5, 0.75], axis=0), dtype=float)
