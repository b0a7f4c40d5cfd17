"""The folder of a plant's CA: its key, every certificate that it has issued, and one folder for each party.

    FOLDER/ca/key.pem                 stays here
    FOLDER/ca/ca.pem, revoked.pem     the CA's certificate and its revocation list
    FOLDER/ca/issued/000001.pem       every certificate that was ever issued, in their order
    FOLDER/gateway/assembly/          what is copied to the machine of the party: certificate, key, CA, revocation list

A certificate is noted among the issued ones before its party gets it, so that each can be revoked.
"""

__all__ = [
    "BASE_STATION",
    "Issued",
    "Party",
    "Register",
    "hosts_by_name",
    "issue",
    "issue_missing",
    "listed",
    "make_authority",
    "parties_of",
    "renew",
    "revoke",
]

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from fedfloor.deploy.certificates import (
    CA,
    CERTIFICATE,
    KEY,
    REVOKED,
    Peer,
    PrivateKey,
    Role,
    Trust,
    ca_from,
    certificate_from,
    exposure,
    is_name,
    key_from,
    key_problem,
    owner_of,
    trust_from,
)
from fedfloor.deploy.signing import Signer, addresses, default_hosts, hosts_of, key_pem, new_key, new_signer, pem
from fedfloor.errors import DeploymentError, advice_for, named, shown
from fedfloor.files import make_private, only_writer, read_if_there, refused_write, write_whole
from fedfloor.scenario.resolved import Scenario

Party = tuple[Role, str]  #: its role and its name; a gateway and a device may have the same name

BASE_STATION = "base-station"  #: name of the base station of a scenario, which gives it none

_AUTHORITY, _ISSUED = "ca", "issued"
_AGAIN, _ELSEWHERE = "repeat the command", "Name another folder"
_RESTORE = "Restore the folder from a backup"
_PRIVATE = 0o600
_WRITERS = 16  #: threads


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate that the CA has issued."""

    name: str
    role: Role
    serial: str  #: hexadecimal
    fingerprint: str  #: SHA-256, hexadecimal
    hosts: tuple[str, ...]  #: names and addresses that others dial
    expires: datetime  #: UTC
    revoked: datetime | None  #: UTC; None if it was not
    folder: Path  #: of the party, here


@dataclass(frozen=True, slots=True)
class Register:
    """A CA and all certificates that it has issued, in their order."""

    fingerprint: str  #: of the CA's certificate
    expires: datetime  #: of the CA, UTC
    number: int  #: of the revocation list
    certificates: tuple[Issued, ...]


@dataclass(frozen=True, slots=True)
class _Books:
    """What the CA's folder holds, without the key."""

    folder: Path
    trust: Trust
    issued: tuple[Peer, ...]  #: in their order
    next_number: int  #: of the next certificate among the issued ones

    @property
    def parties(self) -> set[Party]:
        """All who have a certificate, valid or not."""
        return {(peer.role, peer.name) for peer in self.issued}

    def entry(self, peer: Peer) -> Issued:
        """A certificate as it is listed."""
        return Issued(
            name=peer.name,
            role=peer.role,
            serial=peer.serial,
            fingerprint=peer.fingerprint,
            hosts=hosts_of(peer.certificate),
            expires=peer.expires,
            revoked=self.trust.revoked_on(peer.certificate),
            folder=_party_folder(self.folder, peer.role, peer.name),
        )


def make_authority(
    folder: Path,
    parties: Sequence[Party] = (),
    *,
    hosts: Mapping[str, Sequence[str]] = MappingProxyType({}),
    days: int = 365,
    ca_days: int = 3650,
    now: datetime | None = None,
) -> tuple[Issued, ...]:
    """Make the CA of a plant in a folder that has none, and issue certificates for these parties.

    The CA is valid for `ca_days` days, the certificates for `days`. `hosts` has the names and addresses of those who
    are dialled, by their names; for the others they are those of `default_hosts`.
    """
    time = _time(now)
    signer = new_signer(ca_days, time)
    with _writing(folder):
        place = folder / _AUTHORITY
        if (place / CA).exists():
            advice = "Name another folder, or use the CA that is there with `fedfloor certs issue`"
            raise DeploymentError(f"{named(folder)}: has a CA already. {advice}")
        signed = _signed(signer, folder, parties, _hosts_of_parties(parties, hosts), days, time)
        make_private(place)
        make_private(place / _ISSUED)
        _write(place / KEY, key_pem(signer.key))
        _write(place / REVOKED, pem(signer.revocation_list(1, (), time)))
        _write(place / CA, pem(signer.ca))  # last: where it is, the CA is complete
        return _handed_out(_books(folder), signed)


def parties_of(scenario: Scenario) -> list[Party]:
    """Everybody in a scenario who needs a certificate: the base station, gateways and devices."""
    gateways = [(Role.GATEWAY, floor.name) for floor in scenario.floors]
    return [(Role.SERVER, BASE_STATION), *gateways, *((Role.DEVICE, device.name) for device in scenario.devices)]


def hosts_by_name(entries: Sequence[str]) -> dict[str, list[str]]:
    """Hosts that a user gives as NAME=HOST, by the names of those who have them."""
    hosts: dict[str, list[str]] = {}
    for entry in entries:
        name, equals, host = entry.partition("=")
        if not equals:
            advice = f"For example {BASE_STATION}=plant.example"
            raise DeploymentError(f"host: must be NAME=HOST together with a scenario, got {shown(entry)}. {advice}")
        hosts.setdefault(name, []).append(host)
    return hosts


def issue(
    folder: Path, role: Role, name: str, *, hosts: Sequence[str] = (), days: int = 365, now: datetime | None = None
) -> Issued:
    """Issue the first certificate of a party, with a new key, and write the party's folder.

    `hosts` are the names and addresses that others dial; without any, those of `default_hosts`.
    """
    party = (role, name)
    with _writing(folder, is_new=False):
        books = _books(folder)
        if party in books.parties:
            advice = "Renew it with `fedfloor certs renew`, or choose another name"
            raise DeploymentError(f"{role} {shown(name)}: has a certificate already. {advice}")
        return _handed_out(books, _signed(_signer(books), folder, [party], {party: hosts}, days, _time(now)))[0]


def issue_missing(
    folder: Path,
    parties: Sequence[Party],
    *,
    hosts: Mapping[str, Sequence[str]] = MappingProxyType({}),
    days: int = 365,
    now: datetime | None = None,
) -> tuple[Issued, ...]:
    """Issue certificates for all of these parties that have none; `hosts` as in `make_authority`."""
    with _writing(folder, is_new=False):
        books = _books(folder)
        missing = [party for party in parties if party not in books.parties]
        reached = _hosts_of_parties(parties, hosts)
        return _handed_out(books, _signed(_signer(books), folder, missing, reached, days, _time(now)))


def _hosts_of_parties(parties: Sequence[Party], hosts: Mapping[str, Sequence[str]]) -> Mapping[Party, Sequence[str]]:
    """Hosts of those who are dialled; a name that nobody has is refused."""
    serving = [party for party in parties if party[0] is not Role.DEVICE]
    names = [name for _, name in serving]
    unknown = next((name for name in hosts if name not in names), None)
    if unknown is not None:
        advice = advice_for(unknown, names) if names else "Name a scenario too"
        raise DeploymentError(f"host: no base station or gateway is called {shown(unknown)}. {advice}")
    return {party: hosts.get(party[1], ()) for party in serving}


def _signed(
    signer: Signer,
    folder: Path,
    parties: Sequence[Party],
    hosts: Mapping[Party, Sequence[str]],
    days: int,
    now: datetime,
) -> list[tuple[Peer, PrivateKey]]:
    """First certificates of parties with new keys; nothing is written, so that wrong input changes nothing."""
    signed = []
    for role, name in parties:
        _refuse_name(folder, role, name)
        reached = addresses(role, hosts.get((role, name)) or default_hosts(role, name))
        key = new_key()
        certificate = signer.certificate(key.public_key(), role, name, hosts=reached, days=days, now=now)
        signed.append((owner_of(certificate, folder), key))
    return signed


def _handed_out(books: _Books, signed: Sequence[tuple[Peer, PrivateKey]]) -> tuple[Issued, ...]:
    """Certificates as they are listed, once all of them are written."""
    _at_once(
        functools.partial(_hand_out, books, number, peer, key)
        for number, (peer, key) in enumerate(signed, start=books.next_number)
    )
    return tuple(books.entry(peer) for peer, _ in signed)


def _refuse_name(folder: Path, role: Role, name: str) -> None:
    if not is_name(name):
        problem = "must be 1 to 250 letters, digits, '.', '_' or '-', and begin with a letter or digit"
        raise DeploymentError(f"name: {problem}, got {shown(name)}. Choose another name")
    place = _party_folder(folder, role, name)
    if place.exists():  # of another name, where the file system does not distinguish small and capital letters
        advice = "Remove it, or choose another name"
        raise DeploymentError(f"{named(place)}: exists, although {role} '{name}' has no certificate. {advice}")


def renew(
    folder: Path,
    name: str,
    *,
    role: Role | None = None,
    hosts: Sequence[str] = (),
    days: int = 365,
    same_key: bool = False,
    now: datetime | None = None,
) -> Issued:
    """Issue another certificate for a party, with a new key or the same one, and write it to the party's folder.

    The certificates before it stay valid until they expire or are revoked. Without `hosts`, they stay as they were.
    """
    with _writing(folder, is_new=False):
        books = _books(folder)
        last = _party(books, role, name)[-1]
        if same_key and books.trust.revoked_on(last.certificate) is not None:
            problem = "its last certificate is revoked, so that others may have its key"
            raise DeploymentError(f"{last}: {problem}. Renew it with a new key")
        key, public_key = None if same_key else new_key(), last.certificate.public_key()
        chosen = key.public_key() if key is not None else public_key
        assert isinstance(chosen, ec.EllipticCurvePublicKey)  # the CA issues no other
        reached = addresses(last.role, hosts or hosts_of(last.certificate))
        certificate = _signer(books).certificate(chosen, last.role, last.name, hosts=reached, days=days, now=_time(now))
        peer = owner_of(certificate, folder)
        _hand_out(books, books.next_number, peer, key)
        return books.entry(peer)


def revoke(
    folder: Path, name: str, *, role: Role | None = None, serial: str = "", now: datetime | None = None
) -> tuple[Issued, ...]:
    """Revoke all certificates of a party, or the one whose serial number begins with `serial`.

    The new revocation list is written to the CA's folder and to those of all parties here.
    """
    time = _time(now)
    with _writing(folder, is_new=False):
        books = _books(folder)
        certificates = _party(books, role, name)
        chosen = [peer for peer in certificates if peer.serial.startswith(serial.lower())]
        if not chosen or (serial and len(chosen) > 1):
            count = "no certificate" if not chosen else "more than one certificate"
            problem = f"{count} of {certificates[0]} has a serial number that begins so, got {shown(serial)}"
            raise DeploymentError(f"serial: {problem}. `fedfloor certs show` lists them")
        fresh = [peer for peer in chosen if books.trust.revoked_on(peer.certificate) is None]
        if not fresh:
            advice = "Nothing is left to do, except to copy the revocation list to the other machines"
            raise DeploymentError(f"{chosen[0]}: is revoked already. {advice}")
        entries = [x509.RevokedCertificateBuilder(peer.certificate.serial_number, time).build() for peer in fresh]
        content = pem(_signer(books).revocation_list(books.trust.number + 1, [*books.trust.revoked, *entries], time))
        _write(folder / _AUTHORITY / REVOKED, content)
        parties = dict.fromkeys(_party_folder(folder, peer.role, peer.name) for peer in books.issued)
        _at_once(functools.partial(_write, place / REVOKED, content) for place in parties if place.is_dir())
        after = _books(folder)
        return tuple(after.entry(peer) for peer in fresh)


def listed(folder: Path) -> Register:
    """The CA of a folder and all certificates that it has issued."""
    books = _books(folder)
    ca = books.trust.ca
    fingerprint = ca.fingerprint(hashes.SHA256()).hex()
    entries = tuple(books.entry(peer) for peer in books.issued)
    return Register(fingerprint, ca.not_valid_after_utc, books.trust.number, entries)


def _party(books: _Books, role: Role | None, name: str) -> list[Peer]:
    """All certificates of the only party of a name, the newest last."""
    certificates = [peer for peer in books.issued if peer.name == name and role in (None, peer.role)]
    roles = dict.fromkeys(peer.role for peer in certificates)
    if not certificates:
        names = {peer.name for peer in books.issued if role in (None, peer.role)}
        advice = advice_for(name, names) if names else "Issue one with `fedfloor certs issue`"
        raise DeploymentError(f"{role or 'party'} {shown(name)}: has no certificate of this CA. {advice}")
    if len(roles) > 1:
        raise DeploymentError(f"name: {' and '.join(roles)} are both called {shown(name)}. Name the role with --role")
    return certificates


def _hand_out(books: _Books, number: int, peer: Peer, key: PrivateKey | None) -> None:
    """Note a certificate among the issued ones, and write what its party needs; without a key, the old one stays."""
    content, place = pem(peer.certificate), _party_folder(books.folder, peer.role, peer.name)
    _write(books.folder / _AUTHORITY / _ISSUED / f"{number:06}.pem", content)
    make_private(place.parent)
    make_private(place)
    if key is not None:
        _write(place / KEY, key_pem(key))
    _write(place / CA, pem(books.trust.ca))
    _write(place / REVOKED, pem(books.trust.revoked))
    _write(place / CERTIFICATE, content)


def _refuse_without_authority(folder: Path) -> None:
    if not (folder / _AUTHORITY / CA).exists():
        problem = "has no CA" if folder.is_dir() else "no such folder"
        raise DeploymentError(
            f"{named(folder)}: {problem}. Make one with `fedfloor certs init`, or name another folder"
        )


def _books(folder: Path) -> _Books:
    _refuse_without_authority(folder)
    place = folder / _AUTHORITY
    ca = ca_from(_read(place / CA), place / CA, advice=_RESTORE)
    trust = trust_from(_read(place / REVOKED), place / REVOKED, ca, advice=_RESTORE)
    paths = {int(path.stem): path for path in (place / _ISSUED).glob("*.pem") if path.stem.isdecimal()}
    ordered = [paths[number] for number in sorted(paths)]
    issued = [owner_of(certificate_from(_read(path), path, advice=_RESTORE), path) for path in ordered]
    return _Books(folder, trust, tuple(issued), max(paths, default=0) + 1)


def _signer(books: _Books) -> Signer:
    path = books.folder / _AUTHORITY / KEY
    problem = exposure(path)
    if problem:
        raise DeploymentError(problem)
    key = key_from(_read(path), path, advice=_RESTORE)
    problem = key_problem(key, books.trust.ca)
    if problem:
        raise DeploymentError(f"{named(path)}: {problem}. {_RESTORE}")
    return Signer(books.trust.ca, key)


def _party_folder(folder: Path, role: Role, name: str) -> Path:
    return folder / role / name


def _read(path: Path) -> bytes:
    try:
        content = read_if_there(path)
    except OSError as error:
        raise DeploymentError(f"{named(path)}: cannot be read: {error.strerror}. {_RESTORE}") from None
    if content is None:
        raise DeploymentError(f"{named(path)}: no such file. {_RESTORE}")
    return content


def _write(path: Path, content: bytes) -> None:
    write_whole(path, content, mode=_PRIVATE)


def _at_once(jobs: Iterable[Callable[[], None]]) -> None:
    """Write many small files together: one after the other, the disk would be waited for at every single one."""
    with ThreadPoolExecutor(_WRITERS) as pool:
        for job in [pool.submit(job) for job in jobs]:
            job.result()


@contextmanager
def _writing(folder: Path, *, is_new: bool = True) -> Iterator[None]:
    """Keep other commands from changing the folder; a folder that must be there is not made."""
    if not is_new:
        _refuse_without_authority(folder)
    with only_writer(folder, again=_AGAIN, elsewhere=_ELSEWHERE, kind=DeploymentError):
        try:
            yield
        except OSError as error:
            raise refused_write(Path(error.filename or folder), error, again=_AGAIN, advice=_ELSEWHERE) from None


def _time(now: datetime | None) -> datetime:
    return (datetime.now(UTC) if now is None else now).replace(microsecond=0)  # certificates know seconds only
