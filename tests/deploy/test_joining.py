"""What a machine says about itself when it joins, and what is refused on arrival."""

import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

import fedfloor
from fedfloor.costs.hardware import profile_text
from fedfloor.deploy import joining
from fedfloor.deploy.joining import (
    MOST_BYTES,
    JoiningProfile,
    joining_text,
    parse_joining,
    this_machine,
)
from fedfloor.deploy.tasks import DeviceTask, floor_tasks, parse_task, task_text
from fedfloor.errors import DeploymentError, MissingExtraError
from tests.costs.profiles import profile_of
from tests.test_long_values import LONG, assert_is_short, replaced


def example() -> dict[str, Any]:
    """A complete profile as plain data."""
    profile = this_machine(
        "press-3", samples=5, class_counts=(2, 3), allow_class_counts=True, costs=profile_of(), has_energy_source=True
    )
    return json.loads(joining_text(profile))  # type: ignore[no-any-return]


def test_a_machine_describes_itself_and_is_understood() -> None:
    profile = this_machine("press-3", samples=5, costs=profile_of(), has_energy_source=True)
    assert profile.cores >= 1
    assert profile.memory_bytes > 10**7
    assert parse_joining(joining_text(profile), "press-3") == profile
    assert parse_joining(joining_text(profile).encode(), "press-3") == profile


def test_the_samples_of_each_class_stay_on_the_device_unless_that_is_allowed() -> None:
    assert this_machine("press-3", samples=5, class_counts=(2, 3)).class_counts is None
    assert "class_counts" not in joining_text(this_machine("press-3", samples=5, class_counts=(2, 3)))
    allowed = this_machine("press-3", samples=5, class_counts=(2, 3), allow_class_counts=True)
    assert allowed.class_counts == (2, 3)


def test_a_gateway_has_no_samples() -> None:
    profile = this_machine("press")
    assert (profile.samples, profile.class_counts, profile.costs, profile.has_energy_source) == (0, None, None, False)
    assert json.loads(joining_text(profile)).keys() == {
        "name", "cores", "processor", "memory_bytes", "torch", "fedfloor", "samples", "has_energy_source",
    }  # fmt: skip


def test_without_torch_a_machine_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(joining, "version", no_version)
    with pytest.raises(MissingExtraError, match=r"joining a plant needs the extra 'deploy'"):
        this_machine("press-3")


def change(**entries: object) -> Callable[[dict[str, Any]], object]:
    return lambda raw: raw.update(entries)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (change(name="../etc"), r"name: must begin with a letter or digit .* got '\.\./etc'"),
        (change(name=""), "name: "),
        (change(name="n" * 251), "name: must have at most 250 characters"),
        (change(cores=0), "cores: must be >= 1, got 0"),
        (change(cores=True), "cores: must be a whole number, got True"),
        (change(memory_bytes=10**19), "memory_bytes: must be <= 1e[+]18"),
        (change(memory_bytes=float("nan")), "memory_bytes: must be a whole number, got nan"),
        (change(processor="\x1b[2J"), r"processor: must have at most 250 characters, all of them printable"),
        (change(torch=2.4), "torch: must be a string in quotes, got 2.4"),
        (change(samples=-1), "samples: must be >= 0, got -1"),
        (change(samples=6), "class_counts: must add up to the 6 samples, got 5"),
        (change(class_counts=[1] * 100_001), "class_counts: .*100000"),
        (change(class_counts=[5, "x"]), r"class_counts\[1\]: must be a whole number, got 'x'"),
        (change(class_counts=[]), "class_counts: must not be empty"),
        (change(has_energy_source="yes"), "has_energy_source: must be true or false, got 'yes'"),
        (change(secret=1), "secret: unknown key"),
        (lambda raw: raw.pop("cores"), "cores: is missing"),
        (lambda raw: raw["costs"].update(frequency_hz=float("inf")), "costs.frequency_hz: must be finite, got inf"),
        (
            lambda raw: raw["costs"].update(frequency_hz=1e13),
            r"costs\.frequency_hz: must be 1e\+06 to 1e\+10, got 1e\+13",
        ),
        (
            lambda raw: raw["costs"]["layers"][0]["timings"][0].update(forward_s=1e6),
            r"costs\.layers: a step with a batch of \d+ must take at most 600 s, got 1e\+06",
        ),
        (change(role="device"), "role: input should be 'gateway', got 'device'"),
        (lambda raw: raw["costs"]["machine"].update(cpu="\u202e"), "costs: must have .* printable"),
        (
            lambda raw: raw["costs"]["layers"][0]["timings"][0].update(forward_s=float("nan")),
            r"costs\.layers\[0\]\.timings\[0\]\.forward_s: must be finite, got nan",
        ),
        (
            lambda raw: raw["costs"].update(
                rates={str(index): raw["costs"]["rates"]["linear"] for index in range(1001)}
            ),
            r"costs\.rates: must have at most 1000 entries, got 1001",
        ),
    ],
)
def test_a_wrong_profile_is_refused_with_its_field_and_value(
    damage: Callable[[dict[str, Any]], object], problem: str
) -> None:
    raw = example()
    damage(raw)
    with pytest.raises(DeploymentError, match=rf"^device press-3: {problem}") as caught:
        parse_joining(json.dumps(raw), "device press-3")
    assert_is_short(caught.value)
    assert "fedfloor schema" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "profile: is not valid JSON"),
        ("{" * 10**6, "profile: is not valid JSON"),
        ("[" * 10**6, "profile: is not valid JSON"),
        (b"\xff\xfe", "profile: is not valid JSON"),
        ("[]", "must be a table"),
        ("null", "must be a table"),
        ("1" * 10_000, "profile: is not valid JSON"),
        (" " * (MOST_BYTES + 1), "profile: must have at most 4194304 bytes"),
    ],
    ids=range(8),
)
def test_a_text_that_is_no_profile_is_refused(text: str | bytes, problem: str) -> None:
    with pytest.raises(DeploymentError, match=f"^device press-3: {problem}") as caught:
        parse_joining(text, "device press-3")
    assert_is_short(caught.value)


def test_whatever_a_profile_holds_it_is_accepted_or_refused_in_a_short_line() -> None:
    refused = 0
    for long in (LONG, None):
        for changed in replaced(example(), long):
            try:
                assert isinstance(parse_joining(json.dumps(changed), "device press-3"), JoiningProfile)
            except DeploymentError as error:
                refused += 1
                assert_is_short(error)
    assert refused > 100


def test_the_example_costs_are_those_of_a_hardware_profile() -> None:
    assert example()["costs"] == json.loads(profile_text(profile_of()))


def test_the_example_of_the_documentation_is_accepted() -> None:
    page = (Path(__file__).parents[2] / "docs/machines.md").read_text()
    assert parse_joining(page.split("```json\n")[1].split("```")[0], "gateway press").name == "press"
    for field in JoiningProfile.model_fields:
        assert f"`{field}`" in page, field


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"number": "first"}, "number: must be a whole number, got 'first'"),
        ({"batch": None}, "batch: must be a whole number, got None"),
        ({"colour": "red"}, "colour: unknown key"),
    ],
)
def test_a_wrong_task_is_refused_with_advice_for_the_owner_of_a_machine(change: dict[str, Any], problem: str) -> None:
    task = floor_tasks(fedfloor.load("quick"))[0].devices[0]
    text = json.dumps({**json.loads(task_text(task)), **change})
    with pytest.raises(DeploymentError, match=rf"^the task of hall-1: {problem}") as caught:
        parse_task(text, DeviceTask, "hall-1")
    assert str(caught.value).endswith(" Install the same version of fedfloor on both machines.")
    assert "fedfloor schema" not in str(caught.value)
