"""Everybody can tell colours apart and read texts: simulated deuteranopia, and contrast in light and dark."""

import itertools
import re
from collections.abc import Mapping

import numpy as np
import pytest

from fedfloor.arrays import Floats
from fedfloor.reports.page import asset
from fedfloor.reports.palette import COLOURS, DARK_TURN_COLOURS, PART_COLOURS, TURN_COLOURS, palette_css

#: what a person without green cones sees, on linear RGB: G. M. Machado, M. M. Oliveira and L. A. F. Fernandes, "A
#: Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG 15 (2009), severity 1.0
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
TRICHROMACY = np.eye(3)
#: linear sRGB to CIE XYZ with white D65: IEC 61966-2-1
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
APART = 15.0  #: in CIELAB, where 2.3 is just noticeable


def linear(colour: str) -> Floats:
    share = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255.0
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(colour: str, eye: Floats) -> Floats:
    """The colour in CIELAB, as this eye sees it."""
    ratio = XYZ @ np.clip(eye @ linear(colour), 0.0, 1.0) / XYZ.sum(axis=1)
    root = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def distance(one: str, other: str, eye: Floats) -> float:
    return float(np.linalg.norm(lab(one, eye) - lab(other, eye)))


def contrast(one: str, other: str) -> float:
    """Ratio of WCAG 2.2."""
    dark, light = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("eye", [TRICHROMACY, DEUTERANOPIA], ids=["usual", "deuteranopia"])
@pytest.mark.parametrize(
    "colours",
    [COLOURS, *(tuple(colours.values()) for colours in (PART_COLOURS, TURN_COLOURS, DARK_TURN_COLOURS))],
    ids=["policies", "stages", "turns", "turns in the dark"],
)
def test_colours_of_one_kind_are_told_apart(colours: tuple[str, ...], eye: Floats) -> None:
    for one, other in itertools.combinations(colours, 2):
        assert distance(one, other, eye) > APART, (one, other)


@pytest.mark.parametrize("eye", [TRICHROMACY, DEUTERANOPIA], ids=["usual", "deuteranopia"])
def test_no_stage_looks_like_a_policy(eye: Floats) -> None:
    for stage, policy in itertools.product(PART_COLOURS.values(), COLOURS):
        assert distance(stage, policy, eye) > APART, (stage, policy)


def test_the_simulation_takes_red_for_green_and_leaves_grey() -> None:
    assert distance("#808080", "#808080", DEUTERANOPIA) == 0.0
    assert np.allclose(DEUTERANOPIA.sum(axis=1), 1.0, atol=1e-5)  # a grey stays the grey that it is
    red, green = "#E06060", "#909030"
    assert distance(red, green, DEUTERANOPIA) < distance(red, green, TRICHROMACY) / 3


def variables(scheme: str) -> dict[str, str]:
    """The colours of the page's style sheet in light or dark."""
    light, dark = re.findall(r":root \{(.*?)\}", asset("page.css"), re.DOTALL)[:2]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light))
    return colours | (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark)) if scheme == "dark" else {})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("text", ["ink", "soft", "accent", "raw"])
def test_texts_are_legible_on_every_ground(text: str, scheme: str) -> None:
    colours = variables(scheme)
    for ground in ("ground", "card", "plot"):
        assert contrast(colours[text], colours[ground]) >= 4.5, ground


@pytest.mark.parametrize("stage", PART_COLOURS)
def test_stages_stand_out_on_a_dark_ground(stage: str) -> None:
    colours = variables("dark")
    for ground in ("card", "plot"):
        assert contrast(PART_COLOURS[stage], colours[ground]) >= 3.0, ground


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_notices_are_legible(scheme: str) -> None:
    colours = variables(scheme)
    assert contrast(colours["ink"], colours["notice"]) >= 4.5


@pytest.mark.parametrize(("scheme", "turns"), [("light", TURN_COLOURS), ("dark", DARK_TURN_COLOURS)])
def test_turns_stand_out_on_their_ground_and_from_waiting(scheme: str, turns: Mapping[str, str]) -> None:
    grounds = [variables(scheme)[name] for name in ("card", "plot")]
    least = {"light": 2.0, "dark": 3.0}[scheme]  # light grounds have had Tol's colours from the beginning
    for turn, colour in turns.items():
        if turn != "waited":
            assert all(contrast(colour, other) >= least for other in (*grounds, turns["waited"])), turn


@pytest.mark.parametrize(("scheme", "turns"), [("light", TURN_COLOURS), ("dark", DARK_TURN_COLOURS)])
def test_both_pages_have_the_colours_of_print(scheme: str, turns: Mapping[str, str]) -> None:
    light, dark = palette_css().splitlines()
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark))
    assert [colours[f"turn-{at}"] for at in range(len(turns))] == [colour.lower() for colour in turns.values()]
    assert (colours["done"], colours["failed"]) == (turns["done"].lower(), turns["failed"].lower())
    assert colours["train"] == PART_COLOURS["gateway"].lower()
    assert dark.startswith("@media screen and (prefers-color-scheme: dark)")
    for name in ("live/watch.css", "page.css", "page.js", "decision.js", "live/now.js"):
        named = {colour.lower() for colour in re.findall(r"#[0-9a-fA-F]{6}", asset(name))}
        every = {*COLOURS, *PART_COLOURS.values(), *TURN_COLOURS.values(), *DARK_TURN_COLOURS.values()}
        assert not named & {colour.lower() for colour in every} - {"#0072b2", "#56b4e9"}, name  # the accent of links


@pytest.mark.parametrize(("scheme", "turns"), [("light", TURN_COLOURS), ("dark", DARK_TURN_COLOURS)])
def test_failures_of_a_run_that_goes_are_legible(scheme: str, turns: Mapping[str, str]) -> None:
    assert contrast(turns["failed"], variables(scheme)["card"]) >= 4.5
    assert contrast(turns["failed"], {"light": "#ffffff", "dark": "#101316"}[scheme]) >= 4.5  # letters in cells
