"""How `make docs` makes the site: Sphinx reads the pages where they are, so that their links are the same on GitHub.

Navigation follows docs/index.md. Nothing on the site is fetched from the network, and search needs no server.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import fedfloor

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]

project, author = "fedfloor", "the fedfloor developers"
version = release = fedfloor.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md"]
exclude_patterns = [".*", "build", "dist", "runs", "src", "tests", "benchmarks", "testbed", "examples"]

myst_heading_anchors = 4
highlight_language = "text"
default_role = "literal"  # docstrings use backticks as Markdown does
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
maximum_signature_line_length = 80
napoleon_google_docstring = False

html_theme = "furo"
html_title = "fedfloor"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["index.html"]
html_copy_source = False
html_show_sphinx = False


def sections() -> dict[str, list[tuple[str, str]]]:
    """The navigation: title and page of every entry of docs/index.md, by its heading."""
    chapters: dict[str, list[tuple[str, str]]] = {}
    for line in (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            chapters[line.removeprefix("## ")] = []
        elif entry := re.match(r"- \[(.+?)\]\((\S+)\.md\)", line):
            path = (Path("docs") / entry[2]).as_posix()
            chapters[[*chapters][-1]].append((entry[1], re.sub(r"^docs/\.\./", "", path)))
    return chapters


def _add_navigation(_: "Sphinx", name: str, source: list[str]) -> None:
    """Put the navigation behind the front page, which is the README."""
    if name != root_doc:
        return
    chapters = sections()
    first = next(iter(chapters))
    chapters[first].insert(0, ("All pages", "docs/index"))
    for caption, entries in chapters.items():
        lines = [f"{title} <{path}>" for title, path in entries]
        source[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *lines, "```\n"])


def setup(app: "Sphinx") -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_navigation)
