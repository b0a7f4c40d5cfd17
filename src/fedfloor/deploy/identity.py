"""Who a running process is and whom it believes: from the files of its folder, followed while they change."""

__all__ = ["Credentials", "Identity", "expiry_warning", "peer_problem"]

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fedfloor.deploy.certificates import (
    CA,
    CERTIFICATE,
    COPY_AGAIN,
    KEY,
    REVOKED,
    Peer,
    Role,
    Trust,
    ca_from,
    certificate_from,
    exposure,
    is_issued_by,
    key_from,
    key_problem,
    moment,
    owner_of,
    trust_from,
)
from fedfloor.deploy.signing import key_pem, pem
from fedfloor.errors import DeploymentError, named, shown

_SOON, _SHARE = timedelta(days=14), 5  #: warn so long before the end, or a fifth of the validity if that is shorter
_DAY = timedelta(days=1)  #: between two warnings


@dataclass(frozen=True, slots=True)
class Identity:
    """A party's credentials, which fit together; TLS takes the first three, the rest is for our own checks."""

    certificate: bytes = field(repr=False)  #: PEM
    key: bytes = field(repr=False)  #: PEM, without a password
    ca: bytes = field(repr=False)  #: PEM
    own: Peer
    trust: Trust


@dataclass(frozen=True, slots=True)
class _Files:
    """What a folder held at one moment; None for a file that could not be read."""

    certificate: bytes | None
    key: bytes | None
    ca: bytes | None
    revoked: bytes | None
    exposure: str  #: why the key is not private; empty if it is


def peer_problem(
    peer: Peer, trust: Trust, *, role: Role | None = None, name: str | None = None, now: datetime | None = None
) -> str:
    """Why a peer that joins is refused, in one sentence with advice; empty if it is welcome.

    With `role`, it must have this role; with `name`, which is what the peer calls itself, its certificate must be for
    this name.
    """
    flaw = _flaw(peer, trust, role, name, datetime.now(UTC) if now is None else now)
    return f"the certificate of {peer} {flaw}" if flaw else ""


def _flaw(peer: Peer, trust: Trust, role: Role | None, name: str | None, time: datetime) -> str:
    """What is wrong with a certificate, and what to do, as the end of a sentence that begins with the certificate."""
    ca_end = trust.ca.not_valid_after_utc
    if not is_issued_by(peer.certificate, trust.ca):
        return "is not signed by the CA of this plant. Use one that this CA has issued"
    revoked = trust.revoked_on(peer.certificate)
    if revoked is not None:
        return f"was revoked on {moment(revoked)}. {_renewal(peer)}"
    if time < peer.begins:
        return f"is not valid before {moment(peer.begins)}. Check the clocks of both machines"
    if time > peer.expires:
        return f"expired on {moment(peer.expires)}. {_renewal(peer)}"
    if time > ca_end:
        return f"is signed by a CA that expired on {moment(ca_end)}. Make a new CA with `fedfloor certs init`"
    if role not in (None, peer.role):
        return f"is for a {peer.role}, not for a {role}. Use the folder of a {role}"
    if name not in (None, peer.name):
        return f"is not for the name {shown(name)}. Use the folder of the party of that name"
    return ""


def _renewal(peer: Peer) -> str:
    """What to do about a certificate that no longer serves."""
    command = f"fedfloor certs renew FOLDER {peer.name} --role {peer.role}"
    return f"Renew it with `{command}` where the CA is, and copy the party's folder"


def expiry_warning(peer: Peer, now: datetime | None = None) -> str:
    """That a certificate expires soon, and what to do; empty if there is time."""
    time = datetime.now(UTC) if now is None else now
    if not timedelta() <= peer.expires - time < min(_SOON, (peer.expires - peer.begins) / _SHARE):
        return ""
    return f"the certificate of {peer} expires on {moment(peer.expires)}. {_renewal(peer)}. No restart is needed"


def _identity(folder: Path, files: _Files, role: Role | None, name: str | None, now: datetime | None) -> Identity:
    if files.exposure:
        raise DeploymentError(files.exposure)
    path = folder / CERTIFICATE
    own = owner_of(certificate_from(_there(files.certificate, path), path), path)
    key = key_from(_there(files.key, folder / KEY), folder / KEY)
    problem = key_problem(key, own.certificate)
    if problem:
        raise DeploymentError(f"{named(folder / KEY)}: {problem} than {CERTIFICATE} beside it. {COPY_AGAIN}")
    ca = ca_from(_there(files.ca, folder / CA), folder / CA)
    trust = trust_from(_there(files.revoked, folder / REVOKED), folder / REVOKED, ca)
    problem = peer_problem(own, trust, role=role, name=name, now=now)
    if problem:
        raise DeploymentError(f"{named(path)}: {problem}")
    return Identity(pem(own.certificate), key_pem(key), pem(ca), own, trust)


def _there(content: bytes | None, path: Path) -> bytes:
    if content is None:
        if not path.parent.is_dir():
            raise DeploymentError(f"{named(path.parent)}: no such folder. Copy one that `fedfloor certs` wrote")
        problem = "cannot be read" if path.exists() else "no such file"
        raise DeploymentError(f"{named(path)}: {problem}. {COPY_AGAIN}")
    return content


def _read(folder: Path) -> _Files:
    def content(name: str) -> bytes | None:
        try:
            return (folder / name).read_bytes()
        except OSError:
            return None

    return _Files(content(CERTIFICATE), content(KEY), content(CA), content(REVOKED), exposure(folder / KEY))


class Credentials:
    """A party's identity, which follows the files of its folder, so that renewal and revocation need no stop.

    The files are compared by their content. A revocation list is taken as soon as it is valid, and never an older one
    of the same CA. Certificate, key and CA are taken together, once they fit; a half-copied folder changes nothing.
    Every problem goes to `tell` once, and that the certificate expires soon once a day. Threads may share an object of
    this class.
    """

    def __init__(
        self, folder: Path, role: Role, *, name: str | None = None, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._folder, self._role, self._tell = folder, role, tell
        self._lock, self._told = threading.Lock(), ""
        self._warned: datetime | None = None  # of the expiry, the last time
        files = _read(folder)
        self._identity = _identity(folder, files, role, name, None)
        self._files: _Files | None = files  #: those in use; None if the last ones were not taken as they are

    @property
    def identity(self) -> Identity:
        """The identity in use, as the last `refresh` left it."""
        return self._identity

    def own_problem(self, now: datetime | None = None) -> str:
        """Why others would refuse this party itself by now; empty if they would not. Ask before dialling."""
        identity = self._identity
        return peer_problem(identity.own, identity.trust, role=self._role, now=now)

    def refresh(self, now: datetime | None = None) -> bool:
        """Look at the files again; returns whether the identity or its revocation list is another one now."""
        with self._lock:
            files, before = _read(self._folder), self._identity
            if files != self._files:
                self._identity, problem = self._followed(files, now)
                if problem and problem != self._told:
                    self._tell(problem)
                self._told = problem
                self._files = None if problem else files  # which are looked at again: a certificate may be valid later
            self._warn(datetime.now(UTC) if now is None else now)
            return self._identity != before

    def _warn(self, time: datetime) -> None:
        """Say once a day that the certificate in use expires soon."""
        if self._warned is not None and timedelta() <= time - self._warned < _DAY:
            return
        if warning := expiry_warning(self._identity.own, time):
            self._warned = time
            self._tell(warning)

    def _followed(self, files: _Files, now: datetime | None) -> tuple[Identity, str]:
        """The identity that the files allow, and what is wrong with them; empty if nothing is."""
        current, path = self._identity, self._folder / REVOKED
        with suppress(DeploymentError):  # which is said below, unless the files are those of another CA
            newer = trust_from(_there(files.revoked, path), path, current.trust.ca)
            _refuse_older(path, newer, current.trust)
            current = replace(current, trust=newer)
        try:
            fresh = _identity(self._folder, files, self._role, current.own.name, now)
            if fresh.trust.ca == current.trust.ca:
                _refuse_older(path, fresh.trust, current.trust)
        except DeploymentError as error:
            return current, f"{error}. Until then, what was read before stays in use"
        return fresh, ""


def _refuse_older(path: Path, trust: Trust, before: Trust) -> None:
    """Refuse a revocation list that could make a revoked certificate valid again."""
    if trust.number < before.number or (trust.number == before.number and trust.revoked != before.revoked):
        problem = f"must have a number above {before.number}, that of the list in use, got {trust.number}"
        raise DeploymentError(f"{named(path)}: {problem}. Copy the CA's newest revocation list")
