"""Trial of a user's model on a few samples, so that its mistakes show before a run starts."""

__all__ = ["try_model"]

import dataclasses
import math

import numpy as np
import torch
from torch import Tensor, nn

from fedfloor.errors import ModelError
from fedfloor.training.data.samples import Samples
from fedfloor.training.tasks import EstimateTask, EvaluateTask, GradientTask, Task, TrainTask, carry_out
from fedfloor.training.work import Job, Work

_FEW = 2  #: samples; the least that batch norm can train on


def try_model(job: Job, samples: Samples, *, estimates: bool, observes: bool) -> None:
    """Try a user's model: one small training step, one small test and, if the run needs them, gradients.

    Built-in models are skipped, because the project's own tests cover them.
    """
    if ":" not in job.model.name:
        return
    work = Work(dataclasses.replace(job, iterations=1, batch=np.minimum(job.batch, _FEW)), samples)
    label = f"model '{job.model.name}'"
    _refuse_unfit(work, label)
    first = work.first_weights()
    for name, values in work.layout.named(first).items():
        count = int(np.count_nonzero(~np.isfinite(values.astype(np.float32))))
        if count:
            problem = f"its first weights are not finite: {count} of {values.size} in '{name}'"
            raise ModelError(f"{label}: {problem}. Initialise them with finite values")
    tasks: list[Task[object]] = [
        EvaluateTask(0, min(_FEW, samples.test_labels.size)),
        *([EstimateTask(0, _FEW)] if estimates else []),
        *([GradientTask(0, _FEW)] if observes else []),
    ]
    buffers, out = _Buffers(work.network), np.empty((1, first.size), np.float32)
    losses = carry_out(work, TrainTask(0, np.array([0]), np.array([1])), first, out)
    for task in tasks:
        carry_out(work, task, first, out)
    buffers.refuse_lost(label)
    loss = float(losses[0, 0])
    if not math.isfinite(loss):
        problem = f"its loss is {loss:g} with its first weights, before any step"
        raise ModelError(f"{label}: {problem}. Initialise it with smaller weights, or fix its layers")


class _Buffers:
    """Buffers of a network before it is trained, to find those that averaging would miss."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._state = {name: tensor.data_ptr() for name, tensor in network.state_dict().items()}
        self._loose = {name: buffer.clone() for name, buffer in self._all().items() if name not in self._state}

    def _all(self) -> dict[str, Tensor]:
        return dict(self._network.named_buffers())

    def refuse_lost(self, label: str) -> None:
        """Refuse a network that has replaced a buffer, or changed one that is not part of its weights."""
        for name, tensor in self._network.state_dict().items():
            if tensor.data_ptr() != self._state.get(name):
                problem = f"'{name}' is another tensor after a training step, so it would not be averaged"
                advice = f"Change it in place, as in self.{name.rpartition('.')[2]}.copy_(...)"
                raise ModelError(f"{label}: {problem}. {advice}")
        for name, tensor in self._all().items():
            if name not in self._state and not torch.equal(tensor, self._loose.get(name, tensor.new_empty(0))):
                problem = f"the buffer '{name}' changes in training, but is not averaged"
                raise ModelError(f"{label}: {problem}. Register it with persistent=True")


def _refuse_unfit(work: Work, label: str) -> None:
    """Refuse a model with parameters that are not float32, or without any parameter to train."""
    parameters = dict(work.network.named_parameters())
    for name, parameter in parameters.items():
        if parameter.dtype != torch.float32:
            kind = str(parameter.dtype).removeprefix("torch.")
            problem = f"parameter '{name}' is {kind}, but models are exchanged as float32"
            raise ModelError(f"{label}: {problem}. Convert the model with .float()")
    if not any(parameter.requires_grad for parameter in parameters.values()):
        if not parameters:
            raise ModelError(f"{label}: has no parameters. Add a layer that can be trained")
        problem = f"none of its {len(parameters)} parameters is trained"
        raise ModelError(f"{label}: {problem}. Set requires_grad on those that training should change")
