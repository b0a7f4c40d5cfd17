"""A wheel that works outside the checkout, and a core that needs none of the extras."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: refuses the import of every optional library, as if none were installed
WITHOUT_EXTRAS = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        extras = {"torch", "safetensors", "matplotlib", "plotly", "flwr", "ray", "tensorboard", "mlflow"}
        extras |= {"grpc", "google", "cryptography"}
        if name.split(".")[0] in extras:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])
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
