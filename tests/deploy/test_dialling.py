"""A machine examines its own certificate before it dials, because refused handshakes are reported to nobody."""

import asyncio
import contextlib
import re
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from fedfloor.deploy import link
from fedfloor.deploy.authority import issue, renew, revoke
from fedfloor.deploy.certificates import Role
from fedfloor.deploy.guarding import guard_for, papers_of
from fedfloor.deploy.identity import Credentials, peer_problem
from fedfloor.deploy.link import Listener, UnfitError, sessions
from fedfloor.deploy.messages import Hello, Welcome
from fedfloor.deploy.session import Session
from fedfloor.errors import DeploymentError
from tests.conftest import known
from tests.deploy.conftest import NOW

DAY = timedelta(days=1)
NAME = "press.robot-1"
HELLO = Hello("device", NAME, "", "{}")
BOUND = 60.0  #: [s] that no test takes unless it hangs


def copied(source: Path, machine: Path) -> Path:
    return Path(shutil.copytree(source, machine, dirs_exist_ok=True))


@pytest.fixture
def machine(plant: Path, tmp_path: Path) -> Path:
    """The folder of a device on its own machine."""
    return copied(plant / "device" / NAME, tmp_path / "machine")


def test_a_revoked_machine_says_so_instead_of_dialling_until_its_folder_is_renewed(
    machine: Path, plant: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "FIRST_PAUSE_S", 0.05)
    own, gateway = Credentials(machine, Role.DEVICE), Credentials(plant / "gateway" / "press", Role.GATEWAY)
    revoke(plant, NAME)
    shutil.copy(plant / "ca" / "revoked.pem", machine)
    dialled = 0

    def papers() -> link.Papers:
        nonlocal dialled
        dialled += 1
        if dialled == 3:  # the process goes on meanwhile
            renew(plant, NAME)
            copied(plant / "device" / NAME, machine)
        return known(papers_of(own))()

    async def welcome(session: Session, _: Hello) -> None:
        await session.send(Welcome("{}"))

    async def scene() -> None:
        guard = guard_for(gateway, "device")
        async with (
            Listener("127.0.0.1:0", welcome, guard, papers_of(gateway)) as door,
            contextlib.aclosing(sessions(f"127.0.0.1:{door.port}", HELLO, papers)) as joined,
        ):
            async for _ in joined:
                return

    asyncio.run(asyncio.wait_for(scene(), BOUND))
    lines = [line for line in caplog.messages if "is not dialled" in line]
    assert len(lines) == 2
    assert "next attempt in about" in lines[0]
    assert f"the certificate of device '{NAME}' was revoked on" in lines[0]
    assert f"Renew it with `fedfloor certs renew FOLDER {NAME} --role device`" in lines[0]


def test_what_others_would_refuse_keeps_a_machine_from_dialling(plant: Path, tmp_path: Path) -> None:
    """Each problem here comes up after the process has started."""
    issue(plant, Role.DEVICE, "short", days=10)
    credentials = Credentials(copied(plant / "device" / "short", tmp_path / "machine"), Role.DEVICE)
    own, trust = credentials.identity.own, credentials.identity.trust
    for now, expected in (
        (NOW + 11 * DAY, "expired on .* Renew it"),
        (NOW - DAY, "is not valid before .* Check the clocks"),
    ):
        assert re.search(expected, credentials.own_problem(now))
    assert "is for a device, not for a gateway" in peer_problem(own, trust, role=Role.GATEWAY)
    assert "is not for the name 'paint'" in peer_problem(own, trust, name="paint")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda place, plant: copied(plant / "gateway" / "press", place), "is for a gateway, not for a device"),
        (
            lambda place, plant: shutil.copy(plant / "device" / "press" / "key.pem", place),
            "key.pem: is the key of another certificate",
        ),
        (
            lambda place, plant: shutil.copy(plant.parent / "foreign" / "ca.pem", place),
            "must be signed by the CA of this plant",
        ),
    ],
    ids=["role", "key", "CA"],
)
def test_files_that_do_not_fit_are_told_before_dialling_with_the_last_ones_that_did(
    change: Callable[[Path, Path], object], problem: str, machine: Path, plant: Path, foreign: Path
) -> None:
    copied(foreign / "ca", plant.parent / "foreign")
    told: list[str] = []
    credentials = Credentials(machine, Role.DEVICE, tell=told.append)
    before = known(papers_of(credentials))()
    change(machine, plant)
    assert known(papers_of(credentials))() == before
    assert [problem in line for line in told] == [True], told
    revoke(plant, NAME)
    shutil.copy(plant / "ca" / "revoked.pem", machine)
    with pytest.raises(UnfitError, match=r"own certificate cannot be used: .* was revoked on"):
        known(papers_of(credentials))()
    with pytest.raises(DeploymentError):  # at the start of a program it ends with exit code 2
        Credentials(machine, Role.DEVICE)


def test_a_certificate_that_expires_soon_is_mentioned_once_a_day(machine: Path, plant: Path) -> None:
    told: list[str] = []
    credentials = Credentials(machine, Role.DEVICE, tell=told.append)
    for days in (0, 350, 352, 352.5, 353.1, 364.9):
        credentials.refresh(NOW + days * DAY)
    assert len(told) == 3  # twice on one day
    assert "expires on" in told[0]
    assert f"`fedfloor certs renew FOLDER {NAME} --role device`" in told[0]
    renew(plant, NAME, now=NOW + 365 * DAY)
    copied(plant / "device" / NAME, machine)
    credentials.refresh(NOW + 365.1 * DAY)
    assert len(told) == 3


def test_a_certificate_of_one_day_is_not_always_about_to_expire(plant: Path, tmp_path: Path) -> None:
    issue(plant, Role.DEVICE, "short", days=1)
    told: list[str] = []
    credentials = Credentials(copied(plant / "device" / "short", tmp_path / "machine"), Role.DEVICE, tell=told.append)
    credentials.refresh(NOW + 0.5 * DAY)
    assert not told
    credentials.refresh(NOW + 0.9 * DAY)
    assert len(told) == 1
