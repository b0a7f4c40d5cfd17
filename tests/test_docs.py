"""The documentation names things that exist, and is laid out as the style asks."""

import ast
import pydoc
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
NOTES = (ROOT / "docs" / "paper_notes.md").read_text(encoding="utf-8")


def equations() -> list[tuple[str, str, str]]:
    """Equation, functions and tests of every row of the first table of the notes."""
    table = NOTES.split("## Equation, function, test")[1].split("## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    return [(row[0], row[2], row[3]) for row in rows[2:]]


@pytest.mark.parametrize(("equation", "functions"), [row[:2] for row in equations()])
def test_every_equation_leads_to_functions_that_exist(equation: str, functions: str) -> None:
    names = re.findall(r"`([\w.]+)`", functions)
    assert names, equation
    package = ""
    for name in names:  # those after the first may leave out its module
        path = name if "." in name else f"{package}.{name}"
        package = path.rpartition(".")[0]
        assert pydoc.locate(f"fedfloor.{path}") is not None, name


@pytest.mark.parametrize(("equation", "tests"), [(row[0], row[2]) for row in equations()])
def test_every_equation_leads_to_tests_that_exist(equation: str, tests: str) -> None:
    places = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", tests)
    assert places, equation
    for file, function in places:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not function or function in functions, f"{file}::{function}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_keeps_to_lines_of_120_characters(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    long = [number for number, line in enumerate(lines, start=1) if len(line) > 120 and not line.startswith("|")]
    assert not [number for number in long if "](" not in lines[number - 1]], f"{page.name}: lines {long}"
