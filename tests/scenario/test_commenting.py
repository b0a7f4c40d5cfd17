"""`fedfloor init --preset`: the preset's own values, with a comment for every key."""

import re
import tomllib
from importlib import resources

import pytest

from fedfloor import api
from fedfloor.errors import ScenarioError
from tests.conftest import PRESETS

FOLDER = resources.files("fedfloor.scenario") / "presets"


@pytest.mark.parametrize("name", PRESETS)
def test_comments_change_no_value_of_a_preset(name: str) -> None:
    text = api.starter_scenario(name)
    assert tomllib.loads(text) == tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    assert f"preset `{name}`" in text.splitlines()[0]


def test_every_key_of_a_preset_is_explained_once() -> None:
    lines = api.starter_scenario("factory").splitlines()
    for key in ("channels", "frequency_ghz", "max_power_mw", "switched_capacitance", "samples", "rates"):
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{key} = "))
        assert "#" in lines[at] or lines[at - 1].startswith("#"), key
    powers = [line for line in lines if line.startswith("max_power_mw")]
    assert [("#" in line) for line in powers] == [True, False, False, False]


def test_a_comment_that_the_preset_has_is_kept() -> None:
    (line,) = [line for line in api.starter_scenario("factory").splitlines() if line.startswith("min_cut")]
    assert line == "min_cut = 1 # raw images stay on the device"


def test_layer_lists_keep_their_lines() -> None:
    text = api.starter_scenario("quick")
    assert re.search(r'\n# layer list .*\nlayers = \[\n  \{name = "conv1", .*\},\n', text)


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(ScenarioError, match=r"preset 'factroy': unknown\. Did you mean 'factory'\?"):
        api.starter_scenario("factroy")
