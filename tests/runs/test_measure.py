"""From a model or a scenario to a hardware profile, and from profiles to shares."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fedfloor
from fedfloor import api
from fedfloor.cli import program
from fedfloor.costs.hardware import HardwareProfile, profile_text, read_profile
from fedfloor.costs.layers import layer_costs
from fedfloor.errors import FedfloorError, ModelError, ProfileError, RunLogError
from fedfloor.runs.measure import measured_profile, model_target, scenario_target, write_profile
from fedfloor.runs.shares import layer_shares
from tests.conftest import Table
from tests.costs.profiles import profile_of

MLP = "model.width=0.125"


@pytest.fixture(scope="module")
def measured() -> HardwareProfile:
    target = model_target("mlp", None, [8, 4, 8], [MLP])
    return measured_profile(target, seconds=1e-6, frequency=1.5e9, power="3")


def test_a_measurement_becomes_a_profile_that_reads_back(measured: HardwareProfile, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    write_profile(path, measured)
    write_profile(path, measured)  # a profile may be replaced
    assert read_profile(path) == measured
    assert measured.batches == (4, 8)
    assert [entry.layer.name for entry in measured.layers] == ["linear1", "linear2"]
    assert (measured.frequency_hz, measured.frequency_source) == (1.5e9, "given")
    assert measured.power is not None
    assert measured.power.switched_capacitance == pytest.approx(3 / 1.5e9**3)


def test_a_device_needs_more_memory_for_more_samples(measured: HardwareProfile) -> None:
    for entry in measured.layers:
        few, many = entry.timings
        assert many.device_bytes > few.device_bytes
        assert many.gateway_bytes > few.gateway_bytes


def test_a_measured_profile_serves_the_scenario_of_its_model(
    measured: HardwareProfile, table: Table, write: Callable[..., Path], tmp_path: Path
) -> None:
    write_profile(tmp_path / "machine.json", measured)
    table["floors"][0]["gateway"]["profile"] = "machine.json"
    (source, _) = api.check(write(table)).headline.cost_sources
    assert (source.gateways, source.layers, source.memory) == (1, 2, True)
    assert len(fedfloor.simulate(write(table), "ddsra", rounds=2).records) == 2


def test_a_scenario_gives_its_model_at_the_width_of_its_costs_and_spread_batches() -> None:
    target = scenario_target("quick", (), ["costs.width=0.5"])
    assert target.layers[0].output[0] == 8
    used = {device.batch(0.1) for device in fedfloor.load("quick").devices}
    assert set(target.batches) <= used
    assert (target.batches[0], target.batches[-1]) == (min(used), max(used))
    assert 2 <= len(target.batches) <= 4
    assert scenario_target("quick", [7, 3]).batches == (3, 7)


def test_a_scenario_with_another_layer_list_than_its_model_is_refused(table: Table, write: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match=r"plant\.toml: model\.layers: is not the layer list of 'mlp'"):
        scenario_target(write(table), ())


@pytest.mark.parametrize("content", ["{}", "notes", '{"format": "snapshot"}'])
def test_nothing_but_a_profile_is_overwritten(tmp_path: Path, content: str) -> None:
    path = tmp_path / "notes.json"
    path.write_text(content)
    with pytest.raises(RunLogError, match=r"notes\.json: exists and is not a hardware profile"):
        api.measure("mlp", out=path)
    assert path.read_text() == content


def test_either_a_model_or_a_scenario_is_measured() -> None:
    for arguments in ({}, {"model": "mlp", "scenario": "quick"}):
        with pytest.raises(FedfloorError, match="either a model or a scenario"):
            api.measure(**arguments)  # type: ignore[arg-type]


def test_shares_add_up_and_are_those_of_the_cost_models(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(profile_text(profile_of()))
    shares = layer_shares("mlp", None, [path], batch=30, overrides=[MLP])
    assert shares.labels == ("paper", "exact", "machine.json")
    assert shares.shares.sum(axis=1) == pytest.approx(1.0)
    paper = layer_costs(model_target("mlp", None, [1], [MLP]).layers, "paper").flop
    assert shares.shares[0] == pytest.approx(paper / paper.sum())
    assert shares.shares[2] == pytest.approx(np.array([4, 5]) / 9)
    assert shares.totals[2] == pytest.approx(9e-4 + 2e-4)  # with what a step spends beside the layers
    assert json.loads(json.dumps(shares.table()))["costs"][2]["layers_measured"] == 2


def test_profiles_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    paths = [tmp_path / folder / name for folder, name in (("a", "pi.json"), ("b", "pi.json"), ("b", "plc.json"))]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(profile_text(profile_of()))
    shares = layer_shares("mlp", None, paths, batch=30, overrides=[MLP])
    assert shares.labels[2:] == ("a/pi.json", "b/pi.json", "plc.json")


def test_a_profile_without_any_time_has_no_shares(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(
        profile_text(profile_of(batches=(1000, 5000), seconds=lambda _, batch: 4e-323 if batch == 1000 else 4e-320))
    )
    with pytest.raises(
        ProfileError, match=r"machine\.json: layers: the times of all layers add up to 0 s with a batch"
    ):
        layer_shares("mlp", None, [path], batch=1, overrides=[MLP])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["cnn", "--compare", "x.json", "--format", "toml"], "--format: must be table or json with --compare"),
        (["cnn", "--compare", "x.json", "--costs", "paper"], "--costs: has no effect with --compare, which shows"),
        (["cnn", "--costs", "measured", "--frequency-ghz", "nan"], "--frequency-ghz: must be a number from 1e-6 to"),
    ],
)
def test_options_without_an_effect_and_wrong_ones_are_refused(options: list[str], problem: str) -> None:
    done = CliRunner().invoke(program(), ["profile", *options])
    assert done.exit_code != 0
    assert problem in str(done.exception)


def test_the_figure_of_shares_is_a_png(tmp_path: Path) -> None:
    path, out = tmp_path / "machine.json", tmp_path / "shares.png"
    path.write_text(profile_text(profile_of()))
    api.compare_profiles("mlp", [path], out=out, overrides=[MLP])
    assert out.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(RunLogError, match=r"shares\.pdf: must end in \.png"):
        api.compare_profiles("mlp", [path], out=tmp_path / "shares.pdf")
