"""Gradients for participation rates over the network: what reaches whom, and who is left out."""

import time
from collections.abc import Iterator

import numpy as np
import pytest

from fedfloor.arrays import Vector
from fedfloor.deploy.certificates import Role
from fedfloor.deploy.fields import Layout
from fedfloor.deploy.messages import Expected, Inputs, Ready, Settled, Slope, Survey, Surveyed
from fedfloor.deploy.surveying import Surveyor, work_of
from fedfloor.training.network.weights import mean_of
from tests.deploy.floors import INPUTS, PATIENCE, TestFloor, lines_of_log, some_data, wait_until

LIMIT = 8


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestFloor]:
    """Two devices that allow gradients, and one that does not."""
    floor = TestFloor(tmp_path_factory.mktemp("plant"), more=["deploy.allow_gradients=true"])
    for place in range(3):  # one after the other, because a busy machine takes long for the first steps
        floor.start_device(place, allow_gradients=place < 2)
        floor.wait_for([k <= place for k in range(3)])
    yield floor
    floor.close()


def test_statistics_are_those_that_the_devices_data_has_and_gradients_end_at_the_gateway(floor: TestFloor) -> None:
    with lines_of_log() as lines:
        (survey,) = floor.station.survey(0, floor.weights, LIMIT, PATIENCE)
        mean = survey.gradient.astype(np.float64)
        (comparison,) = floor.station.compare(0, survey.gradient, PATIENCE)
    surveyors = []
    for task in floor.task.devices[:2]:
        data = some_data(task)
        surveyors.append(Surveyor(task, work_of([task], [(data.samples, data.labels)], INPUTS)))
    found = [surveyor.survey(floor.weights, LIMIT) for surveyor in surveyors]
    slopes = [answer.devices[0] for answer in found]
    assert survey.samples[:2].tolist() == [slope.samples for slope in slopes]
    for key in ("sigma", "norm", "smoothness"):
        assert getattr(survey, key)[:2] == pytest.approx([getattr(slope, key) for slope in slopes], rel=1e-5), key
    counts = [float(slope.samples) for slope in slopes]
    expected = mean_of(counts, [answer.gradient for answer in found], found[0].gradient.size)
    assert np.linalg.norm(mean - expected) < 1e-5 * np.linalg.norm(expected)
    delta = [float(np.linalg.norm(answer.gradient - expected)) for answer in found]
    assert comparison.delta[:2] == pytest.approx(delta, rel=1e-5)
    assert np.all(comparison.smoothness[:2] > 0.0)
    assert np.isnan(survey.sigma[2])
    assert np.isnan(comparison.delta[2])
    assert any("which this device does not allow (--allow-gradients)" in line for line in lines)


def test_a_round_goes_on_after_an_estimate_that_was_too_late(floor: TestFloor, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Surveyor.survey

    def slow(surveyor: Surveyor, weights: Vector, limit: int) -> Surveyed:
        time.sleep(1.0)
        return quick(surveyor, weights, limit)

    monkeypatch.setattr(Surveyor, "survey", slow)
    assert floor.station.survey(50, floor.weights, LIMIT, 0.5) == []
    floor.station.compare(50, floor.weights, 3.0)  # nobody is asked who has not answered
    reply = floor.carry_out(floor.order())[0]
    assert reply.model is not None
    assert reply.took_part.all()


def test_what_a_gateway_cannot_have_found_is_left_out(floor: TestFloor) -> None:
    size, names = floor.weights.size, [device.name for device in floor.other.devices]
    answers = {
        "a device of another floor": Surveyed((Slope("nobody", 5, 1.0, 1.0, 1.0),), floor.weights),
        "no device": Surveyed((), floor.weights),
        "a device twice": Surveyed((Slope(names[0], 5, 1.0, 1.0, 1.0),) * 2, floor.weights),
        "no sample": Surveyed((Slope(names[0], 0, 1.0, 1.0, 1.0),), floor.weights),
        "a gradient of another shape": Surveyed((Slope(names[0], 5, 1.0, 1.0, 1.0),), floor.weights[1:]),
        "infinity": Surveyed((Slope(names[0], 5, np.inf, 1.0, 1.0),), floor.weights),
    }

    async def answer_once(answer: Surveyed) -> None:
        joined = await floor.dial_as(Role.GATEWAY, floor.other.floor)
        survey = Expected(Survey, {"weights": Layout("float32", (size,))})
        await joined.session.send(Ready(None, ()))
        try:
            while True:
                envelope = await joined.session.receive(survey, Inputs, Settled)
                if isinstance(envelope.message, Survey):
                    await joined.session.send(answer, envelope.turn)
        finally:
            await joined.session.close()

    second = floor.station._floors[1]
    for index, (name, answer) in enumerate(answers.items()):
        stop = floor.loop.start(answer_once(answer))
        wait_until(lambda: second.session is not None)
        second.devices = dict.fromkeys(names)
        surveys = floor.station.survey(100 + index, floor.weights, LIMIT, PATIENCE)
        assert [survey.floor for survey in surveys] == [0], name
        stop()
        wait_until(lambda: second.session is None)
