"""Levers that need the machines: momentum, the schedule of the rate, and the number of iterations of an order."""

import dataclasses
from pathlib import Path

import numpy as np

from fedfloor.training.data.samples import Samples
from fedfloor.training.schedule import RateSchedule
from fedfloor.training.work import Job, Work
from tests.deploy.floors import CUT, INPUTS, TestFloor, some_data

LEVERS = (
    "training.momentum=0.8",
    "training.schedule=step",
    "training.schedule_rounds=1",
    "training.schedule_factor=0.5",
    "training.extra_iterations=2",
)


def test_a_device_and_its_gateway_train_as_ordered(tmp_path: Path) -> None:
    floor = TestFloor(tmp_path, devices=1, more=LEVERS)
    try:
        task = floor.task.devices[0]
        data = some_data(task, None)
        job = Job(
            model=task.model,
            seed=task.seed,
            iterations=task.local_iterations,
            batch=np.array([task.batch]),
            redraw=task.redraw_batch,
            apart=True,
            boundary=task.boundary,
            momentum=0.8,
            schedule=RateSchedule(task.learning_rate, "step", 1, 0.5),
        )
        count = data.labels.size
        scale = INPUTS.mean, INPUTS.deviation
        held = Samples(
            data.samples, data.labels, np.array([0, count]), np.arange(count), data.samples[:0], data.labels[:0], *scale
        )
        work, out = Work(job, held), np.empty((1, floor.weights.size), np.float32)
        floor.start_device(0)
        floor.wait_for([True])
        for index, iterations in enumerate((None, task.local_iterations + 2)):
            order = dataclasses.replace(floor.order(deadline=100.0), iterations=iterations)
            reply = floor.carry_out(order)[0]
            losses = work.train(index, np.array([0]), np.array([CUT]), floor.weights, out, iterations=iterations)
            assert reply.model is not None, reply.reason
            assert np.linalg.norm(reply.model - out[0]) <= 1e-6 * np.linalg.norm(out[0])
            assert abs(reply.loss - losses[0, 0]) < 1e-6
        too_many = dataclasses.replace(floor.order(deadline=100.0), iterations=task.local_iterations + 3)
        reply = floor.carry_out(too_many)[0]
        assert reply.model is None
        assert "training.local_iterations + training.extra_iterations" in reply.reason
    finally:
        floor.close()
