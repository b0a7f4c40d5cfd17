"""A wheel and a source distribution that work outside the checkout, and a core that needs none of the extras."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

import fedfloor

ROOT = Path(__file__).parents[1]
UNPACKED = (".ci/", ".pre-commit-config.yaml")  #: files of the repository that a source distribution leaves out


def optional_distributions() -> set[str]:
    """Names of all distributions that the extras for users name."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    needed = [entry for extra, entries in extras.items() if extra not in ("dev", "docs") for entry in entries]
    return {re.split(r"[^\w.-]", entry)[0].lower() for entry in needed} - {"fedfloor"}


def optional_packages() -> set[str]:
    """Names under which those of them that are installed are imported."""
    names, packages = optional_distributions(), packages_distributions()
    return {package for package, owners in packages.items() if names & {owner.lower() for owner in owners}}


#: refuses the import of every optional library, as if none were installed
WITHOUT_EXTRAS = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        extras = set({sorted(optional_packages())!r})
        if name.split(".")[0] in extras:
            raise ModuleNotFoundError("No module named " + repr(name), name=name.split(".")[0])
sys.meta_path.insert(0, Refuse())
from fedfloor.cli import main
sys.argv = ["fedfloor", *sys.argv[1:]]
main()
"""


def without_extras(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=120)


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "quick"],
        ["simulate", "quick", "--rounds", "3"],
        *(
            pytest.param(arguments, marks=pytest.mark.slow)
            for arguments in (
                ["list"],
                ["init", "new.toml"],
                ["flower", "new", "my-app"],
                ["schema"],
                ["check", "paper-cifar10"],
                ["data", "show", "quick"],
            )
        ),
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_core_needs_no_extra(arguments: list[str], tmp_path: Path) -> None:
    done = without_extras(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"), [(["profile", "vgg11"], "train"), (["certs", "show", "plant"], "deploy")]
)
def test_a_missing_extra_names_its_install_command(arguments: list[str], extra: str, tmp_path: Path) -> None:
    done = without_extras(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert f"pip install 'fedfloor[{extra}]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("there", "statement", "feature", "extra"),
    [
        ((), "fedfloor.flower.FedFloor", "fedfloor.flower", "flower"),
        ((), "import fedfloor.flower.floors", "fedfloor.flower.floors", "flower"),
        (
            ("flwr", "ray", "grpc", "google", "cryptography"),  # as the extra 'flower' installs them
            "import fedfloor.flower.floors",
            "fedfloor.flower.floors",
            "deploy",
        ),
    ],
)
def test_the_parts_for_flower_name_their_install_command(
    there: tuple[str, ...], statement: str, feature: str, extra: str, tmp_path: Path
) -> None:
    code = (
        WITHOUT_EXTRAS.partition("from fedfloor.cli")[0].replace("in extras:", f"in extras - set({there!r}):")
        + f"""
from fedfloor.errors import MissingExtraError
import fedfloor.flower
try:
    {statement}
except MissingExtraError as error:
    print(error)
"""
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True, timeout=120)
    assert done.stdout == f"{feature} needs the extra '{extra}'. Install it with: pip install 'fedfloor[{extra}]'\n"


@pytest.mark.slow
def test_the_wheel_works_outside_the_checkout(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(place)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True, timeout=300)
    code = "import fedfloor, sys; print(fedfloor.__file__); sys.argv = ['fedfloor', 'check', 'factory']; "
    code += "from fedfloor.cli import main; main()"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(place)!r}); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(place))
    assert "200 devices" in done.stdout
    assert (place / "fedfloor" / "py.typed").exists()


@pytest.mark.slow
def test_a_fresh_environment_with_the_core_alone_simulates(tmp_path: Path) -> None:
    """As a newcomer installs it: the wheel, which is built from the source distribution, and what it depends on."""
    place, env = tmp_path / "venv", {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, check=False, timeout=1500)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT))
    (source,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    with tarfile.open(source) as archive:
        names = archive.getnames()
    root = source.name.removesuffix(".tar.gz")
    if (ROOT / ".git").exists():
        tracked = run("git", "-C", str(ROOT), "ls-files").splitlines()
        assert [name for name in tracked if f"{root}/{name}" not in names and not name.startswith(UNPACKED)] == []
    assert not [name for name in names if "__pycache__" in name or name.startswith((f"{root}/.venv", f"{root}/runs"))]
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    assert run(str(place / "bin" / "fedfloor"), "--version").strip() == f"fedfloor {fedfloor.__version__}"
    assert run(python, "-c", "import fedfloor; print(fedfloor.__file__)").startswith(str(place))
    assert "mean delay [s]" in run(str(place / "bin" / "fedfloor"), "simulate", "quick", "--rounds", "3")
    installed = run(python, "-m", "pip", "list", "--format", "freeze").lower()
    assert not [name for name in optional_distributions() if f"\n{name}==" in installed]


def test_the_extras_are_found_in_the_project_file() -> None:
    assert {"torch", "matplotlib", "grpcio", "pillow", "flwr", "protobuf"} <= optional_distributions()
    assert "torch" in optional_packages()
    assert not {"numpy", "typer", "fedfloor"} & optional_packages()


def test_the_citation_names_this_version_and_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)  # what the format asks for
    assert citation["cff-version"] == "1.2.0"
    assert (citation["version"], citation["license"]) == (fedfloor.__version__, "Apache-2.0")
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= set(paper)
    assert paper["title"] in " ".join((ROOT / "README.md").read_text(encoding="utf-8").replace("*", "").split())
    assert [author["family-names"] for author in paper["authors"]] == ["Deng", "Li", "Ma", "Wei", "Shi", "Ding", "Chen"]
