"""The CA of a plant: what it issues, renews and revokes, and what it refuses."""

import json
import shutil
import stat
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import fedfloor
from fedfloor.cli import main
from fedfloor.deploy.authority import (
    hosts_by_name,
    issue,
    issue_missing,
    listed,
    make_authority,
    parties_of,
    renew,
    revoke,
)
from fedfloor.deploy.certificates import Role, certificate_from, key_from
from fedfloor.errors import DeploymentError, FedfloorError
from fedfloor.files import only_writer
from tests.deploy.conftest import NOW

Command = Callable[..., tuple[int, str, str]]
BOTH = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `fedfloor certs` in a folder of its own: its exit code, its output and its errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedfloor", "certs", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def certificate_of(folder: Path) -> x509.Certificate:
    return certificate_from((folder / "certificate.pem").read_bytes(), folder)


def test_only_the_owner_may_use_any_file_or_folder(plant: Path) -> None:
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in plant.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_the_key_of_the_ca_is_in_no_folder_of_a_party(plant: Path) -> None:
    key = (plant / "ca" / "key.pem").read_bytes()
    copies = [path for path in plant.rglob("*") if path.is_file() and path.read_bytes() == key]
    assert copies == [plant / "ca" / "key.pem"]
    files = {path.name for path in (plant / "gateway" / "press").iterdir()}
    assert files == {"certificate.pem", "key.pem", "ca.pem", "revoked.pem"}


@pytest.mark.parametrize(
    ("place", "purposes"),
    [
        ("server/base-station", {ExtendedKeyUsageOID.SERVER_AUTH}),
        ("gateway/press", BOTH),
        ("device/press.robot-1", {ExtendedKeyUsageOID.CLIENT_AUTH}),
    ],
)
def test_a_certificate_says_role_name_and_purpose(place: str, purposes: set[object], plant_once: Path) -> None:
    certificate = certificate_of(plant_once / place)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uri = f"urn:fedfloor:{place.replace('/', ':')}"
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [uri]
    (common,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert common.value == place.split("/")[1]
    assert set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == purposes
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"


def test_a_name_may_be_longer_than_a_common_name(plant: Path) -> None:
    name = "x" * 250
    entry = issue(plant, Role.DEVICE, name)
    assert entry.name == name
    assert listed(plant).certificates[-1].name == name


def test_hosts_are_those_given_or_the_own_name_and_this_machine(plant: Path) -> None:
    entry = issue(plant, Role.GATEWAY, "weld", hosts=["weld.plant.example", "10.0.0.7", "fe80::7", "10.0.0.7"])
    assert entry.hosts == ("weld.plant.example", "10.0.0.7", "fe80::7")
    assert issue(plant, Role.GATEWAY, "mill").hosts == ("mill", "localhost", "127.0.0.1", "::1")
    assert issue(plant, Role.GATEWAY, "mill_2").hosts == ("localhost", "127.0.0.1", "::1")  # no host has that name
    assert issue(plant, Role.DEVICE, "mill").hosts == ()
    assert renew(plant, "weld").hosts == entry.hosts
    assert renew(plant, "weld", hosts=["10.0.0.8"]).hosts == ("10.0.0.8",)


def test_a_scenario_gives_a_certificate_to_everybody_in_it(tmp_path: Path) -> None:
    parties = parties_of(fedfloor.load("quick"))
    hosts = hosts_by_name(["base-station=10.0.0.1", "base-station=plant.example"])
    entries = make_authority(tmp_path / "certs", parties, hosts=hosts)
    assert [(entry.role, entry.name) for entry in entries] == parties
    assert {entry.role for entry in entries} == set(Role)
    assert entries[0].hosts == ("plant.example", "10.0.0.1")
    assert len(list((tmp_path / "certs").glob("*/*/key.pem"))) == len(parties) == 1 + 6 + 18
    assert len({entry.serial for entry in entries}) == len(parties)


def test_a_plant_that_grows_gets_what_is_missing(plant: Path) -> None:
    before = listed(plant).certificates
    parties = [(Role.GATEWAY, "press"), (Role.GATEWAY, "weld"), (Role.DEVICE, "weld.robot-1")]
    entries = issue_missing(plant, parties, hosts={"weld": ["10.0.0.9"]})
    assert [(entry.role, entry.name) for entry in entries] == parties[1:]
    assert listed(plant).certificates == (*before, *entries)
    assert issue_missing(plant, parties) == ()


@pytest.mark.parametrize("same_key", [False, True])
def test_a_renewed_certificate_leaves_the_old_one_valid(plant: Path, same_key: bool) -> None:
    place = plant / "gateway" / "paint"
    old, old_key = certificate_of(place), (place / "key.pem").read_bytes()
    entry = renew(plant, "paint", days=20, same_key=same_key)
    new = certificate_of(place)
    assert (new.public_key() == old.public_key()) is same_key
    assert ((place / "key.pem").read_bytes() == old_key) is same_key
    assert key_from((place / "key.pem").read_bytes(), place).public_key() == new.public_key()
    assert new.serial_number != old.serial_number
    assert entry.expires < old.not_valid_after_utc
    assert [other.revoked for other in listed(plant).certificates if other.name == "paint"] == [None, None]


def test_the_same_key_can_be_renewed_where_it_is_not_kept(plant: Path) -> None:
    shutil.rmtree(plant / "gateway" / "paint")
    renew(plant, "paint", same_key=True)
    assert not (plant / "gateway" / "paint" / "key.pem").exists()
    assert certificate_of(plant / "gateway" / "paint").subject.rfc4514_string() == "CN=paint"


def test_a_party_loses_all_its_certificates_and_may_get_a_new_one(plant: Path) -> None:
    old = [entry for entry in listed(plant).certificates if entry.name == "paint"]
    old.append(renew(plant, "paint"))
    revoked = revoke(plant, "paint")
    assert [entry.serial for entry in revoked] == [entry.serial for entry in old]
    assert all(entry.revoked is not None for entry in revoked)
    new = renew(plant, "paint")
    assert new.revoked is None
    assert [entry.serial for entry in listed(plant).certificates if entry.revoked] == [entry.serial for entry in old]


def test_one_of_two_certificates_can_be_revoked(plant: Path) -> None:
    (old,) = [entry for entry in listed(plant).certificates if entry.name == "paint"]
    renew(plant, "paint", same_key=True)
    assert [entry.serial for entry in revoke(plant, "paint", serial=old.serial[:16].upper())] == [old.serial]
    with pytest.raises(DeploymentError, match=r"gateway 'paint': is revoked already"):
        revoke(plant, "paint", serial=old.serial)


def test_every_list_has_a_larger_number_and_goes_to_all_folders(plant: Path) -> None:
    numbers = [listed(plant).number]
    for name in ("paint", "press.robot-1"):
        revoke(plant, name)
        numbers.append(listed(plant).number)
    assert numbers == [1, 2, 3]
    lists = {path.read_bytes() for path in plant.rglob("revoked.pem")}
    assert len(lists) == 1
    assert len(x509.load_pem_x509_crl(lists.pop())) == 2


def test_gateway_and_device_of_one_name_are_told_apart(plant: Path) -> None:
    with pytest.raises(DeploymentError, match=r"gateway and device are both called 'press'\. Name the role"):
        revoke(plant, "press")
    assert [entry.role for entry in revoke(plant, "press", role=Role.DEVICE)] == [Role.DEVICE]
    assert renew(plant, "press", role=Role.GATEWAY).role is Role.GATEWAY


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        (make_authority, "certs: has a CA already"),
        (lambda plant: make_authority(plant / "new", ca_days=0), "ca_days: must be from 1 to 7300, got 0"),
        (lambda plant: issue(plant / "nowhere", Role.DEVICE, "x"), "nowhere: no such folder. Make one with"),
        (lambda plant: issue(plant / "gateway", Role.DEVICE, "x"), "gateway: has no CA. Make one with"),
        (lambda plant: listed(plant / "nowhere"), "nowhere: no such folder"),
        (lambda plant: issue(plant, Role.GATEWAY, "press"), "gateway 'press': has a certificate already"),
        (lambda plant: renew(plant, "pres"), "party 'pres': has no certificate of this CA. Did you mean 'press'"),
        (lambda plant: renew(plant, "paint", role=Role.DEVICE), "device 'paint': has no certificate of this CA"),
        (lambda plant: revoke(plant, "paint", serial="xyz"), "serial: no certificate of gateway 'paint' has a serial"),
        (lambda plant: issue(plant, Role.DEVICE, "x", days=0), "days: must be from 1 to 7300, got 0"),
        (lambda plant: issue(plant, Role.DEVICE, "x", days=7301), "days: must be from 1 to 7300, got 7301"),
        (lambda plant: issue(plant, Role.DEVICE, "x", days=2999), "days: must be at most 2919, because the CA expires"),
        (lambda plant: issue(plant, Role.DEVICE, "x", now=NOW + timedelta(days=3000)), "CA: expired on 20"),
        (lambda plant: revoke(plant, "paint", now=NOW + timedelta(days=3000)), "CA: expired on 20"),
        (lambda plant: issue(plant, Role.DEVICE, "x", hosts=["a"]), "host: devices are not dialled, got 'a'"),
        (lambda plant: issue_missing(plant, [(Role.DEVICE, "x")], hosts={"x": ["a"]}), "host: no base station or"),
        (lambda plant: hosts_by_name(["10.0.0.1"]), "host: must be NAME=HOST together with a scenario, got '10.0.0.1'"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    attempt: Callable[[Path], object], expected: str, plant: Path
) -> None:
    before = {path: path.read_bytes() for path in plant.rglob("*") if path.is_file()}
    with pytest.raises(DeploymentError) as caught:
        attempt(plant)
    assert expected in str(caught.value)
    assert {path: path.read_bytes() for path in plant.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "host",
    ["", " ", "a b", "a:50", "10.0.0.999", "1.2.3", "*.plant.example", "-a", "a_b", "a..b", "a.", "ü", "x" * 64, "a\n",
     "٣.٣.٣.٣", "[::1]", "http://a", "\0", "a." * 130 + "a"],
)  # fmt: skip
def test_a_host_that_nobody_can_dial_is_refused(host: str, plant_once: Path) -> None:
    with pytest.raises(DeploymentError, match="host: must be a host name or an IP address, got") as caught:
        issue(plant_once, Role.GATEWAY, "weld", hosts=[host])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "/x", "a/b", "a\\b", "a b", "-x", ".x", "ä", "x\n", "\0", "x" * 251, "a:b", "\ud800"],
)
def test_a_name_that_is_no_safe_file_name_is_refused(name: str, plant_once: Path) -> None:
    with pytest.raises(DeploymentError, match="name: must be 1 to 250 letters") as caught:
        issue(plant_once, Role.DEVICE, name)
    assert str(caught.value).isprintable()


def test_a_revoked_key_is_not_certified_again(plant: Path) -> None:
    revoke(plant, "paint")
    with pytest.raises(DeploymentError, match=r"gateway 'paint': its last certificate is revoked.*with a new key"):
        renew(plant, "paint", same_key=True)


def test_a_folder_that_nobody_issued_is_not_overwritten(plant: Path) -> None:
    (plant / "device" / "x").mkdir()
    with pytest.raises(DeploymentError, match=r"device/x: exists, although device 'x' has no certificate"):
        issue(plant, Role.DEVICE, "x")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda ca: (ca / "key.pem").unlink(), "ca/key.pem: no such file"),
        (lambda ca: (ca / "key.pem").write_text("x"), "ca/key.pem: must be a private key"),
        (lambda ca: (ca / "key.pem").chmod(0o640), r"ca/key.pem: must be private, .* \(mode 0640\). Run: chmod 600"),
        (lambda ca: ca.chmod(0o770), r"certs/ca: must be private, .* \(mode 0770\). Run: chmod 700"),
        (
            lambda ca: shutil.copy(ca.parent / "gateway" / "press" / "key.pem", ca / "key.pem"),
            "ca/key.pem: is the key of another certificate",
        ),
        (lambda ca: (ca / "revoked.pem").unlink(), "ca/revoked.pem: no such file"),
        (lambda ca: (ca / "revoked.pem").write_text("x"), "ca/revoked.pem: must be a revocation list"),
        (lambda ca: (ca / "ca.pem").write_text(""), "ca/ca.pem: must be one certificate in PEM"),
        (
            lambda ca: shutil.copy(ca.parent / "gateway" / "press" / "certificate.pem", ca / "ca.pem"),
            "ca/ca.pem: must be the certificate of a CA",
        ),
        (lambda ca: (ca / "issued" / "000002.pem").write_text("x"), "issued/000002.pem: must be one certificate"),
    ],
)
def test_a_damaged_ca_is_named_with_its_file(damage: Callable[[Path], object], expected: str, plant: Path) -> None:
    damage(plant / "ca")
    with pytest.raises(DeploymentError, match=expected):
        issue(plant, Role.DEVICE, "x")
    assert not (plant / "device" / "x").exists()


def test_two_commands_do_not_write_one_folder(plant: Path) -> None:
    with (
        only_writer(plant, again=""),
        pytest.raises(DeploymentError, match="another process is writing to it"),
    ):
        revoke(plant, "paint")


def test_a_ca_that_was_not_finished_is_made_again(plant: Path) -> None:
    (plant / "ca" / "ca.pem").unlink()  # written last
    shutil.rmtree(plant / "ca" / "issued")
    make_authority(plant)
    assert listed(plant).certificates == ()


def test_a_folder_that_cannot_be_written_is_named() -> None:
    with pytest.raises(FedfloorError, match="/proc/nowhere: cannot be written"):
        make_authority(Path("/proc/nowhere"))


def test_the_commands_make_issue_renew_revoke_and_show(command: Command) -> None:
    assert (
        "issued 1 server, 6 gateways, 18 devices"
        in command("init", "c", "--scenario", "quick", "--host", "assembly=10.0.0.7")[1]
    )
    issued = command("issue", "c", "gateway", "weld", "--host", "10.0.0.8", "--days", "30")
    assert "copy c/gateway/weld to its machine" in issued[1], issued[2]
    assert command("renew", "c", "weld")[0] == 0
    assert command("revoke", "c", "weld")[1].count("revoked gateway weld") == 2
    assert "has a certificate already" in command("issue", "c", "--scenario", "quick")[1]
    answer = json.loads(command("show", "c", "--format", "json")[1])
    assert answer["ca"]["list"] == 2
    rows = {entry["name"]: entry for entry in answer["certificates"]}
    assert len(answer["certificates"]) == 27
    assert rows["assembly"]["hosts"] == ["10.0.0.7"]
    assert rows["weld"]["revoked"] is not None
    assert set(rows["weld"]) >= {"name", "role", "serial", "fingerprint", "expires", "revoked"}
    table = command("show", "c")[1]
    assert table.count(rows["weld"]["serial"][:16]) == 1
    assert table.index("base-station") < table.index("assembly ") < table.index("assembly.camera-1")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["show", "nowhere"], "nowhere: no such folder"),
        (["issue", "nowhere", "gatway", "x"], "role: unknown, got 'gatway'. Did you mean 'gateway'?"),
        (["issue", "nowhere", "gateway"], "issue: must be given either ROLE and NAME or --scenario"),
        (["init", "new", "--host", "a=b"], "no base station or gateway is called 'a'"),
        (["init", "new", "--scenario", "nowhere.toml"], "nowhere.toml: no such file"),
        (["init", "new", "--scenario", "quick", "--days", "5000"], "days: must be at most 3650"),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], expected: str, command: Command, tmp_path: Path) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert expected in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["init", "issue", "renew", "revoke", "show"])
def test_every_command_has_help_with_an_example(name: str, command: Command) -> None:
    code, out, _ = command(name, "--help")
    assert code == 0
    assert f"fedfloor certs {name}" in out.split("Example:")[1]
