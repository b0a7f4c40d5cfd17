"""docs/my_plant.md: its commands run as they are written, and every figure on the page is one that they printed."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import commands_in

PAGE = (Path(__file__).parents[1] / "docs" / "my_plant.md").read_text(encoding="utf-8")
#: what differs from machine to machine, or takes minutes; the other commands do not build on it
BY_HAND = ("run",)


def commands() -> list[list[str]]:
    """The commands of the page, in order."""
    return commands_in("\n".join(re.findall(r"^    (fedfloor (?:.*\\\n)*.*)$", PAGE, re.MULTILINE)))


def printed_lines() -> Iterator[str]:
    """The lines of the page that repeat what commands print: blocks of text, and the tables of the third step."""
    for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL):
        yield from block.splitlines()
    for line in PAGE.split("## 3. Simulate")[1].splitlines():
        if line.startswith("| ") and not line.startswith("|--"):
            yield line.replace("|", " ")


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
def test_the_page_runs_and_its_figures_are_printed(tmp_path: Path) -> None:
    output: list[str] = []
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}  # which pytest's readline sets
    for words in commands():
        if words[0] in BY_HAND:
            continue
        command = [sys.executable, "-m", "fedfloor", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=900, env=env)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        output += [plain(line) for line in done.stdout.splitlines()]
    assert len(list(printed_lines())) > 20
    missing = [line for line in map(plain, printed_lines()) if line not in output]
    headings = [line for line in missing if "mean delay [s] 95th" in line]  # a wide table breaks some of its cells
    assert [line for line in missing if line not in headings] == []
    printed = set(" ".join(output).split())
    assert [line for line in headings if not printed.issuperset(line.split())] == []
    assert (tmp_path / "runs" / "radio" / "grid.png").exists()


def test_figures_in_the_text_are_those_of_the_tables() -> None:
    """The fourth step repeats figures of the third and of its own table."""
    lines = PAGE.split("## 3. Simulate")[1].splitlines()
    tables = {cell for line in lines if line.startswith("|") for cell in plain(line).split(" ")}
    decided = [line for line in lines[lines.index("## 4. Decide") :] if not line.startswith("|")]
    figures = re.findall(r"(?<![\w.])\d+\.\d{2,}(?![\w.]*=)", "\n".join(decided))
    assert len(figures) > 8
    assert [figure for figure in figures if figure not in tables] == []
