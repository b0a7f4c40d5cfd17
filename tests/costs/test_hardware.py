"""The file of a hardware profile: what it keeps, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedfloor.costs.hardware import fingerprint, is_profile, parse_profile, profile_text, read_profile
from fedfloor.costs.measured import refuse_misfit
from fedfloor.errors import ProfileError
from fedfloor.scenario.layers import LayerSpec
from tests.costs.profiles import LAYERS, profile_of


def test_a_profile_that_is_written_and_read_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(profile_text(profile_of()))
    assert is_profile(path)
    assert read_profile(path) == profile_of()


def test_the_fingerprint_depends_on_shapes_and_not_on_names() -> None:
    renamed = [layer.model_copy(update={"name": f"other-{layer.name}"}) for layer in LAYERS]
    assert fingerprint(renamed) == fingerprint(LAYERS)
    plain = [layer.model_copy(update={"attached": ()}) for layer in LAYERS]
    assert fingerprint(plain) != fingerprint(LAYERS)


def change(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda raw: raw.update(values)


def timing(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda raw: raw["layers"][1]["timings"][0].update(values)


@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (change(version=7), ["version: is 7, this fedfloor reads up to 1", "Update fedfloor"]),
        (change(version=0), ["version: must be >= 1, got 0", "Measure again"]),
        (change(format="snapshot"), ["format: must be 'fedfloor hardware profile', got 'snapshot'"]),
        (change(frequency_hz=0.0), ["frequency_hz: must be >= 1e-30, got 0.0", "Measure again"]),
        (change(frequency_hz=float("nan")), ["frequency_hz: ", "got nan"]),
        (change(speed=1), ["speed: unknown key", "Measure again"]),
        (timing(forward_s=0.0), ["layers[1].timings[0].forward_s: must be > 0, got 0.0", "Measure again"]),
        (timing(backward_s=-1.0), ["layers[1].timings[0].backward_s: must be > 0, got -1.0"]),
        (timing(forward_s=float("nan")), ["layers[1].timings[0].forward_s: ", "got nan"]),
        (timing(device_bytes=float("inf")), ["layers[1].timings[0].device_bytes: ", "got inf"]),
        (timing(batch=11), ["layers[1].timings: has the batches [11, 50], steps has [10, 50]"]),
        (lambda raw: raw["layers"].pop(), ["fingerprint: ", "a layer is missing or changed", "Measure again"]),
        (lambda raw: raw["layers"].pop(0), ["fingerprint: ", "a layer is missing or changed"]),
        (lambda raw: raw["layers"].reverse(), ["layers[1].layer: a layer is missing or changed", "takes [784]"]),
        (lambda raw: raw["steps"].reverse(), ["steps: batches must ascend, got [50, 10]"]),
        (
            change(power={"watts": 4.0, "source": "given", "switched_capacitance": 1e-27}),
            ["power.switched_capacitance: must be watts / frequency_hz^3 = 5e-28, got 1e-27", "Measure again"],
        ),
        (lambda raw: raw["layers"][0].pop("timings"), ["layers[0].timings: is missing", "Measure again"]),
    ],
)
def test_damaged_profiles_are_refused_with_file_field_and_value(
    damage: Callable[[dict[str, Any]], object], parts: list[str]
) -> None:
    raw = json.loads(profile_text(profile_of()))
    damage(raw)
    with pytest.raises(ProfileError) as caught:
        parse_profile(raw, "machine.json")
    message = str(caught.value)
    assert message.startswith("machine.json: ")
    for part in parts:
        assert part in message
    assert "fedfloor schema" not in message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (profile_text(profile_of())[:300].encode(), "not valid JSON"),
        (b"", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[1]", "format: must be 'fedfloor hardware profile', got None"),
    ],
)
def test_files_that_are_no_profiles_are_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "machine.json"
    path.write_bytes(content)
    assert not is_profile(path)
    with pytest.raises(ProfileError, match=r"machine\.json: ") as caught:
        read_profile(path)
    assert problem in str(caught.value)


def test_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"none\.json: no such file"):
        read_profile(tmp_path / "none.json")
    with pytest.raises(ProfileError, match="is not a regular file"):
        read_profile(tmp_path)


def test_a_profile_of_another_model_needs_a_rate_for_every_kind() -> None:
    pool = LayerSpec(name="pool1", kind="max_pooling", input=(4, 8, 8), output=(4, 4, 4), kernel=(2, 2))
    with pytest.raises(ProfileError, match=r"machine\.json: rates: has no rate for 'max_pooling', .* 'pool1'"):
        refuse_misfit(profile_of(), [pool], "machine.json")
    wider = LayerSpec(name="linear1", kind="linear", input=(784,), output=(32,))
    refuse_misfit(profile_of(), [wider], "machine.json")
