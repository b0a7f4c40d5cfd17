"""Every fedfloor command that our texts tell people to run is one that the program understands."""

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.command_line import commands_in, parsed

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
UNITS = sorted((ROOT / "examples" / "systemd").glob("*.service"))


def commands_on(page: Path) -> list[list[str]]:
    """The commands in the indented lines of a page."""
    text = page.read_text(encoding="utf-8")
    return commands_in("\n".join(re.findall(r"^    (fedfloor (?:.*\\\n)*.*|docker run .*)$", text, re.MULTILINE)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_is_understood(page: Path) -> None:
    for words in commands_on(page):
        try:
            parsed(words)
        except click.UsageError as error:
            pytest.fail(f"{page.name}: fedfloor {shlex.join(words)}: {error.format_message()}")


def test_the_page_on_deployment_has_a_command_of_every_program() -> None:
    programs = {words[0] for words in commands_on(ROOT / "docs" / "deploy.md")}
    assert programs >= {"certs", "server", "gateway", "device", "local-plant", "watch"}


@pytest.mark.parametrize("words", [["gateway", "--sever", "a:1"], ["servr"], ["server"], ["certs", "inti", "folder"]])
def test_a_command_with_a_mistake_is_refused(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parsed(words)


def test_no_test_installs_anything_in_a_home_folder() -> None:
    with pytest.raises(ValueError, match="changes the files of the user's shell"):
        parsed(["--install-completion"])


def test_commands_are_taken_out_of_shell_texts() -> None:
    text = "test -e a || fedfloor list && fedfloor check \\\n  quick  # why\nfedfloor device ... --quiet\nsleep 1"
    assert commands_in(text) == [["list"], ["check", "quick"]]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_command_of_every_systemd_unit_is_understood(unit: Path) -> None:
    (line,) = re.findall(r"^ExecStart=(.+)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    program, *words = shlex.split(line)
    assert Path(program).name == "fedfloor"
    assert words[0] in unit.name
    assert parsed(words)["certs"]


def test_there_is_a_unit_for_every_program_of_a_plant() -> None:
    names = {unit.name for unit in UNITS}
    assert names == {"fedfloor-server.service", "fedfloor-gateway.service", "fedfloor-device@.service"}
