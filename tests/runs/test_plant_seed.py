"""A seed of its own for the plant: runs of several seeds share the plant and the split of the data."""

from pathlib import Path

import numpy as np
import pytest

import fedfloor
from fedfloor.api import holding
from fedfloor.deploy.holdings import data_source
from fedfloor.deploy.tasks import floor_tasks, parse_task, task_text
from fedfloor.errors import RunLogError
from fedfloor.reports.reading import collect
from fedfloor.runs.folder import SCENARIO, refuse_changes
from fedfloor.runs.planned import resolve
from fedfloor.scenario import Scenario, resolved_toml
from fedfloor.training.data.holding import gather
from fedfloor.weather.draws import climate_of
from tests.runs.small import assert_equal_runs, small_run

FIXED = "plant_seed=5"


def drawn(seed: int, *overrides: str) -> Scenario:
    return fedfloor.load("quick", overrides, seed=seed)


def test_a_plant_seed_fixes_what_is_drawn_and_the_seed_the_weather() -> None:
    one, two = drawn(1, FIXED), drawn(2, FIXED)
    assert (one.floors, one.battery) == (two.floors, two.battery) == (drawn(5).floors, drawn(5).battery)
    assert one.floors != drawn(1).floors
    first, second = climate_of(one).weather(0), climate_of(two).weather(0)
    assert not np.array_equal(first.uplink_gain, second.uplink_gain)
    plain, fixed = climate_of(drawn(1)).weather(3), climate_of(one).weather(3)
    assert np.allclose(plain.device_energy, fixed.device_energy)  # of the run's seed, whatever the plant


def test_a_plant_seed_fixes_the_split_of_the_data() -> None:
    one, two, own = (gather(fedfloor.load("quick", more, seed=seed)).samples
                     for seed, more in ((1, [FIXED]), (2, [FIXED]), (5, [])))  # fmt: skip
    assert np.array_equal(one.labels, two.labels)
    assert np.array_equal(one.images, two.images)
    assert np.array_equal(one.images, own.images)
    assert holding("quick", [FIXED], seed=1)["devices"] != holding("quick", seed=1)["devices"]


def test_a_scenario_without_a_plant_seed_does_not_name_one() -> None:
    assert "plant_seed" not in resolved_toml(resolve("quick"))
    assert "plant_seed = 5\n" in resolved_toml(resolve("quick", [FIXED]))
    assert "plant_seed" not in task_text(floor_tasks(fedfloor.load("quick"))[0].devices[0])


@pytest.mark.slow
def test_a_run_with_a_plant_seed_resumes_and_decides_again_as_it_did(tmp_path: Path) -> None:
    small_run(tmp_path / "whole", FIXED)
    small_run(tmp_path / "parts", FIXED, rounds=4)
    small_run(tmp_path / "parts", FIXED, resume=True)
    assert_equal_runs(tmp_path / "parts", tmp_path / "whole")
    record = fedfloor.read(tmp_path / "whole")
    assert fedfloor.plan(tmp_path / "whole", round=3)["delay_s"] == record["delay_s"][3]
    with pytest.raises(fedfloor.FedfloorError, match="changed scenario"):
        small_run(tmp_path / "whole", "plant_seed=6", resume=True)


@pytest.mark.parametrize(
    ("override", "change"), [("radio.channels=2", "radio.channels (3 -> 2)"), (FIXED, "plant_seed (absent -> 5)")]
)
def test_a_changed_run_is_refused_by_what_was_changed_and_not_by_what_is_drawn_from_it(
    override: str, change: str, tmp_path: Path
) -> None:
    (tmp_path / SCENARIO).write_text(resolved_toml(resolve("quick")))
    with pytest.raises(RunLogError) as refused:
        refuse_changes(tmp_path, resolved_toml(resolve("quick", [override])))
    assert f"cannot resume with a changed scenario: {change}. Name the scenario that it has run, {tmp_path}" in str(
        refused.value
    )


def test_a_device_holds_the_share_of_the_plants_seed() -> None:
    scenario = fedfloor.load("quick", [FIXED], seed=1)
    task = floor_tasks(scenario)[0].devices[0]
    sent = parse_task(task_text(task), type(task), "base station")
    share, samples = data_source("scenario:quick")(sent), gather(scenario).samples
    assert np.array_equal(share.samples, samples.images[samples.of_device(0)])


def test_runs_of_one_plant_are_a_series_and_those_of_another_plant_another(tmp_path: Path) -> None:
    for name, seed, plant in (("a", 1, 5), ("b", 2, 5), ("c", 1, 6)):
        fedfloor.simulate("quick", "random", 1, seed=seed, overrides=[f"plant_seed={plant}"], out=tmp_path / name)
    labels = {series.label: [run.folder.name for run in series.runs] for series in collect([tmp_path]).series}
    assert list(labels.values()) == [["a", "b"], ["c"]]
    assert any("plant_seed=6" in label for label in labels)
