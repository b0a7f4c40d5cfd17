"""A model of the user's tried on a few samples, so that what is wrong with it shows before a run has begun."""

__all__ = ["try_model"]

import dataclasses
import math

import numpy as np
import torch

from fedfloor.errors import ModelError
from fedfloor.training.data.samples import Samples
from fedfloor.training.tasks import Task, carry_out
from fedfloor.training.work import Job, Work

_FEW = 2  #: samples; batch norm needs as many


def try_model(job: Job, samples: Samples, *, estimates: bool, observes: bool) -> None:
    """One small step, one small test and, where a run will want them, gradients of an own model, as the run does them.

    Built-in models are left alone: tests try them.
    """
    if ":" not in job.model.name:
        return
    work = Work(dataclasses.replace(job, iterations=1, batch=np.minimum(job.batch, _FEW)), samples)
    label = f"model '{job.model.name}'"
    _refuse_unfit(work, label)
    first = work.first_weights()
    for name, values in work.layout.named(first).items():
        wrong = int(np.count_nonzero(~np.isfinite(values.astype(np.float32))))
        if wrong:
            problem = f"its first weights are not finite: {wrong} of {values.size} in '{name}'"
            raise ModelError(f"{label}: {problem}. Give it others where it is made")
    tasks = [
        Task("train", (0, np.array([0]), np.array([1])), 1),
        Task("evaluate", (0, min(_FEW, samples.test_labels.size)), 0),
        *([Task("estimate", (0, _FEW), 1)] if estimates else []),
        *([Task("gradient", (0, _FEW), 1)] if observes else []),
    ]
    results = [carry_out(work, task, first, np.empty((task.vectors, first.size), np.float32)) for task in tasks]
    loss = float(results[0][0])
    if not math.isfinite(loss):
        problem = f"its loss is {loss:g} with its first weights, before any step"
        raise ModelError(f"{label}: {problem}. Make it with smaller weights, or mend its layers")


def _refuse_unfit(work: Work, label: str) -> None:
    """What can be told without a step: kinds of numbers, and whether there is anything to train."""
    parameters = dict(work.network.named_parameters())
    for name, parameter in parameters.items():
        if parameter.dtype != torch.float32:
            kind = str(parameter.dtype).removeprefix("torch.")
            raise ModelError(f"{label}: parameter '{name}' is {kind}, models travel as float32. Make it with .float()")
    if not any(parameter.requires_grad for parameter in parameters.values()):
        problem = f"none of its {len(parameters)} parameters is trained" if parameters else "has no parameters"
        raise ModelError(f"{label}: {problem}. Set requires_grad on those that training should change")
