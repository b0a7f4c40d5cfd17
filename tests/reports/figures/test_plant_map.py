"""The map of a plant."""

import numpy as np
import pytest

import fedfloor
from fedfloor.reports.figures.plant_map import measure


@pytest.mark.parametrize("scenario", ["quick", "campus"])
def test_the_map_keeps_true_distances_and_devices_near_their_floor(scenario: str) -> None:
    places = measure(fedfloor.load(scenario))
    assert np.allclose(np.hypot(*places.floor_xy.T), places.distance)
    from_floor = np.hypot(*(places.device_xy - places.floor_xy[places.floor_of]).T)
    assert np.all(from_floor <= 0.2 * places.distance.max() + 1e-9)
    assert len(np.unique(places.device_xy.round(6), axis=0)) == len(places.devices)
