"""What the CA of a plant makes and signs: keys, certificates and revocation lists, all in memory."""

__all__ = [
    "LONGEST_DAYS",
    "Signer",
    "addresses",
    "default_hosts",
    "hosts_of",
    "key_pem",
    "new_key",
    "new_signer",
    "pem",
]

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedfloor.deploy.certificates import PrivateKey, Role, moment, uri_of
from fedfloor.errors import DeploymentError, shown

LONGEST_DAYS = 7300  #: of any certificate: twenty years
_SLOW_CLOCK = timedelta(hours=1)  #: a machine whose clock is late by less accepts a new certificate
_LONGEST_COMMON_NAME = 64  #: characters, by RFC 5280
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_PURPOSES = {
    Role.SERVER: (ExtendedKeyUsageOID.SERVER_AUTH,),
    Role.GATEWAY: (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
    Role.DEVICE: (ExtendedKeyUsageOID.CLIENT_AUTH,),
}


@dataclass(frozen=True, slots=True)
class Signer:
    """A CA with its private key."""

    ca: x509.Certificate
    key: PrivateKey

    def certificate(
        self,
        public_key: ec.EllipticCurvePublicKey,
        role: Role,
        name: str,
        *,
        hosts: Sequence[x509.GeneralName],
        days: int,
        now: datetime,
    ) -> x509.Certificate:
        """A certificate for the owner of a key, valid for `days` days."""
        self._refuse_days(days, now)
        signer_id = self.ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = _certificate(name[:_LONGEST_COMMON_NAME], self.ca.subject, public_key, days, now)
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(signs=False), True),
            (x509.ExtendedKeyUsage(_PURPOSES[role]), False),
            (x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri_of(role, name)), *hosts]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer_id), False),
        ]
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, critical=is_critical)
        return builder.sign(self.key, hashes.SHA256())

    def revocation_list(
        self, number: int, entries: Iterable[x509.RevokedCertificate], now: datetime
    ) -> x509.CertificateRevocationList:
        """A revocation list, which has no end of its own: it holds until there is one with a larger number."""
        self.refuse_expired(now)
        builder = x509.CertificateRevocationListBuilder(
            self.ca.subject, now, self.ca.not_valid_after_utc, revoked_certificates=list(entries)
        )
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(x509.CRLNumber(number), critical=False)
        return builder.add_extension(identifier, critical=False).sign(self.key, hashes.SHA256())

    def refuse_expired(self, now: datetime) -> None:
        """Refuse to sign with a CA that nobody believes any more."""
        end = self.ca.not_valid_after_utc
        if now >= end:
            advice = "Make another one with `fedfloor certs init` in another folder, and issue all certificates anew"
            raise DeploymentError(f"CA: expired on {moment(end)}. {advice}")

    def _refuse_days(self, days: int, now: datetime) -> None:
        self.refuse_expired(now)
        _refuse_lifetime("days", days)
        left = (self.ca.not_valid_after_utc - now).days
        if days > left:
            problem = f"must be at most {left}, because the CA expires on {moment(self.ca.not_valid_after_utc)}"
            raise DeploymentError(f"days: {problem}, got {days}. Name fewer days, or make a new CA in another folder")


def new_signer(days: int, now: datetime) -> Signer:
    """A CA with a new key."""
    _refuse_lifetime("ca_days", days)
    key = new_key()
    name = f"fedfloor CA {x509.random_serial_number():040x}"[:_LONGEST_COMMON_NAME]  # no two CAs have one name
    builder = _certificate(name, None, key.public_key(), days, now)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    return Signer(builder.sign(key, hashes.SHA256()), key)


def _refuse_lifetime(name: str, days: int) -> None:
    if not 1 <= days <= LONGEST_DAYS:
        raise DeploymentError(f"{name}: must be from 1 to {LONGEST_DAYS}, got {shown(days)}. Name another number")


def _certificate(
    name: str, issuer: x509.Name | None, key: ec.EllipticCurvePublicKey, days: int, now: datetime
) -> x509.CertificateBuilder:
    """What the certificates of a CA and of a party have in common; without an issuer, the CA is its own."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(issuer or subject, subject, key, x509.random_serial_number())
    builder = builder.not_valid_before(now - _SLOW_CLOCK).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def new_key() -> PrivateKey:
    """A new private key on the curve P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: PrivateKey) -> bytes:
    """A private key as its file holds it, without a password."""
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def pem(entry: x509.Certificate | x509.CertificateRevocationList) -> bytes:
    """A certificate or revocation list as its file holds it."""
    return entry.public_bytes(serialization.Encoding.PEM)


def default_hosts(role: Role, name: str) -> tuple[str, ...]:
    """Hosts of a party for which nobody names one: its own name, if a host can have it, and this machine."""
    if role is Role.DEVICE:
        return ()
    return (*([name] if _is_host_name(name) else []), "localhost", "127.0.0.1", "::1")


def addresses(role: Role, hosts: Sequence[str]) -> tuple[x509.GeneralName, ...]:
    """Names and IP addresses that others dial, as a certificate carries them."""
    if role is Role.DEVICE and hosts:
        raise DeploymentError(f"host: devices are not dialled, got {shown(hosts[0])}. Leave it out")
    return tuple(_address(host) for host in dict.fromkeys(hosts))


def _address(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _is_host_name(host):
            advice = "Name it without a port, for example gateway1.plant.example or 10.0.0.7"
            raise DeploymentError(f"host: must be a host name or an IP address, got {shown(host)}. {advice}") from None
        return x509.DNSName(host)


def _is_host_name(host: str) -> bool:
    is_name = len(host) <= 253 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", host, re.ASCII) is not None
    return is_name and not host.rpartition(".")[2].isdecimal()  # 10.0.0.999 is a wrong address, not a name


def hosts_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Names and IP addresses of the party that a certificate is for."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return (
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    )
