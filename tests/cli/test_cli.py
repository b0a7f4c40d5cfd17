"""The command line: what it prints, where, and how it ends."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fedfloor.cli import main
from tests.conftest import Table
from tests.training.test_sources import write_svhn

Command = Callable[..., subprocess.CompletedProcess[str]]
COMMANDS = ["list", "init", "schema", "check", "profile", "simulate"]


def test_help_lists_every_command(fedfloor_command: Command) -> None:
    done = fedfloor_command("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, fedfloor_command: Command) -> None:
    done = fedfloor_command(name, "--help")
    assert done.returncode == 0
    assert f"fedfloor {name}" in done.stdout.split("Example:")[1]


def test_list_names_what_there_is(fedfloor_command: Command) -> None:
    groups = json.loads(fedfloor_command("list", "--format", "json").stdout)
    assert {"presets", "policies", "models", "data sets", "cost models"} <= set(groups)
    assert all(summary for group in groups.values() for summary in group.values())
    assert "quick" in fedfloor_command("list").stdout


def test_init_writes_a_scenario_that_checks(fedfloor_command: Command, tmp_path: Path) -> None:
    assert fedfloor_command("init", "plant.toml").returncode == 0
    assert "my-plant is valid" in fedfloor_command("check", "plant.toml").stdout
    again = fedfloor_command("init", "plant.toml")
    assert (again.returncode, "plant.toml: exists already" in again.stderr) == (2, True)


def test_init_starts_from_a_preset_and_overwrites_nothing(fedfloor_command: Command, tmp_path: Path) -> None:
    assert "next: fedfloor check line.toml" in fedfloor_command("init", "--preset", "line").stdout
    assert "line is valid" in fedfloor_command("check", "line.toml").stdout
    (tmp_path / "mine.toml").write_text("mine")
    for arguments, problem in (
        (["mine.toml", "--preset", "line"], "mine.toml: exists already"),
        (["new.toml", "--preset", "lin"], "preset 'lin': unknown. Did you mean 'line'?"),
        ([], "FILE: is missing"),
    ):
        done = fedfloor_command("init", *arguments)
        assert (done.returncode, problem in done.stderr) == (2, True), done.stderr
    assert (tmp_path / "mine.toml").read_text() == "mine"
    assert not (tmp_path / "new.toml").exists()


def test_schema_is_a_json_schema(fedfloor_command: Command) -> None:
    schema = json.loads(fedfloor_command("schema").stdout)
    assert schema["title"] == "ScenarioFile"
    assert "floors" in schema["required"]


def test_check_prints_the_headline_figures(fedfloor_command: Command) -> None:
    text = fedfloor_command("check", "paper-cifar10").stdout
    for part in ("6 floors, 12 devices, 3 channels", "9,225,610 parameters", "611 MFLOP", "12 of 12 devices"):
        assert part in text
    figures = json.loads(fedfloor_command("check", "paper-cifar10", "--format", "json").stdout)["figures"]
    assert figures["parameters"] == 9225610


def test_check_shows_the_bits_that_are_sent(fedfloor_command: Command) -> None:
    assert "3.39 Mbit on the air" in fedfloor_command("check", "quick").stdout
    few = ("check", "quick", "--set", "precision.upload=8", "--set", "precision.download=16")
    text = fedfloor_command(*few).stdout
    assert "3.39 Mbit with 32 bits each" in text
    assert "upload 847 kbit with 8 bits per number, download 1.69 Mbit with 16;" in text
    figures = json.loads(fedfloor_command(*few, "--format", "json").stdout)["figures"]
    assert figures["upload_bits"] == 8 * 105_866 + 8 * 32  # eight tensors, each with a scale
    assert figures["download_bits"] == 16 * 105_866


def test_check_tells_of_classes_that_run_out_where_the_data_is_here(
    fedfloor_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEDFLOOR_DATA", str(tmp_path))
    arguments = ("check", "paper-svhn")
    missing = json.loads(fedfloor_command(*arguments, "--format", "json").stdout)["shortage"]
    assert missing["devices"] is None
    assert missing["reason"].startswith("svhn: no train_32x32.mat")
    (line,) = [text for text in fedfloor_command(*arguments).stdout.splitlines() if "not checked" in text]
    assert line.startswith("Whether samples run out was not checked: svhn: no train_32x32.mat")
    write_svhn(tmp_path, [float(label) for label in range(1, 11)] * 60)
    found = json.loads(fedfloor_command(*arguments, "--format", "json").stdout)["shortage"]
    assert (found["origin"], found["reason"]) == (str(tmp_path), None)
    assert all(0 < device["held"] < device["asked"] for device in found["devices"])
    assert 0 < sum(device["held"] for device in found["devices"]) <= 600
    assert "hold fewer samples than they ask for" in " ".join(fedfloor_command(*arguments).stdout.split())
    (tmp_path / "train_32x32.mat").write_bytes(b"torn")
    assert "train_32x32.mat: cannot be read" in fedfloor_command(*arguments).stdout
    named = fedfloor_command(*arguments, "--data-dir", str(tmp_path))
    assert (named.returncode, "train_32x32.mat: cannot be read" in named.stderr) == (2, True)


def test_check_tells_of_devices_that_hold_less(fedfloor_command: Command) -> None:
    more = ("--set", "floors.1.devices.0.samples=2000", "--format", "json")
    assert json.loads(fedfloor_command("check", "quick", *more).stdout)["shortage"]["devices"]
    assert json.loads(fedfloor_command("check", "quick", *more[2:]).stdout)["shortage"]["devices"] == []


def test_profile_shows_layers_and_cuts(fedfloor_command: Command) -> None:
    done = fedfloor_command("profile", "vgg11", "--costs", "paper", "--format", "json")
    figures = json.loads(done.stdout)
    assert figures["cost_model"] == "paper"
    assert len(figures["layers"]) == 14
    assert len(figures["cuts"]) == 15
    assert "cost model 'exact'" in fedfloor_command("profile", "cnn").stdout


@pytest.mark.slow
def test_profile_takes_model_overrides_and_own_models(fedfloor_command: Command) -> None:
    done = fedfloor_command("profile", "vgg11", "--set", "model.head=4096-4096", "--format", "json")
    assert len(json.loads(done.stdout)["layers"]) == 16
    assert "--input is missing" in fedfloor_command("profile", "some.module:net").stderr


@pytest.mark.slow
def test_profile_prints_the_layer_list_of_a_scenario(
    fedfloor_command: Command, write: Callable[..., Path], table: Table
) -> None:
    text = fedfloor_command("profile", "mlp", "--format", "toml").stdout
    assert text.startswith("layers = [")
    del table["model"]["layers"]
    path = write(table)
    path.write_text(path.read_text().replace("[model]\n", f"[model]\n{text}"))
    assert "101,770 parameters" in fedfloor_command("check", str(path)).stdout


@pytest.mark.slow
def test_profile_measures_this_machine_and_compares_what_it_wrote(fedfloor_command: Command, tmp_path: Path) -> None:
    narrow = ("mlp", "--set", "model.width=0.03")
    measure = ("--costs", "measured", "--batch", "2,4", "--frequency-ghz", "1.5", "--power-w", "3", "--quiet")
    done = fedfloor_command("profile", *narrow, *measure, "--out", "a.json")
    assert done.returncode == 0, done.stderr
    assert "mlp with a batch of 4 on" in done.stdout
    assert "switched_capacitance = 8.89e-28" in done.stdout
    assert done.stderr == ""
    (tmp_path / "b.json").write_bytes((tmp_path / "a.json").read_bytes())
    compared = fedfloor_command("profile", *narrow, "--compare", "a.json", "b.json", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    assert [row["costs"] for row in json.loads(compared.stdout)["costs"]] == ["paper", "exact", "a.json", "b.json"]


def test_simulate_puts_policies_side_by_side(fedfloor_command: Command, tmp_path: Path) -> None:
    done = fedfloor_command("simulate", "quick", "--policy", "random", "--policy", "round_robin", "--rounds", "20")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"quick-random-7", "quick-round_robin-7"}
    assert "share of rounds completed" in done.stdout
    assert done.stderr == ""


def test_simulate_prints_json(fedfloor_command: Command, tmp_path: Path) -> None:
    done = fedfloor_command("simulate", "quick", "--rounds", "5", "--format", "json", "--out", "here", "--seed", "3")
    (summary,) = json.loads(done.stdout)
    assert summary["rounds"] == 5
    assert summary["mean_delay_s"] > 0
    assert (tmp_path / "here" / "rounds.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["check", "nowhere.toml"], "error: nowhere.toml: no such file"),
        (["check", "quick", "--set", "radio.chanels=2"], "Did you mean 'channels'?"),
        (["check"], "Missing argument 'SCENARIO'"),
        (["chek", "quick"], "No such command 'chek'"),
        (["simulate", "quick", "--polcy", "random"], "error: No such option: --polcy. Did you mean --policy?"),
        (["compare", "quick", "--resume"], "error: compare has no --resume: repeating the command resumes what is not"),
        (["simulate", "quick", "--rounds", "0"], "0 is not in the range x>=1"),
        (["simulate", "quick", "--policy", "randm"], "Did you mean 'random'?"),
        (["simulate", "quick", "--out", "/proc/nowhere"], "cannot be written"),
        (["profile", "vgg12"], "unknown model, got 'vgg12'"),
        (["profile", "vgg11", "--input", "3,x"], "got 'x'"),
        (["profile", "vgg11", "--input", "3,8,8"], "shapes do not chain"),
        (["profile", "cnn", "--input", "784"], "the input must be [channels, height, width], got [784]"),
        (["profile", "vgg11", "--costs", "guessed"], "'guessed' is not one of"),
        (["profile", "vgg11", "--set", "radio.channels=2"], "only model.* keys have an effect here"),
        (["profile"], "MODEL: is missing"),
        (["profile", "cnn", "--batch", "10,50"], "--batch: must be one number without --costs measured, got '10,50'"),
        (["profile", "cnn", "--batch", "0"], "--batch: must be whole numbers from 1 to 1,000,000,000, got '0'"),
        (["profile", "cnn", "--out", "x.json"], "--out: has an effect only with --costs measured or --compare"),
        (["profile", "cnn", "x.json"], "FILE: has an effect only with --compare, got 'x.json'"),
        (["profile", "cnn", "--compare", "x.json"], "x.json: no such file"),
        (["profile", "cnn", "--compare", "x.json", "--costs", "measured"], "--compare: cannot be used with --costs"),
        (["profile", "cnn", "--costs", "measured", "--power-w", "much"], "power much: no such file"),
        (["profile", "cnn", "--costs", "measured", "--out", "none/x.json"], "there is no folder"),
        (["init", "/nowhere/plant.toml"], "cannot be written"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["fedfloor", *arguments])  # in this process: dozens of others take minutes
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert expected in err
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("error: ")
    assert out == ""


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    import sys

    command = f"{sys.executable} -m fedfloor schema | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "{"
    assert done.stderr == ""
