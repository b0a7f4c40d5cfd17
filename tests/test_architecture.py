"""The law of the tree: imports go up the list only, libraries have one home each, one place spells the log's keys."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import fedfloor
from fedfloor.rounds import record

ROOT = Path(__file__).parents[1]
SOURCE = Path(fedfloor.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

#: folder -> its modules and folders; each imports only from those before it
ORDER = {
    "": "errors signals characters units arrays streams references files arguments notebooks scenario costs weather "
    "theory scheduling training policies workers rounds runs deploy flower reports api cli",
    "notebooks": "frames cards bars",
    "scenario": "catalogue section findings layers numbers model data file profiles schema commenting resolved members "
    "si expand building writing reading",
    "costs": "radio layers hardware measured precision links plant compute headline",
    "weather": "traces draws measured",
    "theory": "participation theorems bounds tradeoff",
    "scheduling": "history state checking usage free snapshot conversion solver traits allocating ranking sampling "
    "policies registry objects",
    "scheduling/solver": "cache compiling solution assignment uplink floor packing pieces convex slack knapsack "
    "endless coupled exact paper reasons solve",
    "training": "schedule data network exchange aggregation floors halves work comparing measuring tasks trial",
    "training/aggregation": "contract absent rules gaps normalising averaging aggregator registry",
    "training/data": "samples checking matlab sources fetching kept paths tables windows pictures recorded partition "
    "holding verifying",
    "training/network": "models blocks description losses split peak dense weights quantised built stored exported",
    "workers": "processes crew sharing parcels engine worker cluster",
    "rounds": "outcome record recording problems lines placing columns past events summary plants loop listeners",
    "rounds/plants": "contract simulated global_model estimates learning backhaul deployed",
    "rounds/listeners": "log state checkpoint stop progress curves tensorboard mlflow loggers",
    "runs": "options trust answers about copies folder target profile shares planned shown deployable machine measure "
    "measured replay bounds driving simulate vary train export evaluate plan logged given tradeoff mirror compare",
    "deploy": "energy actuators joining measuring certificates signing authority identity wire_pb2 fields messages "
    "coding session link together top_process tops options tasks machines crossing scaling guarding feedback surveying "
    "orders device whole_floor member gateway radio station holdings serving running kept programs commands local",
    "deploy/actuators": "contract kernel log pace groups cgroup cpufreq choosing",
    "flower": "errors nodes memory replies evaluating describing plant strategy floors writing",
    "flower/floors": "config data records exchange grid server client",
    "reports": "saving words sorting palette policies variants beside log_columns logged sections scores reading "
    "arrays statistics cells results export measures claims answers reaching tables drawing figures registry pictures "
    "shares grids markup exploring decisions page making live",
    "reports/live": "recent keeping following watched access serving",
    "reports/measures": "seeds curves tested phases rates splits",
    "reports/drawing": "scales paper plots figure lines pairs stacks scored",
    "api": "plans runs grids comparisons scenarios certificates machines",
    "cli": "completing options show serving commands",
    "cli/show": "terminal bare scenarios hardware datasets certificates plans tradeoffs watching machines runs grids "
    "reports comparisons",
}
#: folders of modules that are found by their names and never import each other: a new one changes no list
SIBLINGS = ("scheduling/policies", "training/aggregation/rules", "reports/figures", "cli/commands")
#: library -> the only folder that may import it
HOMES = {
    "torch": "training",
    "safetensors": "training",
    "pyarrow": "training",
    "PIL": "training",
    "ray": "workers",
    "tensorboard": "rounds/listeners",
    "mlflow": "rounds/listeners",
    "matplotlib": "reports",
    "plotly": "reports",
    "grpc": "deploy",
    "google": "deploy",
    "cryptography": "deploy",
    "flwr": "flower",
    "pandas": "notebooks",
    "IPython": "notebooks",
    "cloudpickle": "workers",
}
#: modules that use keys of the log as keys of something else -> of what
OTHER_KEYS = {
    "cli/show/plans.py": "the answer of `fedfloor plan`",
    "runs/plan.py": "the answer of `fedfloor plan`",
    "reports/decisions.py": "the answer of `fedfloor plan`",
    "cli/show/runs.py": "the answer of `fedfloor evaluate`",
    "cli/show/datasets.py": "the table of who holds what",
    "runs/planned.py": "a scenario file",
    "scenario/expand.py": "a scenario file",
    "scenario/data.py": "a scenario file",
    "scenario/reading.py": "a scenario file",
    "rounds/listeners/checkpoint.py": "the state of a checkpoint",
    "rounds/plants/estimates.py": "the state of a checkpoint",
    "deploy/machines.py": "what machines said on joining",
}


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> list[str]:
    """Everything a file imports, in functions too, as dotted names."""
    names: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module or "")
            names += [
                f"{node.module}.{alias.name}" for alias in node.names if (node.module or "").startswith("fedfloor")
            ]
    return names


def children(folder: str) -> set[str]:
    """Modules and packages of a folder."""
    place = SOURCE / folder
    modules = {path.stem for path in place.glob("*.py") if not path.stem.startswith("__")}
    return modules | {path.parent.name for path in place.glob("*/__init__.py")}


def inside(path: Path) -> Iterator[tuple[str, str]]:
    """Every folder that a file lies in, and the child of that folder that it belongs to."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    for depth in range(len(parts)):
        yield "/".join(parts[:depth]), parts[depth]


def test_the_order_lists_what_there_is_and_nothing_else() -> None:
    folders = {relative(path.parent) for path in SOURCE.rglob("__init__.py")} - {"."} | {""}
    assert folders == {*ORDER, *SIBLINGS}
    for folder, names in ORDER.items():
        assert sorted(names.split()) == sorted(children(folder)), folder


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_modules_import_only_from_what_stands_before_them(path: Path) -> None:
    for folder, own in inside(path):
        if folder == "" and own in ("__init__", "__main__"):
            return
        if own == "__init__" or folder in SIBLINGS:
            continue
        order = ORDER[folder].split()
        for name in imported(path):
            parts = name.split(".")[1:] if name.startswith("fedfloor.") else []
            depth = len(folder.split("/")) if folder else 0
            if "/".join(parts[:depth]) != folder or len(parts) <= depth or (not folder and parts[0] not in order):
                continue
            assert parts[depth] in order, f"{relative(path)} imports {name} from the package it belongs to"
            assert order.index(parts[depth]) <= order.index(own), f"{relative(path)} imports {name}"


@pytest.mark.parametrize("folder", SIBLINGS)
def test_siblings_do_not_import_each_other(folder: str) -> None:
    package = "fedfloor." + folder.replace("/", ".")
    for path in (SOURCE / folder).glob("*.py"):
        others = {f"{package}.{name}" for name in children(folder) - {path.stem}}
        assert not others.intersection(imported(path)), path.name


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_heavy_libraries_have_one_home(path: Path) -> None:
    for name in imported(path):
        home = HOMES.get(name.split(".")[0])
        assert home is None or relative(path).startswith(f"{home}/"), f"{relative(path)} imports {name}"


def test_commands_call_the_api_and_nothing_else() -> None:
    allowed = ("fedfloor.api", "fedfloor.cli.", "fedfloor.errors", "fedfloor.runs.options", "fedfloor.deploy.options")
    for path in (SOURCE / "cli" / "commands").glob("*.py"):
        for name in imported(path):
            is_ours = name.startswith("fedfloor.")
            assert not is_ours or name.startswith(allowed), f"{path.name} imports {name}"


def test_the_tree_in_the_guide_is_the_tree() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = text.split("    src/fedfloor/\n")[1].split("    tests/")[0]
    names = [word for line in block.splitlines() for word in re.findall(r"[a-z_]+(?:\.py\b|/(?= ))", line[:27])]
    listed = [name.removesuffix(".py").removesuffix("/") for name in names]
    assert listed == ORDER[""].split()


@pytest.mark.parametrize("module", [info.name for info in pkgutil.walk_packages([str(SOURCE)], "fedfloor.")])
def test_public_names_are_in_all_and_exist(module: str) -> None:
    if module == "fedfloor.__main__":
        return
    loaded = importlib.import_module(module)
    tree = tree_of(Path(str(loaded.__file__)))
    defined = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    listed = set(getattr(loaded, "__all__", ()))
    assert defined <= listed, f"not in __all__: {sorted(defined - listed)}"
    assert all(hasattr(loaded, name) for name in listed)


def log_keys() -> set[str]:
    """All keys of both logs."""
    kinds = (
        record.RoundRecord,
        record.GatewayRecord,
        record.DeviceRecord,
        record.WeatherRecord,
        record.TimingRecord,
        record.MessageRecord,
    )
    return {entry.name for kind in kinds for entry in fields(kind)}


def literal_keys(path: Path) -> set[str]:
    """Texts that a file uses in subscripts and in calls of `get`."""
    keys: set[str] = set()
    for node in ast.walk(tree_of(path)):
        candidates: list[ast.expr] = [node.slice] if isinstance(node, ast.Subscript) else []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            candidates += node.args[:1]
        keys |= {part.value for part in candidates if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return keys


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_only_the_record_spells_the_keys_of_the_log(path: Path) -> None:
    if relative(path) in ("rounds/record.py", "rounds/lines.py"):
        return
    keys = literal_keys(path) & log_keys()
    if relative(path) in OTHER_KEYS:
        assert keys, f"{relative(path)} needs no exemption"
    else:
        assert not keys, f"{relative(path)} spells {sorted(keys)}"


def test_tables_without_types_are_rare() -> None:
    untyped = {relative(path): len(re.findall(r"(dict|Mapping)\[str, Any\]", path.read_text())) for path in FILES}
    assert sum(untyped.values()) <= 15, {name: count for name, count in untyped.items() if count}
