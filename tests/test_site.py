"""The documentation as a site: every page is in its navigation, and it builds without a warning or a request."""

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def conf() -> ModuleType:
    """The configuration of the site, which needs no Sphinx to be read."""
    spec = importlib.util.spec_from_file_location("site_conf", ROOT / "docs" / "site" / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_navigation_lists_every_page_once(conf: ModuleType) -> None:
    listed = Counter(page for entries in conf.sections().values() for _, page in entries)
    pages = {f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")} - {"docs/index"}
    assert set(listed) == {*pages, "CHANGELOG", "CONTRIBUTING"}, "list it in docs/index.md"
    assert max(listed.values()) == 1


def test_the_list_of_pages_has_no_line_that_the_navigation_cannot_read(conf: ModuleType) -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^- ", text, re.MULTILINE)) == sum(map(len, conf.sections().values()))
    assert all(conf.sections().values())


@pytest.mark.slow
def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("furo", reason="needs the extra 'docs'")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", str(ROOT / "docs/site")]
    command += ["-d", str(tmp_path / "trees"), str(ROOT), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {path.stem for path in (tmp_path / "site" / "docs").glob("*.html")} == pages
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)="([^"]+)"', text)
        assert not [url for url in loaded if re.match(r"(?:https?:)?//", url)], page.name
        for picture in re.findall(r'<img\b[^>]*?src="([^"]+)"', text):
            assert (page.parent / picture).exists(), f"{page.name}: {picture}"
    styles = [path.read_text(encoding="utf-8") for path in (tmp_path / "site" / "_static").rglob("*.css")]
    assert not [text for text in styles if re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", text)]
    assert "simulate" in (tmp_path / "site" / "searchindex.js").read_text(encoding="utf-8")
    assert "fedfloor.vary(" in re.sub(r"<[^>]+>", "", (tmp_path / "site/docs/api.html").read_text(encoding="utf-8"))
