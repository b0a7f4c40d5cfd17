"""Wrong input: each message is one line that names the file, the field, the value and the fix."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedfloor
from fedfloor.errors import ModelError, ScenarioError, TraceError, named
from fedfloor.scenario.layers import ATTACHMENTS, KINDS
from tests.conftest import Table, small_table

Change = Callable[[Table], Any]
BLOCK = {
    "forward_flop": 8, "error_flop": 4, "gradient_flop": 8, "kept_bytes": 64, "error_size": 16, "parameters": 8,
    "tensors": [8, 4],
}  # fmt: skip
CONVOLUTION = {"name": "c", "kind": "convolution", "input": [1, 28, 28], "output": [4, 28, 28], "kernel": [3, 3]}


def _remove(table: Table, key: str) -> None:
    del table[key]


WRONG: dict[str, tuple[Change, list[str]]] = {
    "unknown key suggests the nearest": (
        lambda t: t["radio"].update(chanels=3),
        ["radio.chanels: unknown key", "Did you mean 'channels'?"],
    ),
    "precision that no upload has": (
        lambda t: t.update(precision={"upload": 12}),
        ["precision.upload: must be 32, 16 or 8 bits, got 12.", "leave it out for 32"],
    ),
    "precision that no download has": (
        lambda t: t.update(precision={"download": 8}),
        ["precision.download: must be 32 or 16 bits, got 8."],
    ),
    "class that the model does not have": (
        lambda t: t["floors"][0].update(classes=[3, 10]) or t["floors"][0].pop("classes_per_device", None),
        ["floors[0].classes: must be labels below model.classes = 10, got 10."],
    ),
    "class that is named twice": (
        lambda t: t["floors"][0].update(classes=[3, 3]) or t["floors"][0].pop("classes_per_device", None),
        ["floors[0].classes: must name every label once, got [3, 3]."],
    ),
    "classes and their number": (
        lambda t: t["floors"][0].update(classes=[3], classes_per_device=1),
        ["floors[0].classes: says the same as classes_per_device. Leave one of the two out."],
    ),
    "classes of a partition that draws them": (
        lambda t: (
            t.update(data={"partition": "iid"})
            or t["floors"][0].update(classes=[3])
            or t["floors"][0].pop("classes_per_device", None)
        ),
        ["floors[0].classes: has no effect: only the partition 'classes'"],
    ),
    "plant seed below 0": (lambda t: t.update(plant_seed=-1), ["plant_seed: must be >= 0, got -1."]),
    "deadline that comes before the predicted end": (
        lambda t: t.update(deploy={"deadline_factor": 0.5}),
        ["deploy.deadline_factor: must be >= 1, got 0.5"],
    ),
    "gains from nowhere": (
        lambda t: t.update(deploy={"gains": "guessed"}),
        ["deploy.gains: input should be 'weather' or 'measured', got 'guessed'"],
    ),
    "permission that is not one": (
        lambda t: t.update(deploy={"allow_samples": "yes"}),
        ["deploy.allow_samples: must be true or false, got 'yes'"],
    ),
    "precision that is not a whole number": (
        lambda t: t.update(precision={"boundary": 8.0}),
        ["precision.boundary: must be 32, 16 or 8 bits, got 8.0."],
    ),
    "unknown section": (lambda t: t.update(radios={}), ["radios: unknown key", "Did you mean 'radio'?"]),
    "wrong unit suffix": (
        lambda t: t["floors"][0]["gateway"].update(max_power_w=0.2),
        ["floors[0].gateway.max_power_w: wrong unit suffix 'w', got 0.2", "`max_power_mw = 200`"],
    ),
    "wrong unit suffix in a device": (
        lambda t: t["floors"][0]["devices"][1].update(frequency_mhz=600),
        ["floors[0].devices[1].frequency_mhz", "`frequency_ghz = 0.6`"],
    ),
    "a unit of another kind": (
        lambda t: t["floors"][0]["gateway"].update(distance_j=5),
        ["floors[0].gateway.distance_j", "Write `distance_m`"],
    ),
    "negative": (
        lambda t: t["floors"][1]["gateway"].update(max_power_mw=-200),
        ["floors[1].gateway.max_power_mw: must be > 0, got -200"],
    ),
    "negative where zero is fine": (
        lambda t: t["floors"][1]["gateway"].update(max_energy_j=-1),
        ["floors[1].gateway.max_energy_j: must be >= 0, got -1"],
    ),
    "negative plain key": (lambda t: t["radio"].update(channels=-1), ["radio.channels: must be >= 1, got -1"]),
    "not a number": (
        lambda t: t["floors"][0]["devices"][0].update(frequency_ghz=float("nan")),
        ["floors[0].devices[0].frequency_ghz: must be finite, got nan"],
    ),
    "not a number in a plain key": (
        lambda t: t["radio"].update(noise_dbm_per_hz=float("nan")),
        ["radio.noise_dbm_per_hz: must be finite, got nan"],
    ),
    "infinite": (
        lambda t: t["floors"][0]["gateway"].update(memory_gb=float("inf")),
        ["floors[0].gateway.memory_gb: must be finite, got inf"],
    ),
    "text for a number": (
        lambda t: t["floors"][0]["gateway"].update(memory_gb="4"),
        ["floors[0].gateway.memory_gb: must be a number", "got '4'"],
    ),
    "a truth value for a number": (
        lambda t: t["floors"][0]["devices"][0].update(samples=True),
        ["floors[0].devices[0].samples: must be a number", "got True"],
    ),
    "a fraction of a sample": (
        lambda t: t["floors"][0]["devices"][0].update(samples=1.5),
        ["floors[0].devices[0].samples: must be a whole number, got 1.5"],
    ),
    "a name that is too long for a folder": (
        lambda t: t.update(name="n" * 300),
        ["name: must have at most 100 characters, got 'nnn", "Shorten it"],
    ),
    "a long name of a floor": (
        lambda t: t["floors"][0].update(name="n" * 300),
        ["floors[0].name: must have at most 250 characters, got 'nnn", "Shorten it"],
    ),
    "a name of a device that is long with its floor": (
        lambda t: (t["floors"][0].update(name="n" * 200, count=2), t["floors"][0]["devices"][0].update(name="m" * 60)),
        ["floors: device name must have at most 250 characters with its number and its floor, got 263: 'nnn"],
    ),
    "a setting that is too long to write": (
        lambda t: t.update(policy={"name": "ddsra", "settings": {"v": 10**200}}),
        ["policy.settings.v: must be a number below 10^100, got 1000"],
    ),
    "a setting that is no number": (
        lambda t: t.update(policy={"name": "ddsra", "settings": {"v": math.nan}}),
        ["policy.settings.v: must be a finite number, got nan."],
    ),
    "a setting that is infinite": (
        lambda t: t.update(aggregation={"rule": "fedavgm", "settings": {"momentum": -math.inf}}),
        ["aggregation.settings.momentum: must be a finite number, got -inf."],
    ),
    "a setting that is a list": (
        lambda t: t.update(aggregation={"rule": "fedavgm", "settings": {"momentum": [1]}}),
        ["aggregation.settings.momentum: must be a number, true, false or a string in quotes, got [1]."],
    ),
    "empty floor": (lambda t: t["floors"][1].update(devices=[]), ["floors[1].devices: must not be empty"]),
    "no floors": (lambda t: t.update(floors=[]), ["floors: must not be empty"]),
    "missing section": (lambda t: _remove(t, "radio"), ["radio: is missing"]),
    "device outside of any floor": (
        lambda t: t.update(devices=[{"samples": 5}]),
        ["devices: device without a floor", "[[floors.devices]]"],
    ),
    "devices before the first floor": (
        lambda t: t.update(floors={"devices": [{"samples": 5}]}),
        ["floors: device without a floor", "[[floors]]"],
    ),
    "duplicate floor names": (
        lambda t: t["floors"][1].update(name="press"),
        ["duplicate floor name, got 'press' twice"],
    ),
    "duplicate device names on two floors": (
        lambda t: t["floors"][1]["devices"][0].update(name="p1"),
        ["duplicate device name, got 'p1' twice"],
    ),
    "low above high": (
        lambda t: t["floors"][0]["gateway"].update(distance_m={"uniform": [2000, 1000]}),
        ["floors[0].gateway.distance_m: uniform needs low <= high, got [2000, 1000]"],
    ),
    "distribution below the range": (
        lambda t: t["floors"][0]["gateway"].update(distance_m={"uniform": [-5, 1000]}),
        ["floors[0].gateway.distance_m: must be >= 0, got -5"],
    ),
    "unknown distribution": (
        lambda t: t["floors"][0]["gateway"].update(distance_m={"poisson": [3]}),
        ["floors[0].gateway.distance_m: is not a distribution", "{uniform = [low, high]}"],
    ),
    "three numbers for a uniform": (
        lambda t: t["floors"][0]["gateway"].update(distance_m={"uniform": [1, 2, 3]}),
        ["uniform takes [low, high], got [1, 2, 3]"],
    ),
    "empty choice": (
        lambda t: t["floors"][0]["gateway"].update(distance_m={"choice": []}),
        ["choice needs at least one value"],
    ),
    "list of the wrong length": (
        lambda t: t["floors"][0]["devices"][0].update(count=2, samples=[1, 2, 3]),
        ["floors[0].devices[0].samples: has 3 values for 2"],
    ),
    "layers that do not chain": (
        lambda t: t["model"]["layers"][1].update(input=[17]),
        ["model.layers[1].input: shapes do not chain", "'linear2' takes [17] but 'linear1' gives [16]"],
    ),
    "first layer that does not take a sample": (
        lambda t: t["model"]["layers"][0].update(input=[783]),
        ["model.layers[0].input: takes [783] but model.input is [1, 28, 28]"],
    ),
    "convolution without a kernel": (
        lambda t: t["model"]["layers"].__setitem__(0, {k: v for k, v in CONVOLUTION.items() if k != "kernel"}),
        ["model.layers[0]: layer 'c' (convolution): the kernel is missing. Add it, as in kernel = [3, 3]"],
    ),
    "unknown layer kind": (
        lambda t: t["model"]["layers"][0].update(kind="lstm"),
        [f"model.layers[0].kind: unknown layer kind, got 'lstm'. Known: {', '.join(KINDS)}."],
    ),
    "unknown attachment": (
        lambda t: t["model"]["layers"][0].update(attached=["activation", "softmax"]),
        [f"model.layers[0].attached[1]: unknown attachment, got 'softmax'. Known: {', '.join(ATTACHMENTS)}."],
    ),
    "a linear layer with a kernel": (
        lambda t: t["model"]["layers"][0].update(kernel=[3, 3]),
        ["model.layers[0]: layer 'linear1' (linear): a linear layer has no kernel and no groups. Remove them"],
    ),
    "a linear layer that changes an earlier size": (
        lambda t: t["model"]["layers"][0].update(input=[28, 28], output=[1, 16]),
        ["a linear layer changes only the last size, got input [28, 28] and output [1, 16]"],
    ),
    "a convolution of vectors": (
        lambda t: t["model"]["layers"][0].update(kind="convolution", kernel=[3, 3]),
        ["input and output must be [channels, height, width], got [784] and [16]"],
    ),
    "groups that do not divide the channels": (
        lambda t: t["model"]["layers"].__setitem__(0, CONVOLUTION | {"groups": 3}),
        ["model.layers[0]: layer 'c' (convolution): 1 input channels cannot be divided into 3 groups"],
    ),
    "a block without counts": (
        lambda t: t["model"]["layers"][0].update(kind="block"),
        ["model.layers[0]: layer 'linear1' (block): its counts are missing. `fedfloor profile MODEL --format toml`"],
    ),
    "counts of a layer that is no block": (
        lambda t: t["model"]["layers"][0].update(block=BLOCK),
        ["model.layers[0]: layer 'linear1' (linear): only a block has counts of its own. Remove the key block"],
    ),
    "a block with a kernel": (
        lambda t: t["model"]["layers"][0].update(kind="block", block=BLOCK, kernel=[3]),
        ["model.layers[0]: layer 'linear1' (block): a block has no kernel, groups or bias of its own. Remove them"],
    ),
    "a block whose errors are smaller than its output": (
        lambda t: t["model"]["layers"][0].update(kind="block", block=BLOCK | {"error_size": 15}),
        ["(block): block.error_size must be at least the 16 numbers of its output, got 15"],
    ),
    "a block with more parameters than numbers": (
        lambda t: t["model"]["layers"][0].update(kind="block", block=BLOCK | {"parameters": 13}),
        ["(block): block.parameters must be at most the 12 numbers of its tensors, got 13"],
    ),
    "a negative count of a block": (
        lambda t: t["model"]["layers"][0].update(kind="block", block=BLOCK | {"kept_bytes": -1}),
        ["model.layers[0].block.kept_bytes"],
    ),
    "sizes of a norm that is not there": (
        lambda t: t["model"]["layers"][0].update(norm_sizes=[16]),
        ["model.layers[0]: layer 'linear1' (linear): norm_sizes [16] belong to no group_norm or layer_norm"],
    ),
    "a kernel of one size for images": (
        lambda t: t["model"]["layers"].__setitem__(0, CONVOLUTION | {"kernel": [3]}),
        ["model.layers[0]: layer 'c' (convolution): input and output must be [channels, length] with a kernel of one"],
    ),
    "a kernel of three sizes": (
        lambda t: t["model"]["layers"].__setitem__(0, CONVOLUTION | {"kernel": [3, 3, 3]}),
        ["model.layers[0].kernel"],
    ),
    "a kernel that cannot give the output": (
        lambda t: t["model"]["layers"].__setitem__(0, CONVOLUTION | {"output": [4, 35, 28]}),
        ["model.layers[0]: layer 'c' (convolution): a kernel of 3 cannot turn a size of 28 into 35"],
    ),
    "unknown model": (lambda t: t["model"].update(name="vgg12"), ["model.name: unknown model, got 'vgg12'", "'vgg11'"]),
    "unknown data set": (lambda t: t.update(data={"name": "cifar"}), ["data.name: unknown data set", "'cifar10'"]),
    "data set of another shape": (
        lambda t: t.update(data={"name": "cifar10"}),
        ["model.input: must be [3, 32, 32] for the data set 'cifar10', got [1, 28, 28]"],
    ),
    "cut beyond the last layer": (lambda t: t["baseline"].update(cut=3), ["baseline.cut: must be <= 2", "got 3"]),
    "share above one": (
        lambda t: t["baseline"].update(frequency_share=1.5),
        ["baseline.frequency_share: must be <= 1, got 1.5"],
    ),
    "unknown hardware class": (
        lambda t: t["floors"][0]["devices"][0].update(hardware="plc"),
        ["floors[0].devices[0].hardware: unknown hardware class, got 'plc'"],
    ),
    "device that lacks a figure": (
        lambda t: _remove(t["floors"][0]["devices"][0], "memory_gb"),
        ["floors[0].devices[0].memory_gb: is missing"],
    ),
    "one rate too many": (
        lambda t: t.update(participation={"rates": [0.5, 0.5, 0.5]}),
        ["participation.rates: has 3 rates for 2 floors"],
    ),
    "rate above one": (
        lambda t: t.update(participation={"rates": [0.5, 1.5]}),
        ["participation.rates: must be > 0 and <= 1, got 1.5"],
    ),
    "unknown rates": (
        lambda t: t.update(participation={"rates": "fair"}),
        ["participation.rates: must be 'estimated' or 'updates' or 'uniform' or a list of rates, got 'fair'"],
    ),
    "cut below the least one": (
        lambda t: t.update(training={"min_cut": 2}),
        ["baseline.cut: must be >= training.min_cut = 2, got 1. Set baseline.cut = 2 too"],
    ),
    "least cut beyond the layers": (
        lambda t: t.update(training={"min_cut": 9}),
        ["training.min_cut: must be <= 2, the number of layers, got 9. Lower it"],
    ),
    "least frequency above the greatest": (
        lambda t: t["floors"][1]["gateway"].update(min_frequency_ghz=9.0),
        ["paint.gateway.min_frequency_ghz: must be <=", "got 9"],
    ),
    "more classes than there are": (
        lambda t: t["floors"][0].update(classes_per_device=11),
        ["press.classes_per_device: must be <= model.classes = 10, got 11"],
    ),
    "last layer of another size": (
        lambda t: t["model"]["layers"][1].update(output=[3]),
        ["model.layers[1].output: gives [3] but model.classes is 10. Remove model.layers"],
    ),
    "layer names twice": (
        lambda t: t["model"]["layers"][1].update(name="linear1"),
        ["model.layers: duplicate layer name, got 'linear1' twice"],
    ),
    "a head that the model does not have": (
        lambda t: t["model"].update(head="4096-4096"),
        ["model.head: has no effect on the model 'mlp'"],
    ),
    "text for a count": (lambda t: t.update(rounds="5"), ["rounds: must be a whole number, got '5'"]),
    "a truth value for a count": (
        lambda t: t["radio"].update(channels=True),
        ["radio.channels: must be a whole number"],
    ),
    "text for a truth value": (lambda t: t.update(limits="yes"), ["limits: must be true or false, got 'yes'"]),
    "a level no radio has": (
        lambda t: t["radio"].update(noise_dbm_per_hz=1e5),
        ["radio.noise_dbm_per_hz: must be <= 500"],
    ),
    "a number beyond all bounds": (
        lambda t: t["floors"][0]["devices"][0].update(samples=10**400),
        ["floors[0].devices[0].samples: must be finite"],
    ),
    "more devices than fit": (
        lambda t: t["floors"][0]["devices"][0].update(count=10**9),
        ["floors: devices: must be at most 1,000,000, got 1,000,000,002. Lower the counts"],
    ),
    "a unit left out": (
        lambda t: t["floors"][0]["gateway"].update(distance=5),
        ["floors[0].gateway.distance: the unit is missing, got 5", "Write `distance_m`"],
    ),
    "power in dBm": (
        lambda t: t["floors"][0]["gateway"].update(max_power_dbm=23),
        ["wrong unit suffix 'dbm', got 23", "`max_power_mw = 199.526"],
    ),
    "a pooling that changes the channels": (
        lambda t: t["model"]["layers"].__setitem__(
            0, {"name": "p", "kind": "max_pooling", "input": [1, 28, 28], "output": [4, 14, 14], "kernel": [2, 2]}
        ),
        ["model.layers[0]: layer 'p' (max_pooling): pooling keeps the number of channels, got 1 in and 4 out"],
    ),
    "name with a slash": (lambda t: t.update(name="a/b"), ["name: ", "got 'a/b'"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_values_are_named(case: str, write: Callable[[Table], Path]) -> None:
    change, expected = WRONG[case]
    table = small_table()
    change(table)
    path = write(table)
    with pytest.raises(ScenarioError) as caught:
        fedfloor.load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    for part in expected:
        assert part in message


def test_the_unchanged_table_is_fine(write: Callable[[Table], Path]) -> None:
    assert len(fedfloor.load(write(small_table())).devices) == 3


def test_a_missing_file_is_named_with_the_presets(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.toml: no such file\. Give a TOML file or a preset"):
        fedfloor.load(tmp_path / "none.toml")
    with pytest.raises(ScenarioError, match="Did you mean 'factory'"):
        fedfloor.load("factori")


def test_a_file_with_almost_that_name_is_suggested(table: Table, write: Callable[[Table], Path]) -> None:
    path = write(table)
    with pytest.raises(ScenarioError, match=r"plant\.tml: no such file\. .* Did you mean 'plant\.toml'\?"):
        fedfloor.load(path.with_suffix(".tml"))


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is a directory, not a file"):
        fedfloor.load(tmp_path)


def test_a_file_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b'name = "x"\nlabel = "\xe9tage"\n')
    with pytest.raises(ScenarioError, match=r"latin\.toml: not UTF-8: byte 0xe9 on line 2"):
        fedfloor.load(path)


@pytest.mark.parametrize("content", ["", "\n  \n"])
def test_an_empty_file_points_to_init(tmp_path: Path, content: str) -> None:
    path = tmp_path / "empty.toml"
    path.write_text(content)
    with pytest.raises(ScenarioError, match=r"empty\.toml: the file is empty.*fedfloor init"):
        fedfloor.load(path)


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text('name = "x"\nseed = \n')
    with pytest.raises(ScenarioError, match=r"broken\.toml: not valid TOML: .*line 2"):
        fedfloor.load(path)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training", "must be section.key=value"),
        ("=3", "must be section.key=value"),
        ("floors.9.name=x", "floors.9: no such entry. Use a number from 0 to 1"),
        ("name.first=x", "name.first: the value above it is not a table"),
        ("training.iterations=3", "training.iterations: unknown key. Did you mean 'local_iterations'?"),
        ("seed=1\nrounds=2", "sets more than one value"),
        ("floors.²={}", "no such entry"),
        ('model.layers.0.kind="banana"', "model.layers[0].kind"),
    ],
)
def test_wrong_overrides_are_named(override: str, expected: str, write: Callable[[Table], Path]) -> None:
    with pytest.raises(ScenarioError) as caught:
        fedfloor.load(write(small_table()), [override])
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"setting {named(override)}: ")


def trace(rounds: int = 5, *, floors: tuple[str, ...] = ("press", "paint"), channels: int = 2) -> list[str]:
    return [f"{t},{m},{j},1e-10" for t in range(rounds) for m in floors for j in range(channels)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (trace(4), "has 4 rounds, the scenario has 5"),
        (trace()[:-1], "missing values: 1, the first in round 4 for floor paint, channel 1"),
        ([*trace(), "4,paint,1,1e-10"], "line 22: 4, paint, 1 is given twice"),
        ([*trace(), "6,paint,1,1e-10"], "line 22: round must count up from 0 without gaps, got '6'"),
        ([*trace(), "5,attic,1,1e-10"], "line 22: unknown floor, got 'attic'. Known: press, paint"),
        ([*trace(), "5,press,2,1e-10"], "line 22: unknown channel, got '2'"),
        ([*trace(), "5,press,1,-1"], "line 22: gain must be a number >= 0, got '-1'"),
        ([*trace(), "5,press,1,nan"], "line 22: gain must be a number >= 0, got 'nan'"),
        ([*trace(), "5,press,1"], "line 22: has 3 values, the header has 4"),
    ],
)
def test_traces_that_do_not_fit_are_named(
    lines: list[str], expected: str, write: Callable[[Table], Path], tmp_path: Path
) -> None:
    (tmp_path / "gain.csv").write_text("\n".join(["round,floor,channel,gain", *lines]) + "\n")
    path = write({**small_table(), "traces": {"uplink_gain": "gain.csv"}})
    with pytest.raises(TraceError) as caught:
        fedfloor.simulate(path)
    assert "gain.csv" in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a,b\n", "line 1: the header must be 'round,floor,channel,gain'"),
        (b"", "line 1: the header must be"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_files_that_are_no_trace_are_named(
    content: bytes, expected: str, write: Callable[[Table], Path], tmp_path: Path
) -> None:
    (tmp_path / "gain.csv").write_bytes(content)
    path = write({**small_table(), "traces": {"uplink_gain": "gain.csv"}})
    with pytest.raises(TraceError, match=expected):
        fedfloor.simulate(path)


def test_a_trace_that_is_missing_is_named(write: Callable[[Table], Path]) -> None:
    path = write({**small_table(), "traces": {"device_energy": "nowhere.csv"}})
    with pytest.raises(TraceError, match=r"nowhere\.csv: traces\.device_energy: no such file"):
        fedfloor.simulate(path)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("tests.training.networks:does_not_chain", "shapes do not chain: module '1'"),
        ("tests.training.networks:with_a_branch", "not a torch.nn.Sequential"),
        ("tests.training.networks:with_an_lstm", "LSTM, whose costs are not known"),
        ("tests.training.networks:not_a_module", "must return a torch.nn.Module, got int"),
        ("tests.training.networks:takes_arguments", "calling it without arguments failed: TypeError"),
        ("tests.training.networks:leaves", "calling it without arguments failed: SystemExit"),
        ("tests.training.networks:with_its_own_forward", "has a forward of its own"),
        ("tests.training.networks:shares_weights", "shares its weights with an earlier one"),
        ("tests.training.networks:folds_the_batch", "does not return one result per sample"),
        ("tests.broken_module:net", "importing 'tests.broken_module' failed: ZeroDivisionError"),
        ("tests.training.networks:two_layer", "has no 'two_layer'. Did you mean 'two_layers'?"),
        ("tests.training.networks:__doc__", "is a str, not a callable"),
        ("no.such.module:thing", "cannot import 'no.such.module'"),
    ],
)
def test_models_that_cannot_be_described_are_named(
    reference: str, expected: str, write: Callable[[Table], Path]
) -> None:
    table = small_table()
    table["model"] = {"name": reference, "input": [1, 28, 28]}
    with pytest.raises(ModelError) as caught:
        fedfloor.load(write(table), own=True)
    assert reference in str(caught.value)
    assert expected in str(caught.value)
