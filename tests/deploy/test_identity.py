"""Who a process is and whom it believes, and how both follow the files of its folder."""

import os
import random
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from fedfloor.deploy.authority import renew, revoke
from fedfloor.deploy.certificates import PrivateKey, Role, peer_of
from fedfloor.deploy.identity import Credentials, peer_problem
from fedfloor.deploy.signing import Signer, new_key, pem
from fedfloor.errors import DeploymentError
from tests.deploy.conftest import NOW, PARTIES

FILES = ("certificate.pem", "key.pem", "ca.pem", "revoked.pem")
DAY = timedelta(days=1)


@pytest.fixture
def machine(plant: Path, tmp_path: Path) -> Path:
    """The folder of the gateway `press` on its own machine."""
    return copied(plant / "gateway" / "press", tmp_path / "machine")


def copied(source: Path, target: Path, *names: str) -> Path:
    target.mkdir(mode=0o700, exist_ok=True)
    for name in names or FILES:
        shutil.copy(source / name, target / name)
    return target


def pem_of(folder: Path) -> bytes:
    return (folder / "certificate.pem").read_bytes()


@pytest.mark.parametrize(("role", "name"), PARTIES)
def test_a_party_is_who_its_folder_says(role: Role, name: str, plant_once: Path) -> None:
    identity = Credentials(plant_once / role / name, role, name=name).identity
    assert (identity.own.role, identity.own.name) == (role, name)
    assert identity.own == peer_of(identity.certificate)
    assert "PRIVATE" not in repr(identity)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda place, plant: shutil.rmtree(place), "machine: no such folder. Copy one"),
        *(
            (lambda place, plant, file=file: (place / file).unlink(), f"machine/{file}: no such file. Copy the party's")
            for file in FILES
        ),
        (lambda place, plant: (place / "key.pem").write_bytes(b""), "key.pem: must be a private key"),
        (lambda place, plant: (place / "key.pem").chmod(0o644), r"key.pem: must be private, .*mode 0644\). Run: chmod"),
        (lambda place, plant: place.chmod(0o777), r"machine: must be private, .*mode 0777\). Run: chmod 700"),
        (
            lambda place, plant: shutil.copy(plant / "gateway" / "paint" / "key.pem", place),
            "key.pem: is the key of another certificate than certificate.pem beside it",
        ),
        (
            lambda place, plant: (
                copied(plant / "ca", place, "ca.pem", "revoked.pem")
                and (place / "certificate.pem").write_bytes((place / "ca.pem").read_bytes())
            ),
            "certificate.pem: must name one role and one party, such as urn:fedfloor:gateway:assembly",
        ),
        (
            lambda place, plant: (place / "ca.pem").write_bytes(pem_of(place)),
            "ca.pem: must be the certificate of a CA",
        ),
        (
            lambda place, plant: (place / "ca.pem").write_bytes((place / "ca.pem").read_bytes() * 2),
            "ca.pem: must be one certificate in PEM",
        ),
        (
            lambda place, plant: copied(plant / "device" / "press", place),
            "certificate.pem: the certificate of device 'press' is for a device, not for a gateway",
        ),
        (
            lambda place, plant: copied(plant / "gateway" / "paint", place),
            "certificate.pem: the certificate of gateway 'paint' is not for the name 'press'",
        ),
        (
            lambda place, plant: (
                revoke(plant, "press", role=Role.GATEWAY) and copied(plant / "ca", place, "revoked.pem")
            ),
            "certificate.pem: the certificate of gateway 'press' was revoked on 20.* Renew it",
        ),
    ],
)
def test_a_folder_that_does_not_do_is_named_with_file_and_advice(
    damage: Callable[[Path, Path], object], expected: str, machine: Path, plant: Path
) -> None:
    damage(machine, plant)
    with pytest.raises(DeploymentError, match=expected):
        Credentials(machine, Role.GATEWAY, name="press")


def test_an_expired_certificate_is_refused_with_the_moment(plant_once: Path) -> None:
    with pytest.raises(DeploymentError, match=r"expired/certificate.pem: .* expired on 20\d\d-\d\d-\d\d .* UTC. Renew"):
        Credentials(plant_once / "device" / "expired", Role.DEVICE)


@pytest.mark.parametrize("file", ["certificate.pem", "ca.pem", "revoked.pem"])
def test_files_of_a_foreign_ca_are_refused(file: str, machine: Path, foreign: Path) -> None:
    copied(foreign / "gateway" / "press", machine, file)
    with pytest.raises(DeploymentError, match=r"is the key of another certificate|signed by the CA"):
        Credentials(machine, Role.GATEWAY)


def test_damaged_files_end_in_our_error(machine: Path) -> None:
    rng, messages = random.Random(0), []
    whole = Credentials(machine, Role.GATEWAY).identity
    for file in FILES * 25:
        path = machine / file
        content = path.read_bytes()
        place = rng.randrange(len(content))
        changed = bytes([*content[:place], rng.randrange(256), *content[place + 1 :]])
        path.write_bytes(rng.choice([changed, content[:place], content[place:]]))
        try:
            assert (
                Credentials(machine, Role.GATEWAY).identity == whole
            )  # only a character that means nothing was changed
        except DeploymentError as error:
            messages.append(str(error))
        path.write_bytes(content)
    assert len(messages) > 80
    assert "".join(messages).isprintable()
    assert all(any(file in message for file in FILES) for message in messages)


@pytest.mark.parametrize("pem", [b"", b"x", b"\xff" * 100, b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"])
def test_a_peer_without_a_certificate_of_ours_is_no_peer(pem: bytes) -> None:
    with pytest.raises(DeploymentError, match="the peer's certificate: must be one certificate in PEM"):
        peer_of(pem)


def test_a_peer_is_welcome_or_refused_for_a_reason(plant: Path, foreign: Path) -> None:
    trust = Credentials(plant / "gateway" / "press", Role.GATEWAY).identity.trust
    device = peer_of(pem_of(plant / "device" / "press.robot-1"))
    assert peer_problem(device, trust, role=Role.DEVICE, name="press.robot-1") == ""
    owner = "the certificate of device 'press.robot-1' "
    refusals = {
        "is for a device, not for a gateway": peer_problem(device, trust, role=Role.GATEWAY),
        "is not for the name 'other'": peer_problem(device, trust, role=Role.DEVICE, name="other"),
        "is not valid before": peer_problem(device, trust, now=NOW - DAY),
        "expired on": peer_problem(device, trust, now=NOW + 400 * DAY),
        "is not signed by the CA of this plant": peer_problem(
            peer_of(pem_of(foreign / "device" / "press.robot-1")), trust, role=Role.DEVICE
        ),
    }
    revoke(plant, "press.robot-1")
    after = Credentials(plant / "gateway" / "press", Role.GATEWAY).identity.trust
    refusals["was revoked on"] = peer_problem(device, after)
    for reason, text in refusals.items():
        assert text.startswith(owner + reason)
    assert peer_problem(peer_of(pem_of(plant / "device" / "press")), after, name="\x1b" * 1000).isprintable()


def forged(real: x509.Certificate, *, is_own_issuer: bool = False) -> tuple[PrivateKey, bytes]:
    """A key of somebody else, and a certificate that this key has signed but that looks like a real one."""
    key, issuer = new_key(), real.subject if is_own_issuer else real.issuer
    builder = x509.CertificateBuilder(issuer, real.subject, key.public_key(), real.serial_number)
    builder = builder.not_valid_before(real.not_valid_before_utc).not_valid_after(real.not_valid_after_utc)
    for extension in real.extensions:
        builder = builder.add_extension(extension.value, critical=extension.critical)
    return key, pem(builder.sign(key, hashes.SHA256()))


def test_the_name_of_the_issuer_is_not_believed_without_its_signature(machine: Path, plant: Path) -> None:
    trust = Credentials(machine, Role.GATEWAY).identity.trust
    real = peer_of(pem_of(plant / "device" / "press"))
    key, certificate = forged(real.certificate)
    assert (peer_of(certificate).name, peer_of(certificate).serial) == (real.name, real.serial)
    assert "is not signed by the CA of this plant" in peer_problem(peer_of(certificate), trust)
    (machine / "revoked.pem").write_bytes(pem(Signer(trust.ca, key).revocation_list(9, (), NOW)))
    with pytest.raises(DeploymentError, match=r"revoked.pem: must be signed by the CA of this plant"):
        Credentials(machine, Role.GATEWAY)


def test_a_certificate_that_signed_itself_is_no_ca(machine: Path) -> None:
    _, certificate = forged(peer_of(pem_of(machine)).certificate, is_own_issuer=True)
    (machine / "ca.pem").write_bytes(certificate)
    with pytest.raises(DeploymentError, match=r"ca.pem: must be the certificate of a CA"):
        Credentials(machine, Role.GATEWAY)


def followed(machine: Path) -> tuple[Credentials, list[str]]:
    told: list[str] = []
    return Credentials(machine, Role.GATEWAY, tell=told.append), told


@pytest.mark.parametrize("same_key", [False, True])
def test_a_renewed_certificate_is_taken_without_a_stop(same_key: bool, machine: Path, plant: Path) -> None:
    credentials, told = followed(machine)
    old = credentials.identity
    assert not credentials.refresh()
    renew(plant, "press", role=Role.GATEWAY, same_key=same_key)
    copied(plant / "gateway" / "press", machine)
    assert credentials.refresh()
    assert not credentials.refresh()
    assert credentials.identity.own.serial != old.own.serial
    assert (credentials.identity.key == old.key) is same_key
    assert told == []


@pytest.mark.parametrize("first", ["certificate.pem", "key.pem"])
def test_a_half_copied_folder_changes_nothing_and_is_told_once(first: str, machine: Path, plant: Path) -> None:
    credentials, told = followed(machine)
    old = credentials.identity
    renew(plant, "press", role=Role.GATEWAY)
    copied(plant / "gateway" / "press", machine, first)
    for _ in range(3):
        assert not credentials.refresh()
    assert credentials.identity == old
    assert len(told) == 1
    assert "key.pem: is the key of another certificate" in told[0]
    assert told[0].endswith("Until then, what was read before stays in use")
    copied(plant / "gateway" / "press", machine)
    assert credentials.refresh()
    assert credentials.identity.own.serial != old.own.serial
    assert len(told) == 1


def test_a_file_that_is_gone_or_cut_changes_nothing(machine: Path) -> None:
    credentials, told = followed(machine)
    old = credentials.identity
    for file in FILES:
        content = (machine / file).read_bytes()
        (machine / file).unlink()
        assert not credentials.refresh()
        (machine / file).write_bytes(content[:100])
        assert not credentials.refresh()
        (machine / file).write_bytes(content)
        (machine / file).chmod(0o600)
        assert not credentials.refresh()
        assert credentials.identity == old
    assert len(told) == 2 * len(FILES)


def test_a_revocation_list_is_noticed_by_its_content(machine: Path, plant: Path) -> None:
    credentials, told = followed(machine)
    before, path = (machine / "revoked.pem").stat(), machine / "revoked.pem"
    device = peer_of(pem_of(plant / "device" / "press"))
    assert peer_problem(device, credentials.identity.trust) == ""
    revoke(plant, "press", role=Role.DEVICE)
    path.write_bytes((plant / "ca" / "revoked.pem").read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert credentials.refresh()
    assert "was revoked on" in peer_problem(device, credentials.identity.trust)
    assert told == []


def test_a_list_is_taken_even_if_the_rest_is_half_copied(machine: Path, plant: Path, tmp_path: Path) -> None:
    credentials, told = followed(machine)
    before = copied(machine, tmp_path / "before")
    revoke(plant, "press", role=Role.DEVICE)
    copied(plant / "ca", machine, "revoked.pem")
    (machine / "key.pem").write_bytes(b"")
    assert credentials.refresh()
    assert credentials.identity.trust.number == 2
    copied(before, machine)  # the files that the process began with, and an older list with them
    assert not credentials.refresh()
    assert credentials.identity.trust.number == 2
    assert ["key.pem: must be" in told[0], "above 2, that of the list in use, got 1" in told[1]] == [True, True]


def test_the_same_problem_is_told_again_after_it_was_solved(machine: Path) -> None:
    credentials, told = followed(machine)
    for _ in range(2):
        (machine / "key.pem").chmod(0o644)
        credentials.refresh()
        (machine / "key.pem").chmod(0o600)
        credentials.refresh()
    assert len(told) == 2


def test_older_and_foreign_lists_are_refused(machine: Path, plant: Path, foreign: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(plant, tmp_path / "restored"))
    revoke(plant, "press", role=Role.DEVICE)
    copied(plant / "ca", machine, "revoked.pem")
    credentials, told = followed(machine)
    copied(other / "ca", machine, "revoked.pem")
    assert not credentials.refresh()
    revoke(other, "paint")  # another list with the same number
    copied(other / "ca", machine, "revoked.pem")
    assert not credentials.refresh()
    copied(foreign / "ca", machine, "revoked.pem")
    assert not credentials.refresh()
    assert credentials.identity.trust.number == 2
    assert [text.split(". ")[0].partition("revoked.pem: ")[2] for text in told] == [
        "must have a number above 2, that of the list in use, got 1",
        "must have a number above 2, that of the list in use, got 2",
        "must be signed by the CA of this plant",
    ]


def test_who_is_revoked_itself_learns_it_and_still_takes_the_list(machine: Path, plant: Path) -> None:
    credentials, told = followed(machine)
    assert credentials.own_problem() == ""
    revoke(plant, "press", role=Role.GATEWAY)
    copied(plant / "ca", machine, "revoked.pem")
    assert credentials.refresh()
    assert not credentials.refresh()
    assert "was revoked on" in credentials.own_problem()
    assert len(told) == 1
    assert "was revoked on" in told[0]
    renew(plant, "press", role=Role.GATEWAY)
    copied(plant / "gateway" / "press", machine)
    assert credentials.refresh()
    assert credentials.own_problem() == ""


def test_own_expiry_is_a_problem_before_dialling(machine: Path) -> None:
    credentials, _ = followed(machine)
    assert "expired on" in credentials.own_problem(NOW + 400 * DAY)


def test_a_certificate_that_is_valid_later_is_taken_then(machine: Path, plant: Path) -> None:
    credentials, told = followed(machine)
    renew(plant, "press", role=Role.GATEWAY, now=NOW + 2 * DAY)
    copied(plant / "gateway" / "press", machine)
    assert not credentials.refresh(NOW)
    assert "is not valid before" in told[0]
    assert credentials.refresh(NOW + 3 * DAY)


def test_a_folder_of_another_party_is_not_taken(machine: Path, plant: Path) -> None:
    credentials, told = followed(machine)
    copied(plant / "gateway" / "paint", machine)
    assert not credentials.refresh()
    assert credentials.identity.own.name == "press"
    assert "is not for the name 'press'" in told[0]


def test_another_ca_is_taken_only_with_all_its_files(machine: Path, foreign: Path) -> None:
    credentials, told = followed(machine)
    copied(foreign / "gateway" / "press", machine, "certificate.pem", "key.pem", "ca.pem")
    assert not credentials.refresh()
    assert "revoked.pem: must be signed by the CA" in told[0]
    copied(foreign / "gateway" / "press", machine)
    assert credentials.refresh()
    assert peer_problem(peer_of(pem_of(foreign / "device" / "press.robot-1")), credentials.identity.trust) == ""
