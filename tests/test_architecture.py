"""The tree is the data flow: imports go up the list only, and heavy libraries have one home each."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import fedfloor

SOURCE = Path(fedfloor.__file__).parent
#: a module imports only from lines above its own
ORDER = [
    "errors", "units", "arrays", "references", "files", "scenario", "costs", "weather", "theory", "scheduling",
    "training", "workers", "rounds", "runs", "reports", "api", "cli",
]  # fmt: skip
#: library -> the only place that may import it
HOMES = {"torch": "training", "matplotlib": "reports", "plotly": "report", "flwr": "flower", "ray": "workers"}
HOMES |= {"tensorboard": "runs", "mlflow": "runs"}
FILES = sorted(SOURCE.rglob("*.py"))


def topic(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module or "")
            names += [f"{node.module}.{alias.name}" for alias in node.names if node.module == "fedfloor"]
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_import_only_from_lines_above_their_own(path: Path) -> None:
    if path.name in ("__init__.py", "__main__.py") and path.parent == SOURCE:
        return
    own = ORDER.index(topic(path))
    for name in imported(path):
        parts = name.split(".")
        if path.name == "compare.py":  # makes a report at its end
            continue
        if parts[0] == "fedfloor" and len(parts) > 1 and parts[1] in ORDER:
            assert ORDER.index(parts[1]) <= own, f"{topic(path)} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_libraries_have_one_home(path: Path) -> None:
    for name in imported(path):
        library = name.split(".")[0]
        assert HOMES.get(library, topic(path)) == topic(path), f"{path.name} imports {library}"


def test_every_module_is_in_the_order() -> None:
    found = {topic(path) for path in FILES} - {"__init__", "__main__"}
    assert found <= set(ORDER), found - set(ORDER)


@pytest.mark.parametrize("module", [info.name for info in pkgutil.walk_packages([str(SOURCE)], "fedfloor.")])
def test_public_names_are_in_all_and_exist(module: str) -> None:
    if module == "fedfloor.__main__":
        return
    loaded = importlib.import_module(module)
    tree = ast.parse(Path(str(loaded.__file__)).read_text(encoding="utf-8"))
    defined = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    listed = set(getattr(loaded, "__all__", ()))
    assert defined <= listed, f"not in __all__: {sorted(defined - listed)}"
    assert all(hasattr(loaded, name) for name in listed)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_that_passes_400_lines_becomes_a_folder(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
