"""What certificates, keys and revocation lists of a plant say, and how their files are read.

A certificate has the role and the name of its owner in a URI among its subject alternative names, such as
`urn:fedfloor:gateway:assembly`. The common name is for people; nothing here reads it.
"""

__all__ = [
    "CA",
    "CERTIFICATE",
    "COPY_AGAIN",
    "KEY",
    "REVOKED",
    "Peer",
    "PrivateKey",
    "Role",
    "Trust",
    "ca_from",
    "certificate_from",
    "exposure",
    "is_issued_by",
    "is_name",
    "key_from",
    "key_problem",
    "moment",
    "owner_of",
    "peer_of",
    "role_of",
    "serial_text",
    "trust_from",
    "uri_of",
]

import re
import stat
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import TypeAdapter, ValidationError

from fedfloor.errors import DeploymentError, advice_for, named, shown
from fedfloor.scenario.file import Name

#: files in the folder of a party
CERTIFICATE, KEY, CA, REVOKED = "certificate.pem", "key.pem", "ca.pem", "revoked.pem"

PrivateKey = ec.EllipticCurvePrivateKey

COPY_AGAIN = "Copy the party's folder again, whole"  #: advice for a folder that is not as it was written
_URN = "urn:fedfloor:"
_NAME: TypeAdapter[str] = TypeAdapter(Name)


class Role(StrEnum):
    """What a party of the plant does."""

    SERVER = "server"  #: the base station
    GATEWAY = "gateway"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class Peer:
    """Owner of a certificate, as the certificate says; whether to believe it is another question."""

    role: Role
    name: str
    serial: str  #: hexadecimal, 40 digits
    fingerprint: str  #: SHA-256 of the certificate, hexadecimal
    begins: datetime  #: first moment at which the certificate is valid, UTC
    expires: datetime  #: last moment, UTC
    certificate: x509.Certificate = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.role} '{self.name}'"


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom a party believes: the CA of its plant, except for what this CA has revoked."""

    ca: x509.Certificate
    revoked: x509.CertificateRevocationList
    number: int  #: grows with every revocation

    def revoked_on(self, certificate: x509.Certificate) -> datetime | None:
        """When a certificate of this CA was revoked; None if it was not."""
        entry = self.revoked.get_revoked_certificate_by_serial_number(certificate.serial_number)
        return None if entry is None else entry.revocation_date_utc


def role_of(text: str) -> Role:
    """The role that a user names."""
    if text not in list(Role):
        raise DeploymentError(f"role: unknown, got {shown(text)}. {advice_for(text, list(Role))}")
    return Role(text)


def is_name(text: str) -> bool:
    """Whether a text may be the name of a gateway or device in a scenario, and so the name of a folder."""
    try:
        _NAME.validate_python(text)
    except ValidationError:
        return False
    return True


def uri_of(role: Role, name: str) -> str:
    """Role and name as a certificate carries them."""
    return f"{_URN}{role}:{name}"


def serial_text(serial: int) -> str:
    """A serial number as tables and messages show it."""
    return f"{serial:040x}"


def moment(time: datetime) -> str:
    """A moment as messages show it."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def peer_of(pem: bytes) -> Peer:
    """Owner of a certificate in PEM; an error says why it cannot be one of a party."""
    certificate = certificate_from(pem, "the peer's certificate", advice="Use a certificate of `fedfloor certs`")
    return owner_of(certificate, "the peer's certificate")


def owner_of(certificate: x509.Certificate, place: object) -> Peer:
    """Owner of a certificate that was read from `place`."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        uris = []
    ours = [re.fullmatch(rf"{_URN}({'|'.join(Role)}):(.*)", uri, re.DOTALL) for uri in uris if uri.startswith(_URN)]
    match = ours[0] if len(ours) == 1 else None
    if match is None or not is_name(match[2]):
        found = f", got {shown(', '.join(uris))}" if uris else ""
        example = uri_of(Role.GATEWAY, "assembly")
        problem = f"must name one role and one party, such as {example}{found}"
        raise DeploymentError(f"{named(place)}: {problem}. Use a certificate of `fedfloor certs`")
    return Peer(
        role=Role(match[1]),
        name=match[2],
        serial=serial_text(certificate.serial_number),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        begins=certificate.not_valid_before_utc,
        expires=certificate.not_valid_after_utc,
        certificate=certificate,
    )


def is_issued_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Whether a CA has signed a certificate itself; nobody else in a plant may sign one."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def certificate_from(content: bytes, place: object, *, advice: str = COPY_AGAIN) -> x509.Certificate:
    """The only certificate in the content of a file that messages call `place`."""
    try:
        (certificate,) = x509.load_pem_x509_certificates(content)
        certificate.public_key()  # damage that is found only here
    except (ValueError, UnsupportedAlgorithm):
        raise DeploymentError(f"{named(place)}: must be one certificate in PEM, whole. {advice}") from None
    return certificate


def ca_from(content: bytes, place: object, *, advice: str = COPY_AGAIN) -> x509.Certificate:
    """The certificate of a CA that has signed itself."""
    ca = certificate_from(content, place, advice=advice)
    try:
        is_ca = ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        is_ca = False
    if not is_ca or not is_issued_by(ca, ca):
        raise DeploymentError(f"{named(place)}: must be the certificate of a CA. {advice}")
    return ca


def key_from(content: bytes, place: object, *, advice: str = COPY_AGAIN) -> PrivateKey:
    """The private key in the content of a file that messages call `place`."""
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # a TypeError asks for a password
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        problem = "must be a private key on an elliptic curve in PEM, whole and without a password"
        raise DeploymentError(f"{named(place)}: {problem}. {advice}")
    return key


def key_problem(key: PrivateKey, certificate: x509.Certificate) -> str:
    """What is wrong if a key is that of another certificate; empty if it fits."""
    return "" if key.public_key() == certificate.public_key() else "is the key of another certificate"


def trust_from(content: bytes, place: object, ca: x509.Certificate, *, advice: str = COPY_AGAIN) -> Trust:
    """A revocation list, which this CA must have signed."""
    try:
        revoked = x509.load_pem_x509_crl(content)
        number = revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except (ValueError, UnsupportedAlgorithm, x509.ExtensionNotFound, x509.DuplicateExtension):
        raise DeploymentError(f"{named(place)}: must be a revocation list with a number, whole. {advice}") from None
    if revoked.issuer != ca.subject or not revoked.is_signature_valid(_signer(ca)):
        raise DeploymentError(f"{named(place)}: must be signed by the CA of this plant. {advice}")
    return Trust(ca, revoked, number)


def _signer(ca: x509.Certificate) -> ec.EllipticCurvePublicKey:
    key = ca.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise DeploymentError("The CA's key must be on an elliptic curve. Make a CA with `fedfloor certs init`")
    return key


def exposure(key: Path) -> str:
    """Why others than the owner could read a key or replace the files beside it; empty if they cannot."""
    if sys.platform == "win32":  # where a user's folders are private
        return ""
    try:
        file, folder = stat.S_IMODE(key.stat().st_mode), stat.S_IMODE(key.parent.stat().st_mode)
    except OSError:  # whoever reads the file says more
        return ""
    if file & 0o077:
        return f"{named(key)}: must be private, but other users may use it (mode {file:04o}). Run: chmod 600 {key}"
    if folder & 0o022:
        problem = f"must be private, but other users may write to it (mode {folder:04o})"
        return f"{named(key.parent)}: {problem}. Run: chmod 700 {key.parent}"
    return ""
