"""A plant with certificates, made once and copied for every test that changes it."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedfloor.deploy.authority import issue, make_authority
from fedfloor.deploy.certificates import Role

NOW = datetime.now(UTC)
PARTIES = [
    (Role.SERVER, "base-station"),
    (Role.GATEWAY, "press"),
    (Role.GATEWAY, "paint"),
    (Role.DEVICE, "press.robot-1"),
    (Role.DEVICE, "press"),  # a device may have the name of a gateway
]


@pytest.fixture(scope="session")
def plant_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA that is two years old, certificates of today, and one that has expired."""
    folder = tmp_path_factory.mktemp("plant") / "certs"
    begin = NOW - timedelta(days=730)
    make_authority(folder, now=begin)
    for role, name in PARTIES:
        issue(folder, role, name)
    issue(folder, Role.DEVICE, "expired", days=30, now=begin)
    return folder


@pytest.fixture
def plant(plant_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plant_once, tmp_path / "certs"))


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another plant, whose gateway and device have the same names."""
    folder = tmp_path_factory.mktemp("foreign") / "certs"
    make_authority(folder, [(Role.SERVER, "base-station"), (Role.GATEWAY, "press"), (Role.DEVICE, "press.robot-1")])
    return folder
